//! Graphs: what captures come to, and their launches.

use fakegpu_cuda::{ExecHandle, GraphHandle, World};
use fakegpu_cuda_abi::runtime::answers::Graph;
use fakegpu_cuda_abi::types::*;

use crate::failure::{Failure, Result, put, put_if_wanted};
use crate::shim::{Shim, handle, ordinal, raw, stream};

impl Graph for Shim {
    unsafe fn cudaGraphCreate(&self, to: *mut cudaGraph_t, _flags: c_uint) -> cudaError_t {
        self.world(|world| {
            let made = world.create_graph()?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(to, handle(made.into_raw()), "the graph") }
        })
    }

    unsafe fn cudaGraphClone(&self, to: *mut cudaGraph_t, original: cudaGraph_t) -> cudaError_t {
        self.world(|world| {
            let made = world.clone_graph(graph(original)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(to, handle(made.into_raw()), "the graph") }
        })
    }

    unsafe fn cudaGraphDestroy(&self, of: cudaGraph_t) -> cudaError_t {
        self.world(|world| Ok(world.destroy_graph(graph(of)?)?))
    }

    unsafe fn cudaGraphInstantiate(
        &self,
        to: *mut cudaGraphExec_t,
        of: cudaGraph_t,
        _flags: u64,
    ) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.world(|world| unsafe { instantiate(world, to, of) })
    }

    unsafe fn cudaGraphInstantiateWithFlags(
        &self,
        to: *mut cudaGraphExec_t,
        of: cudaGraph_t,
        _flags: u64,
    ) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.world(|world| unsafe { instantiate(world, to, of) })
    }

    unsafe fn cudaGraphUpload(&self, of: cudaGraphExec_t, _on: cudaStream_t) -> cudaError_t {
        self.world(|world| Ok(world.upload_graph(exec(of)?)?))
    }

    unsafe fn cudaGraphLaunch(&self, of: cudaGraphExec_t, on: cudaStream_t) -> cudaError_t {
        self.on_device(|world, device| Ok(world.launch_graph(device, exec(of)?, stream(on)?)?))
    }

    unsafe fn cudaGraphExecDestroy(&self, of: cudaGraphExec_t) -> cudaError_t {
        self.world(|world| Ok(world.destroy_exec(exec(of)?)?))
    }

    unsafe fn cudaDeviceGetGraphMemAttribute(
        &self,
        device: c_int,
        _attr: cudaGraphMemAttributeType,
        value: *mut c_void,
    ) -> cudaError_t {
        self.world(|world| {
            world.device(ordinal(device)?)?;
            // Graphs here allocate nothing.
            // SAFETY: NULL or a writable number of 64 bits, as the C function requires.
            unsafe { put(value.cast::<u64>(), 0, "the value") }
        })
    }

    unsafe fn cudaDeviceSetGraphMemAttribute(
        &self,
        device: c_int,
        _attr: cudaGraphMemAttributeType,
        _value: *mut c_void,
    ) -> cudaError_t {
        self.world(|world| Ok(world.device(ordinal(device)?).map(drop)?))
    }

    unsafe fn cudaDeviceGraphMemTrim(&self, device: c_int) -> cudaError_t {
        self.world(|world| Ok(world.device(ordinal(device)?).map(drop)?))
    }

    unsafe fn cudaGraphGetNodes(
        &self,
        of: cudaGraph_t,
        nodes: *mut cudaGraphNode_t,
        num_nodes: *mut usize,
    ) -> cudaError_t {
        self.world(|world| {
            let found = world.graph_nodes(graph(of)?)?;
            let ids = found.iter().map(|node| node.id);
            // SAFETY: NULL, or a count and as many places, as the C function requires.
            unsafe { list(ids, nodes, num_nodes) }
        })
    }

    unsafe fn cudaGraphGetRootNodes(
        &self,
        of: cudaGraph_t,
        root_nodes: *mut cudaGraphNode_t,
        num_root_nodes: *mut usize,
    ) -> cudaError_t {
        self.world(|world| {
            let found = world.graph_nodes(graph(of)?)?;
            let roots = found.iter().filter(|node| node.dependencies.is_empty()).map(|node| node.id);
            // SAFETY: NULL, or a count and as many places, as the C function requires.
            unsafe { list(roots, root_nodes, num_root_nodes) }
        })
    }
}

/// A graph of a handle.
pub(crate) fn graph(of: cudaGraph_t) -> Result<GraphHandle> {
    GraphHandle::from_raw(raw(of))
        .ok_or_else(|| Failure::invalid(format!("{:#x} is no graph of this process", raw(of))))
}

/// A graph that is ready to launch, of a handle.
pub(crate) fn exec(of: cudaGraphExec_t) -> Result<ExecHandle> {
    ExecHandle::from_raw(raw(of))
        .ok_or_else(|| Failure::invalid(format!("{:#x} is no graph to launch of this process", raw(of))))
}

/// # Safety
/// `to` is NULL or writable.
pub(crate) unsafe fn instantiate(world: &World, to: *mut cudaGraphExec_t, of: cudaGraph_t) -> Result {
    let made = world.instantiate(graph(of)?)?;
    // SAFETY: this function's contract.
    unsafe { put(to, handle(made.into_raw()), "the graph to launch") }
}

/// Writes nodes as CUDA does: how many there are, and those for which there is room; the rest of the room is NULL.
///
/// # Safety
/// `count` is NULL or writable; `nodes` is NULL or has as many places as `count` says.
unsafe fn list(ids: impl Iterator<Item = u64>, nodes: *mut cudaGraphNode_t, count: *mut usize) -> Result {
    let ids: Vec<u64> = ids.collect();
    if nodes.is_null() {
        // SAFETY: this function's contract.
        return unsafe { put(count, ids.len(), "the number of nodes") };
    }
    // SAFETY: this function's contract; NULL is refused.
    let room = unsafe { crate::failure::take(count.cast_const(), "the number of nodes") }?;
    for at in 0..room {
        let node = ids.get(at).map_or(std::ptr::null_mut(), |&id| handle(id));
        // SAFETY: `at` is below the room that the caller says there is.
        let place = unsafe { nodes.add(at) };
        // SAFETY: as above.
        unsafe { place.write(node) };
    }
    // SAFETY: this function's contract.
    unsafe { put_if_wanted(count, room.min(ids.len())) };
    Ok(())
}
