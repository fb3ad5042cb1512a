//! Kernels: their registration, and what becomes of a launch. Programs register before `main`, so nothing here that
//! registers asks for the world.

use fakegpu_cuda::{Device, Launch, Ordinal, World};
use fakegpu_cuda_abi::runtime::answers::Kernel;
use fakegpu_cuda_abi::types::*;

use crate::failure::{Failure, Result, put, put_if_wanted, take};
use crate::registry;
use crate::shim::{Shim, stream};
use crate::thread::{self, Configuration};

/// Registers that a kernel is said to need of each thread: what is asked for, nothing compiled here can tell.
const REGISTERS: c_int = 32;

impl Kernel for Shim {
    unsafe fn __cudaRegisterFatBinary(&self, _fat_cubin: *mut c_void) -> *mut *mut c_void {
        registry::register_binary()
    }

    unsafe fn __cudaRegisterFatBinaryEnd(&self, _handle: *mut *mut c_void) {}

    unsafe fn __cudaUnregisterFatBinary(&self, handle: *mut *mut c_void) {
        registry::unregister_binary(handle);
    }

    unsafe fn __cudaRegisterFunction(
        &self,
        handle: *mut *mut c_void,
        host_fun: *const c_char,
        _device_fun: *mut c_char,
        device_name: *const c_char,
        _thread_limit: c_int,
        _tid: *mut c_void,
        _bid: *mut c_void,
        _block_dim: *mut dim3,
        _grid_dim: *mut dim3,
        _warp_size: *mut c_int,
    ) {
        // SAFETY: compilers emit the name as a constant of the program's.
        unsafe { registry::register_kernel(handle, host_fun.cast(), device_name) };
    }

    unsafe fn __cudaRegisterVar(
        &self,
        _handle: *mut *mut c_void,
        _host_var: *mut c_char,
        _device_address: *mut c_char,
        _device_name: *const c_char,
        _ext: c_int,
        _size: usize,
        _constant: c_int,
        _global: c_int,
    ) {
    }

    unsafe fn __cudaRegisterManagedVar(
        &self,
        _handle: *mut *mut c_void,
        _host_var: *mut *mut c_void,
        _device_address: *mut c_char,
        _device_name: *const c_char,
        _ext: c_int,
        _size: usize,
        _constant: c_int,
        _global: c_int,
    ) {
    }

    unsafe fn __cudaRegisterHostVar(
        &self,
        _handle: *mut *mut c_void,
        _device_name: *const c_char,
        _host_var: *mut c_char,
        _size: usize,
    ) {
    }

    unsafe fn __cudaInitModule(&self, _handle: *mut *mut c_void) -> c_char {
        1
    }

    unsafe fn __cudaPushCallConfiguration(
        &self,
        grid: dim3,
        block: dim3,
        shared_bytes: usize,
        on: cudaStream_t,
    ) -> c_uint {
        thread::push(Configuration { grid, block, shared_bytes, stream: on });
        0
    }

    unsafe fn __cudaPopCallConfiguration(
        &self,
        grid_dim: *mut dim3,
        block_dim: *mut dim3,
        shared_mem: *mut usize,
        on: *mut c_void,
    ) -> cudaError_t {
        let Some(configuration) = thread::pop() else {
            let failure = Failure::new(
                cudaError_t::cudaErrorMissingConfiguration,
                "a kernel was launched without <<<…>>>, or its configuration was used before",
            );
            return self.give(Err(failure));
        };
        // SAFETY: NULL or writable, as the compiler's code has them; so below.
        unsafe { put_if_wanted(grid_dim, configuration.grid) };
        // SAFETY: as above.
        unsafe { put_if_wanted(block_dim, configuration.block) };
        // SAFETY: as above.
        unsafe { put_if_wanted(shared_mem, configuration.shared_bytes) };
        // SAFETY: as above.
        unsafe { put_if_wanted(on.cast::<cudaStream_t>(), configuration.stream) };
        cudaError_t::cudaSuccess
    }

