// What a single process may and may not do with communicators: no launcher, no peers, every rule checked.
//
//   lifecycle      (without a coordinator in the environment, the library starts its own)
//
// Exit status: 0 if every rule holds, 1 with the first sentence that does not.

#include <nccl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

int rules = 0;

void hold(bool rule, const std::string &sentence) {
  ++rules;
  if (rule) return;
  std::printf("broken: %s (last error: %s)\n", sentence.c_str(), ncclGetLastError(nullptr));
  std::exit(1);
}

void gives(ncclResult_t got, ncclResult_t wanted, const std::string &call) {
  hold(got == wanted, call + " gave " + std::to_string(got) + ", not " + std::to_string(wanted));
}

// Communicators of all this process's ranks, driven by one thread.
struct World {
  explicit World(int size) : comms(static_cast<std::size_t>(size)) {
    gives(ncclCommInitAll(comms.data(), size, nullptr), ncclSuccess, "ncclCommInitAll");
  }
  ~World() {
    for (ncclComm_t comm : comms) gives(ncclCommDestroy(comm), ncclSuccess, "ncclCommDestroy");
  }
  World(const World &) = delete;
  World &operator=(const World &) = delete;
  int size() const { return static_cast<int>(comms.size()); }
  std::vector<ncclComm_t> comms;
};

void sizes_and_ranks() {
  World world(4);
  for (int rank = 0; rank < world.size(); ++rank) {
    int count = 0, seen = -1, device = -1;
    gives(ncclCommCount(world.comms[rank], &count), ncclSuccess, "ncclCommCount");
    gives(ncclCommUserRank(world.comms[rank], &seen), ncclSuccess, "ncclCommUserRank");
    gives(ncclCommCuDevice(world.comms[rank], &device), ncclSuccess, "ncclCommCuDevice");
    hold(count == 4 && seen == rank && device == rank, "every rank knows its size, number and device");
  }
}

void one_thread_drives_a_group_of_all_its_ranks() {
  World world(4);
  std::vector<float> send(4), recv(4);
  gives(ncclGroupStart(), ncclSuccess, "ncclGroupStart");
  for (int rank = 0; rank < 4; ++rank) {
    send[rank] = static_cast<float>(rank + 1);
    gives(ncclAllReduce(&send[rank], &recv[rank], 1, ncclFloat, ncclSum, world.comms[rank], nullptr), ncclSuccess,
          "a grouped ncclAllReduce");
  }
  hold(recv[0] == 0, "a grouped call runs when the group ends, not before");
  gives(ncclGroupEnd(), ncclSuccess, "ncclGroupEnd");
  for (float value : recv) hold(value == 10, "the group's sum is right on every rank");
}

void one_thread_may_call_for_its_ranks_one_by_one() {
  World world(3);
  std::vector<int> recv(9);
  for (int round = 0; round < 3; ++round) {
    std::vector<int> send = {round, round + 1, round + 2};
    for (int rank = 0; rank < 3; ++rank)
      gives(ncclAllGather(&send[rank], &recv[rank * 3], 1, ncclInt, world.comms[rank], nullptr), ncclSuccess,
            "ncclAllGather outside a group");
    for (int rank = 0; rank < 3; ++rank)
      for (int from = 0; from < 3; ++from)
        hold(recv[rank * 3 + from] == round + from, "it is complete when the last rank has called");
  }
}

void threads_drive_a_rank_each() {
  ncclUniqueId id;
  gives(ncclGetUniqueId(&id), ncclSuccess, "ncclGetUniqueId");
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank)
    threads.emplace_back([rank, id, &wrong] {
      ncclComm_t comm;
      if (ncclCommInitRank(&comm, 4, id, rank) != ncclSuccess) wrong[rank] = 1;
      for (int at = 0; at < 200 && !wrong[rank]; ++at) {
        double value = rank + at, sum = 0;
        if (ncclAllReduce(&value, &sum, 1, ncclDouble, ncclSum, comm, nullptr) != ncclSuccess || sum != 6 + 4 * at)
          wrong[rank] = 1;
      }
      if (ncclCommDestroy(comm) != ncclSuccess) wrong[rank] = 1;
    });
  for (std::thread &thread : threads) thread.join();
  for (int one : wrong) hold(one == 0, "four threads with a rank each agree 200 times");
}

