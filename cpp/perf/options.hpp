// What a user may ask for, as nccl-tests name it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "operations.hpp"

namespace perf {

// Whose time stands for all ranks'.
enum class Average { Rank0, Mean, Least, Most };

struct Options {
  const Operation *operation = nullptr;
  std::size_t min_bytes = 32 << 20, max_bytes = 32 << 20;
  std::size_t step_bytes = 1 << 20;
  double step_factor = 0;  // 0: steps add `step_bytes`
  int threads = 1, ranks_per_thread = 1;
  int iterations = 20, warm_up = 1, aggregated = 1;
  Average average = Average::Mean;
  bool parallel_init = false;
  int checks = 1;
  std::vector<Reduction> reductions = {REDUCTIONS[0]};
  std::vector<Type> types = {};
  int root = 0;  // ALL_RANKS: each of them in turn
  bool blocking = false, null_stream = false;
  int timeout_seconds = 0;  // 0: none
  int graph_launches = 0;   // 0: no graph
  bool report_cpu_time = false;
  int registration = 0;  // 0: none, 1: local, 2: windows of all ranks
  std::string output_file;
  bool self_test = false;

  std::size_t next_size(std::size_t bytes) const;
};

// Ends the process: with a sentence and exit code 1 where the arguments are mistaken, with the help where it is asked.
Options parse(int argc, char **argv);

}  // namespace perf
