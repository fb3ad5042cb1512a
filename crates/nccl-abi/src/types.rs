//! The types of `nccl.h` 2.32, laid out as C lays them out and named as C names them.
#![expect(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "C's own names, so that a search finds both sides"
)]

use std::fmt;
use std::marker::{PhantomData, PhantomPinned};
use std::mem::offset_of;

pub use std::ffi::{c_char, c_int, c_uint, c_void};

pub use crate::describe::{Field, Layout, Named};

/// C's `bool`. A byte, since a caller's memory may hold more than 0 and 1.
pub type c_bool = u8;

/// Bytes of a [`ncclUniqueId`].
pub const NCCL_UNIQUE_ID_BYTES: usize = 128;
/// An integer setting the caller left alone.
pub const NCCL_CONFIG_UNDEF_INT: c_int = c_int::MIN;
/// The mark of an initialised configuration struct.
pub const NCCL_API_MAGIC: c_uint = 0xcafe_beef;
/// The mark of an initialised [`ncclSimInfo_t`].
pub const NCCL_SIM_INFO_MAGIC: c_uint = 0x7468_5283;
/// The estimate of a simulation that has not run.
pub const NCCL_UNDEF_FLOAT: f32 = -1.0;
/// `ncclCommSplit`: this rank joins no child.
pub const NCCL_SPLIT_NOCOLOR: c_int = -1;
/// `ncclCommShrink`: the parent stays usable.
pub const NCCL_SHRINK_DEFAULT: c_int = 0;
/// `ncclCommShrink`: what the parent is doing is aborted first.
pub const NCCL_SHRINK_ABORT: c_int = 1;
/// `ncclCommRevoke`: the only flags there are.
pub const NCCL_REVOKE_DEFAULT: c_int = 0;
/// `ncclCommSuspend`: give device memory back.
pub const NCCL_SUSPEND_MEM: c_int = 1;
/// `ncclCommWindowRegister`: nothing asked for.
pub const NCCL_WIN_DEFAULT: c_int = 0;
/// `ncclCommWindowRegister`: every rank registers at the same offset.
pub const NCCL_WIN_COLL_SYMMETRIC: c_int = 1;
/// `ncclCommWindowRegister`: writes arrive in order.
pub const NCCL_WIN_STRICT_ORDERING: c_int = 2;
/// `ncclCommWindowRegister`: for device-initiated networking only.
pub const NCCL_WIN_GIN_ONLY: c_int = 4;
/// `ncclCommWindowRegister`: for counted endpoints only.
pub const NCCL_WIN_CFT_COUNTED: c_int = 8;
/// Alignment a window's buffer must have, in bytes.
pub const NCCL_WIN_REQUIRED_ALIGNMENT: usize = 4096;

/// A CUDA stream. Opaque: without a CUDA runtime it is never looked into; 1 and 2 name the default streams.
pub type cudaStream_t = *mut c_void;
/// A CUDA event. Opaque.
pub type cudaEvent_t = *mut c_void;
/// A communicator as callers hold it.
pub type ncclComm_t = *mut ncclComm;
/// A registered window as callers hold it.
pub type ncclWindow_t = *mut ncclWindow_vidmem;
/// A runtime parameter as callers hold it.
pub type ncclParamHandle_t = *mut ncclParamHandle;
/// A logical endpoint's number.
pub type ncclCftLeId_t = u32;

c_opaque! {
    /// What a [`ncclComm_t`] points to.
    ncclComm;
    /// What a [`ncclWindow_t`] points to.
    ncclWindow_vidmem;
    /// What a [`ncclParamHandle_t`] points to.
    ncclParamHandle;
    /// A communicator for device code, filled in by `ncclDevCommCreate`.
    ncclDevComm_t;
    /// What a device communicator must provide.
    ncclDevCommRequirements_t;
    /// A node in the list of resources a device communicator must provide.
    ncclDevResourceRequirements_t;
    /// A barrier among ranks that share memory.
    ncclLsaBarrierHandle_t;
    /// A barrier over device-initiated networking.
    ncclGinBarrierHandle_t;
    /// An outbox of device-initiated networking.
    ncclGinOutboxHandle_t;
    /// An all-to-all inbox of device-initiated networking.
    ncclGinInboxA2AHandle_t;
    /// A low-latency all-to-all.
    ncclLLA2AHandle_t;
}

