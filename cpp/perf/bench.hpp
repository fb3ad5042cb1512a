// One line of the table: timed, then checked.
#pragma once

#include <cstdint>
#include <vector>

#include "session.hpp"
#include "team.hpp"

namespace perf {

// What is called, on all ranks alike.
struct Case {
  Type type;
  Reduction reduction;
  int root;
  std::size_t count;  // elements in a block
  bool in_place;
  std::uint64_t line;  // no two of a run are alike, so that no result can be mistaken for another's
};

// What became of it on one rank.
struct Sample {
  double seconds;  // of one operation
  double modelled_seconds;
  bool is_modelled;
  std::uint64_t wrong;    // elements of the result
  std::uint64_t changed;  // elements of an input that nobody may change
  std::uint64_t outside;  // bytes of guards
};

class Bench {
 public:
  Bench(const Options &options, int ranks, int thread, Crew &crew, Session &session)
      : options_(options),
        operation_(*options.operation),
        world_(ranks),
        thread_(thread),
        crew_(crew),
        session_(session) {}

  // The samples of all ranks.
  std::vector<Sample> measure(const Case &one);

 private:
  struct Buffers;
  Buffers buffers(const Rank &rank, const Case &one) const;
  std::vector<Span> expected(const Rank &rank, const Case &one) const;

  void prepare(const Rank &rank, const Case &one, const Recipe &recipe) const;
  void verify(const Rank &rank, const Case &one, const Recipe &recipe, Sample &sample) const;
  void sabotage(const Rank &rank, const Case &one) const;

  void group(const Case &one, const std::vector<ncclRedOp_t> &ops, int step, int times) const;
  void submit(const Case &one, const std::vector<ncclRedOp_t> &ops, int times) const;
  void iterate(const Case &one, const std::vector<ncclRedOp_t> &ops, int iterations) const;
  void time(const Case &one, const std::vector<ncclRedOp_t> &ops, std::vector<Sample> &samples) const;
  void examine(const Case &one, const std::vector<ncclRedOp_t> &ops, std::vector<Sample> &samples) const;

  const Options &options_;
  const Operation &operation_;
  int world_, thread_;
  Crew &crew_;
  Session &session_;
};

}  // namespace perf
