// The CUDA build's device: device memory, a stream, and kernels that fill and check. The kernels stride over a grid
// and add up with atomics on global memory only: no shared memory, no barriers, no shuffles.
#include <cuda_runtime.h>

#include <algorithm>

#include "device.hpp"
#include "fail.hpp"

namespace perf {

const char *const BUILD = "cuda";
const bool CAN_CAPTURE = true;

namespace {

using Counter = unsigned long long;

void check(cudaError_t result, const std::string &call) {
  if (result == cudaSuccess) return;
  fail(call + " returned " + std::to_string(result) + ", " + cudaGetErrorName(result) + ": " +
       cudaGetErrorString(result));
}

__device__ std::size_t own_index() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::size_t stride() { return std::size_t{gridDim.x} * blockDim.x; }

template <class T>
__global__ void fill_elements(typename T::Bits *elements, std::size_t count, int source, std::size_t first,
                              Recipe recipe) {
  for (std::size_t i = own_index(); i < count; i += stride())
    elements[i] = Element<T>(recipe, first + i).input(source);
}

// The counters count what is right: a kernel that never ran has found nothing right.
template <class T>
__global__ void count_right_elements(const typename T::Bits *elements, std::size_t count, int source,
                                     std::size_t first, Recipe recipe, Counter *right) {
  Counter mine = 0;
  for (std::size_t i = own_index(); i < count; i += stride()) {
    const Element<T> element(recipe, first + i);
    const bool ok = source == ALL_RANKS ? element.is_result(elements[i]) : element.is_input(elements[i], source);
    mine += ok ? 1 : 0;
  }
  if (mine != 0) atomicAdd(right, mine);
}

__global__ void count_same_bytes(const unsigned char *bytes, std::size_t count, unsigned char value, Counter *same) {
  Counter mine = 0;
  for (std::size_t i = own_index(); i < count; i += stride()) mine += bytes[i] == value ? 1 : 0;
  if (mine != 0) atomicAdd(same, mine);
}

__global__ void invert_bytes(unsigned char *bytes, std::size_t count) {
  for (std::size_t i = own_index(); i < count; i += stride()) bytes[i] = static_cast<unsigned char>(~bytes[i]);
}

constexpr unsigned THREADS = 256;

unsigned blocks(std::size_t count) {
  constexpr std::size_t MOST = 64;
  return static_cast<unsigned>(std::clamp<std::size_t>((count + THREADS - 1) / THREADS, 1, MOST));
}

void check_launch(const char *kernel) { check(cudaGetLastError(), std::string("launching ") + kernel); }

class CudaGraph : public Graph {
 public:
  CudaGraph(const Device &device, cudaGraph_t graph) : device_(device), graph_(graph) {
    device.use();
    check(cudaGraphInstantiate(&executable_, graph, 0), "cudaGraphInstantiate");
  }
  ~CudaGraph() override {
    cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }
  CudaGraph(const CudaGraph &) = delete;
  CudaGraph &operator=(const CudaGraph &) = delete;
  void launch() override {
    device_.use();
    check(cudaGraphLaunch(executable_, device_.stream()), "cudaGraphLaunch");
  }

 private:
  const Device &device_;
  cudaGraph_t graph_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

struct Device::State {
  int index = 0;
  cudaStream_t stream = nullptr;
  cudaEvent_t started = nullptr, stopped = nullptr;
  Counter *counter = nullptr;

