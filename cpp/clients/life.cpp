// The life of communicators among processes: made from others, grown, shrunk, revoked, finalized, joined without
// blocking; windows and signals; what is asked of a group before it runs.
//
//   life [--dir FOLDER] [--only RULE]
//
// RANK and WORLD_SIZE (at least 3) say who this is; FOLDER or $COLLECTIVES_DIR is a fresh folder that all ranks
// share. Exit status: 0 if every rule holds, 1 with the first sentence that does not.

#include <cstdint>
#include <cstring>
#include <vector>

#include "trouble.hpp"

namespace {

using demo::check;
using demo::fail;
using demo::Place;

void hold(const Place &place, bool rule, const std::string &sentence) {
  if (!rule) fail(place.name() + ": broken: " + sentence + " (last error: " + demo::last_error() + ")");
}

void gives(const Place &place, ncclResult_t got, ncclResult_t wanted, const std::string &call) {
  hold(place, got == wanted, call + " gave " + std::to_string(got) + ", not " + std::to_string(wanted));
}

int rank_in(ncclComm_t comm) {
  int rank = -1;
  check(ncclCommUserRank(comm, &rank), "ncclCommUserRank");
  return rank;
}

int size_of(ncclComm_t comm) {
  int size = -1;
  check(ncclCommCount(comm, &size), "ncclCommCount");
  return size;
}

// Whether the communicator sums as many ones as it has ranks.
bool works(ncclComm_t comm) {
  std::int64_t one = 1, sum = 0;
  check(ncclAllReduce(&one, &sum, 1, ncclInt64, ncclSum, comm, nullptr), "ncclAllReduce");
  return sum == size_of(comm);
}

void splits(const Place &place, ncclComm_t world) {
  ncclComm_t half = nullptr, quarter = nullptr, none = world;
  check(ncclCommSplit(world, place.rank % 2, -place.rank, &half, nullptr), "ncclCommSplit");
  const int members = (place.ranks + 1 - place.rank % 2) / 2;
  hold(place, size_of(half) == members && rank_in(half) == members - 1 - place.rank / 2, "ranks are ordered by key");
  hold(place, works(half), "a child works");
  check(ncclCommSplit(half, 0, 7, &quarter, nullptr), "ncclCommSplit");
  hold(place, rank_in(quarter) == rank_in(half) && works(quarter), "equal keys keep the parent's order; splits nest");
  check(ncclCommSplit(world, NCCL_SPLIT_NOCOLOR, 0, &none, nullptr), "ncclCommSplit without a colour");
  hold(place, none == nullptr, "no colour is success and NULL, also where all ranks say so");
  const int color = place.rank == 0 ? NCCL_SPLIT_NOCOLOR : 0;
  check(ncclCommSplit(world, color, 0, &none, nullptr), "ncclCommSplit without rank 0");
  hold(place, (none == nullptr) == (place.rank == 0), "a rank may stay out");
  if (none) {
    hold(place, size_of(none) == place.ranks - 1 && works(none), "the others go on");
    check(ncclCommDestroy(none), "ncclCommDestroy");
  }
  ncclComm_t bad = nullptr;
  gives(place, ncclCommSplit(world, -2, 0, &bad, nullptr), ncclInvalidArgument, "a colour below NOCOLOR");
  check(ncclCommDestroy(quarter), "ncclCommDestroy");
  check(ncclCommDestroy(half), "ncclCommDestroy");
}

void splits_in_a_group(const Place &place, ncclComm_t world) {
  ncclComm_t one = nullptr, two = nullptr;
  float value = 1, sum = 0;
  check(ncclGroupStart(), "ncclGroupStart");
  check(ncclCommSplit(world, 0, 0, &one, nullptr), "ncclCommSplit");
  check(ncclCommSplit(world, place.rank % 2, 0, &two, nullptr), "ncclCommSplit");
  check(ncclAllReduce(&value, &sum, 1, ncclFloat, ncclSum, world, nullptr), "ncclAllReduce");
  check(ncclGroupEnd(), "ncclGroupEnd");
  hold(place, sum == static_cast<float>(place.ranks), "an operation of the group ran");
  hold(place, works(one) && works(two), "communicators made in a group work");
  check(ncclCommDestroy(one), "ncclCommDestroy");
  check(ncclCommDestroy(two), "ncclCommDestroy");
}

void shrinks(const Place &place, ncclComm_t world) {
  int last = place.ranks - 1, self = place.rank;
  ncclComm_t fewer = nullptr;
  gives(place, ncclCommShrink(world, nullptr, 1, &fewer, nullptr, NCCL_SHRINK_DEFAULT), ncclInvalidArgument, "a NULL list");
  gives(place, ncclCommShrink(world, &last, 0, &fewer, nullptr, NCCL_SHRINK_DEFAULT), ncclInvalidArgument, "an empty list");
  gives(place, ncclCommShrink(world, &self, 1, &fewer, nullptr, NCCL_SHRINK_DEFAULT), ncclInvalidArgument, "excluding oneself");
  if (place.rank == last) return;
  check(ncclCommShrink(world, &last, 1, &fewer, nullptr, NCCL_SHRINK_DEFAULT), "ncclCommShrink");
  hold(place, size_of(fewer) == last && rank_in(fewer) == place.rank && works(fewer), "the rest works without the last rank");
  check(ncclCommDestroy(fewer), "ncclCommDestroy");
}

void revokes(const Place &place, ncclComm_t world) {
  ncclComm_t doomed = nullptr, next = nullptr;
  check(ncclCommSplit(world, 0, 0, &doomed, nullptr), "ncclCommSplit");
  hold(place, works(doomed), "it works before");
  // A revoke stops what is in flight, so all must be through with the call before.
  hold(place, works(world), "the parent works");
  gives(place, ncclCommRevoke(doomed, 1), ncclInvalidArgument, "revoking with flags");
  check(ncclCommRevoke(doomed, NCCL_REVOKE_DEFAULT), "ncclCommRevoke");
  gives(place, ncclCommRevoke(doomed, NCCL_REVOKE_DEFAULT), ncclInvalidArgument, "revoking twice");
  float value = 1;
  gives(place, ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, doomed, nullptr), ncclInvalidUsage, "a collective after revoke");
  gives(place, ncclCommFinalize(doomed), ncclInvalidArgument, "finalize after revoke");
  check(ncclCommSplit(doomed, 0, 0, &next, nullptr), "splitting what was revoked");
  hold(place, works(next), "what is split from a revoked communicator works");
  check(ncclCommDestroy(next), "ncclCommDestroy");
  check(ncclCommDestroy(doomed), "ncclCommDestroy");
}