c_enum! {
    /// How a call ended.
    ncclResult_t {
        /// It did what was asked.
        ncclSuccess = 0,
        /// A CUDA call failed.
        ncclUnhandledCudaError = 1,
        /// A system call, a socket or a peer's process failed.
        ncclSystemError = 2,
        /// A bug in the library.
        ncclInternalError = 3,
        /// An argument is out of range.
        ncclInvalidArgument = 4,
        /// The arguments are fine, the call is not: wrong moment, or ranks disagree.
        ncclInvalidUsage = 5,
        /// A peer failed or the network did.
        ncclRemoteError = 6,
        /// A non-blocking call has not ended yet.
        ncclInProgress = 7,
        /// It took longer than allowed.
        ncclTimeout = 8,
        /// How many codes there are.
        ncclNumResults = 9,
    }
}

c_enum! {
    /// An element type.
    ncclDataType_t {
        /// Signed, 8 bits.
        ncclInt8 = 0,
        /// Alias of ncclInt8.
        ncclChar = 0,
        /// Unsigned, 8 bits.
        ncclUint8 = 1,
        /// Signed, 32 bits.
        ncclInt32 = 2,
        /// Alias of ncclInt32.
        ncclInt = 2,
        /// Unsigned, 32 bits.
        ncclUint32 = 3,
        /// Signed, 64 bits.
        ncclInt64 = 4,
        /// Unsigned, 64 bits.
        ncclUint64 = 5,
        /// IEEE binary16.
        ncclFloat16 = 6,
        /// Alias of ncclFloat16.
        ncclHalf = 6,
        /// IEEE binary32.
        ncclFloat32 = 7,
        /// Alias of ncclFloat32.
        ncclFloat = 7,
        /// IEEE binary64.
        ncclFloat64 = 8,
        /// Alias of ncclFloat64.
        ncclDouble = 8,
        /// The upper half of a binary32.
        ncclBfloat16 = 9,
        /// 8 bits, 4 of them exponent, no infinity.
        ncclFloat8e4m3 = 10,
        /// 8 bits, 5 of them exponent.
        ncclFloat8e5m2 = 11,
        /// How many types there are.
        ncclNumTypes = 12,
    }
}

c_enum! {
    /// A reduction operator. Values from ncclNumOps on are made by ncclRedOpCreatePreMulSum.
    ncclRedOp_t {
        /// Sum.
        ncclSum = 0,
        /// Product.
        ncclProd = 1,
        /// Largest.
        ncclMax = 2,
        /// Smallest.
        ncclMin = 3,
        /// Sum divided by the number of ranks.
        ncclAvg = 4,
        /// How many operators are built in.
        ncclNumOps = 5,
        /// The largest value an operator can have.
        ncclMaxRedOp = c_int::MAX,
    }
}

c_enum! {
    /// Where the scalar of ncclRedOpCreatePreMulSum lives.
    ncclScalarResidence_t {
        /// In device memory, read when an operation runs.
        ncclScalarDevice = 0,
        /// In host memory, read before the call returns.
        ncclScalarHostImmediate = 1,
    }
}

c_enum! {
    /// What ncclCommMemStats is asked for, in bytes.
    ncclCommMemStat_t {
        /// Memory that a suspend would give back.
        ncclStatGpuMemSuspend = 0,
        /// Memory given back by a suspend in force.
        ncclStatGpuMemSuspended = 1,
        /// Memory kept through a suspend.
        ncclStatGpuMemPersist = 2,
        /// All memory of the communicator.
        ncclStatGpuMemTotal = 3,
    }
}