void one_thread_may_run_ahead_on_one_of_its_ranks() {
  World world(2);
  float data[4] = {1, 2, 10, 20}, recv[4] = {};
  const auto call = [&](int rank, int at) {
    gives(ncclAllReduce(&data[at], &recv[at], 1, ncclFloat, ncclSum, world.comms[rank], nullptr), ncclSuccess, "a call");
  };
  call(0, 0);
  call(0, 1);
  call(1, 2);
  call(1, 3);
  hold(recv[0] == 11 && recv[2] == 11 && recv[1] == 22 && recv[3] == 22, "two calls for one rank, then two for the other");
}

void one_thread_may_interleave_two_communicators() {
  World one(2), two(2);
  float data[2] = {1, 2}, first[2] = {}, second[2] = {};
  for (int rank = 0; rank < 2; ++rank) {
    gives(ncclAllReduce(&data[rank], &first[rank], 1, ncclFloat, ncclSum, one.comms[rank], nullptr), ncclSuccess, "on one");
    gives(ncclAllReduce(&data[rank], &second[rank], 1, ncclFloat, ncclMax, two.comms[rank], nullptr), ncclSuccess, "on two");
  }
  hold(first[0] == 3 && first[1] == 3 && second[0] == 2 && second[1] == 2, "both communicators' results are right");
}

void the_main_thread_may_drive_one_rank_and_a_thread_the_other() {
  World world(2);
  for (int round = 0; round < 20; ++round) {
    float data[2] = {1, 2}, recv[2] = {};
    ncclResult_t other = ncclInternalError;
    std::thread thread([&] { other = ncclAllReduce(&data[1], &recv[1], 1, ncclFloat, ncclSum, world.comms[1], nullptr); });
    const ncclResult_t mine = ncclAllReduce(&data[0], &recv[0], 1, ncclFloat, ncclSum, world.comms[0], nullptr);
    const float seen = recv[0];
    thread.join();
    hold(mine == ncclSuccess && other == ncclSuccess && seen == 3 && recv[1] == 3, "a call returns when its result is there");
  }
}

void a_call_waits_for_another_thread_however_late() {
  for (const bool grouped_before : {false, true}) {
    World world(2);
    if (grouped_before) {
      float both[2] = {9, 0};
      gives(ncclGroupStart(), ncclSuccess, "ncclGroupStart");
      for (int rank = 0; rank < 2; ++rank)
        gives(ncclBroadcast(&both[rank], &both[rank], 1, ncclFloat, 0, world.comms[rank], nullptr), ncclSuccess, "a call");
      gives(ncclGroupEnd(), ncclSuccess, "ncclGroupEnd");
    }
    float data[2] = {1, 2}, recv[2] = {};
    ncclResult_t other = ncclInternalError;
    // The other thread's lateness is what is tested.
    std::thread thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
      other = ncclAllReduce(&data[1], &recv[1], 1, ncclFloat, ncclSum, world.comms[1], nullptr);
    });
    const ncclResult_t mine = ncclAllReduce(&data[0], &recv[0], 1, ncclFloat, ncclSum, world.comms[0], nullptr);
    const float seen = recv[0];
    thread.join();
    hold(mine == ncclSuccess && other == ncclSuccess && seen == 3 && recv[1] == 3, "its result is there when it returns");
  }
}

void what_waits_for_a_rank_ends_with_its_communicator() {
  for (const bool abort : {false, true}) {
    float data[2] = {1, 2}, recv[2] = {-1, -1};
    {
      World world(2);
      gives(ncclAllReduce(data, recv, 1, ncclFloat, ncclSum, world.comms[0], nullptr), ncclSuccess, "for rank 0 alone");
      const auto unknown = static_cast<ncclRedOp_t>(99);
      gives(ncclAllReduce(data, recv, 1, ncclFloat, unknown, world.comms[1], nullptr), ncclInvalidArgument, "no operator");
      if (abort)
        for (ncclComm_t &comm : world.comms) {
          gives(ncclCommAbort(comm), ncclSuccess, "ncclCommAbort");
          comm = nullptr;
        }
    }
    World next(2);
    float sums[2] = {};
    gives(ncclGroupStart(), ncclSuccess, "ncclGroupStart");
    for (int rank = 0; rank < 2; ++rank)
      gives(ncclAllReduce(&data[rank], &sums[rank], 1, ncclFloat, ncclSum, next.comms[rank], nullptr), ncclSuccess, "a call");
    gives(ncclGroupEnd(), ncclSuccess, "ncclGroupEnd of the next communicator");
    hold(sums[0] == 3 && sums[1] == 3 && recv[0] == -1, "the next communicator is not concerned");
  }
}