void grows(const Place &place, ncclComm_t world) {
  const bool old = place.rank < 2;
  ncclComm_t two = nullptr, all = nullptr;
  check(ncclCommSplit(world, old ? 0 : NCCL_SPLIT_NOCOLOR, 0, &two, nullptr), "ncclCommSplit");
  ncclUniqueId id{};
  const auto path = place.folder / "grow.id";
  if (place.rank == 0) {
    check(ncclCommGetUniqueId(two, &id), "ncclCommGetUniqueId");
    demo::publish(path, &id, sizeof id);
  } else if (!old) {
    demo::wait_for("the id to grow by", [&] { return std::filesystem::exists(path); });
    std::ifstream(path, std::ios::binary).read(reinterpret_cast<char *>(&id), sizeof id);
  }
  if (old) check(ncclCommGrow(two, place.ranks, place.rank == 0 ? &id : nullptr, -1, &all, nullptr), "ncclCommGrow of an old rank");
  else check(ncclCommGrow(nullptr, place.ranks, &id, place.rank, &all, nullptr), "ncclCommGrow of a new rank");
  hold(place, size_of(all) == place.ranks && rank_in(all) == place.rank && works(all), "the grown communicator works");
  check(ncclCommDestroy(all), "ncclCommDestroy");
  if (two) check(ncclCommDestroy(two), "ncclCommDestroy");
}

ncclResult_t settled(const Place &place, ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  demo::wait_for("a pending operation", [&] {
    check(ncclCommGetAsyncError(comm, &state), place.name() + ": ncclCommGetAsyncError");
    return state != ncclInProgress;
  });
  return state;
}