c_enum! {
    /// Host use of logical endpoints.
    ncclHostCftMode_t {
        /// The library decides.
        ncclHostCftDefault = NCCL_CONFIG_UNDEF_INT,
        /// On.
        ncclHostCftEnable = 1,
        /// Off.
        ncclHostCftDisable = 2,
        /// On where available.
        ncclHostCftFallback = 3,
    }
}

c_enum! {
    /// Which parts of NVLink SHARP host code may use; the disabling values combine.
    ncclNvlsHostMode_t {
        /// The library decides.
        ncclNvlsHostModeDefault = NCCL_CONFIG_UNDEF_INT,
        /// All.
        ncclNvlsHostModeEnable = 0,
        /// Not the transport and its registered buffers.
        ncclNvlsHostModeDisableTransport = 1,
        /// Not multimem in symmetric kernels.
        ncclNvlsHostModeDisableSymmetricMultimem = 2,
        /// None.
        ncclNvlsHostModeDisable = c_int::MAX,
    }
}

c_enum! {
    /// How the library's own sockets are protected.
    ncclEncryptionMode_t {
        /// Not at all.
        NCCL_ENCRYPTION_MODE_NONE = 0,
        /// By a key both sides know.
        NCCL_ENCRYPTION_MODE_PSK = 1,
    }
}

c_enum! {
    /// Which ranks device-initiated networking connects.
    ncclGinConnectionType_t {
        /// None.
        NCCL_GIN_CONNECTION_NONE = 0,
        /// Each with each.
        NCCL_GIN_CONNECTION_FULL = 1,
        /// Those of one rail.
        NCCL_GIN_CONNECTION_RAIL = 2,
        /// Those a fixed stride apart.
        NCCL_GIN_CONNECTION_CUSTOM_STRIDE = 3,
    }
}

c_enum! {
    /// The implementation behind device-initiated networking.
    ncclGinType_t {
        /// None, or any that is there.
        NCCL_GIN_TYPE_NONE = 0,
        /// A host thread.
        NCCL_GIN_TYPE_PROXY = 2,
        /// GPUDirect async, kernel-initiated.
        NCCL_GIN_TYPE_GDAKI = 3,
        /// GPU push interface.
        NCCL_GIN_TYPE_GPI = 4,
        /// EFA GPUDirect async.
        NCCL_GIN_TYPE_EFA_GDA = 5,
        /// One more than the largest.
        NCCL_GIN_MAX_TYPES = 6,
    }
}

c_enum! {
    /// How ranks reachable by logical endpoints form a team.
    ncclCftTeamMode_t {
        /// All in one.
        NCCL_CFT_TEAM_FLAT = 0,
        /// One per multicast domain.
        NCCL_CFT_TEAM_HIER_MULTIMEM = 1,
        /// One per shared-memory domain.
        NCCL_CFT_TEAM_HIER_LSA = 2,
    }
}

c_struct! {
    /// The bytes by which ranks find each other.
    ncclUniqueId as ncclUniqueId {
        /// Opaque to the caller; shared by any means.
        internal: [c_char; NCCL_UNIQUE_ID_BYTES],
    }
}

