//! The `libcuda.so.1` that programs load in NVIDIA's place: the functions of CUDA's driver, the bodies of its runtime, and
//! the streams of the process for other libraries of ours.
//!
//! What a call means is decided in `fakegpu-cuda`, whose one `World` a process lives in `process`. Here pointers become
//! buffers, numbers become words, and refusals become codes. What CUDA keeps for each thread is kept in `thread`: the current
//! device, the last error, the sentence to it.
//!
//! Nothing runs when the library is loaded: the environment is read and the world made at the first call that needs them.
//! The registration of kernels, which programs do when they are loaded, only notes names and where the device code is; that
//! is read in `modules` when a kernel is launched, and run by `executor`.
//!
//! Read `entries` and `exports` first, which expand the tables of `fakegpu-cuda-abi`, then `shim`, then `answers` (the
//! runtime's functions) and `driver` (the driver's), a file a section of the table.
//!
//! ```c
//! int count;
//! cuInit(0);
//! cuDeviceGetCount(&count); // as many as the cluster's node has
//! ```
//!
//! Sources: CUDA Runtime API 13.2, CUDA Driver API 13.2, CUDA C++ Programming Guide.

mod answers;
mod driver;
mod entries;
mod executor;
mod exports;
mod failure;
mod fence;
mod modules;
mod process;
mod properties;
mod registry;
mod shim;
mod streams;
mod symbols;
mod thread;