void does_not_block(const Place &place, ncclComm_t world) {
  ncclUniqueId id{};
  const auto path = place.folder / "nonblocking.id";
  if (place.rank == 0) {
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    demo::publish(path, &id, sizeof id);
  }
  demo::wait_for("the id", [&] { return std::filesystem::exists(path); });
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char *>(&id), sizeof id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const auto go = place.folder / "go";
  if (place.rank == 1) demo::wait_for("rank 0 to see its init pending", [&] { return std::filesystem::exists(go); });
  const ncclResult_t begun = ncclCommInitRankConfig(&comm, place.ranks, id, place.rank, &config);
  hold(place, begun == ncclSuccess || begun == ncclInProgress, "an init that does not block returns at once");
  float value = 1, sum = 0;
  if (place.rank == 0) {
    // Rank 1 has not come, so nothing is ready.
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
    gives(place, state, ncclInProgress, "the state before all have come");
    gives(place, ncclAllReduce(&value, &sum, 1, ncclFloat, ncclSum, comm, nullptr), ncclInvalidArgument, "a collective too early");
    demo::publish(go, "", 0);
  }
  gives(place, settled(place, comm), ncclSuccess, "the init");
  const ncclResult_t called = ncclAllReduce(&value, &sum, 1, ncclFloat, ncclSum, comm, nullptr);
  hold(place, called == ncclSuccess || called == ncclInProgress, "a collective that does not block");
  gives(place, settled(place, comm), ncclSuccess, "the collective");
  hold(place, sum == static_cast<float>(place.ranks), "its result is there when it has settled");
  ncclComm_t child = nullptr;
  const ncclResult_t split = ncclCommSplit(comm, 0, 0, &child, nullptr);
  hold(place, split == ncclSuccess || split == ncclInProgress, "a split that does not block");
  gives(place, settled(place, comm), ncclSuccess, "the split");
  gives(place, settled(place, child), ncclSuccess, "the child");
  sum = 0;
  const ncclResult_t again = ncclAllReduce(&value, &sum, 1, ncclFloat, ncclSum, child, nullptr);
  hold(place, again == ncclSuccess || again == ncclInProgress, "a collective of the child");
  gives(place, settled(place, child), ncclSuccess, "the child's collective");
  hold(place, sum == static_cast<float>(place.ranks), "the child's sum");
  // An abort stops what is in flight, so all must be through with the call before.
  hold(place, works(world), "another communicator works");
  check(ncclCommAbort(child), "ncclCommAbort");
  const ncclResult_t finalized = ncclCommFinalize(comm);
  hold(place, finalized == ncclSuccess || finalized == ncclInProgress, "finalize");
  gives(place, settled(place, comm), ncclSuccess, "the finalize");
  check(ncclCommDestroy(comm), "ncclCommDestroy");
}

void scalable_init_meets_at_the_first_id(const Place &place, ncclComm_t) {
  ncclUniqueId ids[2]{};
  const auto path = place.folder / "scalable.id";
  if (place.rank == 0) {
    for (ncclUniqueId &id : ids) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    demo::publish(path, ids, sizeof ids);
  }
  demo::wait_for("the ids", [&] { return std::filesystem::exists(path); });
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char *>(ids), sizeof ids);
  ncclComm_t comm = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "scalable";
  check(ncclCommInitRankScalable(&comm, place.ranks, place.rank, 2, ids, &config), "ncclCommInitRankScalable");
  hold(place, works(comm), "it works");
  check(ncclCommFinalize(comm), "ncclCommFinalize");
  gives(place, ncclCommFinalize(comm), ncclInvalidArgument, "finalize twice");
  check(ncclCommDestroy(comm), "ncclCommDestroy");
  gives(place, ncclCommDestroy(comm), ncclInvalidUsage, "destroy twice");
}