c_struct! {
    /// Settings of a communicator. Start from NCCL_CONFIG_INITIALIZER; members are only ever appended.
    ncclConfig_t as ncclConfig_v23100 {
        /// Bytes of the struct the caller was compiled with.
        size: usize,
        /// NCCL_API_MAGIC.
        magic: c_uint,
        /// NCCL_VERSION_CODE the caller was compiled with.
        version: c_uint,
        /// 0: calls return at once and ncclCommGetAsyncError tells how they ended.
        blocking: c_int,
        /// Thread-block cluster size.
        cgaClusterSize: c_int,
        /// Fewest thread blocks per operation.
        minCTAs: c_int,
        /// Most thread blocks per operation.
        maxCTAs: c_int,
        /// Name of the network to use.
        netName: *const c_char,
        /// 1: a split shares its parent's resources.
        splitShare: c_int,
        /// Traffic class of the network.
        trafficClass: c_int,
        /// Name of the communicator, for logs.
        commName: *const c_char,
        /// 1: in-network reduction allowed.
        collnetEnable: c_int,
        /// NCCL_CTA_POLICY_ bits.
        CTAPolicy: c_int,
        /// 1: a shrink shares its parent's resources.
        shrinkShare: c_int,
        /// Thread blocks for NVLink SHARP.
        nvlsCTAs: c_int,
        /// Channels per peer over the network.
        nChannelsPerNetPeer: c_int,
        /// 1: schedule for NVLink.
        nvlinkCentricSched: c_int,
        /// How the communicator is used with CUDA graphs.
        graphUsageMode: c_int,
        /// Contexts for one-sided operations.
        numRmaCtx: c_int,
        /// Most peers for point-to-point operations.
        maxP2pPeers: c_int,
        /// Order between graphs and streams.
        graphStreamOrdering: c_int,
        /// 1: launches of several communicators are ordered for the caller.
        launchOrderImplicit: c_int,
        /// Signals for one-sided operations.
        numRmaSig: c_int,
        /// 1: prepare one-sided operations at creation.
        rmaEagerInit: c_int,
        /// A ncclHostCftMode_t.
        hostCftMode: c_int,
        /// A ncclNvlsHostMode_t.
        nvlsHostMode: c_int,
    }
}

/// Names an option of a [`ncclConfigExt_t`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ncclConfigExtKey {
    /// Whose option it is.
    pub vendorId: c_int,
    /// The vendor's number for it.
    pub optionId: c_int,
}

/// The value of a [`ncclConfigExt_t`]; which member holds depends on the key.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ncclConfigExtValue {
    /// A number.
    pub i: c_int,
    /// A text.
    pub s: *const c_char,
    /// Anything else.
    pub raw: *mut c_void,
}

impl fmt::Debug for ncclConfigExtValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ncclConfigExtValue")
    }
}

c_struct! {
    /// A vendor's option for one call, in a list.
    ncclConfigExt_t as ncclConfigExt {
        /// The next option, or NULL.
        next: *mut ncclConfigExt_t,
        /// Names the option.
        key: ncclConfigExtKey,
        /// Its value.
        val: ncclConfigExtValue,
    }
}

c_struct! {
    /// Settings of one collective call. Start from NCCL_COLLCONFIG_INITIALIZER.
    ncclCollConfig_t as ncclCollConfig_v23200 {
        /// Bytes of the struct the caller was compiled with.
        size: usize,
        /// NCCL_API_MAGIC.
        magic: c_uint,
        /// NCCL_VERSION_CODE the caller was compiled with.
        version: c_uint,
        /// Vendors' options, or NULL.
        ext: *mut ncclConfigExt_t,
        /// Fewest thread blocks.
        minCTAs: c_int,
        /// Most thread blocks.
        maxCTAs: c_int,
        /// Thread blocks for NVLink SHARP.
        nvlsCTAs: c_int,
        /// Thread-block cluster size.
        cgaClusterSize: c_int,
        /// Algorithms this call may use, or NULL.
        algSelection: *const c_char,
        /// 1: an algSelection that cannot be met is an error.
        forceAlgSelection: c_int,
        /// NCCL_CTA_POLICY_ bits.
        CTAPolicy: c_int,
        /// Handed to profiler plugins as it is.
        userProfilerTag: u64,
        /// Recorded when the kernel has been launched, or NULL.
        launchCompletionEvent: cudaEvent_t,
    }
}

c_struct! {
    /// What ncclGroupSimulateEnd estimates. Start from NCCL_SIM_INFO_INITIALIZER.
    ncclSimInfo_t as ncclSimInfo_v22200 {
        /// Bytes of the struct the caller was compiled with.
        size: usize,
        /// A magic of its own.
        magic: c_uint,
        /// NCCL_VERSION_CODE the caller was compiled with.
        version: c_uint,
        /// Estimated time of the group in microseconds.
        estimatedTime: f32,
    }
}

