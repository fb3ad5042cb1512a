// The host build's device: memory of the process, calls that have ended when they return.
#include <dlfcn.h>

#include <cstdlib>

#include "device.hpp"
#include "fail.hpp"

namespace perf {

const char *const BUILD = "host";
const bool CAN_CAPTURE = false;

namespace {

// FakeGPU's clock of a rank, in seconds, at the end of its last operation. Another NCCL has none.
using ModelledTime = ncclResult_t (*)(ncclComm_t, double *);

std::optional<double> modelled_time(ncclComm_t comm) {
  static const auto ask = reinterpret_cast<ModelledTime>(dlsym(RTLD_DEFAULT, "fakegpu_modelled_time"));
  double seconds = 0;
  if (ask == nullptr || ask(comm, &seconds) != ncclSuccess) return std::nullopt;
  return seconds;
}

// Where the process has a CUDA runtime, as under `fakegpu run`, memory of ncclMemAlloc is a device's, and calls with it
// end on streams, of which this build has none. It uses ordinary memory instead then.
bool is_nccls_memory_of_the_host() { return dlsym(RTLD_DEFAULT, "cudaMalloc") == nullptr; }

}  // namespace

struct Device::State {
  std::optional<double> started;
};

Device::Device(int, bool) : state_(std::make_unique<State>()) {}
Device::~Device() = default;

void Device::use() const {}
std::string Device::name() const { return "host memory"; }
cudaStream_t Device::stream() const { return nullptr; }
void Device::synchronise() {}

void *Device::allocate(std::size_t bytes, Memory memory) {
  void *at = nullptr;
  if (memory == Memory::OfNccl && is_nccls_memory_of_the_host()) {
    check(ncclMemAlloc(&at, bytes), "ncclMemAlloc of " + std::to_string(bytes) + " bytes");
  } else if (posix_memalign(&at, 4096, bytes) != 0) {
    fail("no memory for a buffer of " + std::to_string(bytes) + " bytes: lower --maxbytes or the number of ranks");
  }
  return at;
}

void Device::release(void *at, Memory memory) {
  if (memory == Memory::OfNccl && is_nccls_memory_of_the_host())
    check(ncclMemFree(at), "ncclMemFree");
  else
    std::free(at);
}

void Device::set_bytes(void *at, unsigned char value, std::size_t bytes) { std::memset(at, value, bytes); }

void Device::invert(void *at, std::size_t bytes) {
  auto *byte = static_cast<unsigned char *>(at);
  for (std::size_t i = 0; i < bytes; ++i) byte[i] = static_cast<unsigned char>(~byte[i]);
}

void Device::fill(const Span &span, ncclDataType_t type, const Recipe &recipe) {
  with_type(type, [&](auto implementation) {
    using T = decltype(implementation);
    auto *elements = static_cast<typename T::Bits *>(span.at);
    for (std::size_t i = 0; i < span.count; ++i)
      elements[i] = Element<T>(recipe, span.first + i).input(span.source);
  });
}

std::uint64_t Device::count_wrong(const Span &span, ncclDataType_t type, const Recipe &recipe) {
  std::uint64_t wrong = 0;
  with_type(type, [&](auto implementation) {
    using T = decltype(implementation);
    const auto *elements = static_cast<const typename T::Bits *>(span.at);
    for (std::size_t i = 0; i < span.count; ++i) {
      const Element<T> element(recipe, span.first + i);
      const bool right = span.source == ALL_RANKS ? element.is_result(elements[i])
                                                  : element.is_input(elements[i], span.source);
      wrong += right ? 0 : 1;
    }
  });
  return wrong;
}

std::uint64_t Device::count_other(const void *at, unsigned char value, std::size_t bytes) {
  const auto *byte = static_cast<const unsigned char *>(at);
  std::uint64_t other = 0;
  for (std::size_t i = 0; i < bytes; ++i) other += byte[i] != value ? 1 : 0;
  return other;
}

void Device::start_model(ncclComm_t comm) { state_->started = modelled_time(comm); }

std::optional<double> Device::stop_model(ncclComm_t comm) {
  const std::optional<double> ended = modelled_time(comm);
  if (!ended || !state_->started) return std::nullopt;
  return *ended - *state_->started;
}

void begin_capture(const std::vector<std::unique_ptr<Device>> &) {}
std::vector<std::unique_ptr<Graph>> end_capture(const std::vector<std::unique_ptr<Device>> &) { return {}; }

}  // namespace perf
