//! The table: every function NCCL 2.32.3 exports, once.

/// Hands every function of NCCL 2.32.3 to a macro of the caller's, as items.
///
/// 97 rows, 96 of them with a `pnccl` twin for profilers. A row is
///
/// ```text
/// /// What it does, in a sentence.
/// [major, minor, Section] fn ncclName / pncclName(argument: type, …) -> type;
/// ```
///
/// where major and minor name the release that brought it, the [`Section`](crate::rows::Section) groups rows for
/// people, and the twin is left out where there is none. A consumer matches rows with
///
/// ```text
/// $( $(#[doc = $doc:literal])*
///    [$major:literal, $minor:literal, $section:ident] fn $name:ident $(/ $twin:ident)?
///    ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty; )*
/// ```
///
/// and brings [`types`](crate::types) into scope. For instance, all names:
///
/// ```
/// macro_rules! names {
///     ($( $(#[$_doc:meta])* [$($_since:tt)*] fn $name:ident $(/ $twin:ident)?
///         ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty; )*) => {
///         const NAMES: &[&str] = &[$(stringify!($name), $(stringify!($twin),)?)*];
///     };
/// }
/// fakegpu_nccl_abi::nccl_table!(names);
/// assert_eq!(NAMES.len(), 97 + 96);
/// ```
#[macro_export]
macro_rules! nccl_table {
    ($each:path) => {
        $each! {
            /// Writes the version as one number, 23203 for 2.32.3.
            [2, 0, Library] fn ncclGetVersion / pncclGetVersion(version: *mut c_int) -> ncclResult_t;
            /// A sentence for a result code; never NULL.
            [2, 0, Library] fn ncclGetErrorString / pncclGetErrorString(
                result: ncclResult_t
            ) -> *const c_char;
            /// The last failure's sentence; `comm` may be NULL.
            [2, 13, Library] fn ncclGetLastError / pncclGetLastError(comm: ncclComm_t) -> *const c_char;
            /// Reads the logging settings again.
            [2, 24, Library] fn ncclResetDebugInit / pncclResetDebugInit() -> ();
            /// As `ncclResetDebugInit`, which calls it; exported, in no header, without a twin.
            [2, 24, Library] fn ncclResetDebugInitInternal() -> ();
            /// Sets how the library's own sockets are protected.
            [2, 32, Library] fn ncclSetEncryption / pncclSetEncryption(
                config: *const ncclEncryptionConfig_t
            ) -> ncclResult_t;

            /// Makes the bytes by which the ranks of one communicator find each other.
            [2, 0, Communicator] fn ncclGetUniqueId / pncclGetUniqueId(
                unique_id: *mut ncclUniqueId
            ) -> ncclResult_t;
            /// Joins a communicator as `rank` of `nranks`.
            [2, 0, Communicator] fn ncclCommInitRank / pncclCommInitRank(
                comm: *mut ncclComm_t, nranks: c_int, comm_id: ncclUniqueId, rank: c_int
            ) -> ncclResult_t;
            /// As `ncclCommInitRank`, with settings.
            [2, 14, Communicator] fn ncclCommInitRankConfig / pncclCommInitRankConfig(
                comm: *mut ncclComm_t, nranks: c_int, comm_id: ncclUniqueId, rank:
                c_int, config: *mut ncclConfig_t
            ) -> ncclResult_t;
            /// As `ncclCommInitRankConfig`, with several ids to spread the meeting over.
            [2, 23, Communicator] fn ncclCommInitRankScalable / pncclCommInitRankScalable(
                newcomm: *mut ncclComm_t, nranks: c_int, myrank: c_int, n_id: c_int,
                comm_ids: *mut ncclUniqueId, config: *mut ncclConfig_t
            ) -> ncclResult_t;
            /// Makes all communicators of one process, one per device.
            [2, 0, Communicator] fn ncclCommInitAll / pncclCommInitAll(
                comms: *mut ncclComm_t, ndev: c_int, devlist: *const c_int
            ) -> ncclResult_t;
            /// Makes one communicator per colour, ranks ordered by key.
            [2, 18, Communicator] fn ncclCommSplit / pncclCommSplit(
                comm: ncclComm_t, color: c_int, key: c_int, newcomm: *mut ncclComm_t,
                config: *mut ncclConfig_t
            ) -> ncclResult_t;
            /// Makes a communicator without the listed ranks.
            [2, 27, Communicator] fn ncclCommShrink / pncclCommShrink(
                comm: ncclComm_t, exclude_ranks_list: *mut c_int, exclude_ranks_count:
                c_int, newcomm: *mut ncclComm_t, config: *mut ncclConfig_t,
                shrink_flags: c_int
            ) -> ncclResult_t;
            /// Makes the id by which new ranks join `ncclCommGrow`.
            [2, 29, Communicator] fn ncclCommGetUniqueId / pncclCommGetUniqueId(
                comm: ncclComm_t, unique_id: *mut ncclUniqueId
            ) -> ncclResult_t;
            /// Makes a communicator with more ranks; old ranks pass -1, new ones a NULL `comm`.
            [2, 29, Communicator] fn ncclCommGrow / pncclCommGrow(
                comm: ncclComm_t, n_ranks: c_int, unique_id: *const ncclUniqueId, rank:
                c_int, newcomm: *mut ncclComm_t, config: *mut ncclConfig_t
            ) -> ncclResult_t;
            /// Ends the use of a communicator; local, never waits for peers.
            [2, 14, Communicator] fn ncclCommFinalize / pncclCommFinalize(comm: ncclComm_t) -> ncclResult_t;
            /// Stops what is in flight and keeps the communicator for split, shrink and destroy.
            [2, 29, Communicator] fn ncclCommRevoke / pncclCommRevoke(
                comm: ncclComm_t, revoke_flags: c_int
            ) -> ncclResult_t;
            /// Frees a communicator.
            [2, 0, Communicator] fn ncclCommDestroy / pncclCommDestroy(comm: ncclComm_t) -> ncclResult_t;
            /// Stops what is in flight and frees the communicator.
            [2, 4, Communicator] fn ncclCommAbort / pncclCommAbort(comm: ncclComm_t) -> ncclResult_t;
            /// How asynchronous work ended, or that it goes on.
            [2, 4, Communicator] fn ncclCommGetAsyncError / pncclCommGetAsyncError(
                comm: ncclComm_t, async_error: *mut ncclResult_t
            ) -> ncclResult_t;
            /// Ranks in the communicator.
            [2, 0, Communicator] fn ncclCommCount / pncclCommCount(
                comm: ncclComm_t, count: *mut c_int
            ) -> ncclResult_t;
            /// The communicator's CUDA device.
            [2, 0, Communicator] fn ncclCommCuDevice / pncclCommCuDevice(
                comm: ncclComm_t, device: *mut c_int
            ) -> ncclResult_t;
            /// The caller's rank.
            [2, 0, Communicator] fn ncclCommUserRank / pncclCommUserRank(
                comm: ncclComm_t, rank: *mut c_int
            ) -> ncclResult_t;
            /// Gives device memory back until `ncclCommResume`.
            [2, 29, Communicator] fn ncclCommSuspend / pncclCommSuspend(
                comm: ncclComm_t, flags: c_int
            ) -> ncclResult_t;
            /// Takes back what `ncclCommSuspend` gave away.
            [2, 29, Communicator] fn ncclCommResume / pncclCommResume(comm: ncclComm_t) -> ncclResult_t;
            /// Bytes of device memory of one kind.
            [2, 29, Communicator] fn ncclCommMemStats / pncclCommMemStats(
                comm: ncclComm_t, stat: ncclCommMemStat_t, value: *mut u64
            ) -> ncclResult_t;
            /// What the communicator can do.
            [2, 29, Communicator] fn ncclCommQueryProperties / pncclCommQueryProperties(
                comm: ncclComm_t, props: *mut ncclCommProperties_t
            ) -> ncclResult_t;

            /// Allocates device memory that NCCL can register.
            [2, 19, Memory] fn ncclMemAlloc / pncclMemAlloc(
                ptr: *mut *mut c_void, size: usize
            ) -> ncclResult_t;
            /// Frees memory of `ncclMemAlloc`.
            [2, 19, Memory] fn ncclMemFree / pncclMemFree(ptr: *mut c_void) -> ncclResult_t;
            /// Registers a buffer for zero-copy use.
            [2, 19, Memory] fn ncclCommRegister / pncclCommRegister(
                comm: ncclComm_t, buff: *mut c_void, size: usize, handle: *mut *mut
                c_void
            ) -> ncclResult_t;
            /// Forgets a registered buffer.
            [2, 19, Memory] fn ncclCommDeregister / pncclCommDeregister(
                comm: ncclComm_t, handle: *mut c_void
            ) -> ncclResult_t;
            /// Registers a window; collective. NULL where symmetric memory is not there.
            [2, 27, Memory] fn ncclCommWindowRegister / pncclCommWindowRegister(
                comm: ncclComm_t, buff: *mut c_void, size: usize, win: *mut
                ncclWindow_t, win_flags: c_int
            ) -> ncclResult_t;
            /// Forgets a window; collective.
            [2, 27, Memory] fn ncclCommWindowDeregister / pncclCommWindowDeregister(
                comm: ncclComm_t, win: ncclWindow_t
            ) -> ncclResult_t;
            /// The buffer behind a window.
            [2, 29, Memory] fn ncclWinGetUserPtr / pncclWinGetUserPtr(
                comm: ncclComm_t, win: ncclWindow_t, out_user_ptr: *mut *mut c_void
            ) -> ncclResult_t;

            /// Makes an operator that multiplies by a scalar before it sums.
            [2, 11, Operator] fn ncclRedOpCreatePreMulSum / pncclRedOpCreatePreMulSum(
                op: *mut ncclRedOp_t, scalar: *mut c_void, datatype: ncclDataType_t,
                residence: ncclScalarResidence_t, comm: ncclComm_t
            ) -> ncclResult_t;
            /// Forgets an operator.
            [2, 11, Operator] fn ncclRedOpDestroy / pncclRedOpDestroy(
                op: ncclRedOp_t, comm: ncclComm_t
            ) -> ncclResult_t;

            /// Every rank receives the reduction of all contributions.
            [2, 0, Collective] fn ncclAllReduce / pncclAllReduce(
                sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype:
                ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream: cudaStream_t
            ) -> ncclResult_t;
            /// The root receives the reduction of all contributions.
            [2, 0, Collective] fn ncclReduce / pncclReduce(
                sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype:
                ncclDataType_t, op: ncclRedOp_t, root: c_int, comm: ncclComm_t, stream:
                cudaStream_t
            ) -> ncclResult_t;
            /// Every rank receives the root's buffer.
            [2, 2, Collective] fn ncclBroadcast / pncclBroadcast(
                sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype:
                ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t
            ) -> ncclResult_t;
            /// `ncclBroadcast` in place.
            [2, 0, Collective] fn ncclBcast / pncclBcast(
                buff: *mut c_void, count: usize, datatype: ncclDataType_t, root: c_int,
                comm: ncclComm_t, stream: cudaStream_t
            ) -> ncclResult_t;
            /// Every rank receives all contributions, in rank order.
            [2, 0, Collective] fn ncclAllGather / pncclAllGather(
                sendbuff: *const c_void, recvbuff: *mut c_void, sendcount: usize,
                datatype: ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t
            ) -> ncclResult_t;
            /// Rank r receives block r of the reduction.
            [2, 0, Collective] fn ncclReduceScatter / pncclReduceScatter(
                sendbuff: *const c_void, recvbuff: *mut c_void, recvcount: usize,
                datatype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream:
                cudaStream_t
            ) -> ncclResult_t;
            /// Rank r's block s becomes rank s's block r.
            [2, 28, Collective] fn ncclAlltoAll / pncclAlltoAll(
                sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype:
                ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t
            ) -> ncclResult_t;
            /// The root receives all contributions, in rank order.
            [2, 28, Collective] fn ncclGather / pncclGather(
                sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype:
                ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t
            ) -> ncclResult_t;
            /// Rank r receives the root's block r.
            [2, 28, Collective] fn ncclScatter / pncclScatter(
                sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype:
                ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t
            ) -> ncclResult_t;
            /// `ncclAllReduce` with settings of its own; NULL means none.
            [2, 32, Collective] fn ncclAllReduceConfig / pncclAllReduceConfig(
                sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype:
                ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream: cudaStream_t,
                config: *const ncclCollConfig_t
            ) -> ncclResult_t;
            /// `ncclReduce` with settings of its own; NULL means none.
            [2, 32, Collective] fn ncclReduceConfig / pncclReduceConfig(
                sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype:
                ncclDataType_t, op: ncclRedOp_t, root: c_int, comm: ncclComm_t, stream:
                cudaStream_t, config: *const ncclCollConfig_t
            ) -> ncclResult_t;
            /// `ncclBroadcast` with settings of its own; NULL means none.
            [2, 32, Collective] fn ncclBroadcastConfig / pncclBroadcastConfig(
                sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype:
                ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
                config: *const ncclCollConfig_t
            ) -> ncclResult_t;
            /// `ncclAllGather` with settings of its own; NULL means none.
            [2, 32, Collective] fn ncclAllGatherConfig / pncclAllGatherConfig(
                sendbuff: *const c_void, recvbuff: *mut c_void, sendcount: usize,
                datatype: ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t,
                config: *const ncclCollConfig_t
            ) -> ncclResult_t;
            /// `ncclReduceScatter` with settings of its own; NULL means none.
            [2, 32, Collective] fn ncclReduceScatterConfig / pncclReduceScatterConfig(
                sendbuff: *const c_void, recvbuff: *mut c_void, recvcount: usize,
                datatype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t, stream:
                cudaStream_t, config: *const ncclCollConfig_t
            ) -> ncclResult_t;
            /// `ncclAlltoAll` with settings of its own; NULL means none.
            [2, 32, Collective] fn ncclAlltoAllConfig / pncclAlltoAllConfig(
                sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype:
                ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t, config: *const
                ncclCollConfig_t
            ) -> ncclResult_t;
            /// `ncclGather` with settings of its own; NULL means none.
            [2, 32, Collective] fn ncclGatherConfig / pncclGatherConfig(
                sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype:
                ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
                config: *const ncclCollConfig_t
            ) -> ncclResult_t;
            /// `ncclScatter` with settings of its own; NULL means none.
            [2, 32, Collective] fn ncclScatterConfig / pncclScatterConfig(
                sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype:
                ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t,
                config: *const ncclCollConfig_t
            ) -> ncclResult_t;

            /// Sends to a peer that receives.
            [2, 7, PointToPoint] fn ncclSend / pncclSend(
                sendbuff: *const c_void, count: usize, datatype: ncclDataType_t, peer:
                c_int, comm: ncclComm_t, stream: cudaStream_t
            ) -> ncclResult_t;
            /// Receives from a peer that sends.
            [2, 7, PointToPoint] fn ncclRecv / pncclRecv(
                recvbuff: *mut c_void, count: usize, datatype: ncclDataType_t, peer:
                c_int, comm: ncclComm_t, stream: cudaStream_t
            ) -> ncclResult_t;
            /// Writes into a peer's window, then signals it.
            [2, 29, PointToPoint] fn ncclPutSignal / pncclPutSignal(
                localbuff: *const c_void, count: usize, datatype: ncclDataType_t, peer:
                c_int, peer_win: ncclWindow_t, peer_win_offset: usize, sig_idx: c_int,
                ctx: c_int, flags: c_uint, comm: ncclComm_t, stream: cudaStream_t
            ) -> ncclResult_t;
            /// Signals a peer.
            [2, 29, PointToPoint] fn ncclSignal / pncclSignal(
                peer: c_int, sig_idx: c_int, ctx: c_int, flags: c_uint, comm:
                ncclComm_t, stream: cudaStream_t
            ) -> ncclResult_t;
            /// Waits for signals of peers.
            [2, 29, PointToPoint] fn ncclWaitSignal / pncclWaitSignal(
                n_desc: c_int, signal_descs: *mut ncclWaitSignalDesc_t, comm:
                ncclComm_t, stream: cudaStream_t
            ) -> ncclResult_t;

            /// Calls up to `ncclGroupEnd` become one.
            [2, 0, Grouping] fn ncclGroupStart / pncclGroupStart() -> ncclResult_t;
            /// Starts the calls of the group.
            [2, 0, Grouping] fn ncclGroupEnd / pncclGroupEnd() -> ncclResult_t;
            /// Estimates the group's time instead of starting it.
            [2, 22, Grouping] fn ncclGroupSimulateEnd / pncclGroupSimulateEnd(
                sim_info: *mut ncclSimInfo_t
            ) -> ncclResult_t;

            /// Looks a runtime parameter up.
            [2, 30, Parameter] fn ncclParamBind / pncclParamBind(
                out: *mut ncclParamHandle_t, key: *const c_char
            ) -> ncclResult_t;
            /// Reads a parameter as a signed 8-bit number.
            [2, 30, Parameter] fn ncclParamGetI8 / pncclParamGetI8(
                h: ncclParamHandle_t, out: *mut i8
            ) -> ncclResult_t;
            /// Reads a parameter as a signed 16-bit number.
            [2, 30, Parameter] fn ncclParamGetI16 / pncclParamGetI16(
                h: ncclParamHandle_t, out: *mut i16
            ) -> ncclResult_t;
            /// Reads a parameter as a signed 32-bit number.
            [2, 30, Parameter] fn ncclParamGetI32 / pncclParamGetI32(
                h: ncclParamHandle_t, out: *mut i32
            ) -> ncclResult_t;
            /// Reads a parameter as a signed 64-bit number.
            [2, 30, Parameter] fn ncclParamGetI64 / pncclParamGetI64(
                h: ncclParamHandle_t, out: *mut i64
            ) -> ncclResult_t;
            /// Reads a parameter as an unsigned 8-bit number.
            [2, 30, Parameter] fn ncclParamGetU8 / pncclParamGetU8(
                h: ncclParamHandle_t, out: *mut u8
            ) -> ncclResult_t;
            /// Reads a parameter as an unsigned 16-bit number.
            [2, 30, Parameter] fn ncclParamGetU16 / pncclParamGetU16(
                h: ncclParamHandle_t, out: *mut u16
            ) -> ncclResult_t;
            /// Reads a parameter as an unsigned 32-bit number.
            [2, 30, Parameter] fn ncclParamGetU32 / pncclParamGetU32(
                h: ncclParamHandle_t, out: *mut u32
            ) -> ncclResult_t;
            /// Reads a parameter as an unsigned 64-bit number.
            [2, 30, Parameter] fn ncclParamGetU64 / pncclParamGetU64(
                h: ncclParamHandle_t, out: *mut u64
            ) -> ncclResult_t;
            /// Reads a parameter as text, valid until the thread's next call.
            [2, 30, Parameter] fn ncclParamGetStr / pncclParamGetStr(
                h: ncclParamHandle_t, out: *mut *const c_char
            ) -> ncclResult_t;
            /// Copies a parameter's bytes.
            [2, 30, Parameter] fn ncclParamGet / pncclParamGet(
                h: ncclParamHandle_t, out: *mut c_void, max_len: c_int, len: *mut c_int
            ) -> ncclResult_t;
            /// Reads a parameter by name as text.
            [2, 30, Parameter] fn ncclParamGetParameter / pncclParamGetParameter(
                key: *const c_char, value: *mut *const c_char, value_len: *mut c_int
            ) -> ncclResult_t;
            /// Every parameter's name.
            [2, 30, Parameter] fn ncclParamGetAllParameterKeys / pncclParamGetAllParameterKeys(
                table: *mut *mut *const c_char, table_len: *mut c_int
            ) -> ncclResult_t;
            /// Logs every parameter.
            [2, 30, Parameter] fn ncclParamDumpAll / pncclParamDumpAll() -> ();

            /// Makes a communicator for device code; collective.
            [2, 28, Device] fn ncclDevCommCreate / pncclDevCommCreate(
                comm: ncclComm_t, reqs: *const ncclDevCommRequirements_t, out_dev_comm:
                *mut ncclDevComm_t
            ) -> ncclResult_t;
            /// Frees a communicator for device code.
            [2, 28, Device] fn ncclDevCommDestroy / pncclDevCommDestroy(
                comm: ncclComm_t, dev_comm: *const ncclDevComm_t
            ) -> ncclResult_t;
            /// A window's multicast address among ranks that share memory.
            [2, 29, Device] fn ncclGetLsaMultimemDevicePointer / pncclGetLsaMultimemDevicePointer(
                window: ncclWindow_t, offset: usize, out_ptr: *mut *mut c_void
            ) -> ncclResult_t;
            /// A window's address in a given multicast mapping.
            [2, 29, Device] fn ncclGetMultimemDevicePointer / pncclGetMultimemDevicePointer(
                window: ncclWindow_t, offset: usize, multimem: ncclMultimemHandle_t,
                out_ptr: *mut *mut c_void
            ) -> ncclResult_t;
            /// A window's address at a rank that shares memory.
            [2, 29, Device] fn ncclGetLsaDevicePointer / pncclGetLsaDevicePointer(
                window: ncclWindow_t, offset: usize, lsa_rank: c_int, out_ptr: *mut *mut
                c_void
            ) -> ncclResult_t;
            /// A window's address at a rank of the communicator, NULL if out of reach.
            [2, 29, Device] fn ncclGetPeerDevicePointer / pncclGetPeerDevicePointer(
                window: ncclWindow_t, offset: usize, peer: c_int, out_ptr: *mut *mut
                c_void
            ) -> ncclResult_t;
            /// A window's multicast endpoint.
            [2, 31, Device] fn ncclGetMultimemDeviceLeInfo / pncclGetMultimemDeviceLeInfo(
                window: ncclWindow_t, offset: usize, le_id: *mut ncclCftLeId_t,
                le_offset: *mut usize
            ) -> ncclResult_t;
            /// A window's endpoint at a rank of a team.
            [2, 31, Device] fn ncclGetCftDeviceLeInfo / pncclGetCftDeviceLeInfo(
                window: ncclWindow_t, offset: usize, peer_cft: c_int, cft_team:
                ncclTeam_t, le_id: *mut ncclCftLeId_t, le_offset: *mut usize
            ) -> ncclResult_t;
            /// A window's endpoint at a rank of the communicator.
            [2, 31, Device] fn ncclGetPeerDeviceLeInfo / pncclGetPeerDeviceLeInfo(
                window: ncclWindow_t, offset: usize, peer_world: c_int, le_id: *mut
                ncclCftLeId_t, le_offset: *mut usize
            ) -> ncclResult_t;
            /// All ranks.
            [2, 28, Device] fn ncclTeamWorld / pncclTeamWorld(comm: ncclComm_t) -> ncclTeam_t;
            /// The ranks that share memory with the caller.
            [2, 28, Device] fn ncclTeamLsa / pncclTeamLsa(comm: ncclComm_t) -> ncclTeam_t;
            /// The ranks at the caller's place in each shared-memory team.
            [2, 28, Device] fn ncclTeamRail / pncclTeamRail(comm: ncclComm_t) -> ncclTeam_t;
            /// The ranks reachable by logical endpoints.
            [2, 31, Device] fn ncclTeamCft / pncclTeamCft(
                comm: ncclComm_t, mode: ncclCftTeamMode_t
            ) -> ncclTeam_t;
            /// The ranks reachable by multicast endpoints.
            [2, 31, Device] fn ncclTeamCftMultimem / pncclTeamCftMultimem(comm: ncclComm_t) -> ncclTeam_t;
            /// A team's rank as one of the communicator.
            [2, 28, Device] fn ncclTeamRankToWorld / pncclTeamRankToWorld(
                comm: ncclComm_t, team: ncclTeam_t, rank: c_int
            ) -> c_int;
            /// A team's rank as one of the shared-memory team.
            [2, 28, Device] fn ncclTeamRankToLsa / pncclTeamRankToLsa(
                comm: ncclComm_t, team: ncclTeam_t, rank: c_int
            ) -> c_int;
            /// What barriers among ranks that share memory need.
            [2, 28, Device] fn ncclLsaBarrierCreateRequirement / pncclLsaBarrierCreateRequirement(
                team: ncclTeam_t, n_barriers: c_int, out_handle: *mut
                ncclLsaBarrierHandle_t, out_req: *mut ncclDevResourceRequirements_t
            ) -> ncclResult_t;
            /// What barriers over the network need.
            [2, 28, Device] fn ncclGinBarrierCreateRequirement / pncclGinBarrierCreateRequirement(
                comm: ncclComm_t, team: ncclTeam_t, n_barriers: c_int, out_handle: *mut
                ncclGinBarrierHandle_t, out_req: *mut ncclDevResourceRequirements_t
            ) -> ncclResult_t;
            /// What an outbox needs; exported, in no Linux header.
            [2, 28, Device] fn ncclGinOutboxCreateRequirement / pncclGinOutboxCreateRequirement(
                n_blocks: c_int, size_log2: c_int, out_handle: *mut
                ncclGinOutboxHandle_t, out_req: *mut ncclDevResourceRequirements_t
            ) -> ncclResult_t;
            /// What an all-to-all inbox needs; exported, in no Linux header.
            [2, 28, Device] fn ncclGinInboxA2ACreateRequirement / pncclGinInboxA2ACreateRequirement(
                peers: ncclTeam_t, n_blocks: c_int, size_log2: c_int, out_handle: *mut
                ncclGinInboxA2AHandle_t, out_req: *mut ncclDevResourceRequirements_t
            ) -> ncclResult_t;
            /// Slots a low-latency all-to-all needs.
            [2, 28, Device] fn ncclLLA2ACalcSlots / pncclLLA2ACalcSlots(
                max_elts: c_int, max_elt_size: c_int
            ) -> c_int;
            /// What a low-latency all-to-all needs.
            [2, 28, Device] fn ncclLLA2ACreateRequirement / pncclLLA2ACreateRequirement(
                n_blocks: c_int, n_slots: c_int, out_handle: *mut ncclLLA2AHandle_t,
                out_req: *mut ncclDevResourceRequirements_t
            ) -> ncclResult_t;
        }
    };
}
