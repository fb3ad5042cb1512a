//! The functions of `libcuda.so.1`.

/// Hands the functions of the CUDA driver to a macro of the caller's, as items.
///
/// Rows stand in sections, `Memory { … }`. A row is
///
/// ```text
/// [3020 as cuName] fn cuName_v2 / cuName_v2_ptsz(argument: type, …) -> type;
/// ```
///
/// where the number is the version of CUDA that brought this form of it, as `cuGetProcAddress` is asked for, and the name
/// behind it the one to ask by, if that is another than the symbol. The twin is for programs whose default stream is the
/// thread's own. Arrays, textures and interoperation with graphics libraries are left out.
///
/// A consumer matches rows with
///
/// ```text
/// $( $section:ident { $(
///     [$since:literal $(as $asked:ident)?]
///     fn $name:ident $(/ $twin:ident)? ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
/// )* } )*
/// ```
///
/// and brings [`types`](crate::types) into scope.
#[macro_export]
macro_rules! driver_table {
    ($each:path) => {
        $each! {
            Library {
                [6000] fn cuGetErrorString(error: CUresult, str: *mut *const c_char) -> CUresult;
                [6000] fn cuGetErrorName(error: CUresult, str: *mut *const c_char) -> CUresult;
                [2000] fn cuInit(flags: c_uint) -> CUresult;
                [2020] fn cuDriverGetVersion(driver_version: *mut c_int) -> CUresult;
                [11030] fn cuGetProcAddress(
                    symbol: *const c_char, pfn: *mut *mut c_void, cuda_version: c_int, flags: u64
                ) -> CUresult;
                [12000 as cuGetProcAddress] fn cuGetProcAddress_v2(
                    symbol: *const c_char, pfn: *mut *mut c_void, cuda_version: c_int, flags: u64,
                    symbol_status: *mut CUdriverProcAddressQueryResult
                ) -> CUresult;
                [3000] fn cuGetExportTable(
                    pp_export_table: *mut *const c_void, export_table_id: *const CUuuid
                ) -> CUresult;
                [12090] fn cuLogsRegisterCallback(
                    callback_func: cudaHostFn_t, user_data: *mut c_void,
                    callback_out: *mut CUlogsCallbackHandle
                ) -> CUresult;
                [12090] fn cuLogsUnregisterCallback(callback: CUlogsCallbackHandle) -> CUresult;
                [12090] fn cuLogsCurrent(iterator_out: *mut c_uint, flags: c_uint) -> CUresult;
                [12090] fn cuLogsDumpToFile(
                    iterator: *mut c_uint, path_to_file: *const c_char, flags: c_uint
                ) -> CUresult;
                [12090] fn cuLogsDumpToMemory(
                    iterator: *mut c_uint, buffer: *mut c_char, size: *mut usize, flags: c_uint
                ) -> CUresult;
            }
            Device {
                [2000] fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> CUresult;
                [2000] fn cuDeviceGetCount(count: *mut c_int) -> CUresult;
                [2000] fn cuDeviceGetName(name: *mut c_char, len: c_int, dev: CUdevice) -> CUresult;
                [9020] fn cuDeviceGetUuid(uuid: *mut CUuuid, dev: CUdevice) -> CUresult;
                [11040 as cuDeviceGetUuid] fn cuDeviceGetUuid_v2(
                    uuid: *mut CUuuid, dev: CUdevice
                ) -> CUresult;
                [10000] fn cuDeviceGetLuid(
                    luid: *mut c_char, device_node_mask: *mut c_uint, dev: CUdevice
                ) -> CUresult;
                [3020 as cuDeviceTotalMem] fn cuDeviceTotalMem_v2(
                    bytes: *mut usize, dev: CUdevice
                ) -> CUresult;
                [2000] fn cuDeviceGetAttribute(
                    pi: *mut c_int, attrib: CUdevice_attribute, dev: CUdevice
                ) -> CUresult;
                [13000] fn cuDeviceGetHostAtomicCapabilities(
                    capabilities: *mut c_uint, operations: *const CUatomicOperation, count: c_uint,
                    dev: CUdevice
                ) -> CUresult;
                [10020] fn cuDeviceGetNvSciSyncAttributes(
                    nv_sci_sync_attr_list: *mut c_void, dev: CUdevice, flags: c_int
                ) -> CUresult;
                [11040] fn cuDeviceGetExecAffinitySupport(
                    pi: *mut c_int, kind: c_int, dev: CUdevice
                ) -> CUresult;
                [11030] fn cuFlushGPUDirectRDMAWrites(
                    target: CUflushGPUDirectRDMAWritesTarget, scope: CUflushGPUDirectRDMAWritesScope
                ) -> CUresult;
                [2000] fn cuDeviceGetProperties(prop: *mut CUdevprop, dev: CUdevice) -> CUresult;
                [2000] fn cuDeviceComputeCapability(
                    major: *mut c_int, minor: *mut c_int, dev: CUdevice
                ) -> CUresult;
                [12040] fn cuDeviceRegisterAsyncNotification(
                    device: CUdevice, callback_func: cudaHostFn_t, user_data: *mut c_void,
                    callback: *mut CUasyncCallbackHandle
                ) -> CUresult;
                [12040] fn cuDeviceUnregisterAsyncNotification(
                    device: CUdevice, callback: CUasyncCallbackHandle
                ) -> CUresult;
                [4010] fn cuDeviceGetByPCIBusId(dev: *mut CUdevice, pci_bus_id: *const c_char) -> CUresult;
                [4010] fn cuDeviceGetPCIBusId(pci_bus_id: *mut c_char, len: c_int, dev: CUdevice) -> CUresult;
            }
            Context {
                [7000] fn cuDevicePrimaryCtxRetain(pctx: *mut CUcontext, dev: CUdevice) -> CUresult;
                [11000 as cuDevicePrimaryCtxRelease] fn cuDevicePrimaryCtxRelease_v2(
                    dev: CUdevice
                ) -> CUresult;
                [11000 as cuDevicePrimaryCtxSetFlags] fn cuDevicePrimaryCtxSetFlags_v2(
                    dev: CUdevice, flags: c_uint
                ) -> CUresult;
                [7000] fn cuDevicePrimaryCtxGetState(
                    dev: CUdevice, flags: *mut c_uint, active: *mut c_int
                ) -> CUresult;
                [11000 as cuDevicePrimaryCtxReset] fn cuDevicePrimaryCtxReset_v2(dev: CUdevice) -> CUresult;
                [3020 as cuCtxCreate] fn cuCtxCreate_v2(
                    pctx: *mut CUcontext, flags: c_uint, dev: CUdevice
                ) -> CUresult;
                [11040 as cuCtxCreate] fn cuCtxCreate_v3(
                    pctx: *mut CUcontext, params_array: *mut c_void, num_params: c_int, flags: c_uint,
                    dev: CUdevice
                ) -> CUresult;
                [12050 as cuCtxCreate] fn cuCtxCreate_v4(
                    pctx: *mut CUcontext, ctx_create_params: *mut c_void, flags: c_uint, dev: CUdevice
                ) -> CUresult;
                [4000 as cuCtxDestroy] fn cuCtxDestroy_v2(ctx: CUcontext) -> CUresult;
                [4000 as cuCtxPushCurrent] fn cuCtxPushCurrent_v2(ctx: CUcontext) -> CUresult;
                [4000 as cuCtxPopCurrent] fn cuCtxPopCurrent_v2(pctx: *mut CUcontext) -> CUresult;
                [4000] fn cuCtxSetCurrent(ctx: CUcontext) -> CUresult;
                [4000] fn cuCtxGetCurrent(pctx: *mut CUcontext) -> CUresult;
                [2000] fn cuCtxGetDevice(device: *mut CUdevice) -> CUresult;
                [13000 as cuCtxGetDevice] fn cuCtxGetDevice_v2(
                    device: *mut CUdevice, ctx: CUcontext
                ) -> CUresult;
                [7000] fn cuCtxGetFlags(flags: *mut c_uint) -> CUresult;
                [12010] fn cuCtxSetFlags(flags: c_uint) -> CUresult;
                [12000] fn cuCtxGetId(ctx: CUcontext, ctx_id: *mut u64) -> CUresult;
                [2000] fn cuCtxSynchronize() -> CUresult;
                [13000 as cuCtxSynchronize] fn cuCtxSynchronize_v2(ctx: CUcontext) -> CUresult;
                [3010] fn cuCtxSetLimit(limit: CUlimit, value: usize) -> CUresult;
                [3010] fn cuCtxGetLimit(pvalue: *mut usize, limit: CUlimit) -> CUresult;
                [3020] fn cuCtxGetCacheConfig(pconfig: *mut CUfunc_cache) -> CUresult;
                [3020] fn cuCtxSetCacheConfig(config: CUfunc_cache) -> CUresult;
                [3020] fn cuCtxGetApiVersion(ctx: CUcontext, version: *mut c_uint) -> CUresult;
                [5050] fn cuCtxGetStreamPriorityRange(
                    least_priority: *mut c_int, greatest_priority: *mut c_int
                ) -> CUresult;
                [11000] fn cuCtxResetPersistingL2Cache() -> CUresult;
                [11040] fn cuCtxGetExecAffinity(exec_affinity: *mut c_void, kind: c_int) -> CUresult;
                [12050] fn cuCtxRecordEvent(h_ctx: CUcontext, h_event: CUevent) -> CUresult;
                [12050] fn cuCtxWaitEvent(h_ctx: CUcontext, h_event: CUevent) -> CUresult;
                [4020] fn cuCtxGetSharedMemConfig(config: *mut CUsharedconfig) -> CUresult;
                [4020] fn cuCtxSetSharedMemConfig(config: CUsharedconfig) -> CUresult;
            }
            Memory {
                [3020 as cuMemGetInfo] fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CUresult;
                [3020 as cuMemAlloc] fn cuMemAlloc_v2(dptr: *mut CUdeviceptr, bytesize: usize) -> CUresult;
                [3020 as cuMemAllocPitch] fn cuMemAllocPitch_v2(
                    dptr: *mut CUdeviceptr, pitch: *mut usize, width_in_bytes: usize, height: usize,
                    element_size_bytes: c_uint
                ) -> CUresult;
                [3020 as cuMemFree] fn cuMemFree_v2(dptr: CUdeviceptr) -> CUresult;
                [3020 as cuMemGetAddressRange] fn cuMemGetAddressRange_v2(
                    pbase: *mut CUdeviceptr, psize: *mut usize, dptr: CUdeviceptr
                ) -> CUresult;
                [3020 as cuMemAllocHost] fn cuMemAllocHost_v2(
                    pp: *mut *mut c_void, bytesize: usize
                ) -> CUresult;
                [2000] fn cuMemFreeHost(p: *mut c_void) -> CUresult;
                [2020] fn cuMemHostAlloc(pp: *mut *mut c_void, bytesize: usize, flags: c_uint) -> CUresult;
                [3020 as cuMemHostGetDevicePointer] fn cuMemHostGetDevicePointer_v2(
                    pdptr: *mut CUdeviceptr, p: *mut c_void, flags: c_uint
                ) -> CUresult;
                [2030] fn cuMemHostGetFlags(flags: *mut c_uint, p: *mut c_void) -> CUresult;
                [6000] fn cuMemAllocManaged(
                    dptr: *mut CUdeviceptr, bytesize: usize, flags: c_uint
                ) -> CUresult;
                [6050 as cuMemHostRegister] fn cuMemHostRegister_v2(
                    p: *mut c_void, bytesize: usize, flags: c_uint
                ) -> CUresult;
                [4000] fn cuMemHostUnregister(p: *mut c_void) -> CUresult;
                [7000] fn cuMemcpy / cuMemcpy_ptds(
                    dst: CUdeviceptr, src: CUdeviceptr, byte_count: usize
                ) -> CUresult;
                [7000 as cuMemcpyHtoD] fn cuMemcpyHtoD_v2 / cuMemcpyHtoD_v2_ptds(
                    dst_device: CUdeviceptr, src_host: *const c_void, byte_count: usize
                ) -> CUresult;
                [7000 as cuMemcpyDtoH] fn cuMemcpyDtoH_v2 / cuMemcpyDtoH_v2_ptds(
                    dst_host: *mut c_void, src_device: CUdeviceptr, byte_count: usize
                ) -> CUresult;
                [7000 as cuMemcpyDtoD] fn cuMemcpyDtoD_v2 / cuMemcpyDtoD_v2_ptds(
                    dst_device: CUdeviceptr, src_device: CUdeviceptr, byte_count: usize
                ) -> CUresult;
                [7000 as cuMemcpy2D] fn cuMemcpy2D_v2 / cuMemcpy2D_v2_ptds(
                    copy: *const CUDA_MEMCPY2D
                ) -> CUresult;
                [7000 as cuMemcpy2DUnaligned] fn cuMemcpy2DUnaligned_v2 / cuMemcpy2DUnaligned_v2_ptds(
                    copy: *const CUDA_MEMCPY2D
                ) -> CUresult;
                [7000 as cuMemcpy3D] fn cuMemcpy3D_v2 / cuMemcpy3D_v2_ptds(
                    copy: *const CUDA_MEMCPY3D
                ) -> CUresult;
                [7000] fn cuMemcpyAsync / cuMemcpyAsync_ptsz(
                    dst: CUdeviceptr, src: CUdeviceptr, byte_count: usize, h_stream: CUstream
                ) -> CUresult;
                [7000 as cuMemcpyHtoDAsync] fn cuMemcpyHtoDAsync_v2 / cuMemcpyHtoDAsync_v2_ptsz(
                    dst_device: CUdeviceptr, src_host: *const c_void, byte_count: usize, h_stream: CUstream
                ) -> CUresult;
                [7000 as cuMemcpyDtoHAsync] fn cuMemcpyDtoHAsync_v2 / cuMemcpyDtoHAsync_v2_ptsz(
                    dst_host: *mut c_void, src_device: CUdeviceptr, byte_count: usize, h_stream: CUstream
                ) -> CUresult;
                [7000 as cuMemcpyDtoDAsync] fn cuMemcpyDtoDAsync_v2 / cuMemcpyDtoDAsync_v2_ptsz(
                    dst_device: CUdeviceptr, src_device: CUdeviceptr, byte_count: usize, h_stream: CUstream
                ) -> CUresult;
                [7000 as cuMemcpy2DAsync] fn cuMemcpy2DAsync_v2 / cuMemcpy2DAsync_v2_ptsz(
                    copy: *const CUDA_MEMCPY2D, h_stream: CUstream
                ) -> CUresult;
                [7000 as cuMemcpy3DAsync] fn cuMemcpy3DAsync_v2 / cuMemcpy3DAsync_v2_ptsz(
                    copy: *const CUDA_MEMCPY3D, h_stream: CUstream
                ) -> CUresult;
                [12080] fn cuMemcpyBatchAsync / cuMemcpyBatchAsync_ptsz(
                    dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize,
                    attrs: *mut c_void, attrs_idxs: *mut usize, num_attrs: usize, fail_idx: *mut usize,
                    h_stream: CUstream
                ) -> CUresult;
                [13000 as cuMemcpyBatchAsync] fn cuMemcpyBatchAsync_v2 / cuMemcpyBatchAsync_v2_ptsz(
                    dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize,
                    attrs: *mut c_void, attrs_idxs: *mut usize, num_attrs: usize, h_stream: CUstream
                ) -> CUresult;
                [12080] fn cuMemcpy3DBatchAsync / cuMemcpy3DBatchAsync_ptsz(
                    num_ops: usize, op_list: *mut c_void, fail_idx: *mut usize, flags: u64, h_stream: CUstream
                ) -> CUresult;
                [13000 as cuMemcpy3DBatchAsync] fn cuMemcpy3DBatchAsync_v2 / cuMemcpy3DBatchAsync_v2_ptsz(
                    num_ops: usize, op_list: *mut c_void, flags: u64, h_stream: CUstream
                ) -> CUresult;
                [13020] fn cuMemcpyWithAttributesAsync / cuMemcpyWithAttributesAsync_ptsz(
                    dst: CUdeviceptr, src: CUdeviceptr, size: usize, attr: *mut c_void, h_stream: CUstream
                ) -> CUresult;
                [13020] fn cuMemcpy3DWithAttributesAsync / cuMemcpy3DWithAttributesAsync_ptsz(
                    op: *mut c_void, flags: u64, h_stream: CUstream
                ) -> CUresult;
                [7000 as cuMemsetD8] fn cuMemsetD8_v2 / cuMemsetD8_v2_ptds(
                    dst_device: CUdeviceptr, uc: u8, n: usize
                ) -> CUresult;
                [7000 as cuMemsetD16] fn cuMemsetD16_v2 / cuMemsetD16_v2_ptds(
                    dst_device: CUdeviceptr, us: u16, n: usize
                ) -> CUresult;
                [7000 as cuMemsetD32] fn cuMemsetD32_v2 / cuMemsetD32_v2_ptds(
                    dst_device: CUdeviceptr, ui: c_uint, n: usize
                ) -> CUresult;
                [7000 as cuMemsetD2D8] fn cuMemsetD2D8_v2 / cuMemsetD2D8_v2_ptds(
                    dst_device: CUdeviceptr, dst_pitch: usize, uc: u8, width: usize, height: usize
                ) -> CUresult;
                [7000 as cuMemsetD2D16] fn cuMemsetD2D16_v2 / cuMemsetD2D16_v2_ptds(
                    dst_device: CUdeviceptr, dst_pitch: usize, us: u16, width: usize, height: usize
                ) -> CUresult;
                [7000 as cuMemsetD2D32] fn cuMemsetD2D32_v2 / cuMemsetD2D32_v2_ptds(
                    dst_device: CUdeviceptr, dst_pitch: usize, ui: c_uint, width: usize, height: usize
                ) -> CUresult;
                [7000] fn cuMemsetD8Async / cuMemsetD8Async_ptsz(
                    dst_device: CUdeviceptr, uc: u8, n: usize, h_stream: CUstream
                ) -> CUresult;
                [7000] fn cuMemsetD16Async / cuMemsetD16Async_ptsz(
                    dst_device: CUdeviceptr, us: u16, n: usize, h_stream: CUstream
                ) -> CUresult;
                [7000] fn cuMemsetD32Async / cuMemsetD32Async_ptsz(
                    dst_device: CUdeviceptr, ui: c_uint, n: usize, h_stream: CUstream
                ) -> CUresult;
                [7000] fn cuMemsetD2D8Async / cuMemsetD2D8Async_ptsz(
                    dst_device: CUdeviceptr, dst_pitch: usize, uc: u8, width: usize, height: usize,
                    h_stream: CUstream
                ) -> CUresult;
                [7000] fn cuMemsetD2D16Async / cuMemsetD2D16Async_ptsz(
                    dst_device: CUdeviceptr, dst_pitch: usize, us: u16, width: usize, height: usize,
                    h_stream: CUstream
                ) -> CUresult;
                [7000] fn cuMemsetD2D32Async / cuMemsetD2D32Async_ptsz(
                    dst_device: CUdeviceptr, dst_pitch: usize, ui: c_uint, width: usize, height: usize,
                    h_stream: CUstream
                ) -> CUresult;
                [12060] fn cuMemBatchDecompressAsync / cuMemBatchDecompressAsync_ptsz(
                    params_array: *mut c_void, count: usize, flags: c_uint, error_index: *mut usize,
                    stream: CUstream
                ) -> CUresult;
                [4000] fn cuPointerGetAttribute(
                    data: *mut c_void, attribute: CUpointer_attribute, ptr: CUdeviceptr
                ) -> CUresult;
                [8000] fn cuMemPrefetchAsync / cuMemPrefetchAsync_ptsz(
                    dev_ptr: CUdeviceptr, count: usize, dst_device: CUdevice, h_stream: CUstream
                ) -> CUresult;
                [12020 as cuMemPrefetchAsync] fn cuMemPrefetchAsync_v2 / cuMemPrefetchAsync_v2_ptsz(
                    dev_ptr: CUdeviceptr, count: usize, location: CUmemLocation, flags: c_uint,
                    h_stream: CUstream
                ) -> CUresult;
                [8000] fn cuMemAdvise(
                    dev_ptr: CUdeviceptr, count: usize, advice: CUmem_advise, device: CUdevice
                ) -> CUresult;
                [12020 as cuMemAdvise] fn cuMemAdvise_v2(
                    dev_ptr: CUdeviceptr, count: usize, advice: CUmem_advise, location: CUmemLocation
                ) -> CUresult;
                [13000] fn cuMemPrefetchBatchAsync / cuMemPrefetchBatchAsync_ptsz(
                    dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize,
                    prefetch_locs: *mut CUmemLocation, prefetch_loc_idxs: *mut usize,
                    num_prefetch_locs: usize, flags: u64, h_stream: CUstream
                ) -> CUresult;
                [13000] fn cuMemDiscardBatchAsync / cuMemDiscardBatchAsync_ptsz(
                    dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, flags: u64, h_stream: CUstream
                ) -> CUresult;
                [13000] fn cuMemDiscardAndPrefetchBatchAsync / cuMemDiscardAndPrefetchBatchAsync_ptsz(
                    dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize,
                    prefetch_locs: *mut CUmemLocation, prefetch_loc_idxs: *mut usize,
                    num_prefetch_locs: usize, flags: u64, h_stream: CUstream
                ) -> CUresult;
                [8000] fn cuMemRangeGetAttribute(
                    data: *mut c_void, data_size: usize, attribute: CUmem_range_attribute,
                    dev_ptr: CUdeviceptr, count: usize
                ) -> CUresult;
                [8000] fn cuMemRangeGetAttributes(
                    data: *mut *mut c_void, data_sizes: *mut usize, attributes: *mut CUmem_range_attribute,
                    num_attributes: usize, dev_ptr: CUdeviceptr, count: usize
                ) -> CUresult;
                [6000] fn cuPointerSetAttribute(
                    value: *const c_void, attribute: CUpointer_attribute, ptr: CUdeviceptr
                ) -> CUresult;
                [7000] fn cuPointerGetAttributes(
                    num_attributes: c_uint, attributes: *mut CUpointer_attribute, data: *mut *mut c_void,
                    ptr: CUdeviceptr
                ) -> CUresult;
            }
            VirtualMemory {
                [11070] fn cuMemGetHandleForAddressRange(
                    handle: *mut c_void, dptr: CUdeviceptr, size: usize, handle_type: CUmemRangeHandleType,
                    flags: u64
                ) -> CUresult;
                [10020] fn cuMemAddressReserve(
                    ptr: *mut CUdeviceptr, size: usize, alignment: usize, addr: CUdeviceptr, flags: u64
                ) -> CUresult;
                [10020] fn cuMemAddressFree(ptr: CUdeviceptr, size: usize) -> CUresult;
                [10020] fn cuMemCreate(
                    handle: *mut u64, size: usize, prop: *const CUmemAllocationProp, flags: u64
                ) -> CUresult;
                [10020] fn cuMemRelease(handle: u64) -> CUresult;
                [10020] fn cuMemMap(
                    ptr: CUdeviceptr, size: usize, offset: usize, handle: u64, flags: u64
                ) -> CUresult;
                [10020] fn cuMemUnmap(ptr: CUdeviceptr, size: usize) -> CUresult;
                [10020] fn cuMemSetAccess(
                    ptr: CUdeviceptr, size: usize, desc: *const CUmemAccessDesc, count: usize
                ) -> CUresult;
                [10020] fn cuMemGetAccess(
                    flags: *mut u64, location: *const CUmemLocation, ptr: CUdeviceptr
                ) -> CUresult;
                [10020] fn cuMemExportToShareableHandle(
                    shareable_handle: *mut c_void, handle: u64, handle_type: c_int, flags: u64
                ) -> CUresult;
                [10020] fn cuMemImportFromShareableHandle(
                    handle: *mut u64, os_handle: *mut c_void, sh_handle_type: c_int
                ) -> CUresult;
                [10020] fn cuMemGetAllocationGranularity(
                    granularity: *mut usize, prop: *const CUmemAllocationProp,
                    option: CUmemAllocationGranularity_flags
                ) -> CUresult;
                [10020] fn cuMemGetAllocationPropertiesFromHandle(
                    prop: *mut CUmemAllocationProp, handle: u64
                ) -> CUresult;
                [11000] fn cuMemRetainAllocationHandle(handle: *mut u64, addr: *mut c_void) -> CUresult;
                [12010] fn cuMulticastCreate(mc_handle: *mut u64, prop: *const c_void) -> CUresult;
                [12010] fn cuMulticastAddDevice(mc_handle: u64, dev: CUdevice) -> CUresult;
                [12010] fn cuMulticastBindMem(
                    mc_handle: u64, mc_offset: usize, mem_handle: u64, mem_offset: usize, size: usize,
                    flags: u64
                ) -> CUresult;
                [13010 as cuMulticastBindMem] fn cuMulticastBindMem_v2(
                    mc_handle: u64, dev: CUdevice, mc_offset: usize, mem_handle: u64, mem_offset: usize,
                    size: usize, flags: u64
                ) -> CUresult;
                [12010] fn cuMulticastBindAddr(
                    mc_handle: u64, mc_offset: usize, memptr: CUdeviceptr, size: usize, flags: u64
                ) -> CUresult;
                [13010 as cuMulticastBindAddr] fn cuMulticastBindAddr_v2(
                    mc_handle: u64, dev: CUdevice, mc_offset: usize, memptr: CUdeviceptr, size: usize,
                    flags: u64
                ) -> CUresult;
                [12010] fn cuMulticastUnbind(
                    mc_handle: u64, dev: CUdevice, mc_offset: usize, size: usize
                ) -> CUresult;
                [12010] fn cuMulticastGetGranularity(
                    granularity: *mut usize, prop: *const c_void, option: CUmulticastGranularity_flags
                ) -> CUresult;
            }
            Pool {
                [11020] fn cuDeviceSetMemPool(dev: CUdevice, pool: CUmemoryPool) -> CUresult;
                [11020] fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, dev: CUdevice) -> CUresult;
                [11020] fn cuDeviceGetDefaultMemPool(pool_out: *mut CUmemoryPool, dev: CUdevice) -> CUresult;
                [11020] fn cuMemFreeAsync / cuMemFreeAsync_ptsz(
                    dptr: CUdeviceptr, h_stream: CUstream
                ) -> CUresult;
                [11020] fn cuMemAllocAsync / cuMemAllocAsync_ptsz(
                    dptr: *mut CUdeviceptr, bytesize: usize, h_stream: CUstream
                ) -> CUresult;
                [11020] fn cuMemPoolTrimTo(pool: CUmemoryPool, min_bytes_to_keep: usize) -> CUresult;
                [11020] fn cuMemPoolSetAttribute(
                    pool: CUmemoryPool, attr: CUmemPool_attribute, value: *mut c_void
                ) -> CUresult;
                [11020] fn cuMemPoolGetAttribute(
                    pool: CUmemoryPool, attr: CUmemPool_attribute, value: *mut c_void
                ) -> CUresult;
                [11020] fn cuMemPoolSetAccess(
                    pool: CUmemoryPool, map: *const CUmemAccessDesc, count: usize
                ) -> CUresult;
                [11020] fn cuMemPoolGetAccess(
                    flags: *mut CUmemAccess_flags, mem_pool: CUmemoryPool, location: *mut CUmemLocation
                ) -> CUresult;
                [11020] fn cuMemPoolCreate(
                    pool: *mut CUmemoryPool, pool_props: *const CUmemPoolProps
                ) -> CUresult;
                [11020] fn cuMemPoolDestroy(pool: CUmemoryPool) -> CUresult;
                [13000] fn cuMemGetDefaultMemPool(
                    pool_out: *mut CUmemoryPool, location: *mut CUmemLocation, kind: CUmemAllocationType
                ) -> CUresult;
                [13000] fn cuMemGetMemPool(
                    pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: CUmemAllocationType
                ) -> CUresult;
                [13000] fn cuMemSetMemPool(
                    location: *mut CUmemLocation, kind: CUmemAllocationType, pool: CUmemoryPool
                ) -> CUresult;
                [11020] fn cuMemAllocFromPoolAsync / cuMemAllocFromPoolAsync_ptsz(
                    dptr: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool, h_stream: CUstream
                ) -> CUresult;
                [11020] fn cuMemPoolExportToShareableHandle(
                    handle_out: *mut c_void, pool: CUmemoryPool, handle_type: c_int, flags: u64
                ) -> CUresult;
                [11020] fn cuMemPoolImportFromShareableHandle(
                    pool_out: *mut CUmemoryPool, handle: *mut c_void, handle_type: c_int, flags: u64
                ) -> CUresult;
                [11020] fn cuMemPoolExportPointer(share_data_out: *mut c_void, ptr: CUdeviceptr) -> CUresult;
                [11020] fn cuMemPoolImportPointer(
                    ptr_out: *mut CUdeviceptr, pool: CUmemoryPool, share_data: *mut c_void
                ) -> CUresult;
            }
            Peer {
                [7000] fn cuMemcpyPeer / cuMemcpyPeer_ptds(
                    dst_device: CUdeviceptr, dst_context: CUcontext, src_device: CUdeviceptr,
                    src_context: CUcontext, byte_count: usize
                ) -> CUresult;
                [7000] fn cuMemcpy3DPeer / cuMemcpy3DPeer_ptds(copy: *const c_void) -> CUresult;
                [7000] fn cuMemcpyPeerAsync / cuMemcpyPeerAsync_ptsz(
                    dst_device: CUdeviceptr, dst_context: CUcontext, src_device: CUdeviceptr,
                    src_context: CUcontext, byte_count: usize, h_stream: CUstream
                ) -> CUresult;
                [7000] fn cuMemcpy3DPeerAsync / cuMemcpy3DPeerAsync_ptsz(
                    copy: *const c_void, h_stream: CUstream
                ) -> CUresult;
                [4000] fn cuDeviceCanAccessPeer(
                    can_access_peer: *mut c_int, dev: CUdevice, peer_dev: CUdevice
                ) -> CUresult;
                [4000] fn cuCtxEnablePeerAccess(peer_context: CUcontext, flags: c_uint) -> CUresult;
                [4000] fn cuCtxDisablePeerAccess(peer_context: CUcontext) -> CUresult;
                [8000] fn cuDeviceGetP2PAttribute(
                    value: *mut c_int, attrib: CUdevice_P2PAttribute, src_device: CUdevice,
                    dst_device: CUdevice
                ) -> CUresult;
                [13000] fn cuDeviceGetP2PAtomicCapabilities(
                    capabilities: *mut c_uint, operations: *const CUatomicOperation, count: c_uint,
                    src_device: CUdevice, dst_device: CUdevice
                ) -> CUresult;
            }
            Ipc {
                [4010] fn cuIpcGetEventHandle(handle: *mut CUipcEventHandle, event: CUevent) -> CUresult;
                [4010] fn cuIpcOpenEventHandle(ph_event: *mut CUevent, handle: CUipcEventHandle) -> CUresult;
                [4010] fn cuIpcGetMemHandle(handle: *mut CUipcMemHandle, dptr: CUdeviceptr) -> CUresult;
                [11000 as cuIpcOpenMemHandle] fn cuIpcOpenMemHandle_v2(
                    pdptr: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint
                ) -> CUresult;
                [4010] fn cuIpcCloseMemHandle(dptr: CUdeviceptr) -> CUresult;
            }
            Stream {
                [2000] fn cuStreamCreate(ph_stream: *mut CUstream, flags: c_uint) -> CUresult;
                [5050] fn cuStreamCreateWithPriority(
                    ph_stream: *mut CUstream, flags: c_uint, priority: c_int
                ) -> CUresult;
                [13010] fn cuStreamBeginCaptureToCig / cuStreamBeginCaptureToCig_ptsz(
                    h_stream: CUstream, stream_cig_capture_params: *mut c_void
                ) -> CUresult;
                [13010] fn cuStreamEndCaptureToCig / cuStreamEndCaptureToCig_ptsz(
                    h_stream: CUstream
                ) -> CUresult;
                [7000] fn cuStreamGetPriority / cuStreamGetPriority_ptsz(
                    h_stream: CUstream, priority: *mut c_int
                ) -> CUresult;
                [12080] fn cuStreamGetDevice / cuStreamGetDevice_ptsz(
                    h_stream: CUstream, device: *mut CUdevice
                ) -> CUresult;
                [7000] fn cuStreamGetFlags / cuStreamGetFlags_ptsz(
                    h_stream: CUstream, flags: *mut c_uint
                ) -> CUresult;
                [12000] fn cuStreamGetId / cuStreamGetId_ptsz(
                    h_stream: CUstream, stream_id: *mut u64
                ) -> CUresult;
                [9020] fn cuStreamGetCtx / cuStreamGetCtx_ptsz(
                    h_stream: CUstream, pctx: *mut CUcontext
                ) -> CUresult;
                [12050 as cuStreamGetCtx] fn cuStreamGetCtx_v2 / cuStreamGetCtx_v2_ptsz(
                    h_stream: CUstream, ctx: *mut CUcontext, green_ctx: *mut CUgreenCtx
                ) -> CUresult;
                [7000] fn cuStreamWaitEvent / cuStreamWaitEvent_ptsz(
                    h_stream: CUstream, h_event: CUevent, flags: c_uint
                ) -> CUresult;
                [7000] fn cuStreamAddCallback / cuStreamAddCallback_ptsz(
                    h_stream: CUstream, callback: CUstreamCallback, user_data: *mut c_void, flags: c_uint
                ) -> CUresult;
                [10010 as cuStreamBeginCapture] fn cuStreamBeginCapture_v2 / cuStreamBeginCapture_v2_ptsz(
                    h_stream: CUstream, mode: CUstreamCaptureMode
                ) -> CUresult;
                [12030] fn cuStreamBeginCaptureToGraph / cuStreamBeginCaptureToGraph_ptsz(
                    h_stream: CUstream, h_graph: CUgraph, dependencies: *const CUgraphNode,
                    dependency_data: *const c_void, num_dependencies: usize, mode: CUstreamCaptureMode
                ) -> CUresult;
                [10010] fn cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode) -> CUresult;
                [10000] fn cuStreamEndCapture / cuStreamEndCapture_ptsz(
                    h_stream: CUstream, ph_graph: *mut CUgraph
                ) -> CUresult;
                [10000] fn cuStreamIsCapturing / cuStreamIsCapturing_ptsz(
                    h_stream: CUstream, capture_status: *mut CUstreamCaptureStatus
                ) -> CUresult;
                [11030 as cuStreamGetCaptureInfo]
                fn cuStreamGetCaptureInfo_v2 / cuStreamGetCaptureInfo_v2_ptsz(
                    h_stream: CUstream, capture_status_out: *mut CUstreamCaptureStatus, id_out: *mut u64,
                    graph_out: *mut CUgraph, dependencies_out: *mut *const CUgraphNode,
                    num_dependencies_out: *mut usize
                ) -> CUresult;
                [12030 as cuStreamGetCaptureInfo]
                fn cuStreamGetCaptureInfo_v3 / cuStreamGetCaptureInfo_v3_ptsz(
                    h_stream: CUstream, capture_status_out: *mut CUstreamCaptureStatus, id_out: *mut u64,
                    graph_out: *mut CUgraph, dependencies_out: *mut *const CUgraphNode,
                    edge_data_out: *mut *const c_void, num_dependencies_out: *mut usize
                ) -> CUresult;
                [11030] fn cuStreamUpdateCaptureDependencies / cuStreamUpdateCaptureDependencies_ptsz(
                    h_stream: CUstream, dependencies: *mut CUgraphNode, num_dependencies: usize, flags: c_uint
                ) -> CUresult;
                [12030 as cuStreamUpdateCaptureDependencies]
                fn cuStreamUpdateCaptureDependencies_v2 / cuStreamUpdateCaptureDependencies_v2_ptsz(
                    h_stream: CUstream, dependencies: *mut CUgraphNode, dependency_data: *const c_void,
                    num_dependencies: usize, flags: c_uint
                ) -> CUresult;
                [7000] fn cuStreamAttachMemAsync / cuStreamAttachMemAsync_ptsz(
                    h_stream: CUstream, dptr: CUdeviceptr, length: usize, flags: c_uint
                ) -> CUresult;
                [7000] fn cuStreamQuery / cuStreamQuery_ptsz(h_stream: CUstream) -> CUresult;
                [7000] fn cuStreamSynchronize / cuStreamSynchronize_ptsz(h_stream: CUstream) -> CUresult;
                [4000 as cuStreamDestroy] fn cuStreamDestroy_v2(h_stream: CUstream) -> CUresult;
                [11000] fn cuStreamCopyAttributes / cuStreamCopyAttributes_ptsz(
                    dst: CUstream, src: CUstream
                ) -> CUresult;
                [11000] fn cuStreamGetAttribute / cuStreamGetAttribute_ptsz(
                    h_stream: CUstream, attr: c_int, value_out: *mut c_void
                ) -> CUresult;
                [11000] fn cuStreamSetAttribute / cuStreamSetAttribute_ptsz(
                    h_stream: CUstream, attr: c_int, value: *const c_void
                ) -> CUresult;
                [11070 as cuStreamWaitValue32] fn cuStreamWaitValue32_v2 / cuStreamWaitValue32_v2_ptsz(
                    stream: CUstream, addr: CUdeviceptr, value: u32, flags: c_uint
                ) -> CUresult;
                [11070 as cuStreamWaitValue64] fn cuStreamWaitValue64_v2 / cuStreamWaitValue64_v2_ptsz(
                    stream: CUstream, addr: CUdeviceptr, value: u64, flags: c_uint
                ) -> CUresult;
                [11070 as cuStreamWriteValue32] fn cuStreamWriteValue32_v2 / cuStreamWriteValue32_v2_ptsz(
                    stream: CUstream, addr: CUdeviceptr, value: u32, flags: c_uint
                ) -> CUresult;
                [11070 as cuStreamWriteValue64] fn cuStreamWriteValue64_v2 / cuStreamWriteValue64_v2_ptsz(
                    stream: CUstream, addr: CUdeviceptr, value: u64, flags: c_uint
                ) -> CUresult;
                [11070 as cuStreamBatchMemOp] fn cuStreamBatchMemOp_v2 / cuStreamBatchMemOp_v2_ptsz(
                    stream: CUstream, count: c_uint, param_array: *mut c_void, flags: c_uint
                ) -> CUresult;
                [10000] fn cuLaunchHostFunc / cuLaunchHostFunc_ptsz(
                    h_stream: CUstream, function: cudaHostFn_t, user_data: *mut c_void
                ) -> CUresult;
                [13010 as cuLaunchHostFunc] fn cuLaunchHostFunc_v2 / cuLaunchHostFunc_v2_ptsz(
                    h_stream: CUstream, function: cudaHostFn_t, user_data: *mut c_void, sync_mode: c_uint
                ) -> CUresult;
            }
            Event {
                [2000] fn cuEventCreate(ph_event: *mut CUevent, flags: c_uint) -> CUresult;
                [7000] fn cuEventRecord / cuEventRecord_ptsz(
                    h_event: CUevent, h_stream: CUstream
                ) -> CUresult;
                [11010] fn cuEventRecordWithFlags / cuEventRecordWithFlags_ptsz(
                    h_event: CUevent, h_stream: CUstream, flags: c_uint
                ) -> CUresult;
                [2000] fn cuEventQuery(h_event: CUevent) -> CUresult;
                [2000] fn cuEventSynchronize(h_event: CUevent) -> CUresult;
                [4000 as cuEventDestroy] fn cuEventDestroy_v2(h_event: CUevent) -> CUresult;
                [2000] fn cuEventElapsedTime(
                    milliseconds: *mut f32, h_start: CUevent, h_end: CUevent
                ) -> CUresult;
                [12080 as cuEventElapsedTime] fn cuEventElapsedTime_v2(
                    milliseconds: *mut f32, h_start: CUevent, h_end: CUevent
                ) -> CUresult;
            }
            Graph {
                [10000] fn cuGraphCreate(ph_graph: *mut CUgraph, flags: c_uint) -> CUresult;
                [12000 as cuGraphAddKernelNode] fn cuGraphAddKernelNode_v2(
                    ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                    num_dependencies: usize, node_params: *const c_void
                ) -> CUresult;
                [12000 as cuGraphKernelNodeGetParams] fn cuGraphKernelNodeGetParams_v2(
                    h_node: CUgraphNode, node_params: *mut c_void
                ) -> CUresult;
                [12000 as cuGraphKernelNodeSetParams] fn cuGraphKernelNodeSetParams_v2(
                    h_node: CUgraphNode, node_params: *const c_void
                ) -> CUresult;
                [10000] fn cuGraphAddMemcpyNode(
                    ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                    num_dependencies: usize, copy_params: *const CUDA_MEMCPY3D, ctx: CUcontext
                ) -> CUresult;
                [10000] fn cuGraphMemcpyNodeGetParams(
                    h_node: CUgraphNode, node_params: *mut CUDA_MEMCPY3D
                ) -> CUresult;
                [10000] fn cuGraphMemcpyNodeSetParams(
                    h_node: CUgraphNode, node_params: *const CUDA_MEMCPY3D
                ) -> CUresult;
                [10000] fn cuGraphAddMemsetNode(
                    ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                    num_dependencies: usize, memset_params: *const c_void, ctx: CUcontext
                ) -> CUresult;
                [10000] fn cuGraphMemsetNodeGetParams(
                    h_node: CUgraphNode, node_params: *mut c_void
                ) -> CUresult;
                [10000] fn cuGraphMemsetNodeSetParams(
                    h_node: CUgraphNode, node_params: *const c_void
                ) -> CUresult;
                [10000] fn cuGraphAddHostNode(
                    ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                    num_dependencies: usize, node_params: *const c_void
                ) -> CUresult;
                [10000] fn cuGraphHostNodeGetParams(
                    h_node: CUgraphNode, node_params: *mut c_void
                ) -> CUresult;
                [10000] fn cuGraphHostNodeSetParams(
                    h_node: CUgraphNode, node_params: *const c_void
                ) -> CUresult;
                [10000] fn cuGraphAddChildGraphNode(
                    ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                    num_dependencies: usize, child_graph: CUgraph
                ) -> CUresult;
                [10000] fn cuGraphChildGraphNodeGetGraph(
                    h_node: CUgraphNode, ph_graph: *mut CUgraph
                ) -> CUresult;
                [10000] fn cuGraphAddEmptyNode(
                    ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                    num_dependencies: usize
                ) -> CUresult;
                [11010] fn cuGraphAddEventRecordNode(
                    ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                    num_dependencies: usize, event: CUevent
                ) -> CUresult;
                [11010] fn cuGraphEventRecordNodeGetEvent(
                    h_node: CUgraphNode, event_out: *mut CUevent
                ) -> CUresult;
                [11010] fn cuGraphEventRecordNodeSetEvent(h_node: CUgraphNode, event: CUevent) -> CUresult;
                [11010] fn cuGraphAddEventWaitNode(
                    ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                    num_dependencies: usize, event: CUevent
                ) -> CUresult;
                [11010] fn cuGraphEventWaitNodeGetEvent(
                    h_node: CUgraphNode, event_out: *mut CUevent
                ) -> CUresult;
                [11010] fn cuGraphEventWaitNodeSetEvent(h_node: CUgraphNode, event: CUevent) -> CUresult;
                [11020] fn cuGraphAddExternalSemaphoresSignalNode(
                    ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                    num_dependencies: usize, node_params: *const c_void
                ) -> CUresult;
                [11020] fn cuGraphExternalSemaphoresSignalNodeGetParams(
                    h_node: CUgraphNode, params_out: *mut c_void
                ) -> CUresult;
                [11020] fn cuGraphExternalSemaphoresSignalNodeSetParams(
                    h_node: CUgraphNode, node_params: *const c_void
                ) -> CUresult;
                [11020] fn cuGraphAddExternalSemaphoresWaitNode(
                    ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                    num_dependencies: usize, node_params: *const c_void
                ) -> CUresult;
                [11020] fn cuGraphExternalSemaphoresWaitNodeGetParams(
                    h_node: CUgraphNode, params_out: *mut c_void
                ) -> CUresult;
                [11020] fn cuGraphExternalSemaphoresWaitNodeSetParams(
                    h_node: CUgraphNode, node_params: *const c_void
                ) -> CUresult;
                [11070] fn cuGraphAddBatchMemOpNode(
                    ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                    num_dependencies: usize, node_params: *const c_void
                ) -> CUresult;
                [11070] fn cuGraphBatchMemOpNodeGetParams(
                    h_node: CUgraphNode, node_params_out: *mut c_void
                ) -> CUresult;
                [11070] fn cuGraphBatchMemOpNodeSetParams(
                    h_node: CUgraphNode, node_params: *const c_void
                ) -> CUresult;
                [11070] fn cuGraphExecBatchMemOpNodeSetParams(
                    h_graph_exec: CUgraphExec, h_node: CUgraphNode, node_params: *const c_void
                ) -> CUresult;
                [11040] fn cuGraphAddMemAllocNode(
                    ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                    num_dependencies: usize, node_params: *mut c_void
                ) -> CUresult;
                [11040] fn cuGraphMemAllocNodeGetParams(
                    h_node: CUgraphNode, params_out: *mut c_void
                ) -> CUresult;
                [11040] fn cuGraphAddMemFreeNode(
                    ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                    num_dependencies: usize, dptr: CUdeviceptr
                ) -> CUresult;
                [11040] fn cuGraphMemFreeNodeGetParams(
                    h_node: CUgraphNode, dptr_out: *mut CUdeviceptr
                ) -> CUresult;
                [11040] fn cuDeviceGraphMemTrim(device: CUdevice) -> CUresult;
                [11040] fn cuDeviceGetGraphMemAttribute(
                    device: CUdevice, attr: CUgraphMem_attribute, value: *mut c_void
                ) -> CUresult;
                [11040] fn cuDeviceSetGraphMemAttribute(
                    device: CUdevice, attr: CUgraphMem_attribute, value: *mut c_void
                ) -> CUresult;
                [10000] fn cuGraphClone(ph_graph_clone: *mut CUgraph, original_graph: CUgraph) -> CUresult;
                [10000] fn cuGraphNodeFindInClone(
                    ph_node: *mut CUgraphNode, h_original_node: CUgraphNode, h_cloned_graph: CUgraph
                ) -> CUresult;
                [10000] fn cuGraphNodeGetType(h_node: CUgraphNode, kind: *mut CUgraphNodeType) -> CUresult;
                [13010] fn cuGraphNodeGetContainingGraph(
                    h_node: CUgraphNode, ph_graph: *mut CUgraph
                ) -> CUresult;
                [13010] fn cuGraphNodeGetLocalId(h_node: CUgraphNode, node_id: *mut c_uint) -> CUresult;
                [13010] fn cuGraphNodeGetToolsId(h_node: CUgraphNode, tools_node_id: *mut u64) -> CUresult;
                [13010] fn cuGraphGetId(h_graph: CUgraph, graph_id: *mut c_uint) -> CUresult;
                [13010] fn cuGraphExecGetId(h_graph_exec: CUgraphExec, graph_id: *mut c_uint) -> CUresult;
                [10000] fn cuGraphGetNodes(
                    h_graph: CUgraph, nodes: *mut CUgraphNode, num_nodes: *mut usize
                ) -> CUresult;
                [10000] fn cuGraphGetRootNodes(
                    h_graph: CUgraph, root_nodes: *mut CUgraphNode, num_root_nodes: *mut usize
                ) -> CUresult;
                [10000] fn cuGraphGetEdges(
                    h_graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, num_edges: *mut usize
                ) -> CUresult;
                [12030 as cuGraphGetEdges] fn cuGraphGetEdges_v2(
                    h_graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, edge_data: *mut c_void,
                    num_edges: *mut usize
                ) -> CUresult;
                [10000] fn cuGraphNodeGetDependencies(
                    h_node: CUgraphNode, dependencies: *mut CUgraphNode, num_dependencies: *mut usize
                ) -> CUresult;
                [12030 as cuGraphNodeGetDependencies] fn cuGraphNodeGetDependencies_v2(
                    h_node: CUgraphNode, dependencies: *mut CUgraphNode, edge_data: *mut c_void,
                    num_dependencies: *mut usize
                ) -> CUresult;
                [10000] fn cuGraphNodeGetDependentNodes(
                    h_node: CUgraphNode, dependent_nodes: *mut CUgraphNode, num_dependent_nodes: *mut usize
                ) -> CUresult;
                [12030 as cuGraphNodeGetDependentNodes] fn cuGraphNodeGetDependentNodes_v2(
                    h_node: CUgraphNode, dependent_nodes: *mut CUgraphNode, edge_data: *mut c_void,
                    num_dependent_nodes: *mut usize
                ) -> CUresult;
                [10000] fn cuGraphAddDependencies(
                    h_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
                    num_dependencies: usize
                ) -> CUresult;
                [12030 as cuGraphAddDependencies] fn cuGraphAddDependencies_v2(
                    h_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
                    edge_data: *const c_void, num_dependencies: usize
                ) -> CUresult;
                [10000] fn cuGraphRemoveDependencies(
                    h_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
                    num_dependencies: usize
                ) -> CUresult;
                [12030 as cuGraphRemoveDependencies] fn cuGraphRemoveDependencies_v2(
                    h_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
                    edge_data: *const c_void, num_dependencies: usize
                ) -> CUresult;
                [10000] fn cuGraphDestroyNode(h_node: CUgraphNode) -> CUresult;
                [11040] fn cuGraphInstantiateWithFlags(
                    ph_graph_exec: *mut CUgraphExec, h_graph: CUgraph, flags: u64
                ) -> CUresult;
                [12000] fn cuGraphInstantiateWithParams / cuGraphInstantiateWithParams_ptsz(
                    ph_graph_exec: *mut CUgraphExec, h_graph: CUgraph, instantiate_params: *mut c_void
                ) -> CUresult;
                [12000] fn cuGraphExecGetFlags(h_graph_exec: CUgraphExec, flags: *mut u64) -> CUresult;
                [12000 as cuGraphExecKernelNodeSetParams] fn cuGraphExecKernelNodeSetParams_v2(
                    h_graph_exec: CUgraphExec, h_node: CUgraphNode, node_params: *const c_void
                ) -> CUresult;
                [10020] fn cuGraphExecMemcpyNodeSetParams(
                    h_graph_exec: CUgraphExec, h_node: CUgraphNode, copy_params: *const CUDA_MEMCPY3D,
                    ctx: CUcontext
                ) -> CUresult;
                [10020] fn cuGraphExecMemsetNodeSetParams(
                    h_graph_exec: CUgraphExec, h_node: CUgraphNode, memset_params: *const c_void,
                    ctx: CUcontext
                ) -> CUresult;
                [10020] fn cuGraphExecHostNodeSetParams(
                    h_graph_exec: CUgraphExec, h_node: CUgraphNode, node_params: *const c_void
                ) -> CUresult;
                [11010] fn cuGraphExecChildGraphNodeSetParams(
                    h_graph_exec: CUgraphExec, h_node: CUgraphNode, child_graph: CUgraph
                ) -> CUresult;
                [11010] fn cuGraphExecEventRecordNodeSetEvent(
                    h_graph_exec: CUgraphExec, h_node: CUgraphNode, event: CUevent
                ) -> CUresult;
                [11010] fn cuGraphExecEventWaitNodeSetEvent(
                    h_graph_exec: CUgraphExec, h_node: CUgraphNode, event: CUevent
                ) -> CUresult;
                [11020] fn cuGraphExecExternalSemaphoresSignalNodeSetParams(
                    h_graph_exec: CUgraphExec, h_node: CUgraphNode, node_params: *const c_void
                ) -> CUresult;
                [11020] fn cuGraphExecExternalSemaphoresWaitNodeSetParams(
                    h_graph_exec: CUgraphExec, h_node: CUgraphNode, node_params: *const c_void
                ) -> CUresult;
                [11060] fn cuGraphNodeSetEnabled(
                    h_graph_exec: CUgraphExec, h_node: CUgraphNode, is_enabled: c_uint
                ) -> CUresult;
                [11060] fn cuGraphNodeGetEnabled(
                    h_graph_exec: CUgraphExec, h_node: CUgraphNode, is_enabled: *mut c_uint
                ) -> CUresult;
                [11010] fn cuGraphUpload / cuGraphUpload_ptsz(
                    h_graph_exec: CUgraphExec, h_stream: CUstream
                ) -> CUresult;
                [10000] fn cuGraphLaunch / cuGraphLaunch_ptsz(
                    h_graph_exec: CUgraphExec, h_stream: CUstream
                ) -> CUresult;
                [10000] fn cuGraphExecDestroy(h_graph_exec: CUgraphExec) -> CUresult;
                [10000] fn cuGraphDestroy(h_graph: CUgraph) -> CUresult;
                [12000 as cuGraphExecUpdate] fn cuGraphExecUpdate_v2(
                    h_graph_exec: CUgraphExec, h_graph: CUgraph, result_info: *mut c_void
                ) -> CUresult;
                [11000] fn cuGraphKernelNodeCopyAttributes(dst: CUgraphNode, src: CUgraphNode) -> CUresult;
                [11000] fn cuGraphKernelNodeGetAttribute(
                    h_node: CUgraphNode, attr: c_int, value_out: *mut c_void
                ) -> CUresult;
                [11000] fn cuGraphKernelNodeSetAttribute(
                    h_node: CUgraphNode, attr: c_int, value: *const c_void
                ) -> CUresult;
                [11030] fn cuGraphDebugDotPrint(
                    h_graph: CUgraph, path: *const c_char, flags: c_uint
                ) -> CUresult;
                [11030] fn cuUserObjectCreate(
                    object_out: *mut CUuserObject, ptr: *mut c_void, destroy: cudaHostFn_t,
                    initial_refcount: c_uint, flags: c_uint
                ) -> CUresult;
                [11030] fn cuUserObjectRetain(object: CUuserObject, count: c_uint) -> CUresult;
                [11030] fn cuUserObjectRelease(object: CUuserObject, count: c_uint) -> CUresult;
                [11030] fn cuGraphRetainUserObject(
                    graph: CUgraph, object: CUuserObject, count: c_uint, flags: c_uint
                ) -> CUresult;
                [11030] fn cuGraphReleaseUserObject(
                    graph: CUgraph, object: CUuserObject, count: c_uint
                ) -> CUresult;
                [12020] fn cuGraphAddNode(
                    ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                    num_dependencies: usize, node_params: *mut c_void
                ) -> CUresult;
                [12030 as cuGraphAddNode] fn cuGraphAddNode_v2(
                    ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                    dependency_data: *const c_void, num_dependencies: usize, node_params: *mut c_void
                ) -> CUresult;
                [12020] fn cuGraphNodeSetParams(h_node: CUgraphNode, node_params: *mut c_void) -> CUresult;
                [13020] fn cuGraphNodeGetParams(h_node: CUgraphNode, node_params: *mut c_void) -> CUresult;
                [12020] fn cuGraphExecNodeSetParams(
                    h_graph_exec: CUgraphExec, h_node: CUgraphNode, node_params: *mut c_void
                ) -> CUresult;
                [12030] fn cuGraphConditionalHandleCreate(
                    handle_out: *mut u64, h_graph: CUgraph, ctx: CUcontext, default_launch_value: c_uint,
                    flags: c_uint
                ) -> CUresult;
            }
            Module {
                [2000] fn cuModuleLoad(module: *mut CUmodule, fname: *const c_char) -> CUresult;
                [2000] fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) -> CUresult;
                [2010] fn cuModuleLoadDataEx(
                    module: *mut CUmodule, image: *const c_void, num_options: c_uint,
                    options: *mut CUjit_option, option_values: *mut *mut c_void
                ) -> CUresult;
                [2000] fn cuModuleLoadFatBinary(module: *mut CUmodule, fat_cubin: *const c_void) -> CUresult;
                [2000] fn cuModuleUnload(hmod: CUmodule) -> CUresult;
                [11070] fn cuModuleGetLoadingMode(mode: *mut CUmoduleLoadingMode) -> CUresult;
                [2000] fn cuModuleGetFunction(
                    hfunc: *mut CUfunction, hmod: CUmodule, name: *const c_char
                ) -> CUresult;
                [12040] fn cuModuleGetFunctionCount(count: *mut c_uint, module: CUmodule) -> CUresult;
                [12040] fn cuModuleEnumerateFunctions(
                    functions: *mut CUfunction, num_functions: c_uint, module: CUmodule
                ) -> CUresult;
                [3020 as cuModuleGetGlobal] fn cuModuleGetGlobal_v2(
                    dptr: *mut CUdeviceptr, bytes: *mut usize, hmod: CUmodule, name: *const c_char
                ) -> CUresult;
                [6050 as cuLinkCreate] fn cuLinkCreate_v2(
                    num_options: c_uint, options: *mut CUjit_option, option_values: *mut *mut c_void,
                    state_out: *mut CUlinkState
                ) -> CUresult;
                [6050 as cuLinkAddData] fn cuLinkAddData_v2(
                    state: CUlinkState, kind: CUjitInputType, data: *mut c_void, size: usize,
                    name: *const c_char, num_options: c_uint, options: *mut CUjit_option,
                    option_values: *mut *mut c_void
                ) -> CUresult;
                [6050 as cuLinkAddFile] fn cuLinkAddFile_v2(
                    state: CUlinkState, kind: CUjitInputType, path: *const c_char, num_options: c_uint,
                    options: *mut CUjit_option, option_values: *mut *mut c_void
                ) -> CUresult;
                [5050] fn cuLinkComplete(
                    state: CUlinkState, cubin_out: *mut *mut c_void, size_out: *mut usize
                ) -> CUresult;
                [5050] fn cuLinkDestroy(state: CUlinkState) -> CUresult;
                [12000] fn cuLibraryLoadData(
                    library: *mut CUlibrary, code: *const c_void, jit_options: *mut CUjit_option,
                    jit_options_values: *mut *mut c_void, num_jit_options: c_uint,
                    library_options: *mut CUlibraryOption, library_option_values: *mut *mut c_void,
                    num_library_options: c_uint
                ) -> CUresult;
                [12000] fn cuLibraryLoadFromFile(
                    library: *mut CUlibrary, file_name: *const c_char, jit_options: *mut CUjit_option,
                    jit_options_values: *mut *mut c_void, num_jit_options: c_uint,
                    library_options: *mut CUlibraryOption, library_option_values: *mut *mut c_void,
                    num_library_options: c_uint
                ) -> CUresult;
                [12000] fn cuLibraryUnload(library: CUlibrary) -> CUresult;
                [12000] fn cuLibraryGetKernel(
                    kernel: *mut CUkernel, library: CUlibrary, name: *const c_char
                ) -> CUresult;
                [12040] fn cuLibraryGetKernelCount(count: *mut c_uint, lib: CUlibrary) -> CUresult;
                [12040] fn cuLibraryEnumerateKernels(
                    kernels: *mut CUkernel, num_kernels: c_uint, lib: CUlibrary
                ) -> CUresult;
                [12000] fn cuLibraryGetModule(module: *mut CUmodule, library: CUlibrary) -> CUresult;
                [12000] fn cuKernelGetFunction(func: *mut CUfunction, kernel: CUkernel) -> CUresult;
                [12050] fn cuKernelGetLibrary(lib: *mut CUlibrary, kernel: CUkernel) -> CUresult;
                [12000] fn cuLibraryGetGlobal(
                    dptr: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char
                ) -> CUresult;
                [12000] fn cuLibraryGetManaged(
                    dptr: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char
                ) -> CUresult;
                [12000] fn cuLibraryGetUnifiedFunction(
                    fptr: *mut *mut c_void, library: CUlibrary, symbol: *const c_char
                ) -> CUresult;
                [12000] fn cuKernelGetAttribute(
                    pi: *mut c_int, attrib: CUfunction_attribute, kernel: CUkernel, dev: CUdevice
                ) -> CUresult;
                [12000] fn cuKernelSetAttribute(
                    attrib: CUfunction_attribute, val: c_int, kernel: CUkernel, dev: CUdevice
                ) -> CUresult;
                [12000] fn cuKernelSetCacheConfig(
                    kernel: CUkernel, config: CUfunc_cache, dev: CUdevice
                ) -> CUresult;
                [12030] fn cuKernelGetName(name: *mut *const c_char, hfunc: CUkernel) -> CUresult;
                [12040] fn cuKernelGetParamInfo(
                    kernel: CUkernel, param_index: usize, param_offset: *mut usize, param_size: *mut usize
                ) -> CUresult;
                [13020] fn cuKernelGetParamCount(kernel: CUkernel, param_count: *mut usize) -> CUresult;
                [2020] fn cuFuncGetAttribute(
                    pi: *mut c_int, attrib: CUfunction_attribute, hfunc: CUfunction
                ) -> CUresult;
                [9000] fn cuFuncSetAttribute(
                    hfunc: CUfunction, attrib: CUfunction_attribute, value: c_int
                ) -> CUresult;
                [3000] fn cuFuncSetCacheConfig(hfunc: CUfunction, config: CUfunc_cache) -> CUresult;
                [11000] fn cuFuncGetModule(hmod: *mut CUmodule, hfunc: CUfunction) -> CUresult;
                [12030] fn cuFuncGetName(name: *mut *const c_char, hfunc: CUfunction) -> CUresult;
                [12040] fn cuFuncGetParamInfo(
                    func: CUfunction, param_index: usize, param_offset: *mut usize, param_size: *mut usize
                ) -> CUresult;
                [13020] fn cuFuncGetParamCount(func: CUfunction, param_count: *mut usize) -> CUresult;
                [12040] fn cuFuncIsLoaded(
                    state: *mut CUfunctionLoadingState, function: CUfunction
                ) -> CUresult;
                [12040] fn cuFuncLoad(function: CUfunction) -> CUresult;
                [7000] fn cuLaunchKernel / cuLaunchKernel_ptsz(
                    f: CUfunction, grid_dim_x: c_uint, grid_dim_y: c_uint, grid_dim_z: c_uint,
                    block_dim_x: c_uint, block_dim_y: c_uint, block_dim_z: c_uint, shared_mem_bytes: c_uint,
                    h_stream: CUstream, kernel_params: *mut *mut c_void, extra: *mut *mut c_void
                ) -> CUresult;
                [11060] fn cuLaunchKernelEx / cuLaunchKernelEx_ptsz(
                    config: *const c_void, f: CUfunction, kernel_params: *mut *mut c_void,
                    extra: *mut *mut c_void
                ) -> CUresult;
                [9000] fn cuLaunchCooperativeKernel / cuLaunchCooperativeKernel_ptsz(
                    f: CUfunction, grid_dim_x: c_uint, grid_dim_y: c_uint, grid_dim_z: c_uint,
                    block_dim_x: c_uint, block_dim_y: c_uint, block_dim_z: c_uint, shared_mem_bytes: c_uint,
                    h_stream: CUstream, kernel_params: *mut *mut c_void
                ) -> CUresult;
                [9000] fn cuLaunchCooperativeKernelMultiDevice(
                    launch_params_list: *mut c_void, num_devices: c_uint, flags: c_uint
                ) -> CUresult;
                [6050] fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    num_blocks: *mut c_int, func: CUfunction, block_size: c_int, dynamic_s_mem_size: usize
                ) -> CUresult;
                [7000] fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                    num_blocks: *mut c_int, func: CUfunction, block_size: c_int, dynamic_s_mem_size: usize,
                    flags: c_uint
                ) -> CUresult;
                [6050] fn cuOccupancyMaxPotentialBlockSize(
                    min_grid_size: *mut c_int, block_size: *mut c_int, func: CUfunction,
                    block_size_to_dynamic_s_mem_size: cudaHostFn_t, dynamic_s_mem_size: usize,
                    block_size_limit: c_int
                ) -> CUresult;
                [7000] fn cuOccupancyMaxPotentialBlockSizeWithFlags(
                    min_grid_size: *mut c_int, block_size: *mut c_int, func: CUfunction,
                    block_size_to_dynamic_s_mem_size: cudaHostFn_t, dynamic_s_mem_size: usize,
                    block_size_limit: c_int, flags: c_uint
                ) -> CUresult;
                [10020] fn cuOccupancyAvailableDynamicSMemPerBlock(
                    dynamic_smem_size: *mut usize, func: CUfunction, num_blocks: c_int, block_size: c_int
                ) -> CUresult;
                [11070] fn cuOccupancyMaxPotentialClusterSize(
                    cluster_size: *mut c_int, func: CUfunction, config: *const c_void
                ) -> CUresult;
                [11070] fn cuOccupancyMaxActiveClusters(
                    num_clusters: *mut c_int, func: CUfunction, config: *const c_void
                ) -> CUresult;
                [12000] fn cuTensorMapEncodeTiled(
                    tensor_map: *mut c_void, tensor_data_type: CUtensorMapDataType, tensor_rank: u32,
                    global_address: *mut c_void, global_dim: *const u64, global_strides: *const u64,
                    box_dim: *const u32, element_strides: *const u32, interleave: CUtensorMapInterleave,
                    swizzle: CUtensorMapSwizzle, l2_promotion: CUtensorMapL2promotion,
                    oob_fill: CUtensorMapFloatOOBfill
                ) -> CUresult;
                [12000] fn cuTensorMapEncodeIm2col(
                    tensor_map: *mut c_void, tensor_data_type: CUtensorMapDataType, tensor_rank: u32,
                    global_address: *mut c_void, global_dim: *const u64, global_strides: *const u64,
                    pixel_box_lower_corner: *const c_int, pixel_box_upper_corner: *const c_int,
                    channels_per_pixel: u32, pixels_per_column: u32, element_strides: *const u32,
                    interleave: CUtensorMapInterleave, swizzle: CUtensorMapSwizzle,
                    l2_promotion: CUtensorMapL2promotion, oob_fill: CUtensorMapFloatOOBfill
                ) -> CUresult;
                [12080] fn cuTensorMapEncodeIm2colWide(
                    tensor_map: *mut c_void, tensor_data_type: CUtensorMapDataType, tensor_rank: u32,
                    global_address: *mut c_void, global_dim: *const u64, global_strides: *const u64,
                    pixel_box_lower_corner_width: c_int, pixel_box_upper_corner_width: c_int,
                    channels_per_pixel: u32, pixels_per_column: u32, element_strides: *const u32,
                    interleave: CUtensorMapInterleave, mode: CUtensorMapIm2ColWideMode,
                    swizzle: CUtensorMapSwizzle, l2_promotion: CUtensorMapL2promotion,
                    oob_fill: CUtensorMapFloatOOBfill
                ) -> CUresult;
                [12000] fn cuTensorMapReplaceAddress(
                    tensor_map: *mut c_void, global_address: *mut c_void
                ) -> CUresult;
            }
            Partition {
                [12040] fn cuGreenCtxCreate(
                    ph_ctx: *mut CUgreenCtx, desc: CUdevResourceDesc, dev: CUdevice, flags: c_uint
                ) -> CUresult;
                [12040] fn cuGreenCtxDestroy(h_ctx: CUgreenCtx) -> CUresult;
                [12040] fn cuCtxFromGreenCtx(context: *mut CUcontext, h_ctx: CUgreenCtx) -> CUresult;
                [12040] fn cuDeviceGetDevResource(
                    device: CUdevice, resource: *mut c_void, kind: c_int
                ) -> CUresult;
                [12040] fn cuCtxGetDevResource(
                    h_ctx: CUcontext, resource: *mut c_void, kind: c_int
                ) -> CUresult;
                [12040] fn cuGreenCtxGetDevResource(
                    h_ctx: CUgreenCtx, resource: *mut c_void, kind: c_int
                ) -> CUresult;
                [12040] fn cuDevSmResourceSplitByCount(
                    result: *mut c_void, nb_groups: *mut c_uint, input: *const c_void, remainder: *mut c_void,
                    flags: c_uint, min_count: c_uint
                ) -> CUresult;
                [13010] fn cuDevSmResourceSplit(
                    result: *mut c_void, nb_groups: c_uint, input: *const c_void, remainder: *mut c_void,
                    flags: c_uint, group_params: *mut c_void
                ) -> CUresult;
                [12040] fn cuDevResourceGenerateDesc(
                    ph_desc: *mut CUdevResourceDesc, resources: *mut c_void, nb_resources: c_uint
                ) -> CUresult;
                [12040] fn cuGreenCtxRecordEvent(h_ctx: CUgreenCtx, h_event: CUevent) -> CUresult;
                [12040] fn cuGreenCtxWaitEvent(h_ctx: CUgreenCtx, h_event: CUevent) -> CUresult;
                [12040] fn cuStreamGetGreenCtx(h_stream: CUstream, ph_ctx: *mut CUgreenCtx) -> CUresult;
                [12050] fn cuGreenCtxStreamCreate(
                    ph_stream: *mut CUstream, green_ctx: CUgreenCtx, flags: c_uint, priority: c_int
                ) -> CUresult;
                [12090] fn cuGreenCtxGetId(green_ctx: CUgreenCtx, green_ctx_id: *mut u64) -> CUresult;
                [13010] fn cuStreamGetDevResource / cuStreamGetDevResource_ptsz(
                    h_stream: CUstream, resource: *mut c_void, kind: c_int
                ) -> CUresult;
            }
        }
    };
}
