// The table of operations and the table of reductions: what each is called, what it moves and what comes out.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>

#include "pattern.hpp"

namespace perf {

struct Reduction {
  const char *name;
  Combine combine;
  ncclRedOp_t code;  // of mulsum, one is made for each communicator
};

inline constexpr Reduction REDUCTIONS[] = {
    {"sum", Combine::Sum, ncclSum}, {"prod", Combine::Prod, ncclProd}, {"max", Combine::Max, ncclMax},
    {"min", Combine::Min, ncclMin}, {"avg", Combine::Avg, ncclAvg},    {"mulsum", Combine::MulSum, ncclSum},
};
// What operations have that combine nothing.
inline constexpr Reduction NONE = {"none", Combine::Moved, ncclSum};

// One rank's part in one call. Counts are of elements in a block.
struct Call {
  const void *send;
  void *recv;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
  int rank;
  int ranks;
  ncclComm_t comm;
  cudaStream_t stream;
};

// Blocks that a buffer has: one, or one for each rank.
enum class Blocks { One, Each };

// Whose contribution is found where in a receive buffer.
enum class Result {
  Combined,     // every rank: all contributions combined, from the start
  OwnCombined,  // every rank: its own block of them
  OfRoot,       // every rank: the root's contribution
  OwnOfRoot,    // every rank: its own block of it
  OfEach,       // every rank: each rank's contribution
  OwnOfEach,    // every rank: its own block of each rank's
  OfPrevious,   // every rank: the contribution of the rank before it
};

struct Operation {
  const char *name;     // as NCCL's function
  const char *program;  // the program that measures it
  Blocks send, recv;
  Result result;
  bool has_root;      // one rank is special
  bool only_root;     // and alone receives
  bool has_in_place;  // send and receive buffer may share memory
  double (*bus_factor)(double ranks);
  // Calls that each need the last one's data; all ranks make them together. A program may have ranks that cannot.
  int (*steps)(int ranks);
  ncclResult_t (*issue)(const Call &call, int step);

  bool reduces() const { return result == Result::Combined || result == Result::OwnCombined; }
  std::size_t send_blocks(int ranks) const { return send == Blocks::Each ? static_cast<std::size_t>(ranks) : 1; }
  std::size_t recv_blocks(int ranks) const { return recv == Blocks::Each ? static_cast<std::size_t>(ranks) : 1; }
  std::size_t largest_blocks(int ranks) const {
    return send == Blocks::Each || recv == Blocks::Each ? static_cast<std::size_t>(ranks) : 1;
  }
};

// The operation that `program` measures, with or without its folder; none where there is no such program.
const Operation *operation_of(const std::string &program);
// All programs' names, for people.
std::string all_programs();

}  // namespace perf
