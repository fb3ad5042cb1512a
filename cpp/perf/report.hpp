// What people and programs read: the table on stdout and the JSON file.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench.hpp"
#include "options.hpp"

namespace perf {

// One half of a line.
struct Placement {
  double time_us = 0;
  std::optional<double> model_us;
  double algorithm_bandwidth = 0, bus_bandwidth = 0;  // GB/s, of the host's time
  std::optional<double> modelled_bus_bandwidth;       // GB/s, of the model's
  std::optional<std::uint64_t> wrong;                 // elements; nothing if none were looked at
};

struct Line {
  std::size_t bytes, count;
  std::string type, reduction;
  int root;  // -1: the operation has none
  Placement out_of_place;
  std::optional<Placement> in_place;
};

// All ranks' samples of `bytes` in one.
Placement summarise(const std::vector<Sample> &samples, std::size_t bytes, const Options &options);

class Report {
 public:
  Report(const Options &options, int ranks);
  ~Report();
  Report(const Report &) = delete;
  Report &operator=(const Report &) = delete;

  // `who` has a line for each rank.
  void begin(const std::string &who);
  void add(const Line &line);
  // Adds up what was wrong; in a self test, what was not noticed.
  void tally(const std::vector<Sample> &samples, const Case &one);
  // Returns whether all is well.
  bool end();

 private:
  void write_json(double average, std::optional<double> modelled) const;

  const Options &options_;
  int ranks_;
  std::FILE *json_ = nullptr;  // open from the beginning: a long run must not fail at its end
  std::vector<Line> lines_;
  std::string who_;
  std::uint64_t wrong_ = 0;    // elements
  std::uint64_t outside_ = 0;  // bytes
  std::uint64_t broken_ = 0, noticed_ = 0;  // what the self test did, and what came of it
};

}  // namespace perf
