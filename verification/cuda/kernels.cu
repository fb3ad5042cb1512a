// Small CUDA programs in one, as people write them: each case computes on the GPU and checks on the host, or goes wrong on
// purpose and prints CUDA's error. `kernels.sh` builds and runs all of them without a GPU.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                    \
  do {                                                                                 \
    const cudaError_t code_ = (call);                                                  \
    if (code_ != cudaSuccess) {                                                        \
      std::printf("%s: %s\n", cudaGetErrorName(code_), cudaGetErrorString(code_));     \
      return 2;                                                                        \
    }                                                                                  \
  } while (false)

namespace {

__constant__ float factors[4];
__device__ int counter;
__device__ int table[3] = {10, 20, 30};

__global__ void saxpy(int count, float a, const float *x, float *y) {
  for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) y[at] = a * x[at] + y[at];
}

__global__ void histogram(int count, const unsigned char *bytes, unsigned *bins) {
  for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x)
    atomicAdd(&bins[bytes[at]], 1u);
}

__global__ void scaled(int count, float *values) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) values[at] = factors[at % 4] * static_cast<float>(table[at % 3]);
  atomicAdd(&counter, 1);
}

template <class T>
__global__ void squares(int count, const float *from, T *to) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) to[at] = T(from[at]) * T(from[at]);
}

struct Pair {
  double sum;
  long long product;
};

__device__ __noinline__ Pair combine(double a, long long b) { return {a + static_cast<double>(b), b * b - 7 / (b + 1)}; }

__global__ void functions(int count, Pair *pairs, Pair bias) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= count) return;
  Pair found = combine(std::sqrt(static_cast<double>(at)), at);
  pairs[at] = {found.sum + bias.sum, found.product + bias.product};
}

__global__ void beyond(int *values) { values[threadIdx.x + 1000] = 1; }

__global__ void shared(int *values) {
  __shared__ int buffer[32];
  buffer[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  values[threadIdx.x] = buffer[31 - threadIdx.x];
}

int run_saxpy() {
  constexpr int count = 1 << 20;
  std::vector<float> x(count), y(count);
  for (int at = 0; at < count; ++at) x[at] = static_cast<float>(at % 1000), y[at] = 1.0F;
  float *dx = nullptr, *dy = nullptr;
  CHECK(cudaMalloc(&dx, count * sizeof(float)));
  CHECK(cudaMalloc(&dy, count * sizeof(float)));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMemcpyAsync(dx, x.data(), count * sizeof(float), cudaMemcpyHostToDevice, stream));
  CHECK(cudaMemcpyAsync(dy, y.data(), count * sizeof(float), cudaMemcpyHostToDevice, stream));
  saxpy<<<64, 256, 0, stream>>>(count, 2.5F, dx, dy);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyAsync(y.data(), dy, count * sizeof(float), cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  for (int at = 0; at < count; ++at)
    if (y[at] != std::fma(2.5F, x[at], 1.0F)) return std::printf("y[%d] is %g\n", at, y[at]), 1;
  return 0;
}

int run_histogram() {
  constexpr int count = 1 << 20;
  std::vector<unsigned char> bytes(count);
  std::vector<unsigned> wanted(256), bins(256);
  for (int at = 0; at < count; ++at) ++wanted[bytes[at] = static_cast<unsigned char>(at * 2654435761U >> 24)];
  unsigned char *dbytes = nullptr;
  unsigned *dbins = nullptr;
  CHECK(cudaMalloc(&dbytes, count));
  CHECK(cudaMalloc(&dbins, 256 * sizeof(unsigned)));
  CHECK(cudaMemcpy(dbytes, bytes.data(), count, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(dbins, 0, 256 * sizeof(unsigned)));
  histogram<<<32, 128>>>(count, dbytes, dbins);
  CHECK(cudaMemcpy(bins.data(), dbins, 256 * sizeof(unsigned), cudaMemcpyDeviceToHost));
  return bins == wanted ? 0 : 1;
}

int run_symbols() {
  constexpr int count = 1000;
  const float chosen[4] = {0.5F, 1, 2, 4};
  CHECK(cudaMemcpyToSymbol(factors, chosen, sizeof chosen));
  float *values = nullptr;
  CHECK(cudaMallocManaged(&values, count * sizeof(float)));
  scaled<<<4, 256>>>(count, values);
  CHECK(cudaDeviceSynchronize());
  int seen = 0;
  CHECK(cudaMemcpyFromSymbol(&seen, counter, sizeof seen));
  for (int at = 0; at < count; ++at)
    if (values[at] != chosen[at % 4] * static_cast<float>(10 * (at % 3 + 1))) return 1;
  return seen == 4 * 256 ? 0 : 1;
}

template <class T>
int run_squares() {
  constexpr int count = 4096;
  float *from = nullptr;
  T *to = nullptr;
  CHECK(cudaMallocManaged(&from, count * sizeof(float)));
  CHECK(cudaMallocManaged(&to, count * sizeof(T)));
  for (int at = 0; at < count; ++at) from[at] = static_cast<float>(at) / 64.0F;
  squares<<<count / 256, 256>>>(count, from, to);
  CHECK(cudaDeviceSynchronize());
  for (int at = 0; at < count; ++at) {
    const float value = static_cast<float>(T(from[at]));
    if (static_cast<float>(to[at]) != static_cast<float>(T(value * value))) return std::printf("at %d\n", at), 1;
  }
  return 0;
}

int run_functions() {
  constexpr int count = 777;
  Pair *pairs = nullptr;
  CHECK(cudaMallocManaged(&pairs, count * sizeof(Pair)));
  functions<<<4, 256>>>(count, pairs, Pair{0.25, 3});
  CHECK(cudaDeviceSynchronize());
  for (long long at = 0; at < count; ++at) {
    const double sum = std::sqrt(static_cast<double>(at)) + static_cast<double>(at) + 0.25;
    if (pairs[at].sum != sum || pairs[at].product != at * at - 7 / (at + 1) + 3) return std::printf("at %lld\n", at), 1;
  }
  return 0;
}

int run_wrong(void (*kernel)(int *)) {
  int *values = nullptr;
  CHECK(cudaMalloc(&values, 100 * sizeof(int)));
  kernel<<<1, 32>>>(values);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  return 0;
}

}  // namespace

int main(int count, char **words) {
  const char *name = count > 1 ? words[1] : "";
  if (!std::strcmp(name, "saxpy")) return run_saxpy();
  if (!std::strcmp(name, "histogram")) return run_histogram();
  if (!std::strcmp(name, "symbols")) return run_symbols();
  if (!std::strcmp(name, "half")) return run_squares<__half>();
  if (!std::strcmp(name, "bfloat16")) return run_squares<__nv_bfloat16>();
  if (!std::strcmp(name, "functions")) return run_functions();
  if (!std::strcmp(name, "beyond")) return run_wrong(beyond);
  if (!std::strcmp(name, "shared")) return run_wrong(shared);
  std::printf("kernels saxpy|histogram|symbols|half|bfloat16|functions|beyond|shared\n");
  return 3;
}
