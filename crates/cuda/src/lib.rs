//! The CUDA world of a process without GPUs: devices, memory, pointers, streams, events, graphs, copies, and the
//! account of them.
//!
//! There is no C here: no pointers to structs, no thread-local current device or last error. Those belong to the
//! library that wraps this room. Nothing reads the environment either; [`Devices::new`] is handed it.
//!
//! Read [`Devices`] first (which devices a process sees), then [`World`] (everything that a program can ask, one
//! method a CUDA call), then [`Polled`] (how work that waits for others, such as a collective, becomes an item of a
//! stream), then [`Error`] (what a refusal is: a code of CUDA's and a sentence).
//!
//! ```
//! use fakegpu_cuda::{Devices, Options, Ordinal, StreamRef, Vouched, World};
//!
//! let vars = [("FAKEGPU_GPU_COUNT".to_owned(), "2".to_owned())];
//! let settings = fakegpu_config::Settings::from_vars(vars.clone())?;
//! let world = World::new(Devices::new(&settings, None, vars)?, Options::default())?;
//!
//! let pointer = world.malloc(Ordinal(1), 4096)?;
//! // SAFETY: memory of the world's own.
//! let target = unsafe { Vouched::new(pointer) };
//! world.fill(Ordinal(1), StreamRef::Legacy, target, 0x2a, 1, 4096)?;
//! world.synchronize_device(Ordinal(1))?;
//! assert_eq!(world.attributes(pointer)?.device, Ordinal(1));
//! world.free(pointer)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Invariant:** a device's addresses stay mapped as long as the process lives, so an item of a stream can run late
//! without a check; what was freed is given back by holes in the file behind the addresses.
//!
//! Sources: CUDA Runtime API 13.2 (stream synchronization behaviour, error handling, memory management, graph
//! management), CUDA C++ Programming Guide (implicit synchronization, stream capture, inter-process communication);
//! error numbers as in `driver_types.h`.
#![warn(missing_docs)]

mod account;
mod capture;
mod copy;
mod devices;
mod engine;
mod error;
mod event;
mod graph;
mod handle;
mod kernels;
mod memory;
mod signals;
mod stream;
mod world;

pub use account::{Copies, DeviceReport, Report, Traffic};
pub use capture::{CaptureInfo, CaptureMode, CaptureStatus};
pub use copy::{Copy, CopyKind, Rows};
pub use devices::{Device, Devices, Ordinal, Uuid};
pub use engine::{HostFunction, OncePolled, Poll, Polled, PolledFactory, PolledWork};
pub use error::{Error, ErrorKind, Result};
pub use event::EventFlags;
pub use graph::{GraphNode, NodeKind};
pub use handle::{EventHandle, ExecHandle, GraphHandle, PoolHandle, StreamHandle, StreamRef};
pub use kernels::{Arguments, Kernels, Launch, Prepared};
pub use memory::{Attributes, DeviceFile, IpcHandle, MemoryInfo, MemoryKind, PoolAttribute, Vouched};
pub use stream::StreamFlags;
pub use world::{Options, World};
