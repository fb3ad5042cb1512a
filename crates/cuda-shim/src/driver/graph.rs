//! Graphs.

use fakegpu_cuda_abi::driver::Graph;
use fakegpu_cuda_abi::types::*;

use crate::answers::{exec, graph, instantiate};
use crate::failure::put;
use crate::shim::{Shim, handle, stream};

impl Graph for Shim {
    unsafe fn cuGraphCreate(&self, to: *mut CUgraph, _flags: c_uint) -> CUresult {
        self.drive_world(|world| {
            let made = world.create_graph()?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(to, handle(made.into_raw()), "the graph") }
        })
    }

    unsafe fn cuGraphDestroy(&self, of: CUgraph) -> CUresult {
        self.drive_world(|world| Ok(world.destroy_graph(graph(of)?)?))
    }

    unsafe fn cuGraphInstantiateWithFlags(&self, to: *mut CUgraphExec, of: CUgraph, _flags: u64) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive_world(|world| unsafe { instantiate(world, to, of) })
    }

    unsafe fn cuGraphUpload(&self, of: CUgraphExec, _on: CUstream) -> CUresult {
        self.drive_world(|world| Ok(world.upload_graph(exec(of)?)?))
    }

    unsafe fn cuGraphLaunch(&self, of: CUgraphExec, on: CUstream) -> CUresult {
        self.drive_device(|world, device| Ok(world.launch_graph(device, exec(of)?, stream(on)?)?))
    }

    unsafe fn cuGraphExecDestroy(&self, of: CUgraphExec) -> CUresult {
        self.drive_world(|world| Ok(world.destroy_exec(exec(of)?)?))
    }
}