void an_abort_returns_when_no_buffer_is_in_use() {
  World world(1);
  constexpr std::size_t BYTES = 256u << 20;
  void *memory = mmap(nullptr, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  hold(memory != MAP_FAILED, "there is memory");
  auto *send = static_cast<char *>(memory);
  std::atomic<bool> calls{false};
  std::thread thread([&] {
    calls = true;
    ncclAllReduce(send, send + BYTES, BYTES, ncclInt8, ncclSum, world.comms[0], nullptr);
  });
  while (!calls) std::this_thread::yield();
  const ncclResult_t aborted = ncclCommAbort(world.comms[0]);
  munmap(memory, 2 * BYTES);
  thread.join();
  world.comms[0] = nullptr;
  gives(aborted, ncclSuccess, "ncclCommAbort beside a call");
}

void settings_are_checked_as_nccl_checks_them() {
  ncclUniqueId id;
  gives(ncclGetUniqueId(&id), ncclSuccess, "ncclGetUniqueId");
  const auto refused = [&](auto change, const char *member) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    change(config);
    ncclComm_t comm = nullptr;
    gives(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument, std::string("a wrong ") + member);
    hold(std::strstr(ncclGetLastError(nullptr), member) != nullptr, std::string("it names ") + member);
  };
  refused([](ncclConfig_t &config) { config.blocking = 2; }, "blocking");
  refused([](ncclConfig_t &config) { config.splitShare = 7; }, "splitShare");
  refused([](ncclConfig_t &config) { config.maxCTAs = 0; }, "maxCTAs");
  refused([](ncclConfig_t &config) { config.minCTAs = 8, config.maxCTAs = 4; }, "minCTAs");
  refused([](ncclConfig_t &config) { config.cgaClusterSize = -1; }, "cgaClusterSize");
  std::vector<ncclComm_t> comms(1);
  gives(ncclCommInitAll(comms.data(), 1 << 28, nullptr), ncclInvalidArgument, "more ranks than a communicator has");
  World world(1);
  gives(ncclCommDeregister(world.comms[0], nullptr), ncclSuccess, "nothing to deregister");
  gives(ncclCommDeregister(world.comms[0], &id), ncclInvalidUsage, "no registration");
}

void a_further_thread_sits_on_the_same_device() {
  World world(1);
  int device = -1;
  std::thread([&device] {
    ncclComm_t comm;
    ncclUniqueId id;
    if (ncclGetUniqueId(&id) == ncclSuccess && ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess) {
      ncclCommCuDevice(comm, &device);
      ncclCommDestroy(comm);
    }
  }).join();
  hold(device == 0, "a second thread is no second GPU");
}

void groups_are_all_or_nothing() {
  World world(2);
  float send[2] = {1, 2}, recv[2] = {-1, -1};
  gives(ncclGroupStart(), ncclSuccess, "ncclGroupStart");
  gives(ncclAllReduce(&send[0], &recv[0], 1, ncclFloat, ncclSum, world.comms[0], nullptr), ncclSuccess, "a good call");
  gives(ncclAllReduce(&send[1], nullptr, 1, ncclFloat, ncclSum, world.comms[1], nullptr), ncclInvalidArgument,
        "a call without a receive buffer");
  gives(ncclGroupEnd(), ncclInvalidArgument, "the end of a group with a refused call");
  hold(recv[0] == -1, "nothing of a refused group runs");
  gives(ncclGroupEnd(), ncclInvalidUsage, "ncclGroupEnd without a start");
  gives(ncclGroupStart(), ncclSuccess, "ncclGroupStart");
  gives(ncclGroupStart(), ncclSuccess, "a nested ncclGroupStart");
  for (int rank = 0; rank < 2; ++rank)
    gives(ncclAllReduce(&send[rank], &recv[rank], 1, ncclFloat, ncclMax, world.comms[rank], nullptr), ncclSuccess,
          "a call in a nested group");
  gives(ncclGroupEnd(), ncclSuccess, "the inner ncclGroupEnd");
  hold(recv[0] == -1, "an inner end runs nothing");
  gives(ncclGroupEnd(), ncclSuccess, "the outer ncclGroupEnd");
  hold(recv[0] == 2 && recv[1] == 2, "the communicator is usable after a refused group");
}

