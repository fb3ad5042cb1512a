//! Modules and libraries that are loaded at run time, and functions of theirs and of the program's own binaries.

use fakegpu_cuda::{Arguments, Ordinal, World};
use fakegpu_cuda_abi::driver::Module;
use fakegpu_cuda_abi::types::*;

use crate::answers::{attributes, each, launch, name_of, occupancy};
use crate::failure::{Failure, Result, put, put_if_wanted, take};
use crate::modules;
use crate::registry;
use crate::shim::{Shim, handle};
use crate::thread::Configuration;

/// What a module and a library are called where they are none.
const MODULE: &str = "module";
const LIBRARY: &str = "library";

impl Module for Shim {
    unsafe fn cuModuleLoad(&self, module: *mut CUmodule, fname: *const c_char) -> CUresult {
        self.drive_device(|_, _| {
            // SAFETY: NULL or a C string, as the C function requires.
            let made = unsafe { modules::load_file(fname) }?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(module, handle(made as u64), "the module") }
        })
    }

    unsafe fn cuModuleLoadData(&self, module: *mut CUmodule, image: *const c_void) -> CUresult {
        self.drive_device(|_, _| {
            // SAFETY: NULL or device code, as the C function requires.
            let made = unsafe { modules::load(image) }?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(module, handle(made as u64), "the module") }
        })
    }

    unsafe fn cuModuleLoadDataEx(
        &self,
        module: *mut CUmodule,
        image: *const c_void,
        _num_options: c_uint,
        _options: *mut CUjit_option,
        _option_values: *mut *mut c_void,
    ) -> CUresult {
        // SAFETY: handed on unchanged.
        unsafe { self.cuModuleLoadData(module, image) }
    }

    unsafe fn cuModuleLoadFatBinary(&self, module: *mut CUmodule, fat_cubin: *const c_void) -> CUresult {
        // SAFETY: handed on unchanged.
        unsafe { self.cuModuleLoadData(module, fat_cubin) }
    }

    unsafe fn cuModuleUnload(&self, hmod: CUmodule) -> CUresult {
        self.drive_device(|world, _| modules::unload(world, hmod, MODULE))
    }

    unsafe fn cuModuleGetFunction(
        &self,
        hfunc: *mut CUfunction,
        hmod: CUmodule,
        name: *const c_char,
    ) -> CUresult {
        self.drive_device(|_, _| {
            // SAFETY: NULL or a C string, as the C function requires.
            let found = unsafe { modules::function(hmod, name, MODULE) }?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(hfunc, handle(found as u64), "the function") }
        })
    }

    unsafe fn cuModuleGetFunctionCount(&self, count: *mut c_uint, module: CUmodule) -> CUresult {
        self.drive_device(|_, _| {
            let known = modules::code(module, MODULE)?.kernels().len();
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(count, c_uint::try_from(known).unwrap_or(c_uint::MAX), "the count") }
        })
    }

    unsafe fn cuModuleGetGlobal_v2(
        &self,
        dptr: *mut CUdeviceptr,
        bytes: *mut usize,
        hmod: CUmodule,
        name: *const c_char,
    ) -> CUresult {
        // SAFETY: NULL or a C string, and NULL or writable, as the C function requires.
        self.drive_device(|world, device| unsafe { put_global(world, device, (dptr, bytes), hmod, name) })
    }

    unsafe fn cuLibraryLoadData(
        &self,
        library: *mut CUlibrary,
        code: *const c_void,
        _jit_options: *mut CUjit_option,
        _jit_options_values: *mut *mut c_void,
        _num_jit_options: c_uint,
        _library_options: *mut CUlibraryOption,
        _library_option_values: *mut *mut c_void,
        _num_library_options: c_uint,
    ) -> CUresult {
        // SAFETY: handed on unchanged; a library is a module that belongs to no context.
        unsafe { self.cuModuleLoadData(library, code) }
    }

    unsafe fn cuLibraryLoadFromFile(
        &self,
        library: *mut CUlibrary,
        file_name: *const c_char,
        _jit_options: *mut CUjit_option,
        _jit_options_values: *mut *mut c_void,
        _num_jit_options: c_uint,
        _library_options: *mut CUlibraryOption,
        _library_option_values: *mut *mut c_void,
        _num_library_options: c_uint,
    ) -> CUresult {
        // SAFETY: handed on unchanged.
        unsafe { self.cuModuleLoad(library, file_name) }
    }

    unsafe fn cuLibraryUnload(&self, library: CUlibrary) -> CUresult {
        self.drive_device(|world, _| modules::unload(world, library, LIBRARY))
    }

    unsafe fn cuLibraryGetKernel(
        &self,
        kernel: *mut CUkernel,
        library: CUlibrary,
        name: *const c_char,
    ) -> CUresult {
        // SAFETY: handed on unchanged.
        unsafe { self.cuModuleGetFunction(kernel, library, name) }
    }

    unsafe fn cuLibraryGetKernelCount(&self, count: *mut c_uint, lib: CUlibrary) -> CUresult {
        // SAFETY: handed on unchanged.
        unsafe { self.cuModuleGetFunctionCount(count, lib) }
    }

    unsafe fn cuLibraryGetModule(&self, module: *mut CUmodule, library: CUlibrary) -> CUresult {
        self.drive_device(|_, _| {
            modules::code(library, LIBRARY)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(module, library, "the module") }
        })
    }

    unsafe fn cuLibraryGetGlobal(
        &self,
        dptr: *mut CUdeviceptr,
        bytes: *mut usize,
        library: CUlibrary,
        name: *const c_char,
    ) -> CUresult {
        // SAFETY: NULL or a C string, and NULL or writable, as the C function requires.
        self.drive_device(|world, device| unsafe { put_global(world, device, (dptr, bytes), library, name) })
    }

    unsafe fn cuKernelGetFunction(&self, func: *mut CUfunction, kernel: CUkernel) -> CUresult {
        self.drive_device(|_, _| {
            name_of(kernel)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(func, kernel, "the function") }
        })
    }

    unsafe fn cuKernelGetName(&self, name: *mut *const c_char, hfunc: CUkernel) -> CUresult {
        // SAFETY: handed on unchanged.
        unsafe { self.cuFuncGetName(name, hfunc) }
    }

    unsafe fn cuFuncGetModule(&self, hmod: *mut CUmodule, hfunc: CUfunction) -> CUresult {
        self.drive_device(|_, _| {
            name_of(hfunc)?;
            let binary = registry::binary_of(hfunc.addr()).unwrap_or(0);
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(hmod, handle(binary as u64), "the module") }
        })
    }

    unsafe fn cuFuncLoad(&self, function: CUfunction) -> CUresult {
        self.drive_device(|_, _| name_of(function).map(drop))
    }

    unsafe fn cuLaunchKernelEx(
        &self,
        config: *const c_void,
        f: CUfunction,
        kernel_params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> CUresult {
        self.drive_device(|world, device| {
            // SAFETY: NULL or a `CUlaunchConfig`, as the C function requires.
            let config = unsafe { take(config.cast::<LaunchConfig>(), "the launch configuration") }?;
            let [x, y, z] = config.grid;
            let [block_x, block_y, block_z] = config.block;
            let configuration = Configuration {
                grid: dim3 { x, y, z },
                block: dim3 { x: block_x, y: block_y, z: block_z },
                shared_bytes: usize::try_from(config.shared_bytes).unwrap_or(usize::MAX),
                stream: config.stream,
            };
            // SAFETY: as the C function requires.
            let arguments = unsafe { arguments_of(kernel_params, extra) }?;
            drive_launch(world, device, f, &configuration, arguments)
        })
    }

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
            // SAFETY: as the C function requires.
            let arguments = unsafe { arguments_of(kernel_params, extra) }?;
            let configuration = Configuration {
                grid: dim3 { x: grid_x, y: grid_y, z: grid_z },
                block: dim3 { x: block_x, y: block_y, z: block_z },
                shared_bytes: usize::try_from(shared_mem_bytes).unwrap_or(usize::MAX),
                stream: on,
            };
            drive_launch(world, device, f, &configuration, arguments)
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

/// What `CUlaunchConfig` begins with; its attributes say how, not what.
#[repr(C)]
#[derive(Clone, Copy)]
struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: CUstream,
}

