//! The functions of `libcudart.so.12` and `libcudart.so.13`.

/// Hands every function of the CUDA runtime, of CUDA 12.8 and of 13.2, to a macro of the caller's, as items.
///
/// Rows stand in sections, `Memory { … }`. A row is
///
/// ```text
/// [12, 13] fn cudaName / cudaName_ptsz(argument: type, …) -> type;
/// ```
///
/// where the numbers are the major versions whose library exports it, and the twin, if it has one, is the symbol of
/// programs whose default stream is the thread's own. The name is that of one signature. Where a library exports it under
/// another, the major says so: `13 as cudaOther / cudaOther_ptsz`; hence `cudaGetDeviceProperties` of CUDA 12 and of 13,
/// which fill in different structs, are two rows. Interoperation with graphics libraries is left out.
///
/// A consumer matches rows with
///
/// ```text
/// $( $section:ident { $(
///     [$($major:tt $(as $symbol:ident $(/ $symbol_twin:ident)?)?),+]
///     fn $name:ident $(/ $twin:ident)? ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
/// )* } )*
/// ```
///
/// and brings [`types`](crate::types) into scope.
#[macro_export]
macro_rules! runtime_table {
    ($each:path) => {
        $each! {
            Library {
                [12, 13] fn cudaDriverGetVersion(driver_version: *mut c_int) -> cudaError_t;
                [13 as cudaRuntimeGetVersion] fn cudaRuntimeGetVersion_v13(
                    runtime_version: *mut c_int
                ) -> cudaError_t;
                [12, 13] fn cudaGetDriverEntryPoint / cudaGetDriverEntryPoint_ptsz(
                    symbol: *const c_char, func_ptr: *mut *mut c_void, flags: u64,
                    driver_status: *mut cudaDriverEntryPointQueryResult
                ) -> cudaError_t;
                [12, 13] fn cudaGetDriverEntryPointByVersion / cudaGetDriverEntryPointByVersion_ptsz(
                    symbol: *const c_char, func_ptr: *mut *mut c_void, cuda_version: c_uint, flags: u64,
                    driver_status: *mut cudaDriverEntryPointQueryResult
                ) -> cudaError_t;
                [12, 13] fn cudaProfilerStart() -> cudaError_t;
                [12, 13] fn cudaProfilerStop() -> cudaError_t;
                [12] fn cudaRuntimeGetVersion(runtime_version: *mut c_int) -> cudaError_t;
            }
            Device {
                [12, 13] fn cudaDeviceReset() -> cudaError_t;
                [12, 13] fn cudaDeviceSynchronize() -> cudaError_t;
                [12, 13] fn cudaDeviceSetLimit(limit: cudaLimit, value: usize) -> cudaError_t;
                [12, 13] fn cudaDeviceGetLimit(value: *mut usize, limit: cudaLimit) -> cudaError_t;
                [12, 13] fn cudaDeviceGetCacheConfig(cache_config: *mut cudaFuncCache) -> cudaError_t;
                [12, 13] fn cudaDeviceGetStreamPriorityRange(
                    least_priority: *mut c_int, greatest_priority: *mut c_int
                ) -> cudaError_t;
                [12, 13] fn cudaDeviceSetCacheConfig(cache_config: cudaFuncCache) -> cudaError_t;
                [12, 13] fn cudaDeviceGetByPCIBusId(
                    device: *mut c_int, pci_bus_id: *const c_char
                ) -> cudaError_t;
                [12, 13] fn cudaDeviceGetPCIBusId(
                    pci_bus_id: *mut c_char, len: c_int, device: c_int
                ) -> cudaError_t;
                [12, 13] fn cudaDeviceFlushGPUDirectRDMAWrites(
                    target: cudaFlushGPUDirectRDMAWritesTarget, scope: cudaFlushGPUDirectRDMAWritesScope
                ) -> cudaError_t;
                [12, 13] fn cudaDeviceRegisterAsyncNotification(
                    device: c_int, callback_func: cudaHostFn_t, user_data: *mut c_void,
                    callback: *mut cudaAsyncCallbackHandle_t
                ) -> cudaError_t;
                [12, 13] fn cudaDeviceUnregisterAsyncNotification(
                    device: c_int, callback: cudaAsyncCallbackHandle_t
                ) -> cudaError_t;
                [12, 13] fn cudaDeviceGetSharedMemConfig(config: *mut cudaSharedMemConfig) -> cudaError_t;
                [12, 13] fn cudaDeviceSetSharedMemConfig(config: cudaSharedMemConfig) -> cudaError_t;
                [12, 13] fn cudaGetDeviceCount(count: *mut c_int) -> cudaError_t;
                [13 as cudaGetDeviceProperties] fn cudaGetDeviceProperties_v13(
                    prop: *mut cudaDeviceProp13, device: c_int
                ) -> cudaError_t;
                [12, 13] fn cudaDeviceGetAttribute(
                    value: *mut c_int, attr: cudaDeviceAttr, device: c_int
                ) -> cudaError_t;
                [13] fn cudaDeviceGetHostAtomicCapabilities(
                    capabilities: *mut c_uint, operations: *const cudaAtomicOperation, count: c_uint,
                    device: c_int
                ) -> cudaError_t;
                [12, 13] fn cudaDeviceGetNvSciSyncAttributes(
                    nv_sci_sync_attr_list: *mut c_void, device: c_int, flags: c_int
                ) -> cudaError_t;
                [13 as cudaChooseDevice] fn cudaChooseDevice_v13(
                    device: *mut c_int, prop: *const cudaDeviceProp13
                ) -> cudaError_t;
                [12, 13] fn cudaInitDevice(device: c_int, device_flags: c_uint, flags: c_uint) -> cudaError_t;
                [12, 13] fn cudaSetDevice(device: c_int) -> cudaError_t;
                [12, 13] fn cudaGetDevice(device: *mut c_int) -> cudaError_t;
                [12, 13] fn cudaSetValidDevices(device_arr: *mut c_int, len: c_int) -> cudaError_t;
                [12, 13] fn cudaSetDeviceFlags(flags: c_uint) -> cudaError_t;
                [12, 13] fn cudaGetDeviceFlags(flags: *mut c_uint) -> cudaError_t;
                [12] fn cudaThreadExit() -> cudaError_t;
                [12] fn cudaThreadSynchronize() -> cudaError_t;
                [12] fn cudaThreadSetLimit(limit: cudaLimit, value: usize) -> cudaError_t;
                [12] fn cudaThreadGetLimit(value: *mut usize, limit: cudaLimit) -> cudaError_t;
                [12] fn cudaThreadGetCacheConfig(cache_config: *mut cudaFuncCache) -> cudaError_t;
                [12] fn cudaThreadSetCacheConfig(cache_config: cudaFuncCache) -> cudaError_t;
                [12] fn cudaGetDeviceProperties_v2(prop: *mut cudaDeviceProp12, device: c_int) -> cudaError_t;
                [12] fn cudaChooseDevice(device: *mut c_int, prop: *const cudaDeviceProp12) -> cudaError_t;
                [12] fn cudaGetDeviceProperties(prop: *mut c_void, device: c_int) -> cudaError_t;
            }
            Error {
                [12, 13] fn cudaGetLastError() -> cudaError_t;
                [12, 13] fn cudaPeekAtLastError() -> cudaError_t;
                [12, 13] fn cudaGetErrorName(error: cudaError_t) -> *const c_char;
                [12, 13] fn cudaGetErrorString(error: cudaError_t) -> *const c_char;
                [13] fn cudaLogsRegisterCallback(
                    callback_func: cudaHostFn_t, user_data: *mut c_void,
                    callback_out: *mut cudaLogsCallbackHandle
                ) -> cudaError_t;
                [13] fn cudaLogsUnregisterCallback(callback: cudaLogsCallbackHandle) -> cudaError_t;
                [13] fn cudaLogsCurrent(iterator_out: *mut c_uint, flags: c_uint) -> cudaError_t;
                [13] fn cudaLogsDumpToFile(
                    iterator: *mut c_uint, path_to_file: *const c_char, flags: c_uint
                ) -> cudaError_t;
                [13] fn cudaLogsDumpToMemory(
                    iterator: *mut c_uint, buffer: *mut c_char, size: *mut usize, flags: c_uint
                ) -> cudaError_t;
            }
            Memory {
                [12, 13] fn cudaMallocManaged(
                    dev_ptr: *mut *mut c_void, size: usize, flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaMalloc(dev_ptr: *mut *mut c_void, size: usize) -> cudaError_t;
                [12, 13] fn cudaMallocHost(ptr: *mut *mut c_void, size: usize) -> cudaError_t;
                [12, 13] fn cudaMallocPitch(
                    dev_ptr: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize
                ) -> cudaError_t;
                [12, 13] fn cudaFree(dev_ptr: *mut c_void) -> cudaError_t;
                [12, 13] fn cudaFreeHost(ptr: *mut c_void) -> cudaError_t;
                [12, 13] fn cudaHostAlloc(host: *mut *mut c_void, size: usize, flags: c_uint) -> cudaError_t;
                [12, 13] fn cudaHostRegister(ptr: *mut c_void, size: usize, flags: c_uint) -> cudaError_t;
                [12, 13] fn cudaHostUnregister(ptr: *mut c_void) -> cudaError_t;
                [12, 13] fn cudaHostGetDevicePointer(
                    device: *mut *mut c_void, host: *mut c_void, flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaHostGetFlags(flags: *mut c_uint, host: *mut c_void) -> cudaError_t;
                [12, 13] fn cudaMalloc3D(
                    pitched_dev_ptr: *mut cudaPitchedPtr, extent: cudaExtent
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpy3D / cudaMemcpy3D_ptds(p: *const cudaMemcpy3DParms) -> cudaError_t;
                [12, 13] fn cudaMemcpy3DPeer / cudaMemcpy3DPeer_ptds(
                    p: *const cudaMemcpy3DPeerParms
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpy3DAsync / cudaMemcpy3DAsync_ptsz(
                    p: *const cudaMemcpy3DParms, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpy3DPeerAsync / cudaMemcpy3DPeerAsync_ptsz(
                    p: *const cudaMemcpy3DPeerParms, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaMemGetInfo(free: *mut usize, total: *mut usize) -> cudaError_t;
                [12, 13] fn cudaMemcpy / cudaMemcpy_ptds(
                    dst: *mut c_void, src: *const c_void, count: usize, kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpyPeer(
                    dst: *mut c_void, dst_device: c_int, src: *const c_void, src_device: c_int, count: usize
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpy2D / cudaMemcpy2D_ptds(
                    dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize,
                    height: usize, kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpyAsync / cudaMemcpyAsync_ptsz(
                    dst: *mut c_void, src: *const c_void, count: usize, kind: cudaMemcpyKind,
                    stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpyPeerAsync(
                    dst: *mut c_void, dst_device: c_int, src: *const c_void, src_device: c_int, count: usize,
                    stream: cudaStream_t
                ) -> cudaError_t;
                [13 as cudaMemcpyBatchAsync / cudaMemcpyBatchAsync_ptsz]
                fn cudaMemcpyBatchAsync_v13 / cudaMemcpyBatchAsync_v13_ptsz(
                    dsts: *const *mut c_void, srcs: *const *const c_void, sizes: *const usize, count: usize,
                    attrs: *mut c_void, attrs_idxs: *mut usize, num_attrs: usize, stream: cudaStream_t
                ) -> cudaError_t;
                [13 as cudaMemcpy3DBatchAsync / cudaMemcpy3DBatchAsync_ptsz]
                fn cudaMemcpy3DBatchAsync_v13 / cudaMemcpy3DBatchAsync_v13_ptsz(
                    num_ops: usize, op_list: *mut c_void, flags: u64, stream: cudaStream_t
                ) -> cudaError_t;
                [13] fn cudaMemcpyWithAttributesAsync / cudaMemcpyWithAttributesAsync_ptsz(
                    dst: *mut c_void, src: *const c_void, size: usize, attr: *mut c_void, stream: cudaStream_t
                ) -> cudaError_t;
                [13] fn cudaMemcpy3DWithAttributesAsync / cudaMemcpy3DWithAttributesAsync_ptsz(
                    op: *mut c_void, flags: u64, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpy2DAsync / cudaMemcpy2DAsync_ptsz(
                    dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize,
                    height: usize, kind: cudaMemcpyKind, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaMemset / cudaMemset_ptds(
                    dev_ptr: *mut c_void, value: c_int, count: usize
                ) -> cudaError_t;
                [12, 13] fn cudaMemset2D / cudaMemset2D_ptds(
                    dev_ptr: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize
                ) -> cudaError_t;
                [12, 13] fn cudaMemset3D / cudaMemset3D_ptds(
                    pitched_dev_ptr: cudaPitchedPtr, value: c_int, extent: cudaExtent
                ) -> cudaError_t;
                [12, 13] fn cudaMemsetAsync / cudaMemsetAsync_ptsz(
                    dev_ptr: *mut c_void, value: c_int, count: usize, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaMemset2DAsync / cudaMemset2DAsync_ptsz(
                    dev_ptr: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize,
                    stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaMemset3DAsync / cudaMemset3DAsync_ptsz(
                    pitched_dev_ptr: cudaPitchedPtr, value: c_int, extent: cudaExtent, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13 as cudaMemPrefetchAsync / cudaMemPrefetchAsync_ptsz]
                fn cudaMemPrefetchAsync_v2 / cudaMemPrefetchAsync_v2_ptsz(
                    dev_ptr: *const c_void, count: usize, location: cudaMemLocation, flags: c_uint,
                    stream: cudaStream_t
                ) -> cudaError_t;
                [13] fn cudaMemPrefetchBatchAsync / cudaMemPrefetchBatchAsync_ptsz(
                    dptrs: *mut *mut c_void, sizes: *mut usize, count: usize,
                    prefetch_locs: *mut cudaMemLocation, prefetch_loc_idxs: *mut usize,
                    num_prefetch_locs: usize, flags: u64, stream: cudaStream_t
                ) -> cudaError_t;
                [13] fn cudaMemDiscardBatchAsync / cudaMemDiscardBatchAsync_ptsz(
                    dptrs: *mut *mut c_void, sizes: *mut usize, count: usize, flags: u64, stream: cudaStream_t
                ) -> cudaError_t;
                [13] fn cudaMemDiscardAndPrefetchBatchAsync / cudaMemDiscardAndPrefetchBatchAsync_ptsz(
                    dptrs: *mut *mut c_void, sizes: *mut usize, count: usize,
                    prefetch_locs: *mut cudaMemLocation, prefetch_loc_idxs: *mut usize,
                    num_prefetch_locs: usize, flags: u64, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13 as cudaMemAdvise] fn cudaMemAdvise_v2(
                    dev_ptr: *const c_void, count: usize, advice: cudaMemoryAdvise, location: cudaMemLocation
                ) -> cudaError_t;
                [12, 13] fn cudaMemRangeGetAttribute(
                    data: *mut c_void, data_size: usize, attribute: cudaMemRangeAttribute,
                    dev_ptr: *const c_void, count: usize
                ) -> cudaError_t;
                [12, 13] fn cudaMemRangeGetAttributes(
                    data: *mut *mut c_void, data_sizes: *mut usize, attributes: *mut cudaMemRangeAttribute,
                    num_attributes: usize, dev_ptr: *const c_void, count: usize
                ) -> cudaError_t;
                [13 as cudaPointerGetAttributes] fn cudaPointerGetAttributes_v13(
                    attributes: *mut cudaPointerAttributes13, ptr: *const c_void
                ) -> cudaError_t;
                [12] fn cudaMemcpyBatchAsync / cudaMemcpyBatchAsync_ptsz(
                    dsts: *mut *mut c_void, srcs: *mut *mut c_void, sizes: *mut usize, count: usize,
                    attrs: *mut c_void, attrs_idxs: *mut usize, num_attrs: usize, fail_idx: *mut usize,
                    stream: cudaStream_t
                ) -> cudaError_t;
                [12] fn cudaMemcpy3DBatchAsync / cudaMemcpy3DBatchAsync_ptsz(
                    num_ops: usize, op_list: *mut c_void, fail_idx: *mut usize, flags: u64,
                    stream: cudaStream_t
                ) -> cudaError_t;
                [12] fn cudaMemPrefetchAsync / cudaMemPrefetchAsync_ptsz(
                    dev_ptr: *const c_void, count: usize, dst_device: c_int, stream: cudaStream_t
                ) -> cudaError_t;
                [12] fn cudaMemAdvise(
                    dev_ptr: *const c_void, count: usize, advice: cudaMemoryAdvise, device: c_int
                ) -> cudaError_t;
                [12] fn cudaPointerGetAttributes(
                    attributes: *mut cudaPointerAttributes12, ptr: *const c_void
                ) -> cudaError_t;
            }
            Pool {
                [12, 13] fn cudaDeviceGetDefaultMemPool(
                    mem_pool: *mut cudaMemPool_t, device: c_int
                ) -> cudaError_t;
                [12, 13] fn cudaDeviceSetMemPool(device: c_int, mem_pool: cudaMemPool_t) -> cudaError_t;
                [12, 13] fn cudaDeviceGetMemPool(mem_pool: *mut cudaMemPool_t, device: c_int) -> cudaError_t;
                [12, 13] fn cudaMallocAsync / cudaMallocAsync_ptsz(
                    dev_ptr: *mut *mut c_void, size: usize, h_stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaFreeAsync / cudaFreeAsync_ptsz(
                    dev_ptr: *mut c_void, h_stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaMemPoolTrimTo(
                    mem_pool: cudaMemPool_t, min_bytes_to_keep: usize
                ) -> cudaError_t;
                [12, 13] fn cudaMemPoolSetAttribute(
                    mem_pool: cudaMemPool_t, attr: cudaMemPoolAttr, value: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaMemPoolGetAttribute(
                    mem_pool: cudaMemPool_t, attr: cudaMemPoolAttr, value: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaMemPoolSetAccess(
                    mem_pool: cudaMemPool_t, desc_list: *const cudaMemAccessDesc, count: usize
                ) -> cudaError_t;
                [12, 13] fn cudaMemPoolGetAccess(
                    flags: *mut cudaMemAccessFlags, mem_pool: cudaMemPool_t, location: *mut cudaMemLocation
                ) -> cudaError_t;
                [12, 13] fn cudaMemPoolCreate(
                    mem_pool: *mut cudaMemPool_t, pool_props: *const cudaMemPoolProps
                ) -> cudaError_t;
                [12, 13] fn cudaMemPoolDestroy(mem_pool: cudaMemPool_t) -> cudaError_t;
                [13] fn cudaMemGetDefaultMemPool(
                    mem_pool: *mut cudaMemPool_t, location: *mut cudaMemLocation, kind: cudaMemAllocationType
                ) -> cudaError_t;
                [13] fn cudaMemGetMemPool(
                    mem_pool: *mut cudaMemPool_t, location: *mut cudaMemLocation, kind: cudaMemAllocationType
                ) -> cudaError_t;
                [13] fn cudaMemSetMemPool(
                    location: *mut cudaMemLocation, kind: cudaMemAllocationType, mem_pool: cudaMemPool_t
                ) -> cudaError_t;
                [12, 13] fn cudaMallocFromPoolAsync / cudaMallocFromPoolAsync_ptsz(
                    ptr: *mut *mut c_void, size: usize, mem_pool: cudaMemPool_t, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaMemPoolExportToShareableHandle(
                    shareable_handle: *mut c_void, mem_pool: cudaMemPool_t,
                    handle_type: cudaMemAllocationHandleType, flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaMemPoolImportFromShareableHandle(
                    mem_pool: *mut cudaMemPool_t, shareable_handle: *mut c_void,
                    handle_type: cudaMemAllocationHandleType, flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaMemPoolExportPointer(
                    export_data: *mut c_void, ptr: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaMemPoolImportPointer(
                    ptr: *mut *mut c_void, mem_pool: cudaMemPool_t, export_data: *mut c_void
                ) -> cudaError_t;
            }
            Peer {
                [12, 13] fn cudaDeviceGetP2PAttribute(
                    value: *mut c_int, attr: cudaDeviceP2PAttr, src_device: c_int, dst_device: c_int
                ) -> cudaError_t;
                [13] fn cudaDeviceGetP2PAtomicCapabilities(
                    capabilities: *mut c_uint, operations: *const cudaAtomicOperation, count: c_uint,
                    src_device: c_int, dst_device: c_int
                ) -> cudaError_t;
                [12, 13] fn cudaDeviceCanAccessPeer(
                    can_access_peer: *mut c_int, device: c_int, peer_device: c_int
                ) -> cudaError_t;
                [12, 13] fn cudaDeviceEnablePeerAccess(peer_device: c_int, flags: c_uint) -> cudaError_t;
                [12, 13] fn cudaDeviceDisablePeerAccess(peer_device: c_int) -> cudaError_t;
            }
            Ipc {
                [12, 13] fn cudaIpcGetEventHandle(
                    handle: *mut cudaIpcEventHandle_t, event: cudaEvent_t
                ) -> cudaError_t;
                [12, 13] fn cudaIpcOpenEventHandle(
                    event: *mut cudaEvent_t, handle: cudaIpcEventHandle_t
                ) -> cudaError_t;
                [12, 13] fn cudaIpcGetMemHandle(
                    handle: *mut cudaIpcMemHandle_t, dev_ptr: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaIpcOpenMemHandle(
                    dev_ptr: *mut *mut c_void, handle: cudaIpcMemHandle_t, flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaIpcCloseMemHandle(dev_ptr: *mut c_void) -> cudaError_t;
            }
            Stream {
                [12, 13] fn cudaStreamCreate(stream: *mut cudaStream_t) -> cudaError_t;
                [12, 13] fn cudaStreamCreateWithFlags(
                    stream: *mut cudaStream_t, flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaStreamCreateWithPriority(
                    stream: *mut cudaStream_t, flags: c_uint, priority: c_int
                ) -> cudaError_t;
                [12, 13] fn cudaStreamGetPriority / cudaStreamGetPriority_ptsz(
                    h_stream: cudaStream_t, priority: *mut c_int
                ) -> cudaError_t;
                [12, 13] fn cudaStreamGetFlags / cudaStreamGetFlags_ptsz(
                    h_stream: cudaStream_t, flags: *mut c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaStreamGetId / cudaStreamGetId_ptsz(
                    h_stream: cudaStream_t, stream_id: *mut u64
                ) -> cudaError_t;
                [12, 13] fn cudaStreamGetDevice / cudaStreamGetDevice_ptsz(
                    h_stream: cudaStream_t, device: *mut c_int
                ) -> cudaError_t;
                [12, 13] fn cudaCtxResetPersistingL2Cache() -> cudaError_t;
                [12, 13] fn cudaStreamCopyAttributes / cudaStreamCopyAttributes_ptsz(
                    dst: cudaStream_t, src: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaStreamGetAttribute / cudaStreamGetAttribute_ptsz(
                    h_stream: cudaStream_t, attr: cudaLaunchAttributeID, value_out: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaStreamSetAttribute / cudaStreamSetAttribute_ptsz(
                    h_stream: cudaStream_t, attr: cudaLaunchAttributeID, value: *const c_void
                ) -> cudaError_t;
                [12, 13] fn cudaStreamDestroy(stream: cudaStream_t) -> cudaError_t;
                [12, 13] fn cudaStreamWaitEvent / cudaStreamWaitEvent_ptsz(
                    stream: cudaStream_t, event: cudaEvent_t, flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaStreamAddCallback / cudaStreamAddCallback_ptsz(
                    stream: cudaStream_t, callback: cudaStreamCallback_t, user_data: *mut c_void,
                    flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaStreamSynchronize / cudaStreamSynchronize_ptsz(
                    stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaStreamQuery / cudaStreamQuery_ptsz(stream: cudaStream_t) -> cudaError_t;
                [12, 13] fn cudaStreamAttachMemAsync / cudaStreamAttachMemAsync_ptsz(
                    stream: cudaStream_t, dev_ptr: *mut c_void, length: usize, flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaStreamBeginCapture / cudaStreamBeginCapture_ptsz(
                    stream: cudaStream_t, mode: cudaStreamCaptureMode
                ) -> cudaError_t;
                [12, 13] fn cudaStreamBeginCaptureToGraph / cudaStreamBeginCaptureToGraph_ptsz(
                    stream: cudaStream_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t,
                    dependency_data: *const cudaGraphEdgeData, num_dependencies: usize,
                    mode: cudaStreamCaptureMode
                ) -> cudaError_t;
                [12, 13] fn cudaThreadExchangeStreamCaptureMode(
                    mode: *mut cudaStreamCaptureMode
                ) -> cudaError_t;
                [12, 13] fn cudaStreamEndCapture / cudaStreamEndCapture_ptsz(
                    stream: cudaStream_t, graph: *mut cudaGraph_t
                ) -> cudaError_t;
                [12, 13] fn cudaStreamIsCapturing / cudaStreamIsCapturing_ptsz(
                    stream: cudaStream_t, capture_status: *mut cudaStreamCaptureStatus
                ) -> cudaError_t;
                [12, 13 as cudaStreamGetCaptureInfo / cudaStreamGetCaptureInfo_ptsz]
                fn cudaStreamGetCaptureInfo_v3 / cudaStreamGetCaptureInfo_v3_ptsz(
                    stream: cudaStream_t, capture_status_out: *mut cudaStreamCaptureStatus, id_out: *mut u64,
                    graph_out: *mut cudaGraph_t, dependencies_out: *mut *const cudaGraphNode_t,
                    edge_data_out: *mut *const cudaGraphEdgeData, num_dependencies_out: *mut usize
                ) -> cudaError_t;
                [12, 13 as cudaStreamUpdateCaptureDependencies / cudaStreamUpdateCaptureDependencies_ptsz]
                fn cudaStreamUpdateCaptureDependencies_v2 / cudaStreamUpdateCaptureDependencies_v2_ptsz(
                    stream: cudaStream_t, dependencies: *mut cudaGraphNode_t,
                    dependency_data: *const cudaGraphEdgeData, num_dependencies: usize, flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaLaunchHostFunc / cudaLaunchHostFunc_ptsz(
                    stream: cudaStream_t, function: cudaHostFn_t, user_data: *mut c_void
                ) -> cudaError_t;
                [13] fn cudaLaunchHostFunc_v2 / cudaLaunchHostFunc_v2_ptsz(
                    stream: cudaStream_t, function: cudaHostFn_t, user_data: *mut c_void, sync_mode: c_uint
                ) -> cudaError_t;
                [12] fn cudaStreamGetCaptureInfo_v2 / cudaStreamGetCaptureInfo_v2_ptsz(
                    stream: cudaStream_t, capture_status_out: *mut cudaStreamCaptureStatus, id_out: *mut u64,
                    graph_out: *mut cudaGraph_t, dependencies_out: *mut *const cudaGraphNode_t,
                    num_dependencies_out: *mut usize
                ) -> cudaError_t;
                [12] fn cudaStreamUpdateCaptureDependencies / cudaStreamUpdateCaptureDependencies_ptsz(
                    stream: cudaStream_t, dependencies: *mut cudaGraphNode_t, num_dependencies: usize,
                    flags: c_uint
                ) -> cudaError_t;
                [12] fn cudaStreamGetCaptureInfo / cudaStreamGetCaptureInfo_ptsz(
                    stream: cudaStream_t, capture_status_out: *mut cudaStreamCaptureStatus, id_out: *mut u64
                ) -> cudaError_t;
            }
            Event {
                [12, 13] fn cudaEventCreate(event: *mut cudaEvent_t) -> cudaError_t;
                [12, 13] fn cudaEventCreateWithFlags(event: *mut cudaEvent_t, flags: c_uint) -> cudaError_t;
                [12, 13] fn cudaEventRecord / cudaEventRecord_ptsz(
                    event: cudaEvent_t, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaEventRecordWithFlags / cudaEventRecordWithFlags_ptsz(
                    event: cudaEvent_t, stream: cudaStream_t, flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaEventQuery(event: cudaEvent_t) -> cudaError_t;
                [12, 13] fn cudaEventSynchronize(event: cudaEvent_t) -> cudaError_t;
                [12, 13] fn cudaEventDestroy(event: cudaEvent_t) -> cudaError_t;
                [12, 13 as cudaEventElapsedTime] fn cudaEventElapsedTime_v2(
                    ms: *mut f32, start: cudaEvent_t, end: cudaEvent_t
                ) -> cudaError_t;
                [12] fn cudaEventElapsedTime(
                    ms: *mut f32, start: cudaEvent_t, end: cudaEvent_t
                ) -> cudaError_t;
            }
            Graph {
                [12, 13] fn cudaGraphCreate(graph: *mut cudaGraph_t, flags: c_uint) -> cudaError_t;
                [12, 13] fn cudaGraphAddKernelNode(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, num_dependencies: usize,
                    node_params: *const cudaKernelNodeParams
                ) -> cudaError_t;
                [12, 13] fn cudaGraphKernelNodeGetParams(
                    node: cudaGraphNode_t, node_params: *mut cudaKernelNodeParams
                ) -> cudaError_t;
                [12, 13] fn cudaGraphKernelNodeSetParams(
                    node: cudaGraphNode_t, node_params: *const cudaKernelNodeParams
                ) -> cudaError_t;
                [12, 13] fn cudaGraphKernelNodeCopyAttributes(
                    h_dst: cudaGraphNode_t, h_src: cudaGraphNode_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphKernelNodeGetAttribute(
                    h_node: cudaGraphNode_t, attr: cudaLaunchAttributeID, value_out: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphKernelNodeSetAttribute(
                    h_node: cudaGraphNode_t, attr: cudaLaunchAttributeID, value: *const c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphAddMemcpyNode(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, num_dependencies: usize,
                    copy_params: *const cudaMemcpy3DParms
                ) -> cudaError_t;
                [12, 13] fn cudaGraphAddMemcpyNode1D(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, num_dependencies: usize, dst: *mut c_void,
                    src: *const c_void, count: usize, kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaGraphMemcpyNodeGetParams(
                    node: cudaGraphNode_t, node_params: *mut cudaMemcpy3DParms
                ) -> cudaError_t;
                [12, 13] fn cudaGraphMemcpyNodeSetParams(
                    node: cudaGraphNode_t, node_params: *const cudaMemcpy3DParms
                ) -> cudaError_t;
                [12, 13] fn cudaGraphMemcpyNodeSetParams1D(
                    node: cudaGraphNode_t, dst: *mut c_void, src: *const c_void, count: usize,
                    kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaGraphAddMemsetNode(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, num_dependencies: usize,
                    memset_params: *const cudaMemsetParams
                ) -> cudaError_t;
                [12, 13] fn cudaGraphMemsetNodeGetParams(
                    node: cudaGraphNode_t, node_params: *mut cudaMemsetParams
                ) -> cudaError_t;
                [12, 13] fn cudaGraphMemsetNodeSetParams(
                    node: cudaGraphNode_t, node_params: *const cudaMemsetParams
                ) -> cudaError_t;
                [12, 13] fn cudaGraphAddHostNode(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, num_dependencies: usize,
                    node_params: *const cudaHostNodeParams
                ) -> cudaError_t;
                [12, 13] fn cudaGraphHostNodeGetParams(
                    node: cudaGraphNode_t, node_params: *mut cudaHostNodeParams
                ) -> cudaError_t;
                [12, 13] fn cudaGraphHostNodeSetParams(
                    node: cudaGraphNode_t, node_params: *const cudaHostNodeParams
                ) -> cudaError_t;
                [12, 13] fn cudaGraphAddChildGraphNode(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, num_dependencies: usize, child_graph: cudaGraph_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphChildGraphNodeGetGraph(
                    node: cudaGraphNode_t, graph: *mut cudaGraph_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphAddEmptyNode(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, num_dependencies: usize
                ) -> cudaError_t;
                [12, 13] fn cudaGraphAddEventRecordNode(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, num_dependencies: usize, event: cudaEvent_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphEventRecordNodeGetEvent(
                    node: cudaGraphNode_t, event_out: *mut cudaEvent_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphEventRecordNodeSetEvent(
                    node: cudaGraphNode_t, event: cudaEvent_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphAddEventWaitNode(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, num_dependencies: usize, event: cudaEvent_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphEventWaitNodeGetEvent(
                    node: cudaGraphNode_t, event_out: *mut cudaEvent_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphEventWaitNodeSetEvent(
                    node: cudaGraphNode_t, event: cudaEvent_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphAddExternalSemaphoresWaitNode(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, num_dependencies: usize, node_params: *const c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExternalSemaphoresWaitNodeGetParams(
                    h_node: cudaGraphNode_t, params_out: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExternalSemaphoresWaitNodeSetParams(
                    h_node: cudaGraphNode_t, node_params: *const c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphAddMemAllocNode(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, num_dependencies: usize, node_params: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphMemAllocNodeGetParams(
                    node: cudaGraphNode_t, params_out: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphAddMemFreeNode(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, num_dependencies: usize, dptr: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphMemFreeNodeGetParams(
                    node: cudaGraphNode_t, dptr_out: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaDeviceGraphMemTrim(device: c_int) -> cudaError_t;
                [12, 13] fn cudaDeviceGetGraphMemAttribute(
                    device: c_int, attr: cudaGraphMemAttributeType, value: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaDeviceSetGraphMemAttribute(
                    device: c_int, attr: cudaGraphMemAttributeType, value: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphClone(
                    graph_clone: *mut cudaGraph_t, original_graph: cudaGraph_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphNodeFindInClone(
                    node: *mut cudaGraphNode_t, original_node: cudaGraphNode_t, cloned_graph: cudaGraph_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphNodeGetType(
                    node: cudaGraphNode_t, kind: *mut cudaGraphNodeType
                ) -> cudaError_t;
                [13] fn cudaGraphNodeGetContainingGraph(
                    h_node: cudaGraphNode_t, ph_graph: *mut cudaGraph_t
                ) -> cudaError_t;
                [13] fn cudaGraphNodeGetLocalId(h_node: cudaGraphNode_t, node_id: *mut c_uint) -> cudaError_t;
                [13] fn cudaGraphNodeGetToolsId(
                    h_node: cudaGraphNode_t, tools_node_id: *mut u64
                ) -> cudaError_t;
                [13] fn cudaGraphGetId(h_graph: cudaGraph_t, graph_id: *mut c_uint) -> cudaError_t;
                [13] fn cudaGraphExecGetId(
                    h_graph_exec: cudaGraphExec_t, graph_id: *mut c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaGraphGetNodes(
                    graph: cudaGraph_t, nodes: *mut cudaGraphNode_t, num_nodes: *mut usize
                ) -> cudaError_t;
                [12, 13] fn cudaGraphGetRootNodes(
                    graph: cudaGraph_t, root_nodes: *mut cudaGraphNode_t, num_root_nodes: *mut usize
                ) -> cudaError_t;
                [12, 13 as cudaGraphGetEdges] fn cudaGraphGetEdges_v2(
                    graph: cudaGraph_t, from: *mut cudaGraphNode_t, to: *mut cudaGraphNode_t,
                    edge_data: *mut cudaGraphEdgeData, num_edges: *mut usize
                ) -> cudaError_t;
                [12, 13 as cudaGraphNodeGetDependencies] fn cudaGraphNodeGetDependencies_v2(
                    node: cudaGraphNode_t, dependencies: *mut cudaGraphNode_t,
                    edge_data: *mut cudaGraphEdgeData, num_dependencies: *mut usize
                ) -> cudaError_t;
                [12, 13 as cudaGraphNodeGetDependentNodes] fn cudaGraphNodeGetDependentNodes_v2(
                    node: cudaGraphNode_t, dependent_nodes: *mut cudaGraphNode_t,
                    edge_data: *mut cudaGraphEdgeData, num_dependent_nodes: *mut usize
                ) -> cudaError_t;
                [12, 13 as cudaGraphAddDependencies] fn cudaGraphAddDependencies_v2(
                    graph: cudaGraph_t, from: *const cudaGraphNode_t, to: *const cudaGraphNode_t,
                    edge_data: *const cudaGraphEdgeData, num_dependencies: usize
                ) -> cudaError_t;
                [12, 13 as cudaGraphRemoveDependencies] fn cudaGraphRemoveDependencies_v2(
                    graph: cudaGraph_t, from: *const cudaGraphNode_t, to: *const cudaGraphNode_t,
                    edge_data: *const cudaGraphEdgeData, num_dependencies: usize
                ) -> cudaError_t;
                [12, 13] fn cudaGraphDestroyNode(node: cudaGraphNode_t) -> cudaError_t;
                [12, 13] fn cudaGraphInstantiate(
                    graph_exec: *mut cudaGraphExec_t, graph: cudaGraph_t, flags: u64
                ) -> cudaError_t;
                [12, 13] fn cudaGraphInstantiateWithFlags(
                    graph_exec: *mut cudaGraphExec_t, graph: cudaGraph_t, flags: u64
                ) -> cudaError_t;
                [12, 13] fn cudaGraphInstantiateWithParams / cudaGraphInstantiateWithParams_ptsz(
                    graph_exec: *mut cudaGraphExec_t, graph: cudaGraph_t, instantiate_params: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExecGetFlags(
                    graph_exec: cudaGraphExec_t, flags: *mut u64
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExecKernelNodeSetParams(
                    h_graph_exec: cudaGraphExec_t, node: cudaGraphNode_t,
                    node_params: *const cudaKernelNodeParams
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExecMemcpyNodeSetParams(
                    h_graph_exec: cudaGraphExec_t, node: cudaGraphNode_t,
                    node_params: *const cudaMemcpy3DParms
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExecMemcpyNodeSetParams1D(
                    h_graph_exec: cudaGraphExec_t, node: cudaGraphNode_t, dst: *mut c_void,
                    src: *const c_void, count: usize, kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExecMemsetNodeSetParams(
                    h_graph_exec: cudaGraphExec_t, node: cudaGraphNode_t, node_params: *const cudaMemsetParams
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExecHostNodeSetParams(
                    h_graph_exec: cudaGraphExec_t, node: cudaGraphNode_t,
                    node_params: *const cudaHostNodeParams
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExecChildGraphNodeSetParams(
                    h_graph_exec: cudaGraphExec_t, node: cudaGraphNode_t, child_graph: cudaGraph_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExecEventRecordNodeSetEvent(
                    h_graph_exec: cudaGraphExec_t, h_node: cudaGraphNode_t, event: cudaEvent_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExecEventWaitNodeSetEvent(
                    h_graph_exec: cudaGraphExec_t, h_node: cudaGraphNode_t, event: cudaEvent_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExecExternalSemaphoresWaitNodeSetParams(
                    h_graph_exec: cudaGraphExec_t, h_node: cudaGraphNode_t, node_params: *const c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphNodeSetEnabled(
                    h_graph_exec: cudaGraphExec_t, h_node: cudaGraphNode_t, is_enabled: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaGraphNodeGetEnabled(
                    h_graph_exec: cudaGraphExec_t, h_node: cudaGraphNode_t, is_enabled: *mut c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExecUpdate(
                    h_graph_exec: cudaGraphExec_t, h_graph: cudaGraph_t, result_info: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphUpload / cudaGraphUpload_ptsz(
                    graph_exec: cudaGraphExec_t, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphLaunch / cudaGraphLaunch_ptsz(
                    graph_exec: cudaGraphExec_t, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExecDestroy(graph_exec: cudaGraphExec_t) -> cudaError_t;
                [12, 13] fn cudaGraphDestroy(graph: cudaGraph_t) -> cudaError_t;
                [12, 13] fn cudaGraphDebugDotPrint(
                    graph: cudaGraph_t, path: *const c_char, flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaUserObjectCreate(
                    object_out: *mut cudaUserObject_t, ptr: *mut c_void, destroy: cudaHostFn_t,
                    initial_refcount: c_uint, flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaUserObjectRetain(object: cudaUserObject_t, count: c_uint) -> cudaError_t;
                [12, 13] fn cudaUserObjectRelease(object: cudaUserObject_t, count: c_uint) -> cudaError_t;
                [12, 13] fn cudaGraphRetainUserObject(
                    graph: cudaGraph_t, object: cudaUserObject_t, count: c_uint, flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaGraphReleaseUserObject(
                    graph: cudaGraph_t, object: cudaUserObject_t, count: c_uint
                ) -> cudaError_t;
                [12, 13 as cudaGraphAddNode] fn cudaGraphAddNode_v2(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, dependency_data: *const cudaGraphEdgeData,
                    num_dependencies: usize, node_params: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphNodeSetParams(
                    node: cudaGraphNode_t, node_params: *mut c_void
                ) -> cudaError_t;
                [13] fn cudaGraphNodeGetParams(
                    node: cudaGraphNode_t, node_params: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExecNodeSetParams(
                    graph_exec: cudaGraphExec_t, node: cudaGraphNode_t, node_params: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphConditionalHandleCreate(
                    handle_out: *mut u64, graph: cudaGraph_t, default_launch_value: c_uint, flags: c_uint
                ) -> cudaError_t;
                [13] fn cudaGraphConditionalHandleCreate_v2(
                    handle_out: *mut u64, graph: cudaGraph_t, ctx: cudaExecutionContext_t,
                    default_launch_value: c_uint, flags: c_uint
                ) -> cudaError_t;
                [12] fn cudaGraphGetEdges(
                    graph: cudaGraph_t, from: *mut cudaGraphNode_t, to: *mut cudaGraphNode_t,
                    num_edges: *mut usize
                ) -> cudaError_t;
                [12] fn cudaGraphNodeGetDependencies(
                    node: cudaGraphNode_t, dependencies: *mut cudaGraphNode_t, num_dependencies: *mut usize
                ) -> cudaError_t;
                [12] fn cudaGraphNodeGetDependentNodes(
                    node: cudaGraphNode_t, dependent_nodes: *mut cudaGraphNode_t,
                    num_dependent_nodes: *mut usize
                ) -> cudaError_t;
                [12] fn cudaGraphAddDependencies(
                    graph: cudaGraph_t, from: *const cudaGraphNode_t, to: *const cudaGraphNode_t,
                    num_dependencies: usize
                ) -> cudaError_t;
                [12] fn cudaGraphRemoveDependencies(
                    graph: cudaGraph_t, from: *const cudaGraphNode_t, to: *const cudaGraphNode_t,
                    num_dependencies: usize
                ) -> cudaError_t;
                [12] fn cudaGraphAddNode(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, num_dependencies: usize, node_params: *mut c_void
                ) -> cudaError_t;
            }
            Kernel {
                [12, 13] fn cudaLaunchKernel / cudaLaunchKernel_ptsz(
                    func: *const c_void, grid_dim: dim3, block_dim: dim3, args: *mut *mut c_void,
                    shared_mem: usize, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaLaunchKernelExC / cudaLaunchKernelExC_ptsz(
                    config: *const cudaLaunchConfig_t, func: *const c_void, args: *mut *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaLaunchCooperativeKernel / cudaLaunchCooperativeKernel_ptsz(
                    func: *const c_void, grid_dim: dim3, block_dim: dim3, args: *mut *mut c_void,
                    shared_mem: usize, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaFuncSetCacheConfig(
                    func: *const c_void, cache_config: cudaFuncCache
                ) -> cudaError_t;
                [12, 13] fn cudaFuncGetAttributes(
                    attr: *mut cudaFuncAttributes, func: *const c_void
                ) -> cudaError_t;
                [12, 13] fn cudaFuncSetAttribute(
                    func: *const c_void, attr: cudaFuncAttribute, value: c_int
                ) -> cudaError_t;
                [12, 13] fn cudaFuncGetName(name: *mut *const c_char, func: *const c_void) -> cudaError_t;
                [12, 13] fn cudaFuncGetParamInfo(
                    func: *const c_void, param_index: usize, param_offset: *mut usize, param_size: *mut usize
                ) -> cudaError_t;
                [13] fn cudaFuncGetParamCount(func: *const c_void, param_count: *mut usize) -> cudaError_t;
                [12, 13] fn cudaFuncSetSharedMemConfig(
                    func: *const c_void, config: cudaSharedMemConfig
                ) -> cudaError_t;
                [12, 13] fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                    num_blocks: *mut c_int, func: *const c_void, block_size: c_int, dynamic_s_mem_size: usize
                ) -> cudaError_t;
                [12, 13] fn cudaOccupancyAvailableDynamicSMemPerBlock(
                    dynamic_smem_size: *mut usize, func: *const c_void, num_blocks: c_int, block_size: c_int
                ) -> cudaError_t;
                [12, 13] fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                    num_blocks: *mut c_int, func: *const c_void, block_size: c_int, dynamic_s_mem_size: usize,
                    flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaOccupancyMaxPotentialClusterSize(
                    cluster_size: *mut c_int, func: *const c_void, launch_config: *const cudaLaunchConfig_t
                ) -> cudaError_t;
                [12, 13] fn cudaOccupancyMaxActiveClusters(
                    num_clusters: *mut c_int, func: *const c_void, launch_config: *const cudaLaunchConfig_t
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpyToSymbol / cudaMemcpyToSymbol_ptds(
                    symbol: *const c_void, src: *const c_void, count: usize, offset: usize,
                    kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpyFromSymbol / cudaMemcpyFromSymbol_ptds(
                    dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpyToSymbolAsync / cudaMemcpyToSymbolAsync_ptsz(
                    symbol: *const c_void, src: *const c_void, count: usize, offset: usize,
                    kind: cudaMemcpyKind, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpyFromSymbolAsync / cudaMemcpyFromSymbolAsync_ptsz(
                    dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize,
                    kind: cudaMemcpyKind, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaGetSymbolAddress(
                    dev_ptr: *mut *mut c_void, symbol: *const c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGetSymbolSize(size: *mut usize, symbol: *const c_void) -> cudaError_t;
                [12, 13] fn cudaGraphAddMemcpyNodeToSymbol(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, num_dependencies: usize, symbol: *const c_void,
                    src: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaGraphAddMemcpyNodeFromSymbol(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, num_dependencies: usize, dst: *mut c_void,
                    symbol: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaGraphMemcpyNodeSetParamsToSymbol(
                    node: cudaGraphNode_t, symbol: *const c_void, src: *const c_void, count: usize,
                    offset: usize, kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaGraphMemcpyNodeSetParamsFromSymbol(
                    node: cudaGraphNode_t, dst: *mut c_void, symbol: *const c_void, count: usize,
                    offset: usize, kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExecMemcpyNodeSetParamsToSymbol(
                    h_graph_exec: cudaGraphExec_t, node: cudaGraphNode_t, symbol: *const c_void,
                    src: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExecMemcpyNodeSetParamsFromSymbol(
                    h_graph_exec: cudaGraphExec_t, node: cudaGraphNode_t, dst: *mut c_void,
                    symbol: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaLibraryLoadData(
                    library: *mut cudaLibrary_t, code: *const c_void, jit_options: *mut cudaJitOption,
                    jit_options_values: *mut *mut c_void, num_jit_options: c_uint,
                    library_options: *mut cudaLibraryOption, library_option_values: *mut *mut c_void,
                    num_library_options: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaLibraryLoadFromFile(
                    library: *mut cudaLibrary_t, file_name: *const c_char, jit_options: *mut cudaJitOption,
                    jit_options_values: *mut *mut c_void, num_jit_options: c_uint,
                    library_options: *mut cudaLibraryOption, library_option_values: *mut *mut c_void,
                    num_library_options: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaLibraryUnload(library: cudaLibrary_t) -> cudaError_t;
                [12, 13] fn cudaLibraryGetKernel(
                    kernel: *mut cudaKernel_t, library: cudaLibrary_t, name: *const c_char
                ) -> cudaError_t;
                [12, 13] fn cudaLibraryGetGlobal(
                    dptr: *mut *mut c_void, bytes: *mut usize, library: cudaLibrary_t, name: *const c_char
                ) -> cudaError_t;
                [12, 13] fn cudaLibraryGetManaged(
                    dptr: *mut *mut c_void, bytes: *mut usize, library: cudaLibrary_t, name: *const c_char
                ) -> cudaError_t;
                [12, 13] fn cudaLibraryGetUnifiedFunction(
                    fptr: *mut *mut c_void, library: cudaLibrary_t, symbol: *const c_char
                ) -> cudaError_t;
                [12, 13] fn cudaLibraryGetKernelCount(count: *mut c_uint, lib: cudaLibrary_t) -> cudaError_t;
                [12, 13] fn cudaLibraryEnumerateKernels(
                    kernels: *mut cudaKernel_t, num_kernels: c_uint, lib: cudaLibrary_t
                ) -> cudaError_t;
                [12, 13] fn cudaKernelSetAttributeForDevice(
                    kernel: cudaKernel_t, attr: cudaFuncAttribute, value: c_int, device: c_int
                ) -> cudaError_t;
                [12, 13] fn cudaGetExportTable(
                    pp_export_table: *mut *const c_void, export_table_id: *const CUuuid
                ) -> cudaError_t;
                [12, 13] fn cudaGetFuncBySymbol(
                    function_ptr: *mut cudaFunction_t, symbol_ptr: *const c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGetKernel(
                    kernel_ptr: *mut cudaKernel_t, entry_func_addr: *const c_void
                ) -> cudaError_t;
                [12, 13] fn __cudaRegisterFatBinary(fat_cubin: *mut c_void) -> *mut *mut c_void;
                [12, 13] fn __cudaRegisterFatBinaryEnd(handle: *mut *mut c_void) -> ();
                [12, 13] fn __cudaUnregisterFatBinary(handle: *mut *mut c_void) -> ();
                [12, 13] fn __cudaRegisterFunction(
                    handle: *mut *mut c_void, host_fun: *const c_char, device_fun: *mut c_char,
                    device_name: *const c_char, thread_limit: c_int, tid: *mut c_void, bid: *mut c_void,
                    block_dim: *mut dim3, grid_dim: *mut dim3, warp_size: *mut c_int
                ) -> ();
                [12, 13] fn __cudaRegisterVar(
                    handle: *mut *mut c_void, host_var: *mut c_char, device_address: *mut c_char,
                    device_name: *const c_char, ext: c_int, size: usize, constant: c_int, global: c_int
                ) -> ();
                [12, 13] fn __cudaRegisterManagedVar(
                    handle: *mut *mut c_void, host_var: *mut *mut c_void, device_address: *mut c_char,
                    device_name: *const c_char, ext: c_int, size: usize, constant: c_int, global: c_int
                ) -> ();
                [12, 13] fn __cudaRegisterHostVar(
                    handle: *mut *mut c_void, device_name: *const c_char, host_var: *mut c_char, size: usize
                ) -> ();
                [12, 13] fn __cudaInitModule(handle: *mut *mut c_void) -> c_char;
                [12, 13] fn __cudaPushCallConfiguration(
                    grid_dim: dim3, block_dim: dim3, shared_mem: usize, stream: cudaStream_t
                ) -> c_uint;
                [12, 13] fn __cudaPopCallConfiguration(
                    grid_dim: *mut dim3, block_dim: *mut dim3, shared_mem: *mut usize, stream: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn __cudaGetKernel(
                    kernel: *mut cudaKernel_t, entry_func_addr: *const c_void
                ) -> cudaError_t;
                [12, 13] fn __cudaLaunchKernel / __cudaLaunchKernel_ptsz(
                    kernel: cudaKernel_t, grid_dim: dim3, block_dim: dim3, args: *mut *mut c_void,
                    shared_mem: usize, stream: cudaStream_t
                ) -> cudaError_t;
                [12] fn cudaLaunchCooperativeKernelMultiDevice(
                    launch_params_list: *mut c_void, num_devices: c_uint, flags: c_uint
                ) -> cudaError_t;
                [12] fn cudaSetDoubleForDevice(d: *mut f64) -> cudaError_t;
                [12] fn cudaSetDoubleForHost(d: *mut f64) -> cudaError_t;
            }
            Texture {
                [12, 13] fn cudaDeviceGetTexture1DLinearMaxWidth(
                    max_width_in_elements: *mut usize, fmt_desc: *const cudaChannelFormatDesc, device: c_int
                ) -> cudaError_t;
                [12, 13] fn cudaMallocArray(
                    array: *mut cudaArray_t, desc: *const cudaChannelFormatDesc, width: usize, height: usize,
                    flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaFreeArray(array: cudaArray_t) -> cudaError_t;
                [12, 13] fn cudaFreeMipmappedArray(mipmapped_array: cudaMipmappedArray_t) -> cudaError_t;
                [12, 13] fn cudaMalloc3DArray(
                    array: *mut cudaArray_t, desc: *const cudaChannelFormatDesc, extent: cudaExtent,
                    flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaMallocMipmappedArray(
                    mipmapped_array: *mut cudaMipmappedArray_t, desc: *const cudaChannelFormatDesc,
                    extent: cudaExtent, num_levels: c_uint, flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaGetMipmappedArrayLevel(
                    level_array: *mut cudaArray_t, mipmapped_array: cudaMipmappedArray_t, level: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaArrayGetInfo(
                    desc: *mut cudaChannelFormatDesc, extent: *mut cudaExtent, flags: *mut c_uint,
                    array: cudaArray_t
                ) -> cudaError_t;
                [12, 13] fn cudaArrayGetPlane(
                    plane_array: *mut cudaArray_t, h_array: cudaArray_t, plane_idx: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaArrayGetMemoryRequirements(
                    memory_requirements: *mut c_void, array: cudaArray_t, device: c_int
                ) -> cudaError_t;
                [12, 13] fn cudaMipmappedArrayGetMemoryRequirements(
                    memory_requirements: *mut c_void, mipmap: cudaMipmappedArray_t, device: c_int
                ) -> cudaError_t;
                [12, 13] fn cudaArrayGetSparseProperties(
                    sparse_properties: *mut c_void, array: cudaArray_t
                ) -> cudaError_t;
                [12, 13] fn cudaMipmappedArrayGetSparseProperties(
                    sparse_properties: *mut c_void, mipmap: cudaMipmappedArray_t
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpy2DToArray / cudaMemcpy2DToArray_ptds(
                    dst: cudaArray_t, w_offset: usize, h_offset: usize, src: *const c_void, spitch: usize,
                    width: usize, height: usize, kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpy2DFromArray / cudaMemcpy2DFromArray_ptds(
                    dst: *mut c_void, dpitch: usize, src: cudaArray_t, w_offset: usize, h_offset: usize,
                    width: usize, height: usize, kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpy2DArrayToArray / cudaMemcpy2DArrayToArray_ptds(
                    dst: cudaArray_t, w_offset_dst: usize, h_offset_dst: usize, src: cudaArray_t,
                    w_offset_src: usize, h_offset_src: usize, width: usize, height: usize,
                    kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpy2DToArrayAsync / cudaMemcpy2DToArrayAsync_ptsz(
                    dst: cudaArray_t, w_offset: usize, h_offset: usize, src: *const c_void, spitch: usize,
                    width: usize, height: usize, kind: cudaMemcpyKind, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpy2DFromArrayAsync / cudaMemcpy2DFromArrayAsync_ptsz(
                    dst: *mut c_void, dpitch: usize, src: cudaArray_t, w_offset: usize, h_offset: usize,
                    width: usize, height: usize, kind: cudaMemcpyKind, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpyToArray / cudaMemcpyToArray_ptds(
                    dst: cudaArray_t, w_offset: usize, h_offset: usize, src: *const c_void, count: usize,
                    kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpyFromArray / cudaMemcpyFromArray_ptds(
                    dst: *mut c_void, src: cudaArray_t, w_offset: usize, h_offset: usize, count: usize,
                    kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpyArrayToArray / cudaMemcpyArrayToArray_ptds(
                    dst: cudaArray_t, w_offset_dst: usize, h_offset_dst: usize, src: cudaArray_t,
                    w_offset_src: usize, h_offset_src: usize, count: usize, kind: cudaMemcpyKind
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpyToArrayAsync / cudaMemcpyToArrayAsync_ptsz(
                    dst: cudaArray_t, w_offset: usize, h_offset: usize, src: *const c_void, count: usize,
                    kind: cudaMemcpyKind, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaMemcpyFromArrayAsync / cudaMemcpyFromArrayAsync_ptsz(
                    dst: *mut c_void, src: cudaArray_t, w_offset: usize, h_offset: usize, count: usize,
                    kind: cudaMemcpyKind, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaGetChannelDesc(
                    desc: *mut cudaChannelFormatDesc, array: cudaArray_t
                ) -> cudaError_t;
                [12, 13] fn cudaCreateChannelDesc(
                    x: c_int, y: c_int, z: c_int, w: c_int, f: cudaChannelFormatKind
                ) -> cudaChannelFormatDesc;
                [12, 13] fn cudaCreateTextureObject(
                    tex_object: *mut u64, res_desc: *const c_void, tex_desc: *const c_void,
                    res_view_desc: *const c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGetTextureObjectResourceDesc(
                    res_desc: *mut c_void, tex_object: u64
                ) -> cudaError_t;
                [12, 13] fn cudaGetTextureObjectTextureDesc(
                    tex_desc: *mut c_void, tex_object: u64
                ) -> cudaError_t;
                [12, 13] fn cudaGetTextureObjectResourceViewDesc(
                    res_view_desc: *mut c_void, tex_object: u64
                ) -> cudaError_t;
                [12, 13] fn cudaCreateSurfaceObject(
                    surf_object: *mut u64, res_desc: *const c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGetSurfaceObjectResourceDesc(
                    res_desc: *mut c_void, surf_object: u64
                ) -> cudaError_t;
            }
            Interop {
                [12, 13] fn cudaImportExternalMemory(
                    ext_mem_out: *mut cudaExternalMemory_t, mem_handle_desc: *const c_void
                ) -> cudaError_t;
                [12, 13] fn cudaExternalMemoryGetMappedBuffer(
                    dev_ptr: *mut *mut c_void, ext_mem: cudaExternalMemory_t, buffer_desc: *const c_void
                ) -> cudaError_t;
                [12, 13] fn cudaExternalMemoryGetMappedMipmappedArray(
                    mipmap: *mut cudaMipmappedArray_t, ext_mem: cudaExternalMemory_t,
                    mipmap_desc: *const c_void
                ) -> cudaError_t;
                [12, 13] fn cudaDestroyExternalMemory(ext_mem: cudaExternalMemory_t) -> cudaError_t;
                [12, 13] fn cudaImportExternalSemaphore(
                    ext_sem_out: *mut cudaExternalSemaphore_t, sem_handle_desc: *const c_void
                ) -> cudaError_t;
                [12, 13 as cudaSignalExternalSemaphoresAsync / cudaSignalExternalSemaphoresAsync_ptsz]
                fn cudaSignalExternalSemaphoresAsync_v2 / cudaSignalExternalSemaphoresAsync_v2_ptsz(
                    ext_sem_array: *const cudaExternalSemaphore_t, params_array: *const c_void,
                    num_ext_sems: c_uint, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13 as cudaWaitExternalSemaphoresAsync / cudaWaitExternalSemaphoresAsync_ptsz]
                fn cudaWaitExternalSemaphoresAsync_v2 / cudaWaitExternalSemaphoresAsync_v2_ptsz(
                    ext_sem_array: *const cudaExternalSemaphore_t, params_array: *const c_void,
                    num_ext_sems: c_uint, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaDestroyExternalSemaphore(ext_sem: cudaExternalSemaphore_t) -> cudaError_t;
                [12, 13] fn cudaGraphicsUnregisterResource(resource: cudaGraphicsResource_t) -> cudaError_t;
                [12, 13] fn cudaGraphicsResourceSetMapFlags(
                    resource: cudaGraphicsResource_t, flags: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaGraphicsMapResources(
                    count: c_int, resources: *mut cudaGraphicsResource_t, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphicsUnmapResources(
                    count: c_int, resources: *mut cudaGraphicsResource_t, stream: cudaStream_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphicsResourceGetMappedPointer(
                    dev_ptr: *mut *mut c_void, size: *mut usize, resource: cudaGraphicsResource_t
                ) -> cudaError_t;
                [12, 13] fn cudaGraphicsSubResourceGetMappedArray(
                    array: *mut cudaArray_t, resource: cudaGraphicsResource_t, array_index: c_uint,
                    mip_level: c_uint
                ) -> cudaError_t;
                [12, 13] fn cudaGraphicsResourceGetMappedMipmappedArray(
                    mipmapped_array: *mut cudaMipmappedArray_t, resource: cudaGraphicsResource_t
                ) -> cudaError_t;
                [12, 13] fn cudaDestroyTextureObject(tex_object: u64) -> cudaError_t;
                [12, 13] fn cudaDestroySurfaceObject(surf_object: u64) -> cudaError_t;
                [12, 13] fn cudaGraphAddExternalSemaphoresSignalNode(
                    graph_node: *mut cudaGraphNode_t, graph: cudaGraph_t,
                    dependencies: *const cudaGraphNode_t, num_dependencies: usize, node_params: *const c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExternalSemaphoresSignalNodeGetParams(
                    h_node: cudaGraphNode_t, params_out: *mut c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExternalSemaphoresSignalNodeSetParams(
                    h_node: cudaGraphNode_t, node_params: *const c_void
                ) -> cudaError_t;
                [12, 13] fn cudaGraphExecExternalSemaphoresSignalNodeSetParams(
                    h_graph_exec: cudaGraphExec_t, h_node: cudaGraphNode_t, node_params: *const c_void
                ) -> cudaError_t;
                [12] fn cudaSignalExternalSemaphoresAsync / cudaSignalExternalSemaphoresAsync_ptsz(
                    ext_sem_array: *const c_void, params_array: *const c_void, num_ext_sems: c_uint,
                    stream: cudaStream_t
                ) -> cudaError_t;
                [12] fn cudaWaitExternalSemaphoresAsync / cudaWaitExternalSemaphoresAsync_ptsz(
                    ext_sem_array: *const c_void, params_array: *const c_void, num_ext_sems: c_uint,
                    stream: cudaStream_t
                ) -> cudaError_t;
            }
            Partition {
                [13] fn cudaDeviceGetDevResource(
                    device: c_int, resource: *mut c_void, kind: cudaDevResourceType
                ) -> cudaError_t;
                [13] fn cudaDevSmResourceSplitByCount(
                    result: *mut c_void, nb_groups: *mut c_uint, input: *const c_void, remaining: *mut c_void,
                    flags: c_uint, min_count: c_uint
                ) -> cudaError_t;
                [13] fn cudaDevSmResourceSplit(
                    result: *mut c_void, nb_groups: c_uint, input: *const c_void, remainder: *mut c_void,
                    flags: c_uint, group_params: *mut c_void
                ) -> cudaError_t;
                [13] fn cudaDevResourceGenerateDesc(
                    ph_desc: *mut cudaDevResourceDesc_t, resources: *mut c_void, nb_resources: c_uint
                ) -> cudaError_t;
                [13] fn cudaGreenCtxCreate(
                    ph_ctx: *mut cudaExecutionContext_t, desc: cudaDevResourceDesc_t, device: c_int,
                    flags: c_uint
                ) -> cudaError_t;
                [13] fn cudaExecutionCtxDestroy(ctx: cudaExecutionContext_t) -> cudaError_t;
                [13] fn cudaExecutionCtxGetDevResource(
                    ctx: cudaExecutionContext_t, resource: *mut c_void, kind: cudaDevResourceType
                ) -> cudaError_t;
                [13] fn cudaExecutionCtxGetDevice(
                    device: *mut c_int, ctx: cudaExecutionContext_t
                ) -> cudaError_t;
                [13] fn cudaExecutionCtxGetId(ctx: cudaExecutionContext_t, ctx_id: *mut u64) -> cudaError_t;
                [13] fn cudaExecutionCtxStreamCreate(
                    ph_stream: *mut cudaStream_t, ctx: cudaExecutionContext_t, flags: c_uint, priority: c_int
                ) -> cudaError_t;
                [13] fn cudaExecutionCtxSynchronize(ctx: cudaExecutionContext_t) -> cudaError_t;
                [13] fn cudaStreamGetDevResource / cudaStreamGetDevResource_ptsz(
                    h_stream: cudaStream_t, resource: *mut c_void, kind: cudaDevResourceType
                ) -> cudaError_t;
                [13] fn cudaExecutionCtxRecordEvent(
                    ctx: cudaExecutionContext_t, event: cudaEvent_t
                ) -> cudaError_t;
                [13] fn cudaExecutionCtxWaitEvent(
                    ctx: cudaExecutionContext_t, event: cudaEvent_t
                ) -> cudaError_t;
                [13] fn cudaDeviceGetExecutionCtx(
                    ctx: *mut cudaExecutionContext_t, device: c_int
                ) -> cudaError_t;
            }
        }
    };
}
