//! Kernels: their registration, and what becomes of a launch. Programs register before `main`, so nothing here that
//! registers asks for the world.

use fakegpu_cuda::{Arguments, Device, Launch, Ordinal, World};
use fakegpu_cuda_abi::runtime::answers::Kernel;
use fakegpu_cuda_abi::types::*;

use crate::failure::{Failure, Result, put, put_if_wanted, take};
use crate::modules;
use crate::registry;
use crate::shim::{Shim, address, handle, stream};
use crate::symbols;
use crate::thread::{self, Configuration};

/// What a library is called where it is none.
const LIBRARY: &str = "library";

/// Registers that a kernel is said to need of each thread: what is asked for, nothing compiled here can tell.
const REGISTERS: c_int = 32;

impl Kernel for Shim {
    unsafe fn __cudaRegisterFatBinary(&self, fat_cubin: *mut c_void) -> *mut *mut c_void {
        // SAFETY: compilers emit the wrapper as a constant of the program's.
        std::ptr::without_provenance_mut(unsafe { registry::register_binary(fat_cubin) })
    }

    unsafe fn __cudaRegisterFatBinaryEnd(&self, _handle: *mut *mut c_void) {}

    unsafe fn __cudaUnregisterFatBinary(&self, handle: *mut *mut c_void) {
        registry::unregister_binary(handle.addr());
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
        unsafe { registry::register_kernel(handle.addr(), host_fun.cast(), device_name) };
    }

    unsafe fn __cudaRegisterVar(
        &self,
        handle: *mut *mut c_void,
        host_var: *mut c_char,
        _device_address: *mut c_char,
        device_name: *const c_char,
        _ext: c_int,
        size: usize,
        _constant: c_int,
        _global: c_int,
    ) {
        // SAFETY: compilers emit the name as a constant of the program's.
        unsafe {
            registry::register_variable(
                handle.addr(),
                host_var.cast_const().cast(),
                device_name,
                size,
                false,
            );
        };
    }

    unsafe fn __cudaRegisterManagedVar(
        &self,
        handle: *mut *mut c_void,
        host_var: *mut *mut c_void,
        _device_address: *mut c_char,
        device_name: *const c_char,
        _ext: c_int,
        size: usize,
        _constant: c_int,
        _global: c_int,
    ) {
        // SAFETY: compilers emit the name as a constant of the program's, and the pointer as a variable.
        unsafe {
            registry::register_variable(handle.addr(), host_var.cast_const().cast(), device_name, size, true);
        };
    }

    unsafe fn __cudaRegisterHostVar(
        &self,
        _handle: *mut *mut c_void,
        _device_name: *const c_char,
        _host_var: *mut c_char,
        _size: usize,
    ) {
    }

    unsafe fn __cudaInitModule(&self, handle: *mut *mut c_void) -> c_char {
        // SAFETY: the variables were registered with this handle.
        let placed = unsafe { symbols::place_managed(handle.addr()) };
        c_char::from(self.give(placed) == cudaError_t::cudaSuccess)
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
        self.on_device(|world, device| launch(world, device, kernel, &configuration, each(args)))
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
        self.on_device(|world, device| launch(world, device, func, &configuration, each(args)))
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
        self.on_device(|world, device| launch(world, device, func, &configuration, each(args)))
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
            launch(world, device, func, &configuration, each(args))
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

    unsafe fn cudaMemcpyToSymbol(
        &self,
        symbol: *const c_void,
        src: *const c_void,
        count: usize,
        offset: usize,
        kind: cudaMemcpyKind,
    ) -> cudaError_t {
        let end = symbols::Host { address: src.expose_provenance(), kind };
        self.on_device(|world, device| {
            let place = symbols::find(world, device, symbol)?;
            // SAFETY: the program's memory, as the C function requires.
            unsafe { symbols::write(world, device, place.part(offset, count)?, end, None) }
        })
    }

    unsafe fn cudaMemcpyFromSymbol(
        &self,
        dst: *mut c_void,
        symbol: *const c_void,
        count: usize,
        offset: usize,
        kind: cudaMemcpyKind,
    ) -> cudaError_t {
        let end = symbols::Host { address: dst.expose_provenance(), kind };
        self.on_device(|world, device| {
            let place = symbols::find(world, device, symbol)?;
            // SAFETY: the program's memory, as the C function requires.
            unsafe { symbols::read(world, device, place.part(offset, count)?, end, None) }
        })
    }

    unsafe fn cudaMemcpyToSymbolAsync(
        &self,
        symbol: *const c_void,
        src: *const c_void,
        count: usize,
        offset: usize,
        kind: cudaMemcpyKind,
        on: cudaStream_t,
    ) -> cudaError_t {
        let end = symbols::Host { address: src.expose_provenance(), kind };
        self.on_device(|world, device| {
            let place = symbols::find(world, device, symbol)?;
            // SAFETY: the program's memory, as the C function requires.
            unsafe { symbols::write(world, device, place.part(offset, count)?, end, Some(stream(on)?)) }
        })
    }

    unsafe fn cudaMemcpyFromSymbolAsync(
        &self,
        dst: *mut c_void,
        symbol: *const c_void,
        count: usize,
        offset: usize,
        kind: cudaMemcpyKind,
        on: cudaStream_t,
    ) -> cudaError_t {
        let end = symbols::Host { address: dst.expose_provenance(), kind };
        self.on_device(|world, device| {
            let place = symbols::find(world, device, symbol)?;
            // SAFETY: the program's memory, as the C function requires.
            unsafe { symbols::read(world, device, place.part(offset, count)?, end, Some(stream(on)?)) }
        })
    }

    unsafe fn cudaGetSymbolAddress(&self, dev_ptr: *mut *mut c_void, symbol: *const c_void) -> cudaError_t {
        self.on_device(|world, device| {
            let place = symbols::find(world, device, symbol)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(dev_ptr, address(place.address), "the address") }
        })
    }