void a_group_may_span_communicators_in_any_order() {
  World one(2), two(2);
  float data[4] = {1, 2, 3, 4}, recv[4] = {};
  gives(ncclGroupStart(), ncclSuccess, "ncclGroupStart");
  gives(ncclAllReduce(&data[0], &recv[0], 1, ncclFloat, ncclSum, one.comms[0], nullptr), ncclSuccess, "call");
  gives(ncclAllReduce(&data[1], &recv[1], 1, ncclFloat, ncclSum, two.comms[0], nullptr), ncclSuccess, "call");
  gives(ncclAllReduce(&data[2], &recv[2], 1, ncclFloat, ncclSum, two.comms[1], nullptr), ncclSuccess, "call");
  gives(ncclAllReduce(&data[3], &recv[3], 1, ncclFloat, ncclSum, one.comms[1], nullptr), ncclSuccess, "call");
  gives(ncclGroupEnd(), ncclSuccess, "ncclGroupEnd");
  hold(recv[0] == 5 && recv[3] == 5 && recv[1] == 5 && recv[2] == 5, "both communicators' sums are right");
}

void different_collectives_are_refused_by_name() {
  World world(2);
  float data[2] = {1, 2}, recv[2] = {-1, -1};
  gives(ncclGroupStart(), ncclSuccess, "ncclGroupStart");
  gives(ncclAllReduce(&data[0], &recv[0], 1, ncclFloat, ncclSum, world.comms[0], nullptr), ncclSuccess, "call");
  gives(ncclBroadcast(&data[1], &recv[1], 1, ncclFloat, 0, world.comms[1], nullptr), ncclSuccess, "call");
  gives(ncclGroupEnd(), ncclInvalidUsage, "a group in which ranks call different collectives");
  const std::string text = ncclGetLastError(nullptr);
  hold(text.find("operation differs") != std::string::npos && text.find("ncclBroadcast") != std::string::npos &&
           text.find("ncclAllReduce") != std::string::npos,
       "the sentence names both calls");
  hold(recv[0] == -1 && recv[1] == -1, "no buffer is touched");
  ncclResult_t state = ncclSuccess;
  gives(ncclCommGetAsyncError(world.comms[0], &state), ncclSuccess, "ncclCommGetAsyncError");
  hold(state == ncclInvalidUsage, "the failure stays with the communicator");
  gives(ncclAllReduce(&data[0], &recv[0], 1, ncclFloat, ncclSum, world.comms[0], nullptr), ncclInvalidUsage,
        "a call on a failed communicator");
}

void arguments_are_checked() {
  World world(2);
  ncclComm_t comm = reinterpret_cast<ncclComm_t>(1);
  ncclUniqueId id;
  gives(ncclGetUniqueId(&id), ncclSuccess, "ncclGetUniqueId");
  gives(ncclGetUniqueId(nullptr), ncclInvalidArgument, "ncclGetUniqueId of NULL");
  gives(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument, "rank 2 of 2");
  hold(comm == nullptr, "a refused init gives a NULL communicator");
  gives(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument, "a communicator of 0");
  gives(ncclCommInitRank(&comm, 2, id, -1), ncclInvalidArgument, "rank -1");
  gives(ncclCommInitRank(nullptr, 2, id, 0), ncclInvalidArgument, "a NULL communicator's address");
  float value = 1;
  ncclComm_t one = world.comms[0];
  gives(ncclAllReduce(&value, &value, 1, static_cast<ncclDataType_t>(99), ncclSum, one, nullptr), ncclInvalidArgument, "type 99");
  gives(ncclAllReduce(&value, &value, 1, ncclFloat, static_cast<ncclRedOp_t>(77), one, nullptr), ncclInvalidArgument, "operator 77");
  gives(ncclBroadcast(&value, &value, 1, ncclFloat, 2, one, nullptr), ncclInvalidArgument, "root 2 of 2");
  gives(ncclAllReduce(nullptr, &value, 1, ncclFloat, ncclSum, one, nullptr), ncclInvalidArgument, "a NULL send buffer");
  gives(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, one, nullptr), ncclSuccess, "no elements and no buffers");
  gives(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, nullptr, nullptr), ncclInvalidArgument, "a NULL communicator");
  gives(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, reinterpret_cast<ncclComm_t>(4096), nullptr), ncclInvalidUsage,
        "a communicator that never was");
  gives(ncclAllGather(&value, &value, SIZE_MAX, ncclFloat, one, nullptr), ncclInvalidArgument, "more bytes than memory");
  int count = 0;
  gives(ncclCommCount(nullptr, &count), ncclInvalidArgument, "the size of NULL");
  gives(ncclCommCount(one, nullptr), ncclInvalidArgument, "a size to nowhere");
}