    unsafe fn __cudaGetKernel(
        &self,
        kernel: *mut cudaKernel_t,
        entry_func_addr: *const c_void,
    ) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.give(unsafe { get_kernel(kernel, entry_func_addr) })
    }

    unsafe fn cudaGetKernel(&self, kernel: *mut cudaKernel_t, entry_func_addr: *const c_void) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.give(unsafe { get_kernel(kernel, entry_func_addr) })
    }

    unsafe fn cudaGetFuncBySymbol(
        &self,
        function_ptr: *mut cudaFunction_t,
        symbol_ptr: *const c_void,
    ) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.give(unsafe { get_kernel(function_ptr, symbol_ptr) })
    }

    unsafe fn __cudaLaunchKernel(
        &self,
        kernel: cudaKernel_t,
        grid_dim: dim3,
        block_dim: dim3,
        args: *mut *mut c_void,
        shared_bytes: usize,
        on: cudaStream_t,
    ) -> cudaError_t {
        let configuration = Configuration { grid: grid_dim, block: block_dim, shared_bytes, stream: on };
        self.on_device(|world, device| launch(world, device, kernel, &configuration, args))
    }

    unsafe fn cudaLaunchKernel(
        &self,
        func: *const c_void,
        grid_dim: dim3,
        block_dim: dim3,
        args: *mut *mut c_void,
        shared_bytes: usize,
        on: cudaStream_t,
    ) -> cudaError_t {
        let configuration = Configuration { grid: grid_dim, block: block_dim, shared_bytes, stream: on };
        self.on_device(|world, device| launch(world, device, func, &configuration, args))
    }

    unsafe fn cudaLaunchCooperativeKernel(
        &self,
        func: *const c_void,
        grid_dim: dim3,
        block_dim: dim3,
        args: *mut *mut c_void,
        shared_bytes: usize,
        on: cudaStream_t,
    ) -> cudaError_t {
        let configuration = Configuration { grid: grid_dim, block: block_dim, shared_bytes, stream: on };
        self.on_device(|world, device| launch(world, device, func, &configuration, args))
    }

    unsafe fn cudaLaunchKernelExC(
        &self,
        config: *const cudaLaunchConfig_t,
        func: *const c_void,
        args: *mut *mut c_void,
    ) -> cudaError_t {
        self.on_device(|world, device| {
            // SAFETY: NULL or readable, as the C function requires.
            let config = unsafe { take(config, "the launch configuration") }?;
            let configuration = Configuration {
                grid: config.gridDim,
                block: config.blockDim,
                shared_bytes: config.dynamicSmemBytes,
                stream: config.stream,
            };
            launch(world, device, func, &configuration, args)
        })
    }

    unsafe fn cudaFuncGetAttributes(
        &self,
        attr: *mut cudaFuncAttributes,
        func: *const c_void,
    ) -> cudaError_t {
        self.on_device(|world, device| {
            name_of(func)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(attr, attributes(world.device(device)?), "the attributes") }
        })
    }

    unsafe fn cudaFuncSetAttribute(
        &self,
        func: *const c_void,
        _attr: cudaFuncAttribute,
        _value: c_int,
    ) -> cudaError_t {
        self.on_device(|_, _| name_of(func).map(drop))
    }

    unsafe fn cudaFuncSetCacheConfig(
        &self,
        func: *const c_void,
        _cache_config: cudaFuncCache,
    ) -> cudaError_t {
        self.on_device(|_, _| name_of(func).map(drop))
    }

    unsafe fn cudaFuncSetSharedMemConfig(
        &self,
        func: *const c_void,
        _config: cudaSharedMemConfig,
    ) -> cudaError_t {
        self.on_device(|_, _| name_of(func).map(drop))
    }

    unsafe fn cudaFuncGetName(&self, name: *mut *const c_char, func: *const c_void) -> cudaError_t {
        self.on_device(|_, _| {
            let found = registry::name_address(func).ok_or_else(|| unknown(func))?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(name, found, "the name") }
        })
    }

    unsafe fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &self,
        num_blocks: *mut c_int,
        func: *const c_void,
        block_size: c_int,
        dynamic_bytes: usize,
    ) -> cudaError_t {
        self.on_device(|world, device| {
            name_of(func)?;
            let found = occupancy(world.device(device)?, block_size, dynamic_bytes)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(num_blocks, found, "the number of blocks") }
        })
    }

    unsafe fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        &self,
        num_blocks: *mut c_int,
        func: *const c_void,
        block_size: c_int,
        dynamic_bytes: usize,
        _flags: c_uint,
    ) -> cudaError_t {
        // SAFETY: handed on unchanged.
        unsafe {
            self.cudaOccupancyMaxActiveBlocksPerMultiprocessor(num_blocks, func, block_size, dynamic_bytes)
        }
    }
}