  void clear_counter() { check(cudaMemsetAsync(counter, 0, sizeof *counter, stream), "cudaMemsetAsync"); }
  std::uint64_t read_counter() {
    Counter value = 0;
    check(cudaMemcpyAsync(&value, counter, sizeof value, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return value;
  }
};

Device::Device(int index, bool null_stream) : state_(std::make_unique<State>()) {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  if (index >= devices)
    fail("this rank wants device " + std::to_string(index) + ", but there are " + std::to_string(devices) +
         ": lower --ngpus or --nthreads, or describe larger nodes");
  state_->index = index;
  use();
  if (!null_stream)
    check(cudaStreamCreateWithFlags(&state_->stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaEventCreate(&state_->started), "cudaEventCreate");
  check(cudaEventCreate(&state_->stopped), "cudaEventCreate");
  check(cudaMalloc(reinterpret_cast<void **>(&state_->counter), sizeof(Counter)), "cudaMalloc");
}

Device::~Device() {
  use();
  cudaFree(state_->counter);
  cudaEventDestroy(state_->started);
  cudaEventDestroy(state_->stopped);
  if (state_->stream != nullptr) cudaStreamDestroy(state_->stream);
}

void Device::use() const { check(cudaSetDevice(state_->index), "cudaSetDevice"); }

std::string Device::name() const {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, state_->index), "cudaGetDeviceProperties");
  return properties.name;
}

cudaStream_t Device::stream() const { return state_->stream; }

void Device::synchronise() {
  use();
  check(cudaStreamSynchronize(state_->stream), "cudaStreamSynchronize");
}

void *Device::allocate(std::size_t bytes, Memory memory) {
  use();
  void *at = nullptr;
  if (memory == Memory::OfNccl)
    check(ncclMemAlloc(&at, bytes), "ncclMemAlloc of " + std::to_string(bytes) + " bytes");
  else
    check(cudaMalloc(&at, bytes), "cudaMalloc of " + std::to_string(bytes) + " bytes");
  return at;
}

void Device::release(void *at, Memory memory) {
  use();
  if (memory == Memory::OfNccl)
    check(ncclMemFree(at), "ncclMemFree");
  else
    check(cudaFree(at), "cudaFree");
}

void Device::set_bytes(void *at, unsigned char value, std::size_t bytes) {
  use();
  check(cudaMemsetAsync(at, value, bytes, state_->stream), "cudaMemsetAsync");
}

void Device::invert(void *at, std::size_t bytes) {
  use();
  invert_bytes<<<blocks(bytes), THREADS, 0, state_->stream>>>(static_cast<unsigned char *>(at), bytes);
  check_launch("invert_bytes");
}

void Device::fill(const Span &span, ncclDataType_t type, const Recipe &recipe) {
  use();
  with_type(type, [&](auto implementation) {
    using T = decltype(implementation);
    fill_elements<T><<<blocks(span.count), THREADS, 0, state_->stream>>>(
        static_cast<typename T::Bits *>(span.at), span.count, span.source, span.first, recipe);
  });
  check_launch("fill_elements");
}

std::uint64_t Device::count_wrong(const Span &span, ncclDataType_t type, const Recipe &recipe) {
  use();
  state_->clear_counter();
  with_type(type, [&](auto implementation) {
    using T = decltype(implementation);
    count_right_elements<T><<<blocks(span.count), THREADS, 0, state_->stream>>>(
        static_cast<const typename T::Bits *>(span.at), span.count, span.source, span.first, recipe,
        state_->counter);
  });
  check_launch("count_right_elements");
  return span.count - state_->read_counter();
}

std::uint64_t Device::count_other(const void *at, unsigned char value, std::size_t bytes) {
  use();
  state_->clear_counter();
  count_same_bytes<<<blocks(bytes), THREADS, 0, state_->stream>>>(static_cast<const unsigned char *>(at), bytes,
                                                                  value, state_->counter);
  check_launch("count_same_bytes");
  return bytes - state_->read_counter();
}

// FakeGPU's events carry the modelled time of their stream; a real GPU's carry its own, which is the cluster's too.
void Device::start_model(ncclComm_t) {
  use();
  check(cudaEventRecord(state_->started, state_->stream), "cudaEventRecord");
}

std::optional<double> Device::stop_model(ncclComm_t) {
  use();
  check(cudaEventRecord(state_->stopped, state_->stream), "cudaEventRecord");
  check(cudaEventSynchronize(state_->stopped), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, state_->started, state_->stopped), "cudaEventElapsedTime");
  return double{milliseconds} * 1e-3;
}

void begin_capture(const std::vector<std::unique_ptr<Device>> &devices) {
  for (const auto &device : devices) {
    device->use();
    check(cudaStreamBeginCapture(device->stream(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  }
}

std::vector<std::unique_ptr<Graph>> end_capture(const std::vector<std::unique_ptr<Device>> &devices) {
  std::vector<std::unique_ptr<Graph>> graphs;
  for (const auto &device : devices) {
    device->use();
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(device->stream(), &graph), "cudaStreamEndCapture");
    graphs.push_back(std::make_unique<CudaGraph>(*device, graph));
  }
  return graphs;
}

}  // namespace perf