void operators_belong_to_a_communicator_and_a_type() {
  World world(2);
  ncclRedOp_t op;
  float scalar = 2;
  gives(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, world.comms[0]), ncclSuccess, "create");
  double wide = 1;
  float value = 1;
  gives(ncclAllReduce(&wide, &wide, 1, ncclDouble, op, world.comms[0], nullptr), ncclInvalidArgument, "another type");
  gives(ncclAllReduce(&value, &value, 1, ncclFloat, op, world.comms[1], nullptr), ncclInvalidArgument, "another communicator");
  gives(ncclRedOpDestroy(ncclSum, world.comms[0]), ncclInvalidArgument, "destroying NCCL's own sum");
  gives(ncclRedOpDestroy(op, world.comms[0]), ncclSuccess, "destroy");
  gives(ncclRedOpDestroy(op, world.comms[0]), ncclInvalidArgument, "destroying twice");
}

void lives_end_once() {
  gives(ncclCommDestroy(nullptr), ncclSuccess, "destroying NULL");
  gives(ncclCommFinalize(nullptr), ncclSuccess, "finalizing NULL");
  gives(ncclCommAbort(nullptr), ncclSuccess, "aborting NULL");
  ncclComm_t comms[2];
  gives(ncclCommInitAll(comms, 2, nullptr), ncclSuccess, "ncclCommInitAll");
  gives(ncclCommFinalize(comms[0]), ncclSuccess, "finalize");
  gives(ncclCommFinalize(comms[0]), ncclInvalidArgument, "finalize twice");
  float value = 1;
  gives(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comms[0], nullptr), ncclInvalidUsage, "a call after finalize");
  gives(ncclCommDestroy(comms[0]), ncclSuccess, "destroy after finalize");
  gives(ncclCommDestroy(comms[0]), ncclInvalidUsage, "destroy twice");
  gives(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comms[1], nullptr), ncclRemoteError, "a call that a gone rank is needed for");
  gives(ncclCommAbort(comms[1]), ncclSuccess, "abort of a failed communicator");
  gives(ncclCommAbort(comms[1]), ncclInvalidUsage, "abort twice");
  gives(ncclCommDestroy(comms[1]), ncclInvalidUsage, "destroy after abort");
  int devices[2] = {3, 3};
  gives(ncclCommInitAll(comms, 2, devices), ncclInvalidUsage, "one device twice");
}

void device_functions_refuse_with_a_sentence() {
  World world(1);
  gives(ncclDevCommCreate(world.comms[0], nullptr, nullptr), ncclInvalidUsage, "ncclDevCommCreate");
  const std::string said = ncclGetLastError(nullptr);
  hold(said.find("ncclDevCommCreate") != std::string::npos && said.find("kernel") != std::string::npos, "it says why by name");
}

void a_thread_sends_among_its_ranks() {
  World world(3);
  int data[3] = {10, 11, 12}, got[3] = {};
  gives(ncclGroupStart(), ncclSuccess, "ncclGroupStart");
  for (int rank = 0; rank < 3; ++rank) {
    gives(ncclSend(&data[rank], 1, ncclInt, (rank + 1) % 3, world.comms[rank], nullptr), ncclSuccess, "ncclSend");
    gives(ncclRecv(&got[rank], 1, ncclInt, (rank + 2) % 3, world.comms[rank], nullptr), ncclSuccess, "ncclRecv");
  }
  gives(ncclGroupEnd(), ncclSuccess, "ncclGroupEnd");
  hold(got[0] == 12 && got[1] == 10 && got[2] == 11, "a ring of one thread's ranks");
  gives(ncclSend(&data[0], 1, ncclInt, 1, world.comms[0], nullptr), ncclSuccess, "ncclSend to a rank of the same thread");
  gives(ncclRecv(&got[1], 1, ncclInt, 0, world.comms[1], nullptr), ncclSuccess, "ncclRecv from a rank of the same thread");
  hold(got[1] == 10, "a thread's send is there when its receive has returned");
}

