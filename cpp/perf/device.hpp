// The seam between the two builds: where a rank's buffers live, what fills and checks them, and whose clock the model
// is. device_host.cpp and device_cuda.cu implement it; everything else is the same in both.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pattern.hpp"

namespace perf {

// How a rank's memory is had.
enum class Memory { Plain, OfNccl };

// Elements in a row: `count` from `at` on, the first of which is `first` in the contribution of `source` (or of
// ALL_RANKS, combined).
struct Span {
  void *at;
  std::size_t count;
  int source;
  std::size_t first;
};

// Captured calls that can be launched again and again.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch() = 0;
};

// One rank's device. All but `allocate` and `release` follow each other in the order of the device's stream.
class Device {
 public:
  // `index` counts the devices of this host's program; `null_stream` puts all work on the default stream.
  Device(int index, bool null_stream);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  // Makes it the calling thread's device.
  void use() const;
  std::string name() const;
  cudaStream_t stream() const;
  void synchronise();

  void *allocate(std::size_t bytes, Memory memory);
  void release(void *at, Memory memory);

  void set_bytes(void *at, unsigned char value, std::size_t bytes);
  // Inverts bytes: what a broken library might leave there.
  void invert(void *at, std::size_t bytes);
  void fill(const Span &span, ncclDataType_t type, const Recipe &recipe);
  // Elements that are not what they must be.
  std::uint64_t count_wrong(const Span &span, ncclDataType_t type, const Recipe &recipe);
  // Bytes that are not `value`.
  std::uint64_t count_other(const void *at, unsigned char value, std::size_t bytes);

  // The described cluster's time between the two calls, in seconds; nothing where the library keeps no such clock.
  void start_model(ncclComm_t comm);
  std::optional<double> stop_model(ncclComm_t comm);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "host" or "cuda".
extern const char *const BUILD;
// Whether calls can be captured as a graph.
extern const bool CAN_CAPTURE;

// Between the two, what is submitted to these devices is recorded.
void begin_capture(const std::vector<std::unique_ptr<Device>> &devices);
std::vector<std::unique_ptr<Graph>> end_capture(const std::vector<std::unique_ptr<Device>> &devices);

}  // namespace perf
