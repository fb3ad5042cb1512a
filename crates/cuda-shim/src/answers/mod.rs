//! The runtime's functions, a file a section of the table. What is not here is refused by name.

mod device;
mod error;
mod event;
mod graph;
mod ipc;
mod kernel;
mod library;
mod memory;
mod peer;
mod pool;
mod stream;

pub(crate) use device::{by_pci_bus_id, put_text};
pub(crate) use event::{create as create_event, elapsed};
pub(crate) use graph::{exec, graph, instantiate};
pub(crate) use ipc::{from_c, to_c};
pub(crate) use kernel::{attributes, each, launch, name_of, occupancy};
pub(crate) use memory::{host_alloc, kind_of, memory_info};
pub(crate) use pool::{get_attribute, pool, set_attribute};
pub(crate) use stream::{
    CaptureOut, call_back, call_host, capture_info, capture_mode, create as create_stream, made, status_of,
};

use fakegpu_cuda_abi::runtime::answers::{Interop, Partition, Texture};

use crate::shim::Shim;

impl Texture for Shim {}
impl Interop for Shim {}
impl Partition for Shim {}