void transfers_are_checked() {
  World world(1);
  const ncclComm_t comm = world.comms[0];
  float value = 1, got = 0;
  gives(ncclSend(&value, 1, ncclFloat, 1, comm, nullptr), ncclInvalidArgument, "a peer that is not there");
  gives(ncclRecv(&value, 1, ncclFloat, -1, comm, nullptr), ncclInvalidArgument, "a negative peer");
  gives(ncclSend(nullptr, 1, ncclFloat, 0, comm, nullptr), ncclInvalidArgument, "a NULL buffer with elements");
  gives(ncclSend(&value, 1, ncclFloat, 0, comm, nullptr), ncclInvalidUsage, "a send to oneself alone");
  gives(ncclGroupStart(), ncclSuccess, "ncclGroupStart");
  gives(ncclSend(nullptr, 0, ncclFloat, 0, comm, nullptr), ncclSuccess, "a NULL buffer without elements");
  gives(ncclRecv(nullptr, 0, ncclFloat, 0, comm, nullptr), ncclSuccess, "a NULL buffer without elements");
  gives(ncclSend(&value, 1, ncclFloat, 0, comm, nullptr), ncclSuccess, "a send to oneself");
  gives(ncclRecv(&got, 1, ncclFloat, 0, comm, nullptr), ncclSuccess, "a receive from oneself");
  gives(ncclGroupEnd(), ncclSuccess, "ncclGroupEnd");
  hold(got == 1, "what a rank sends itself arrives");
}

void configured_collectives_do_the_same() {
  World world(1);
  const ncclComm_t comm = world.comms[0];
  float send = 3, recv[8] = {};
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  const ncclCollConfig_t *configs[] = {nullptr, &config};
  for (const ncclCollConfig_t *given : configs) {
    gives(ncclAllReduceConfig(&send, &recv[0], 1, ncclFloat, ncclSum, comm, nullptr, given), ncclSuccess, "ncclAllReduceConfig");
    gives(ncclReduceConfig(&send, &recv[1], 1, ncclFloat, ncclSum, 0, comm, nullptr, given), ncclSuccess, "ncclReduceConfig");
    gives(ncclBroadcastConfig(&send, &recv[2], 1, ncclFloat, 0, comm, nullptr, given), ncclSuccess, "ncclBroadcastConfig");
    gives(ncclAllGatherConfig(&send, &recv[3], 1, ncclFloat, comm, nullptr, given), ncclSuccess, "ncclAllGatherConfig");
    gives(ncclReduceScatterConfig(&send, &recv[4], 1, ncclFloat, ncclSum, comm, nullptr, given), ncclSuccess, "ncclReduceScatterConfig");
    gives(ncclAlltoAllConfig(&send, &recv[5], 1, ncclFloat, comm, nullptr, given), ncclSuccess, "ncclAlltoAllConfig");
    gives(ncclGatherConfig(&send, &recv[6], 1, ncclFloat, 0, comm, nullptr, given), ncclSuccess, "ncclGatherConfig");
    gives(ncclScatterConfig(&send, &recv[7], 1, ncclFloat, 0, comm, nullptr, given), ncclSuccess, "ncclScatterConfig");
    for (float value : recv) hold(value == 3, "a configured collective computes what the plain one does");
  }
  config.magic = 0;
  gives(ncclAllReduceConfig(&send, &recv[0], 1, ncclFloat, ncclSum, comm, nullptr, &config), ncclInvalidArgument, "settings no initializer made");
}

void memory_is_allocated_registered_and_counted() {
  World world(1);
  const ncclComm_t comm = world.comms[0];
  void *memory = nullptr, *handle = nullptr;
  gives(ncclMemAlloc(&memory, 1 << 20), ncclSuccess, "ncclMemAlloc");
  std::memset(memory, 1, 1 << 20);
  gives(ncclCommRegister(comm, memory, 1 << 20, &handle), ncclSuccess, "ncclCommRegister");
  gives(ncclAllReduce(memory, memory, 1 << 18, ncclInt, ncclSum, comm, nullptr), ncclSuccess, "a collective in it");
  gives(ncclCommDeregister(comm, handle), ncclSuccess, "ncclCommDeregister");
  gives(ncclCommDeregister(comm, handle), ncclInvalidUsage, "ncclCommDeregister twice");
  gives(ncclMemFree(memory), ncclSuccess, "ncclMemFree");
  gives(ncclMemFree(memory), ncclInvalidArgument, "ncclMemFree twice");
  gives(ncclMemFree(nullptr), ncclSuccess, "ncclMemFree of NULL");
  std::uint64_t bytes = 1;
  for (ncclCommMemStat_t stat : {ncclStatGpuMemSuspend, ncclStatGpuMemSuspended, ncclStatGpuMemPersist, ncclStatGpuMemTotal})
    gives(ncclCommMemStats(comm, stat, &bytes), ncclSuccess, "ncclCommMemStats");
  gives(ncclCommMemStats(comm, static_cast<ncclCommMemStat_t>(9), &bytes), ncclInvalidArgument, "a statistic that is none");
  ncclCommProperties_t properties{};
  properties.size = sizeof properties;
  properties.magic = NCCL_API_MAGIC;
  properties.version = NCCL_VERSION_CODE;
  gives(ncclCommQueryProperties(comm, &properties), ncclSuccess, "ncclCommQueryProperties");
  hold(properties.rank == 0 && properties.nRanks == 1 && !properties.deviceApiSupport, "properties are what is true");
}