c_struct! {
    /// How many signals of one peer to wait for.
    ncclWaitSignalDesc_t as ncclWaitSignalDesc {
        /// Signals to wait for.
        opCnt: c_int,
        /// Rank that sends them.
        peer: c_int,
        /// Signal index; 0.
        sigIdx: c_int,
        /// Context; 0.
        ctx: c_int,
    }
}

c_struct! {
    /// How to protect the library's sockets. Start from NCCL_ENCRYPTION_CONFIG_INITIALIZER.
    ncclEncryptionConfig_t as ncclEncryptionConfig_v23200 {
        /// Bytes of the struct the caller was compiled with.
        size: usize,
        /// NCCL_API_MAGIC.
        magic: c_uint,
        /// NCCL_VERSION_CODE the caller was compiled with.
        version: c_uint,
        /// A ncclEncryptionMode_t.
        mode: c_int,
        /// The shared key, or NULL.
        psk: *const c_char,
    }
}

c_struct! {
    /// Ranks a fixed stride apart, seen from one of them.
    ncclTeam_t as ncclTeam {
        /// How many.
        nRanks: c_int,
        /// Which of them the caller is.
        rank: c_int,
        /// Distance between neighbours, in ranks of the communicator.
        stride: c_int,
    }
}

c_struct! {
    /// A multicast mapping.
    ncclMultimemHandle_t as ncclMultimemHandle {
        /// Its first byte.
        mcBasePtr: *mut c_void,
    }
}

c_struct! {
    /// What a communicator can do. Start from NCCL_COMM_PROPERTIES_INITIALIZER.
    ncclCommProperties_t as ncclCommProperties {
        /// Bytes of the struct the caller was compiled with.
        size: usize,
        /// NCCL_API_MAGIC.
        magic: c_uint,
        /// NCCL_VERSION_CODE the caller was compiled with.
        version: c_uint,
        /// The caller's rank.
        rank: c_int,
        /// Ranks in the communicator.
        nRanks: c_int,
        /// CUDA device index.
        cudaDev: c_int,
        /// NVML device index.
        nvmlDev: c_int,
        /// Whether device communicators can be created.
        deviceApiSupport: c_bool,
        /// Whether ranks sharing memory can use multicast.
        multimemSupport: c_bool,
        /// Device-initiated networking between all ranks.
        ginType: ncclGinType_t,
        /// Teams of ranks that share memory.
        nLsaTeams: c_int,
        /// Whether the host can start one-sided operations.
        hostRmaSupport: c_bool,
        /// Device-initiated networking within a rail.
        railedGinType: ncclGinType_t,
        /// The same number on every rank.
        commHash: u64,
        /// Smallest stride for custom connections.
        ginMinStride: c_int,
        /// Connections that can be asked for.
        ginConnectionType: ncclGinConnectionType_t,
        /// Indexed by ncclGinType_t.
        ginSupport: [c_bool; 64],
        /// Bytes of a device communicator of the running library.
        devCommRuntimeVersionSize: usize,
        /// Whether logical endpoints are there.
        cftSupport: c_bool,
        /// Whether they can multicast.
        cftMulticastSupport: c_bool,
        /// Whether they can count.
        cftCountedSupport: c_bool,
    }
}

/// Every described struct, in the header's order.
pub const LAYOUTS: &[Layout] = &[
    ncclUniqueId::LAYOUT,
    ncclConfig_t::LAYOUT,
    ncclConfigExt_t::LAYOUT,
    ncclCollConfig_t::LAYOUT,
    ncclSimInfo_t::LAYOUT,
    ncclWaitSignalDesc_t::LAYOUT,
    ncclEncryptionConfig_t::LAYOUT,
    ncclTeam_t::LAYOUT,
    ncclMultimemHandle_t::LAYOUT,
    ncclCommProperties_t::LAYOUT,
];