/// The handle of a kernel is the address of the host's function that stands for it.
///
/// # Safety
/// `kernel` is NULL or writable.
unsafe fn get_kernel(kernel: *mut cudaKernel_t, function: *const c_void) -> Result {
    if !registry::is_kernel(function) {
        return Err(unknown(function));
    }
    // SAFETY: this function's contract.
    unsafe { put(kernel, function.cast_mut(), "the kernel") }
}

fn unknown(function: *const c_void) -> Failure {
    let text = format!("no kernel was registered for the function at {function:p}");
    Failure::new(cudaError_t::cudaErrorInvalidDeviceFunction, text)
}

/// The name of a kernel, which is registered.
pub(crate) fn name_of(function: *const c_void) -> Result<String> {
    registry::kernel(function).ok_or_else(|| unknown(function))
}

pub(crate) fn launch(
    world: &World,
    device: Ordinal,
    function: *const c_void,
    configuration: &Configuration,
    arguments: *mut *mut c_void,
) -> Result {
    let name = name_of(function)?;
    let sides = |dim: dim3| [dim.x, dim.y, dim.z];
    let launch = Launch {
        name: &name,
        grid: sides(configuration.grid),
        block: sides(configuration.block),
        shared_bytes: configuration.shared_bytes,
        arguments: arguments.expose_provenance(),
    };
    Ok(world.launch(device, stream(configuration.stream)?, &launch)?)
}

/// What is said of every kernel, of which only the name is known.
pub(crate) fn attributes(device: &Device) -> cudaFuncAttributes {
    let (major, minor) = device.profile.compute_capability;
    let version = c_int::try_from(major * 10 + minor).unwrap_or(0);
    let optin = device.profile.multiprocessor().shared_optin_bytes;
    cudaFuncAttributes {
        maxThreadsPerBlock: 1024,
        numRegs: REGISTERS,
        ptxVersion: version,
        binaryVersion: version,
        maxDynamicSharedSizeBytes: c_int::try_from(optin).unwrap_or(0),
        preferredShmemCarveout: -1,
        ..cudaFuncAttributes::default()
    }
}

/// How many blocks of a kernel that needs [`REGISTERS`] a thread are on a multiprocessor at once.
pub(crate) fn occupancy(device: &Device, block_size: c_int, dynamic_bytes: usize) -> Result<c_int> {
    let unit = device.profile.multiprocessor();
    let threads = u32::try_from(block_size).ok().filter(|threads| (1..=1024).contains(threads));
    let Some(threads) = threads else {
        return Err(Failure::invalid(format!("no device has blocks of {block_size} threads")));
    };
    let threads = threads.next_multiple_of(32);
    let shared = u32::try_from(dynamic_bytes).unwrap_or(u32::MAX).saturating_add(unit.shared_reserved_bytes);
    let by_threads = unit.threads / threads;
    let by_registers = unit.registers / (threads * REGISTERS.unsigned_abs());
    let by_shared = unit.shared_bytes.checked_div(shared).unwrap_or(u32::MAX);
    let blocks = by_threads.min(by_registers).min(by_shared).min(unit.blocks);
    Ok(c_int::try_from(blocks).unwrap_or(c_int::MAX))
}
