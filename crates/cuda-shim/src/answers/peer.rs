//! Pairs of devices: who can reach whose memory.

use fakegpu_cuda_abi::runtime::answers::Peer;
use fakegpu_cuda_abi::types::*;

use crate::failure::{Failure, put};
use crate::shim::{Shim, ordinal};

impl Peer for Shim {
    unsafe fn cudaDeviceCanAccessPeer(
        &self,
        can_access_peer: *mut c_int,
        device: c_int,
        peer_device: c_int,
    ) -> cudaError_t {
        self.world(|world| {
            let can = world.can_access_peer(ordinal(device)?, ordinal(peer_device)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(can_access_peer, c_int::from(can), "the answer") }
        })
    }

    unsafe fn cudaDeviceEnablePeerAccess(&self, peer_device: c_int, flags: c_uint) -> cudaError_t {
        self.on_device(|world, device| {
            if flags != 0 {
                return Err(Failure::invalid(format!("{flags} are no flags of peer access; there are none")));
            }
            Ok(world.enable_peer(device, ordinal(peer_device)?)?)
        })
    }

    unsafe fn cudaDeviceDisablePeerAccess(&self, peer_device: c_int) -> cudaError_t {
        self.on_device(|world, device| Ok(world.disable_peer(device, ordinal(peer_device)?)?))
    }

    unsafe fn cudaDeviceGetP2PAttribute(
        &self,
        value: *mut c_int,
        attr: cudaDeviceP2PAttr,
        src_device: c_int,
        dst_device: c_int,
    ) -> cudaError_t {
        self.world(|world| {
            let can = world.can_access_peer(ordinal(src_device)?, ordinal(dst_device)?)?;
            let found = match attr {
                cudaDeviceP2PAttr::cudaDevP2PAttrPerformanceRank => 0,
                cudaDeviceP2PAttr::cudaDevP2PAttrAccessSupported
                | cudaDeviceP2PAttr::cudaDevP2PAttrNativeAtomicSupported
                | cudaDeviceP2PAttr::cudaDevP2PAttrCudaArrayAccessSupported => c_int::from(can),
                other => {
                    return Err(Failure::invalid(format!("{other:?} is no attribute of a pair of devices")));
                }
            };
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(value, found, "the value") }
        })
    }
}
