//! Functions of the program's own binaries. Modules that are loaded at run time are refused by name.

use fakegpu_cuda_abi::driver::Module;
use fakegpu_cuda_abi::types::*;

use crate::answers::{attributes, launch, name_of, occupancy};
use crate::failure::{Failure, put};
use crate::registry;
use crate::shim::Shim;
use crate::thread::Configuration;

impl Module for Shim {
    unsafe fn cuLaunchKernel(
        &self,
        f: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_mem_bytes: c_uint,
        on: CUstream,
        kernel_params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> CUresult {
        self.drive_device(|world, device| {
            if !extra.is_null() {
                return Err(Failure::unsupported(
                    "FakeGPU takes a kernel's arguments by kernelParams, not by extra",
                ));
            }
            let configuration = Configuration {
                grid: dim3 { x: grid_x, y: grid_y, z: grid_z },
                block: dim3 { x: block_x, y: block_y, z: block_z },
                shared_bytes: usize::try_from(shared_mem_bytes).unwrap_or(usize::MAX),
                stream: on,
            };
            launch(world, device, f, &configuration, kernel_params)
        })
    }

    unsafe fn cuLaunchCooperativeKernel(
        &self,
        f: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_mem_bytes: c_uint,
        on: CUstream,
        kernel_params: *mut *mut c_void,
    ) -> CUresult {
        let (grid, block, extra) =
            ((grid_x, grid_y, grid_z), (block_x, block_y, block_z), std::ptr::null_mut());
        // SAFETY: handed on unchanged.
        unsafe {
            self.cuLaunchKernel(
                f,
                grid.0,
                grid.1,
                grid.2,
                block.0,
                block.1,
                block.2,
                shared_mem_bytes,
                on,
                kernel_params,
                extra,
            )
        }
    }

    unsafe fn cuFuncGetAttribute(
        &self,
        pi: *mut c_int,
        attrib: CUfunction_attribute,
        hfunc: CUfunction,
    ) -> CUresult {
        self.drive_device(|world, device| {
            name_of(hfunc)?;
            let known = attributes(world.device(device)?);
            use CUfunction_attribute as A;
            let found = match attrib {
                A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => known.maxThreadsPerBlock,
                A::CU_FUNC_ATTRIBUTE_NUM_REGS => known.numRegs,
                A::CU_FUNC_ATTRIBUTE_PTX_VERSION => known.ptxVersion,
                A::CU_FUNC_ATTRIBUTE_BINARY_VERSION => known.binaryVersion,
                A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => known.maxDynamicSharedSizeBytes,
                A::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => known.preferredShmemCarveout,
                CUfunction_attribute(1..=15) => 0,
                other => return Err(Failure::invalid(format!("{other:?} is no attribute of a function"))),
            };
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(pi, found, "the value") }
        })
    }

    unsafe fn cuFuncSetAttribute(
        &self,
        hfunc: CUfunction,
        _attrib: CUfunction_attribute,
        _value: c_int,
    ) -> CUresult {
        self.drive_device(|_, _| name_of(hfunc).map(drop))
    }

    unsafe fn cuFuncSetCacheConfig(&self, hfunc: CUfunction, _config: CUfunc_cache) -> CUresult {
        self.drive_device(|_, _| name_of(hfunc).map(drop))
    }

    unsafe fn cuFuncGetName(&self, name: *mut *const c_char, hfunc: CUfunction) -> CUresult {
        self.drive_device(|_, _| {
            name_of(hfunc)?;
            let found = registry::name_address(hfunc).unwrap_or(c"".as_ptr());
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(name, found, "the name") }
        })
    }

    unsafe fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        &self,
        num_blocks: *mut c_int,
        func: CUfunction,
        block_size: c_int,
        dynamic_bytes: usize,
    ) -> CUresult {
        self.drive_device(|world, device| {
            name_of(func)?;
            let found = occupancy(world.device(device)?, block_size, dynamic_bytes)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(num_blocks, found, "the number of blocks") }
        })
    }
}
