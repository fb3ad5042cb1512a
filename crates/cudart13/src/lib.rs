//! The `libcudart.so.13` that programs load in NVIDIA's place: every function of the CUDA 13 runtime, handed on to FakeGPU's
//! `libcuda.so.1`, where devices, memory and streams live.
//!
//! Nothing is decided here. Without a driver of FakeGPU, calls fail as on a machine without any: with
//! `cudaErrorInsufficientDriver`.
//!
//! ```c
//! int version;
//! cudaRuntimeGetVersion(&version); // 13020
//! ```
//!
//! Sources: the export list of the CUDA runtime, whose symbols carry the version `libcudart.so.13`.

fakegpu_cuda_abi::runtime_exports!(13);