void parameters_are_read_by_name() {
  setenv("NCCL_FAKEGPU_TEST", "77", 1);
  ncclParamHandle_t handle{};
  gives(ncclParamBind(&handle, "NCCL_BUFFSIZE"), ncclSuccess, "ncclParamBind");
  std::int64_t wide = 0;
  std::int32_t middle = 0;
  std::int16_t narrow = 0;
  std::int8_t tiny = 0;
  std::uint64_t natural = 0;
  std::uint32_t half = 0;
  std::uint16_t quarter = 0;
  std::uint8_t eighth = 0;
  gives(ncclParamGetI64(handle, &wide), ncclSuccess, "ncclParamGetI64");
  gives(ncclParamGetU64(handle, &natural), ncclSuccess, "ncclParamGetU64");
  gives(ncclParamGetI32(handle, &middle), ncclSuccess, "ncclParamGetI32");
  gives(ncclParamGetU32(handle, &half), ncclSuccess, "ncclParamGetU32");
  hold(wide == middle && natural == half, "a parameter is one number in every type that holds it");
  gives(ncclParamGetI8(handle, &tiny), ncclInvalidArgument, "a number too large for its type");
  gives(ncclParamGetU8(handle, &eighth), ncclInvalidArgument, "a number too large for its type");
  gives(ncclParamGetI16(handle, &narrow), ncclInvalidArgument, "a number too large for its type");
  gives(ncclParamGetU16(handle, &quarter), ncclInvalidArgument, "a number too large for its type");
  const char *text = nullptr;
  gives(ncclParamGetStr(handle, &text), ncclSuccess, "ncclParamGetStr");
  hold(text && std::to_string(wide) == text, "it reads the same as text");
  char copy[32] = {};
  int length = 0;
  gives(ncclParamGet(handle, copy, sizeof copy, &length), ncclSuccess, "ncclParamGet");
  hold(length > 0 && length <= static_cast<int>(sizeof copy), "ncclParamGet says how many bytes");
  gives(ncclParamGetParameter("NCCL_BUFFSIZE", &text, &length), ncclSuccess, "ncclParamGetParameter");
  hold(text && std::to_string(wide) == text, "by name too");
  gives(ncclParamBind(&handle, "NCCL_NO_SUCH_THING"), ncclInvalidArgument, "a name that is none");
  const char **keys = nullptr;
  int count = 0;
  gives(ncclParamGetAllParameterKeys(&keys, &count), ncclSuccess, "ncclParamGetAllParameterKeys");
  bool found = false;
  for (int at = 0; at < count; ++at) found |= std::string(keys[at]).find("BUFFSIZE") != std::string::npos;
  hold(count > 10 && found, "every parameter has a name");
  ncclParamDumpAll();
  ncclResetDebugInit();
  ncclEncryptionConfig_t encryption = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  encryption.mode = NCCL_ENCRYPTION_MODE_NONE;
  gives(ncclSetEncryption(&encryption), ncclSuccess, "ncclSetEncryption without any");
}

