// The CUDA kernel of an ATen operation that has a CPU kernel: arguments are seen as CPU tensors over the same memory,
// the operation is called again, and fresh results go into CUDA tensors. The same as operations.py, without Python's
// cost for each call; built for one version of torch by `fakegpu setup torch`.
//
// It needs no CUDA header and no Python header: torch loads it as an operator library.

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <torch/library.h>

#include <cstring>
#include <string>
#include <vector>

namespace {

using c10::IValue;

// What FakeGPU's CUDA runtime says of its streams; a process without it has none to wait for.
int (*is_idle)() = nullptr;
int (*drain_stream)(void *stream, int device) = nullptr;

void find_runtime() {
  void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return;
  is_idle = reinterpret_cast<int (*)()>(dlsym(library, "fakegpu_cuda_is_idle"));
  drain_stream = reinterpret_cast<int (*)(void *, int)>(dlsym(library, "fakegpu_cuda_drain_stream"));
}

// What CUDA answers in a stream that captures.
constexpr int CAPTURE_UNSUPPORTED = 900;

// The runtime's handle of a stream of torch's.
template <class Stream>
auto handle_of(const Stream &stream, int) -> decltype(stream.native_handle()) {
  return stream.native_handle();
}

// A torch that cannot say it itself (2.9): its CUDAStream can, which is a Stream and nothing else. Its header would need
// CUDA's.
template <class Stream>
void *handle_of(const Stream &stream, long) {
  static const auto handle = [] {
    void *library = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    void *function = library == nullptr ? nullptr : dlsym(library, "_ZNK3c104cuda10CUDAStream6streamEv");
    return reinterpret_cast<void *(*)(const Stream *)>(function);
  }();
  TORCH_CHECK(handle != nullptr, "FakeGPU cannot read this torch's CUDA streams: remove the operations-*.so of its cache");
  return handle(&stream);
}

// Work that is queued on the current stream ends before an operation runs on the caller; other streams go on.
void drain(const c10::OperatorHandle &op, std::optional<c10::Device> device) {
  if (is_idle == nullptr || drain_stream == nullptr || is_idle() != 0) return;
  const auto *guard = c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
  const c10::Device here = device.has_value() && device->has_index() ? *device : guard->getDevice();
  const int outcome = drain_stream(handle_of(guard->getStream(here), 0), here.index());
  TORCH_CHECK(outcome != CAPTURE_UNSUPPORTED, op.schema().name(),
              " cannot be captured into a CUDA graph: FakeGPU runs operations when they are called, so a graph replays "
              "copies and collectives only. Run this part without a graph");
  // What failed on the stream is told in CUDA's words and ours by whoever waits for it.
  if (outcome != 0) guard->synchronizeStream(guard->getStream(here));
  TORCH_CHECK(outcome == 0, "CUDA error ", outcome, " in what the stream held before ", op.schema().name());
}

at::Tensor as_cpu(const at::Tensor &tensor) {
  const auto options = tensor.options().device(at::kCPU);
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  char *start = static_cast<char *>(const_cast<void *>(tensor.storage().data()));
  const int64_t bytes = static_cast<int64_t>(tensor.storage().nbytes());
  auto storage = c10::Storage(c10::Storage::use_byte_size_t(), bytes, at::DataPtr(start, at::kCPU), nullptr, false);
  at::Tensor seen = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                             tensor.dtype());
  seen.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.is_conj()) seen._set_conj(true);
  if (tensor.is_neg()) seen._set_neg(true);
  return seen;
}

at::Tensor as_cuda(const at::Tensor &result, c10::Device device) {
  if (result.layout() != at::kStrided) return result.to(device);
  at::Tensor made = at::empty_strided(result.sizes(), result.strides(), result.options().device(device));
  if (result.numel() == 0) return made;
  if (!result.is_conj() && !result.is_neg() && result.is_non_overlapping_and_dense()) {
    std::memcpy(const_cast<void *>(made.data_ptr()), result.data_ptr(), result.nbytes());
  } else {
    as_cpu(made).copy_(result);
  }
  return made;
}

// One call: arguments seen as the CPU sees them, and the way back.
class Call {
 public:
  IValue see(const IValue &value) {
    if (value.isTensor()) return see_tensor(value.toTensor());
    if (value.isTensorList()) {
      std::vector<at::Tensor> seen;
      for (const at::Tensor &each : value.toTensorVector()) seen.push_back(see_tensor(each));
      return c10::List<at::Tensor>(seen);
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> seen;
      for (const std::optional<at::Tensor> &each : value.toOptionalTensorVector())
        seen.push_back(each.has_value() ? std::optional<at::Tensor>(see_tensor(*each)) : std::nullopt);
      return seen;
    }
    if (value.isDevice() && value.toDevice().is_cuda()) {
      if (!device_.has_value()) device_ = value.toDevice();
      return c10::Device(at::kCPU);
    }
    return value;
  }

  // An `out` that the CPU kernel resized is resized as the program sees it.
  void settle() {
    for (auto &[value, cpu] : seen_) {
      const bool same = value.sizes() == cpu.sizes() && value.strides() == cpu.strides();
      if (same && (value.numel() == 0 || value.data_ptr() == cpu.data_ptr())) continue;
      if (value.sizes() != cpu.sizes()) value.resize_(cpu.sizes());
      if (value.strides() != cpu.strides()) {
        value.set_(as_cuda(cpu, value.device()));
        continue;
      }
      if (cpu.numel() != 0) as_cpu(value).copy_(cpu);
    }
  }

  std::optional<c10::Device> device() const { return device_; }

  IValue back(const IValue &value) const {
    if (value.isTensor()) return back_tensor(value.toTensor());
    if (value.isTensorList()) {
      std::vector<at::Tensor> shown;
      for (const at::Tensor &each : value.toTensorVector()) shown.push_back(back_tensor(each));
      return c10::List<at::Tensor>(shown);
    }
    return value;
  }

 private:
  at::Tensor see_tensor(const at::Tensor &value) {
    if (!value.defined() || !value.is_cuda()) return value;
    device_ = value.device();
    // A sparse tensor is two tensors; nothing writes to it here.
    if (value.layout() != at::kStrided) return value.cpu();
    at::Tensor cpu = as_cpu(value);
    seen_.emplace_back(value, cpu);
    return cpu;
  }

  at::Tensor back_tensor(const at::Tensor &result) const {
    if (!result.defined() || result.is_cuda()) return result;
    for (const auto &[value, cpu] : seen_)
      if (cpu.is_same(result)) return value;
    return as_cuda(result, device_.value_or(c10::Device(at::kCUDA, -1)));
  }

  std::optional<c10::Device> device_;
  std::vector<std::pair<at::Tensor, at::Tensor>> seen_;
};

void run(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  Call call;
  const size_t arguments = op.schema().arguments().size();
  for (size_t at = stack->size() - arguments; at < stack->size(); ++at) (*stack)[at] = call.see((*stack)[at]);
  drain(op, call.device());
  op.callBoxed(stack);
  call.settle();
  const size_t returns = op.schema().returns().size();
  for (size_t at = stack->size() - returns; at < stack->size(); ++at) (*stack)[at] = call.back((*stack)[at]);
}

// Kernels stay registered as long as the process lives.
int64_t install(const std::vector<std::string> &names) {
  find_runtime();
  static auto *library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  for (const std::string &name : names)
    library->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&run>());
  return static_cast<int64_t>(names.size());
}

}  // namespace

TORCH_LIBRARY(fakegpu, library) {
  library.def("install(str[] names) -> int", [](std::vector<std::string> names) { return install(names); });
}