    unsafe fn cudaGetSymbolSize(&self, size: *mut usize, symbol: *const c_void) -> cudaError_t {
        self.on_device(|_, _| {
            let known = symbols::known(symbol)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(size, known.bytes, "the size") }
        })
    }

    unsafe fn cudaLibraryLoadData(
        &self,
        library: *mut cudaLibrary_t,
        code: *const c_void,
        _jit_options: *mut cudaJitOption,
        _jit_options_values: *mut *mut c_void,
        _num_jit_options: c_uint,
        _library_options: *mut cudaLibraryOption,
        _library_option_values: *mut *mut c_void,
        _num_library_options: c_uint,
    ) -> cudaError_t {
        self.on_device(|_, _| {
            // SAFETY: NULL or device code, as the C function requires.
            let made = unsafe { modules::load(code) }?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(library, handle(made as u64), "the library") }
        })
    }

    unsafe fn cudaLibraryLoadFromFile(
        &self,
        library: *mut cudaLibrary_t,
        file_name: *const c_char,
        _jit_options: *mut cudaJitOption,
        _jit_options_values: *mut *mut c_void,
        _num_jit_options: c_uint,
        _library_options: *mut cudaLibraryOption,
        _library_option_values: *mut *mut c_void,
        _num_library_options: c_uint,
    ) -> cudaError_t {
        self.on_device(|_, _| {
            // SAFETY: NULL or a C string, as the C function requires.
            let made = unsafe { modules::load_file(file_name) }?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(library, handle(made as u64), "the library") }
        })
    }

    unsafe fn cudaLibraryUnload(&self, library: cudaLibrary_t) -> cudaError_t {
        self.on_device(|world, _| modules::unload(world, library, LIBRARY))
    }

    unsafe fn cudaLibraryGetKernel(
        &self,
        kernel: *mut cudaKernel_t,
        library: cudaLibrary_t,
        name: *const c_char,
    ) -> cudaError_t {
        self.on_device(|_, _| {
            // SAFETY: NULL or a C string, as the C function requires.
            let found = unsafe { modules::function(library, name, LIBRARY) }?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(kernel, handle(found as u64), "the kernel") }
        })
    }

    unsafe fn cudaLibraryGetGlobal(
        &self,
        dptr: *mut *mut c_void,
        bytes: *mut usize,
        library: cudaLibrary_t,
        name: *const c_char,
    ) -> cudaError_t {
        self.on_device(|world, device| {
            // SAFETY: NULL or a C string, as the C function requires.
            let (found, size) = unsafe { modules::global(world, device, library, name, LIBRARY) }?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put_if_wanted(bytes, size) };
            // SAFETY: as above.
            unsafe { put_if_wanted(dptr, address(found)) };
            Ok(())
        })
    }

    unsafe fn cudaLibraryGetKernelCount(&self, count: *mut c_uint, lib: cudaLibrary_t) -> cudaError_t {
        self.on_device(|_, _| {
            let known = modules::code(lib, LIBRARY)?.kernels().len();
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(count, c_uint::try_from(known).unwrap_or(c_uint::MAX), "the count") }
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

/// The arguments of a launch, by the addresses of each.
pub(crate) fn each(arguments: *mut *mut c_void) -> Arguments {
    Arguments::Each(arguments.expose_provenance())
}

pub(crate) fn launch(
    world: &World,
    device: Ordinal,
    function: *const c_void,
    configuration: &Configuration,
    arguments: Arguments,
) -> Result {
    let name = name_of(function)?;
    let sides = |dim: dim3| [dim.x, dim.y, dim.z];
    let launch = Launch {
        name: &name,
        function: function.addr(),
        grid: sides(configuration.grid),
        block: sides(configuration.block),
        shared_bytes: configuration.shared_bytes,
        arguments,
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
