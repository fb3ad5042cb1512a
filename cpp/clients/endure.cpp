// Many operations of every kind, checked, in flat memory: sums, rings of transfers, groups, communicators made and
// destroyed, memory allocated and freed, windows registered and given back.
//
//   endure [--dir FOLDER] [--operations N]     N operations (200,000); 1 in 1,000 makes a communicator
//
// RANK and WORLD_SIZE (at least 2) say who this is; FOLDER or $COLLECTIVES_DIR is a fresh folder that all ranks
// share. Exit status: 0 if every result was right and memory, descriptors and threads are what they were after the
// first tenth; 1 with a sentence otherwise.

#include <cstdint>
#include <vector>

#include "rendezvous.hpp"

namespace {

using demo::check;
using demo::fail;
using demo::Place;

// What this process holds of the machine.
struct Holdings {
  long kib = 0, shared_kib = 0, descriptors = 0, threads = 0, mappings = 0;
};

long field(const char *name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    long value = 0;
    if (word == name && status >> value) return value;
  }
  fail(std::string("/proc/self/status has no ") + name);
}

Holdings holdings() {
  Holdings now{field("RssAnon:"), field("RssShmem:"), 0, field("Threads:"), 0};
  for ([[maybe_unused]] const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) now.descriptors += 1;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) now.mappings += 1;
  return now;
}

void sum(const Place &place, ncclComm_t comm, std::int64_t at) {
  std::int64_t mine[4] = {at, at + place.rank, -at, place.rank}, all[4] = {};
  check(ncclAllReduce(mine, all, 4, ncclInt64, ncclSum, comm, nullptr), place.name() + ": ncclAllReduce");
  const std::int64_t ranks = place.ranks, of_ranks = ranks * (ranks - 1) / 2;
  if (all[0] != ranks * at || all[1] != ranks * at + of_ranks || all[2] != -ranks * at || all[3] != of_ranks)
    fail(place.name() + ": a wrong sum in operation " + std::to_string(at));
}

// Everybody sends to the next rank and receives from the one before, with a broadcast in the same group.
void ring(const Place &place, ncclComm_t comm, std::int64_t at) {
  const int next = (place.rank + 1) % place.ranks, before = (place.rank + place.ranks - 1) % place.ranks;
  const std::vector<std::int64_t> mine(300, at + place.rank);
  std::vector<std::int64_t> got(mine.size());
  std::int64_t word = place.rank == 0 ? at : -1;
  check(ncclGroupStart(), "ncclGroupStart");
  check(ncclSend(mine.data(), mine.size(), ncclInt64, next, comm, nullptr), place.name() + ": ncclSend");
  check(ncclBroadcast(&word, &word, 1, ncclInt64, 0, comm, nullptr), place.name() + ": ncclBroadcast");
  check(ncclRecv(got.data(), got.size(), ncclInt64, before, comm, nullptr), place.name() + ": ncclRecv");
  check(ncclGroupEnd(), place.name() + ": ncclGroupEnd");
  if (word != at || got != std::vector<std::int64_t>(got.size(), at + before))
    fail(place.name() + ": a wrong ring in operation " + std::to_string(at));
}

// A communicator of all ranks in the other order, used and destroyed; an operator, memory and a window likewise.
void life(const Place &place, ncclComm_t comm, std::int64_t at) {
  ncclComm_t child = nullptr;
  check(ncclCommSplit(comm, 0, -place.rank, &child, nullptr), place.name() + ": ncclCommSplit");
  void *memory = nullptr;
  check(ncclMemAlloc(&memory, 1 << 16), place.name() + ": ncclMemAlloc");
  ncclWindow_t window = nullptr;
  check(ncclCommWindowRegister(child, memory, 1 << 16, &window, 0), place.name() + ": ncclCommWindowRegister");
  double two = 2, one = 1, all = 0;
  ncclRedOp_t twice;
  check(ncclRedOpCreatePreMulSum(&twice, &two, ncclFloat64, ncclScalarHostImmediate, child), "ncclRedOpCreatePreMulSum");
  check(ncclAllReduce(&one, &all, 1, ncclFloat64, twice, child, nullptr), place.name() + ": ncclAllReduce of a child");
  if (all != 2.0 * place.ranks) fail(place.name() + ": a wrong product in operation " + std::to_string(at));
  check(ncclRedOpDestroy(twice, child), "ncclRedOpDestroy");
  check(ncclCommWindowDeregister(child, window), "ncclCommWindowDeregister");
  check(ncclMemFree(memory), "ncclMemFree");
  check(ncclCommDestroy(child), place.name() + ": ncclCommDestroy of a child");
}

void operation(const Place &place, ncclComm_t comm, std::int64_t at) {
  if (at % 1000 == 999) life(place, comm, at);
  else if (at % 10 == 9) ring(place, comm, at);
  else sum(place, comm, at);
}

// Allocators and page caches settle by a few pages; what leaks by the operation does not.
void compare(const Place &place, const Holdings &early, const Holdings &late) {
  std::printf("%s: %ld -> %ld KiB of its own, %ld -> %ld shared, %ld -> %ld descriptors, %ld -> %ld threads, %ld -> %ld mappings\n",
              place.name().c_str(), early.kib, late.kib, early.shared_kib, late.shared_kib, early.descriptors,
              late.descriptors, early.threads, late.threads, early.mappings, late.mappings);
  constexpr long SETTLING_KIB = 512, SETTLING_MAPPINGS = 4;
  if (late.kib > early.kib + SETTLING_KIB || late.shared_kib > early.shared_kib + SETTLING_KIB ||
      late.descriptors > early.descriptors || late.threads > early.threads ||
      late.mappings > early.mappings + SETTLING_MAPPINGS)
    fail(place.name() + ": holds more after the last operation than after the first tenth");
}

}  // namespace

int main(int argc, char **argv) {
  std::string folder;
  std::int64_t operations = 200'000;
  for (int at = 1; at + 1 < argc; at += 2) {
    const std::string name = argv[at];
    if (name == "--dir") folder = argv[at + 1];
    else if (name == "--operations") operations = std::atoll(argv[at + 1]);
    else fail("`" + name + "` is unknown");
  }
  if (argc % 2 == 0) fail(std::string("`") + argv[argc - 1] + "` lacks its value");
  if (operations < 10'000) fail("fewer than 10,000 operations say nothing");
  const Place place = demo::place(folder);
  if (place.ranks < 2) fail("at least 2 ranks are needed");
  const ncclComm_t comm = demo::join(place);
  for (std::int64_t at = 0; at < operations / 10; ++at) operation(place, comm, at);
  const Holdings early = holdings();
  for (std::int64_t at = operations / 10; at < operations; ++at) operation(place, comm, at);
  compare(place, early, holdings());
  check(ncclCommDestroy(comm), place.name() + ": ncclCommDestroy");
  return 0;
}
