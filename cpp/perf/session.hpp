// The ranks that one thread drives: their devices, communicators and buffers.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "device.hpp"
#include "options.hpp"
#include "team.hpp"

namespace perf {

// Where this process's ranks stand among all.
struct Place {
  int ranks = 1;
  int first_rank = 0;
  int first_device = 0;

  Place(const Team &team, const Options &options);
};

// Memory for the largest size with guards on both sides, which nobody may write.
class Buffer {
 public:
  static constexpr std::size_t GUARD = 4096;

  Buffer(Device &device, std::size_t capacity, Memory memory);
  ~Buffer();
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;

  unsigned char *data() const { return base_ + GUARD; }
  unsigned char *whole() const { return base_; }
  std::size_t whole_bytes() const { return capacity_ + 2 * GUARD; }

 private:
  Device &device_;
  std::size_t capacity_;
  Memory memory_;
  unsigned char *base_;
};

struct Rank {
  int number;
  Device *device;
  ncclComm_t comm;
  Buffer first, second;
  // What registered buffers are known by. The library fills them at the end of a group, so they stay where they are.
  std::deque<void *> handles;
  std::deque<ncclWindow_t> windows;
};

using Devices = std::vector<std::unique_ptr<Device>>;

// Communicators for these devices, made in one group.
std::vector<ncclComm_t> make_communicators(const Devices &devices, const ncclUniqueId &id, int ranks, int first_rank);

class Session {
 public:
  // The ranks from `first_rank` on; takes over devices and communicators.
  Session(const Options &options, int first_rank, Devices devices, const std::vector<ncclComm_t> &comms);
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  std::vector<std::unique_ptr<Rank>> &ranks() { return ranks_; }
  const Devices &devices() const { return devices_; }
  void synchronise();

  // Who is where, a line a rank.
  std::string describe() const;

 private:
  template <class Act>
  void for_each_in_a_group(const std::string &what, Act act);
  void register_buffers();
  void deregister_buffers();

  const Options &options_;
  Devices devices_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace perf