void windows(const Place &place, ncclComm_t comm) {
  constexpr std::size_t BYTES = 1 << 16;
  void *memory = nullptr;
  check(ncclMemAlloc(&memory, BYTES), "ncclMemAlloc");
  std::memset(memory, 0, BYTES);
  ncclWindow_t window = nullptr;
  check(ncclCommWindowRegister(comm, memory, BYTES, &window, NCCL_WIN_COLL_SYMMETRIC), "ncclCommWindowRegister");
  if (!window) {
    // Ranks that share no memory have no windows: success, and NULL.
    std::printf("%s: no symmetric memory here\n", place.name().c_str());
    check(ncclMemFree(memory), "ncclMemFree");
    return;
  }
  void *user = nullptr;
  check(ncclWinGetUserPtr(comm, window, &user), "ncclWinGetUserPtr");
  hold(place, user == memory, "a window knows its buffer");
  const int next = (place.rank + 1) % place.ranks, previous = (place.rank + place.ranks - 1) % place.ranks;
  auto *words = static_cast<std::int32_t *>(memory);
  for (int round = 1; round <= 100; ++round) {
    for (int at = 0; at < 64; ++at) words[at] = place.rank * 1000 + round + at;
    check(ncclPutSignal(words, 64, ncclInt32, next, window, 4096, 0, 0, 0, comm, nullptr), "ncclPutSignal");
    ncclWaitSignalDesc_t wait{};
    wait.opCnt = 1;
    wait.peer = previous;
    check(ncclWaitSignal(1, &wait, comm, nullptr), "ncclWaitSignal");
    for (int at = 0; at < 64; ++at)
      hold(place, words[1024 + at] == previous * 1000 + round + at, "what was put is there when its signal is");
    // The writer may write again only when the reader has read.
    check(ncclSignal(previous, 0, 0, 0, comm, nullptr), "ncclSignal");
    wait.peer = next;
    check(ncclWaitSignal(1, &wait, comm, nullptr), "ncclWaitSignal");
  }
  gives(place, ncclPutSignal(words, 64, ncclInt32, next, window, BYTES - 16, 0, 0, 0, comm, nullptr), ncclInvalidArgument,
        "a put beyond the window");
  gives(place, ncclSignal(next, 1, 0, 0, comm, nullptr), ncclInvalidArgument, "a signal index but 0");
  check(ncclCommWindowDeregister(comm, window), "ncclCommWindowDeregister");
  check(ncclMemFree(memory), "ncclMemFree");
}

void ordinary_memory_has_no_window(const Place &place, ncclComm_t comm) {
  std::vector<float> memory(4096);
  auto *window = reinterpret_cast<ncclWindow_t>(&memory);
  check(ncclCommWindowRegister(comm, memory.data(), 4096, &window, NCCL_WIN_DEFAULT), "ncclCommWindowRegister");
  hold(place, window == nullptr, "memory that is not NCCL's gives success and NULL");
}

void groups_are_estimated_without_running(const Place &place, ncclComm_t comm) {
  std::vector<float> data(1 << 20, 1), sum(1 << 20, 0);
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  check(ncclGroupStart(), "ncclGroupStart");
  check(ncclAllReduce(data.data(), sum.data(), data.size(), ncclFloat, ncclSum, comm, nullptr), "ncclAllReduce");
  check(ncclGroupSimulateEnd(&info), "ncclGroupSimulateEnd");
  hold(place, info.estimatedTime > 1 && info.estimatedTime < 1e6, "an estimate in microseconds");
  hold(place, sum[0] == 0, "nothing ran");
  hold(place, works(comm), "the communicator goes on");
}

void suspends(const Place &place, ncclComm_t comm) {
  float value = 1;
  check(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), "ncclCommSuspend");
  gives(place, ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr), ncclInvalidUsage, "a collective while suspended");
  check(ncclCommResume(comm), "ncclCommResume");
  hold(place, works(comm), "it works again");
}

const struct {
  const char *name;
  void (*rule)(const Place &, ncclComm_t);
} RULES[] = {
    {"splits", splits},
    {"splits_in_a_group", splits_in_a_group},
    {"shrinks", shrinks},
    {"revokes", revokes},
    {"grows", grows},
    {"does_not_block", does_not_block},
    {"scalable", scalable_init_meets_at_the_first_id},
    {"windows", windows},
    {"ordinary_memory", ordinary_memory_has_no_window},
    {"estimates", groups_are_estimated_without_running},
    {"suspends", suspends},
};

}  // namespace

int main(int argc, char **argv) {
  std::string folder, only;
  for (int at = 1; at + 1 < argc; at += 2) {
    const std::string name = argv[at];
    if (name == "--dir") folder = argv[at + 1];
    else if (name == "--only") only = argv[at + 1];
    else fail("`" + name + "` is unknown");
  }
  const Place place = demo::place(folder);
  if (place.ranks < 3) fail("these rules take three ranks");
  const ncclComm_t world = demo::join(place);
  int held = 0;
  for (const auto &[name, rule] : RULES) {
    if (!only.empty() && only != name) continue;
    rule(place, world);
    // All together before the next: some rules leave ranks out.
    hold(place, works(world), std::string("the world works after ") + name);
    ++held;
  }
  if (held == 0) fail("there is no rule `" + only + "`");
  check(ncclCommDestroy(world), "ncclCommDestroy");
  if (place.rank == 0) std::printf("%d rules hold on %d ranks\n", held, place.ranks);
  return 0;
}