/// A launch by the driver, which has no code of its own for dimensions that no device has.
fn drive_launch(
    world: &World,
    device: Ordinal,
    function: CUfunction,
    configuration: &Configuration,
    arguments: Arguments,
) -> Result {
    launch(world, device, function, configuration, arguments).map_err(|mut failure| {
        if failure.code == cudaError_t::cudaErrorInvalidConfiguration {
            failure.code = cudaError_t::cudaErrorInvalidValue;
        }
        failure
    })
}

/// More words than `extra` ever has.
const EXTRA_MAX: usize = 16;

/// The arguments of a launch, in either of the two ways that the driver takes them.
///
/// # Safety
/// `extra` is NULL or a list as `cuLaunchKernel` describes it.
unsafe fn arguments_of(kernel_params: *mut *mut c_void, extra: *mut *mut c_void) -> Result<Arguments> {
    if extra.is_null() {
        return Ok(each(kernel_params));
    }
    let (mut address, mut bytes) = (0, 0);
    for pair in 0..EXTRA_MAX / 2 {
        // SAFETY: the list goes on until its end is found.
        let key = unsafe { extra.wrapping_add(2 * pair).read() };
        if key.is_null() {
            return Ok(Arguments::Packed(address, bytes));
        }
        // SAFETY: behind each key is its value.
        let value = unsafe { extra.wrapping_add(2 * pair + 1).read() };
        match key.addr() {
            // CU_LAUNCH_PARAM_BUFFER_POINTER.
            1 => address = value.expose_provenance(),
            // SAFETY: CU_LAUNCH_PARAM_BUFFER_SIZE has the address of a size.
            2 => bytes = unsafe { take(value.cast_const().cast::<usize>(), "the size of the arguments") }?,
            other => return Err(Failure::invalid(format!("{other} is no key of a launch's extra"))),
        }
    }
    Err(Failure::invalid("the list of a launch's extra has no end"))
}

/// # Safety
/// `name` is NULL or a C string; the others are NULL or writable.
unsafe fn put_global(
    world: &World,
    device: Ordinal,
    (dptr, bytes): (*mut CUdeviceptr, *mut usize),
    module: CUmodule,
    name: *const c_char,
) -> Result {
    // SAFETY: this function's contract.
    let (address, size) = unsafe { modules::global(world, device, module, name, MODULE) }?;
    // SAFETY: this function's contract.
    unsafe { put_if_wanted(dptr, address as CUdeviceptr) };
    // SAFETY: this function's contract.
    unsafe { put_if_wanted(bytes, size) };
    Ok(())
}