void a_forked_child_is_told() {
  World world(2);
  const pid_t child = fork();
  if (child == 0) {
    float value = 1;
    ncclGroupStart();
    ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, world.comms[0], nullptr);
    ncclResult_t state = ncclSuccess;
    ncclCommGetAsyncError(world.comms[0], &state);
    const bool told = ncclGroupEnd() == ncclInvalidUsage && state == ncclInvalidUsage && std::string(ncclGetLastError(nullptr)).find("fork") != std::string::npos;
    _exit(told ? 0 : 1);
  }
  int status = -1;
  hold(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "a forked child gets an error that names fork");
  float data[2] = {1, 2};
  gives(ncclGroupStart(), ncclSuccess, "ncclGroupStart");
  for (int rank = 0; rank < 2; ++rank)
    gives(ncclAllReduce(&data[rank], &data[rank], 1, ncclFloat, ncclSum, world.comms[rank], nullptr), ncclSuccess, "call");
  gives(ncclGroupEnd(), ncclSuccess, "the parent goes on after a fork");
  hold(data[0] == 3 && data[1] == 3, "the parent's sum is right");
}

// Before anything else is called here, since a child can only use NCCL if its parent had not.
void processes_may_join_in_a_group_and_one_by_one() {
  int to_child[2];
  hold(pipe(to_child) == 0, "a pipe");
  const pid_t child = fork();
  if (child == 0) {
    ncclUniqueId ids[2];
    ncclComm_t comms[2];
    if (read(to_child[0], ids, sizeof ids) != static_cast<ssize_t>(sizeof ids)) _exit(1);
    // The second first: the parent joins both at once.
    for (int at : {1, 0})
      if (ncclCommInitRank(&comms[at], 2, ids[at], 1) != ncclSuccess) _exit(2);
    for (ncclComm_t comm : comms) {
      float value = 1;
      if (ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr) != ncclSuccess || value != 3) _exit(3);
      ncclCommDestroy(comm);
    }
    std::exit(0);
  }
  ncclUniqueId ids[2];
  for (ncclUniqueId &id : ids) gives(ncclGetUniqueId(&id), ncclSuccess, "ncclGetUniqueId");
  hold(write(to_child[1], ids, sizeof ids) == static_cast<ssize_t>(sizeof ids), "the ids reach the child");
  ncclComm_t comms[2];
  gives(ncclGroupStart(), ncclSuccess, "ncclGroupStart");
  for (int at = 0; at < 2; ++at) gives(ncclCommInitRank(&comms[at], 2, ids[at], 0), ncclSuccess, "a grouped init");
  gives(ncclGroupEnd(), ncclSuccess, "a group of two inits against one by one");
  for (ncclComm_t comm : comms) {
    float value = 2;
    gives(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr), ncclSuccess, "a call with the child");
    hold(value == 3, "the sum with the child is right");
    gives(ncclCommDestroy(comm), ncclSuccess, "destroy");
  }
  int status = -1;
  hold(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child is content");
}

// A program may end its communicators in a static destructor.
struct AtExit {
  ncclComm_t comm = nullptr;
  ~AtExit() {
    if (comm && ncclCommDestroy(comm) != ncclSuccess) _exit(3);
  }
} at_exit;

void static_destructors_may_destroy() {
  gives(ncclCommInitAll(&at_exit.comm, 1, nullptr), ncclSuccess, "ncclCommInitAll");
}

}  // namespace

int main() {
  processes_may_join_in_a_group_and_one_by_one();
  int version = 0;
  gives(ncclGetVersion(&version), ncclSuccess, "ncclGetVersion");
  hold(version == NCCL_VERSION_CODE, "the library is of the header's version");
  sizes_and_ranks();
  one_thread_drives_a_group_of_all_its_ranks();
  one_thread_may_call_for_its_ranks_one_by_one();
  one_thread_may_run_ahead_on_one_of_its_ranks();
  one_thread_may_interleave_two_communicators();
  threads_drive_a_rank_each();
  the_main_thread_may_drive_one_rank_and_a_thread_the_other();
  a_call_waits_for_another_thread_however_late();
  what_waits_for_a_rank_ends_with_its_communicator();
  an_abort_returns_when_no_buffer_is_in_use();
  settings_are_checked_as_nccl_checks_them();
  a_further_thread_sits_on_the_same_device();
  groups_are_all_or_nothing();
  a_group_may_span_communicators_in_any_order();
  different_collectives_are_refused_by_name();
  arguments_are_checked();
  operators_belong_to_a_communicator_and_a_type();
  lives_end_once();
  device_functions_refuse_with_a_sentence();
  a_thread_sends_among_its_ranks();
  transfers_are_checked();
  configured_collectives_do_the_same();
  memory_is_allocated_registered_and_counted();
  parameters_are_read_by_name();
  a_forked_child_is_told();
  static_destructors_may_destroy();
  std::printf("%d rules hold\n", rules);
  return 0;
}
