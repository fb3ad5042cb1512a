//! Variables of a program that live on devices, named by the host's variables that stand for them.

use std::ffi::c_void;

use fakegpu_cuda::{Copy, CopyKind, Ordinal, StreamRef, Vouched, World};
use fakegpu_cuda_abi::types::{cudaError_t, cudaMemcpyKind};

use crate::failure::{Failure, Result};
use crate::process;
use crate::registry::{self, Symbol};
use crate::thread;

/// A variable's memory on a device, or a part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) address: usize,
    bytes: usize,
}

/// The other end of a copy, and which way the program says that it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) address: usize,
    pub(crate) kind: cudaMemcpyKind,
}

impl Place {
    /// `bytes` from `offset` on.
    pub(crate) fn part(self, offset: usize, bytes: usize) -> Result<Self> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            let text = format!("{bytes} bytes at place {offset} of a variable that has {}", self.bytes);
            return Err(Failure::invalid(text));
        }
        Ok(Self { address: self.address + offset, bytes })
    }
}

/// What is registered for a host's variable.
pub(crate) fn known(symbol: *const c_void) -> Result<Symbol> {
    registry::symbol(symbol).ok_or_else(|| {
        let text = format!("no variable of a device was registered for the one at {symbol:p}");
        Failure::new(cudaError_t::cudaErrorInvalidSymbol, text)
    })
}

/// The memory of a host's variable on a device, made now if it was not yet.
pub(crate) fn find(world: &World, device: Ordinal, symbol: *const c_void) -> Result<Place> {
    let known = known(symbol)?;
    let code = registry::code(known.binary).map_err(|reason| {
        Failure::unsupported(format!("the variable `{}` has no memory: {reason}", known.name))
    })?;
    let (address, bytes) = code.variable(world, device, &known.name)?;
    Ok(Place { address, bytes: bytes.min(known.bytes) })
}

/// Tells the host's pointers of a binary where their managed variables are.
///
/// # Safety
/// The variables were registered by the binary's program, and are still there.
pub(crate) unsafe fn place_managed(binary: usize) -> Result {
    let managed = registry::managed(binary);
    if managed.is_empty() {
        return Ok(());
    }
    let world = process::world()?;
    let device = thread::device();
    for (pointer, name) in managed {
        let code = registry::code(binary).map_err(Failure::unsupported)?;
        let (address, _) = code.variable(world, device, &name)?;
        let pointer = std::ptr::with_exposed_provenance_mut::<usize>(pointer);
        // SAFETY: this function's contract: the host's variable is a pointer.
        unsafe { pointer.write(address) };
    }
    Ok(())
}

/// Writes a variable: at once, or in a stream's order.
///
/// # Safety
/// The host's bytes are readable until then, as for any copy.
pub(crate) unsafe fn write(
    world: &World,
    device: Ordinal,
    to: Place,
    from: Host,
    stream: Option<StreamRef>,
) -> Result {
    // SAFETY: memory of the world's own at one end, this function's contract at the other.
    let [dst, src] = [to.address, from.address].map(|end| unsafe { Vouched::new(end) });
    copy(world, device, dst, src, to.bytes, from.kind, stream)
}

/// Reads a variable: at once, or in a stream's order.
///
/// # Safety
/// The host's bytes are writable until then, as for any copy.
pub(crate) unsafe fn read(
    world: &World,
    device: Ordinal,
    from: Place,
    to: Host,
    stream: Option<StreamRef>,
) -> Result {
    // SAFETY: memory of the world's own at one end, this function's contract at the other.
    let [dst, src] = [to.address, from.address].map(|end| unsafe { Vouched::new(end) });
    copy(world, device, dst, src, from.bytes, to.kind, stream)
}

fn copy(
    world: &World,
    device: Ordinal,
    dst: Vouched,
    src: Vouched,
    bytes: usize,
    kind: cudaMemcpyKind,
    stream: Option<StreamRef>,
) -> Result {
    let copy = Copy::flat(dst, src, bytes, CopyKind::from_raw(kind.0)?);
    let copied = match stream {
        Some(stream) => world.copy(device, stream, &copy),
        None => world.copy_sync(device, thread::null_stream(), &copy),
    };
    Ok(copied?)
}
