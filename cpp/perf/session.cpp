#include "session.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "fail.hpp"

namespace perf {

namespace {

int local_rank(const Team &team) {
  const char *text = std::getenv("LOCAL_RANK");
  return text != nullptr ? std::atoi(text) : team.process();
}

std::string name_of_rank(int number) { return "rank " + std::to_string(number); }

}  // namespace

Place::Place(const Team &team, const Options &options) {
  const int own = options.threads * options.ranks_per_thread;
  ranks = team.processes() * own;
  first_rank = team.process() * own;
  first_device = local_rank(team) * own;
}

Buffer::Buffer(Device &device, std::size_t capacity, Memory memory)
    : device_(device),
      capacity_(capacity),
      memory_(memory),
      base_(static_cast<unsigned char *>(device.allocate(capacity + 2 * GUARD, memory))) {}

Buffer::~Buffer() { device_.release(base_, memory_); }

std::vector<ncclComm_t> make_communicators(const Devices &devices, const ncclUniqueId &id, int ranks,
                                           int first_rank) {
  std::vector<ncclComm_t> comms(devices.size(), nullptr);
  check(ncclGroupStart(), "ncclGroupStart");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const int number = first_rank + static_cast<int>(i);
    devices[i]->use();
    check(ncclCommInitRank(&comms[i], ranks, id, number), name_of_rank(number) + ": ncclCommInitRank");
  }
  check(ncclGroupEnd(), name_of_rank(first_rank) + ": ncclGroupEnd of ncclCommInitRank");
  return comms;
}

Session::Session(const Options &options, int first_rank, Devices devices,
                 const std::vector<ncclComm_t> &comms)
    : options_(options), devices_(std::move(devices)) {
  const Memory memory = options.registration > 0 ? Memory::OfNccl : Memory::Plain;
  const std::size_t bytes = options.max_bytes;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    Device &device = *devices_[i];
    const int number = first_rank + static_cast<int>(i);
    ranks_.push_back(std::unique_ptr<Rank>(
        new Rank{number, &device, comms[i], {device, bytes, memory}, {device, bytes, memory}, {}, {}}));
  }
  register_buffers();
}

// Windows are made and ended by all ranks together, so one thread's ranks do it in a group.
template <class Act>
void Session::for_each_in_a_group(const std::string &what, Act act) {
  check(ncclGroupStart(), "ncclGroupStart");
  for (const auto &rank : ranks_) {
    rank->device->use();
    check(act(*rank), name_of_rank(rank->number) + ": " + what);
  }
  check(ncclGroupEnd(), name_of_rank(ranks_[0]->number) + ": ncclGroupEnd of " + what);
}

void Session::register_buffers() {
  for (Buffer Rank::*buffer : {&Rank::first, &Rank::second}) {
    if (options_.registration == 1)
      for_each_in_a_group("ncclCommRegister", [buffer](Rank &rank) {
        const Buffer &b = rank.*buffer;
        return ncclCommRegister(rank.comm, b.whole(), b.whole_bytes(), &rank.handles.emplace_back());
      });
    if (options_.registration == 2)
      for_each_in_a_group("ncclCommWindowRegister", [buffer](Rank &rank) {
        const Buffer &b = rank.*buffer;
        ncclWindow_t &window = rank.windows.emplace_back();
        return ncclCommWindowRegister(rank.comm, b.whole(), b.whole_bytes(), &window, NCCL_WIN_COLL_SYMMETRIC);
      });
  }
}

void Session::deregister_buffers() {
  for (int buffer = 0; buffer < 2; ++buffer) {
    if (options_.registration == 1)
      for_each_in_a_group("ncclCommDeregister", [](Rank &rank) {
        void *const handle = rank.handles.front();
        rank.handles.pop_front();
        return ncclCommDeregister(rank.comm, handle);
      });
    if (options_.registration == 2)
      for_each_in_a_group("ncclCommWindowDeregister", [](Rank &rank) {
        ncclWindow_t const window = rank.windows.front();
        rank.windows.pop_front();
        return ncclCommWindowDeregister(rank.comm, window);
      });
  }
}

Session::~Session() {
  deregister_buffers();
  for_each_in_a_group("ncclCommDestroy", [](Rank &rank) { return ncclCommDestroy(rank.comm); });
  ranks_.clear();
}

void Session::synchronise() {
  for (const auto &device : devices_) device->synchronise();
}

std::string Session::describe() const {
  char host[256] = "unknown";
  gethostname(host, sizeof host - 1);
  const char *node = std::getenv("FAKEGPU_NODE");
  std::string text;
  for (const auto &rank : ranks_) {
    int device = -1;
    check(ncclCommCuDevice(rank->comm, &device), name_of_rank(rank->number) + ": ncclCommCuDevice");
    char line[512];
    std::snprintf(line, sizeof line, "#  rank %4d  pid %7d  node %s (%s)  device %2d  %s\n", rank->number, getpid(),
                  node != nullptr ? node : "-", host, device, rank->device->name().c_str());
    text += line;
  }
  return text;
}

}  // namespace perf
