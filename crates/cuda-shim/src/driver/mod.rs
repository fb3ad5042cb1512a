//! The driver's functions, a file a section of the table or several small ones. What is not here is refused by name.

mod context;
mod device;
mod graph;
mod library;
mod memory;
mod module;
mod sharing;
mod stream;

use fakegpu_cuda_abi::driver::{Partition, VirtualMemory};

use crate::shim::Shim;

impl VirtualMemory for Shim {}
impl Partition for Shim {}