/// Every described enum with its named values, in the header's order.
pub const ENUMS: &[(&str, &[Named], &str)] = &[
    ("ncclResult_t", ncclResult_t::NAMED, ncclResult_t::DOC),
    ("ncclDataType_t", ncclDataType_t::NAMED, ncclDataType_t::DOC),
    ("ncclRedOp_t", ncclRedOp_t::NAMED, ncclRedOp_t::DOC),
    ("ncclScalarResidence_t", ncclScalarResidence_t::NAMED, ncclScalarResidence_t::DOC),
    ("ncclCommMemStat_t", ncclCommMemStat_t::NAMED, ncclCommMemStat_t::DOC),
    ("ncclHostCftMode_t", ncclHostCftMode_t::NAMED, ncclHostCftMode_t::DOC),
    ("ncclNvlsHostMode_t", ncclNvlsHostMode_t::NAMED, ncclNvlsHostMode_t::DOC),
    ("ncclEncryptionMode_t", ncclEncryptionMode_t::NAMED, ncclEncryptionMode_t::DOC),
    ("ncclGinConnectionType_t", ncclGinConnectionType_t::NAMED, ncclGinConnectionType_t::DOC),
    ("ncclGinType_t", ncclGinType_t::NAMED, ncclGinType_t::DOC),
    ("ncclCftTeamMode_t", ncclCftTeamMode_t::NAMED, ncclCftTeamMode_t::DOC),
];

impl ncclTeam_t {
    /// A team of nobody: what a call answers that cannot tell.
    pub const EMPTY: Self = Self { nRanks: 0, rank: 0, stride: 0 };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(layout: Layout, size: usize, offsets: &[(&str, usize)]) {
        assert_eq!(layout.size, size, "{}", layout.name);
        for (name, offset) in offsets {
            let field = layout.fields.iter().find(|field| field.name == *name).unwrap();
            assert_eq!(field.offset, *offset, "{}.{name}", layout.name);
        }
    }

    #[test]
    fn layouts_are_those_of_nccl_2_32_on_64_bit_linux() {
        check(ncclUniqueId::LAYOUT, 128, &[("internal", 0)]);
        check(
            ncclConfig_t::LAYOUT,
            120,
            &[
                ("magic", 8),
                ("version", 12),
                ("blocking", 16),
                ("netName", 32),
                ("commName", 48),
                ("graphUsageMode", 80),
                ("graphStreamOrdering", 92),
                ("nvlsHostMode", 112),
            ],
        );
        check(ncclConfigExt_t::LAYOUT, 24, &[("key", 8), ("val", 16)]);
        check(ncclCollConfig_t::LAYOUT, 72, &[("ext", 16), ("algSelection", 40), ("userProfilerTag", 56)]);
        check(ncclSimInfo_t::LAYOUT, 24, &[("estimatedTime", 16)]);
        check(ncclWaitSignalDesc_t::LAYOUT, 16, &[("ctx", 12)]);
        check(ncclEncryptionConfig_t::LAYOUT, 32, &[("mode", 16), ("psk", 24)]);
        check(ncclTeam_t::LAYOUT, 12, &[("stride", 8)]);
        check(ncclMultimemHandle_t::LAYOUT, 8, &[]);
        check(
            ncclCommProperties_t::LAYOUT,
            152,
            &[
                ("deviceApiSupport", 32),
                ("ginType", 36),
                ("commHash", 56),
                ("ginSupport", 72),
                ("cftSupport", 144),
            ],
        );
    }

    #[test]
    fn a_foreign_enum_value_prints_its_number() {
        assert_eq!(
            format!("{:?} {:?}", ncclResult_t::ncclRemoteError, ncclResult_t(77)),
            "ncclRemoteError ncclResult_t(77)"
        );
    }
}
