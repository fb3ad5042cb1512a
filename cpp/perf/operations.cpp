#include "operations.hpp"

namespace perf {

namespace {

double whole(double) { return 1; }
double others(double ranks) { return (ranks - 1) / ranks; }
double there_and_back(double ranks) { return 2 * (ranks - 1) / ranks; }

int one_step(int) { return 1; }

// Cubes have 2^n corners; 0 says that these ranks are no cube.
int dimensions(int ranks) {
  int steps = 0;
  while (1 << steps < ranks) ++steps;
  return 1 << steps == ranks ? steps : 0;
}

ncclResult_t all_reduce(const Call &c, int) {
  return ncclAllReduce(c.send, c.recv, c.count, c.type, c.op, c.comm, c.stream);
}

ncclResult_t all_gather(const Call &c, int) {
  return ncclAllGather(c.send, c.recv, c.count, c.type, c.comm, c.stream);
}

ncclResult_t reduce_scatter(const Call &c, int) {
  return ncclReduceScatter(c.send, c.recv, c.count, c.type, c.op, c.comm, c.stream);
}

ncclResult_t broadcast(const Call &c, int) {
  return ncclBroadcast(c.send, c.recv, c.count, c.type, c.root, c.comm, c.stream);
}

ncclResult_t reduce(const Call &c, int) {
  return ncclReduce(c.send, c.recv, c.count, c.type, c.op, c.root, c.comm, c.stream);
}

ncclResult_t all_to_all(const Call &c, int) {
  return ncclAlltoAll(c.send, c.recv, c.count, c.type, c.comm, c.stream);
}

ncclResult_t gather(const Call &c, int) {
  return ncclGather(c.send, c.recv, c.count, c.type, c.root, c.comm, c.stream);
}

ncclResult_t scatter(const Call &c, int) {
  return ncclScatter(c.send, c.recv, c.count, c.type, c.root, c.comm, c.stream);
}

// A send and a receive that must be in flight together.
ncclResult_t exchange(const Call &c, const void *send, int to, void *recv, int from, std::size_t count) {
  ncclResult_t result = ncclGroupStart();
  if (result == ncclSuccess) result = ncclSend(send, count, c.type, to, c.comm, c.stream);
  if (result == ncclSuccess) result = ncclRecv(recv, count, c.type, from, c.comm, c.stream);
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

ncclResult_t send_recv(const Call &c, int) {
  const int next = (c.rank + 1) % c.ranks, previous = (c.rank + c.ranks - 1) % c.ranks;
  return exchange(c, c.send, next, c.recv, previous, c.count);
}

// An all-gather over the edges of a cube: step d doubles the blocks that a rank holds by those of the neighbour whose
// number differs in bit d. The rank's own block comes from the rank itself, before the first step.
ncclResult_t hypercube(const Call &c, int step) {
  std::size_t element = 0;
  for (const Type &type : TYPES)
    if (type.code == c.type) element = type.size;
  const std::size_t block = c.count * element;
  auto *blocks = static_cast<unsigned char *>(c.recv);
  if (step == 0) {
    unsigned char *own = blocks + static_cast<std::size_t>(c.rank) * block;
    if (own == c.send) return ncclSuccess;
    return exchange(c, c.send, c.rank, own, c.rank, c.count);
  }
  const int bit = 1 << (step - 1), neighbour = c.rank ^ bit;
  const auto first_of = [&](int rank) { return blocks + static_cast<std::size_t>(rank & ~(bit - 1)) * block; };
  return exchange(c, first_of(c.rank), neighbour, first_of(neighbour), neighbour,
                  c.count * static_cast<std::size_t>(bit));
}

int hypercube_steps(int ranks) {
  const int edges = dimensions(ranks);
  return edges > 0 || ranks == 1 ? edges + 1 : 0;
}

constexpr Blocks One = Blocks::One, Each = Blocks::Each;
constexpr bool Y = true, N = false;

// Columns as in Operation: a root? only the root receives? in place?
constexpr Operation OPERATIONS[] = {
    {"AllReduce", "all_reduce_perf", One, One, Result::Combined,
     N, N, Y, there_and_back, one_step, all_reduce},
    {"AllGather", "all_gather_perf", One, Each, Result::OfEach,
     N, N, Y, others, one_step, all_gather},
    {"ReduceScatter", "reduce_scatter_perf", Each, One, Result::OwnCombined,
     N, N, Y, others, one_step, reduce_scatter},
    {"Broadcast", "broadcast_perf", One, One, Result::OfRoot,
     Y, N, Y, whole, one_step, broadcast},
    {"Reduce", "reduce_perf", One, One, Result::Combined,
     Y, Y, Y, whole, one_step, reduce},
    {"AlltoAll", "alltoall_perf", Each, Each, Result::OwnOfEach,
     N, N, N, others, one_step, all_to_all},
    {"Gather", "gather_perf", One, Each, Result::OfEach,
     Y, Y, Y, others, one_step, gather},
    {"Scatter", "scatter_perf", Each, One, Result::OwnOfRoot,
     Y, N, Y, others, one_step, scatter},
    {"SendRecv", "sendrecv_perf", One, One, Result::OfPrevious,
     N, N, N, whole, one_step, send_recv},
    {"HyperCube", "hypercube_perf", One, Each, Result::OfEach,
     N, N, Y, others, hypercube_steps, hypercube},
};

}  // namespace

const Operation *operation_of(const std::string &program) {
  const std::string name = program.substr(program.find_last_of('/') + 1);
  for (const Operation &operation : OPERATIONS)
    if (name == operation.program) return &operation;
  return nullptr;
}

std::string all_programs() {
  std::string names;
  for (const Operation &operation : OPERATIONS) names += (names.empty() ? "" : ", ") + std::string(operation.program);
  return names;
}

}  // namespace perf
