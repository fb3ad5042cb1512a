//! Reading the caller's versioned structs, which may be older or newer than ours.
//!
//! Such a struct says its own size and version first. A member is read only if both cover it: the size alone
//! would accept the padding at the end of an older struct, where the caller left garbage.

use std::ffi::CStr;

use crate::types::*;

/// Longest text taken from a struct, in bytes; a caller's unterminated text must not send us through its memory.
pub const TEXT_BYTES_MAX: usize = 4096;

/// Why a struct was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StructError {
    /// It did not come from its initializer.
    #[error(
        "`{what}` has magic `{seen:#010x}` where its initializer puts `{expected:#010x}`; initialise it with `{initializer}`"
    )]
    Magic {
        /// The struct.
        what: &'static str,
        /// The macro that initialises it.
        initializer: &'static str,
        /// What stood there.
        seen: c_uint,
        /// What should.
        expected: c_uint,
    },
    /// It says to be smaller than its own first members.
    #[error("`{what}` says it has `{size}` bytes, fewer than the {least} every version has")]
    Size {
        /// The struct.
        what: &'static str,
        /// The size it states.
        size: usize,
        /// The size of the members all versions share.
        least: usize,
    },
    /// A text in it does not end.
    #[error("`{member}` has no end within {TEXT_BYTES_MAX} bytes")]
    Text {
        /// The member.
        member: &'static str,
    },
}

/// What every versioned struct begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Preamble {
    /// Bytes of the struct the caller was compiled with.
    pub size: usize,
    /// Shows that an initializer ran.
    pub magic: c_uint,
    /// `NCCL_VERSION_CODE` the caller was compiled with.
    pub version: c_uint,
}

impl Preamble {
    /// Reads and checks the preamble of `what`, a struct set up by the macro `initializer`.
    ///
    /// # Errors
    /// [`StructError::Magic`] and [`StructError::Size`].
    ///
    /// # Safety
    /// `at` points to at least `size_of::<Preamble>()` readable, aligned bytes.
    pub unsafe fn read(
        at: *const c_void,
        what: &'static str,
        initializer: &'static str,
        expected: c_uint,
    ) -> Result<Self, StructError> {
        // SAFETY: readable and aligned by this function's contract; every bit pattern is a `Preamble`.
        let preamble = unsafe { at.cast::<Self>().read() };
        // The magic first: where it is wrong the size means nothing.
        if preamble.magic != expected {
            return Err(StructError::Magic { what, initializer, seen: preamble.magic, expected });
        }
        if preamble.size < size_of::<Self>() {
            return Err(StructError::Size { what, size: preamble.size, least: size_of::<Self>() });
        }
        Ok(preamble)
    }

    /// Whether the caller's struct has the member that ends at byte `end` and came with release `since`.
    const fn covers(&self, end: usize, since: (c_uint, c_uint)) -> bool {
        self.size >= end && self.version >= since.0 * 10_000 + since.1 * 100
    }
}

/// How a member's raw value becomes a setting: unset stays unset.
trait Setting: Sized {
    /// The member's type in C.
    type Raw: Copy;
    /// # Safety
    /// A pointer is NULL or points to a text that ends or has [`TEXT_BYTES_MAX`] readable bytes.
    unsafe fn parse(raw: Self::Raw, member: &'static str) -> Result<Option<Self>, StructError>;
}

impl Setting for c_int {
    type Raw = Self;
    unsafe fn parse(raw: Self, _: &'static str) -> Result<Option<Self>, StructError> {
        Ok((raw != NCCL_CONFIG_UNDEF_INT).then_some(raw))
    }
}

impl Setting for String {
    type Raw = *const c_char;
    unsafe fn parse(raw: *const c_char, member: &'static str) -> Result<Option<Self>, StructError> {
        if raw.is_null() {
            return Ok(None);
        }
        for length in 0..TEXT_BYTES_MAX {
            // SAFETY: no byte before this one was the end, so this one is still the text's.
            let at = unsafe { raw.add(length) };
            // SAFETY: as above; a byte has no alignment.
            if unsafe { at.read() } == 0 {
                // SAFETY: the loop has just found the end.
                let text = unsafe { CStr::from_ptr(raw) };
                return Ok(Some(text.to_string_lossy().into_owned()));
            }
        }
        Err(StructError::Text { member })
    }
}

macro_rules! config {
    ($( $(#[doc = $doc:literal])* [$major:literal, $minor:literal] $field:ident: $ty:ty = $member:ident; )*) => {
        /// A caller's [`ncclConfig_t`] as it was meant: `None` where the caller left a member alone or was
        /// compiled before it existed.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Config {
            /// `NCCL_VERSION_CODE` the caller was compiled with; 0 without a struct.
            pub version: c_uint,
            /// Bytes of the caller's struct that we know nothing about: worth a note, not an error.
            pub unknown_bytes: usize,
            $($(#[doc = $doc])* pub $field: Option<$ty>,)*
        }

        impl Config {
            /// Reads the caller's struct member by member; NULL gives the defaults.
            ///
            /// # Errors
            /// [`StructError`], each an invalid argument to the caller.
            ///
            /// # Safety
            /// `at` is NULL or points to as many readable, aligned bytes as the struct's own size says, and
            /// its text members are NULL or end.
            pub unsafe fn read(at: *const ncclConfig_t) -> Result<Self, StructError> {
                if at.is_null() {
                    return Ok(Self::default());
                }
                // SAFETY: not NULL, so the caller's promise holds for the preamble.
                let preamble = unsafe {
                    Preamble::read(at.cast(), "ncclConfig_t", "NCCL_CONFIG_INITIALIZER", NCCL_API_MAGIC)
                }?;
                Ok(Self {
                    version: preamble.version,
                    unknown_bytes: preamble.size.saturating_sub(size_of::<ncclConfig_t>()),
                    $($field: {
                        let offset = std::mem::offset_of!(ncclConfig_t, $member);
                        if preamble.covers(offset + size_of::<<$ty as Setting>::Raw>(), ($major, $minor)) {
                            // SAFETY: the struct's own size covers the member.
                            let place = unsafe { at.byte_add(offset) };
                            // SAFETY: in bounds as above, and aligned since the struct is.
                            let raw = unsafe { place.cast::<<$ty as Setting>::Raw>().read() };
                            // SAFETY: a text member, by this function's contract.
                            unsafe { <$ty as Setting>::parse(raw, stringify!($member)) }?
                        } else {
                            None
                        }
                    },)*
                })
            }
        }
    };
}

config! {
    /// Whether calls wait for their outcome; unset means they do.
    [2, 14] blocking: c_int = blocking;
    /// Thread-block cluster size.
    [2, 17] cga_cluster_size: c_int = cgaClusterSize;
    /// Fewest thread blocks per operation.
    [2, 17] ctas_min: c_int = minCTAs;
    /// Most thread blocks per operation.
    [2, 17] ctas_max: c_int = maxCTAs;
    /// Name of the network to use.
    [2, 17] net_name: String = netName;
    /// Whether a split shares its parent's resources.
    [2, 18] split_share: c_int = splitShare;
    /// Traffic class of the network.
    [2, 26] traffic_class: c_int = trafficClass;
    /// Name of the communicator.
    [2, 27] comm_name: String = commName;
    /// Whether reduction in the network is allowed.
    [2, 27] collnet_enable: c_int = collnetEnable;
    /// Thread-block policy bits.
    [2, 27] cta_policy: c_int = CTAPolicy;
    /// Whether a shrink shares its parent's resources.
    [2, 27] shrink_share: c_int = shrinkShare;
    /// Thread blocks for NVLink SHARP.
    [2, 27] nvls_ctas: c_int = nvlsCTAs;
    /// Channels per peer over the network.
    [2, 28] channels_per_net_peer: c_int = nChannelsPerNetPeer;
    /// Whether to schedule for NVLink.
    [2, 28] nvlink_centric_sched: c_int = nvlinkCentricSched;
    /// How the communicator is used with CUDA graphs.
    [2, 29] graph_usage_mode: c_int = graphUsageMode;
    /// Contexts for one-sided operations.
    [2, 29] rma_contexts: c_int = numRmaCtx;
    /// Most peers for point-to-point operations.
    [2, 30] p2p_peers_max: c_int = maxP2pPeers;
    /// Order between graphs and streams.
    [2, 30] graph_stream_ordering: c_int = graphStreamOrdering;
    /// Whether launches of several communicators are ordered for the caller.
    [2, 31] launch_order_implicit: c_int = launchOrderImplicit;
    /// Signals for one-sided operations.
    [2, 31] rma_signals: c_int = numRmaSig;
    /// Whether to prepare one-sided operations at creation.
    [2, 31] rma_eager_init: c_int = rmaEagerInit;
    /// A [`ncclHostCftMode_t`].
    [2, 31] host_cft_mode: c_int = hostCftMode;
    /// A [`ncclNvlsHostMode_t`].
    [2, 31] nvls_host_mode: c_int = nvlsHostMode;
}

impl Config {
    /// Whether calls wait for their outcome.
    pub fn is_blocking(&self) -> bool {
        self.blocking != Some(0)
    }

    /// The first member with a value that NCCL refuses, in a sentence.
    pub fn mistake(&self) -> Option<String> {
        const SWITCH: (c_int, c_int) = (0, 1);
        const POSITIVE: (c_int, c_int) = (1, c_int::MAX);
        const NOT_NEGATIVE: (c_int, c_int) = (0, c_int::MAX);
        let members = [
            ("blocking", self.blocking, SWITCH),
            ("cgaClusterSize", self.cga_cluster_size, NOT_NEGATIVE),
            ("minCTAs", self.ctas_min, POSITIVE),
            ("maxCTAs", self.ctas_max, POSITIVE),
            ("splitShare", self.split_share, SWITCH),
            ("collnetEnable", self.collnet_enable, SWITCH),
            ("shrinkShare", self.shrink_share, SWITCH),
            ("nvlsCTAs", self.nvls_ctas, POSITIVE),
            ("nChannelsPerNetPeer", self.channels_per_net_peer, POSITIVE),
            ("nvlinkCentricSched", self.nvlink_centric_sched, SWITCH),
            ("graphUsageMode", self.graph_usage_mode, (0, 2)),
            ("numRmaCtx", self.rma_contexts, NOT_NEGATIVE),
            ("maxP2pPeers", self.p2p_peers_max, POSITIVE),
            ("graphStreamOrdering", self.graph_stream_ordering, SWITCH),
        ];
        let wrong = members.into_iter().find_map(|(name, value, (least, most))| {
            let value = value.filter(|value| !(least..=most).contains(value))?;
            let allowed = match most {
                c_int::MAX => format!("at least {least}"),
                most => format!("{least} to {most}"),
            };
            Some(format!("ncclConfig_t.{name} is {value}: use {allowed}"))
        });
        wrong.or_else(|| {
            let (least, most) = self.ctas_min.zip(self.ctas_max).filter(|(least, most)| least > most)?;
            Some(format!("ncclConfig_t.minCTAs is {least}, more than maxCTAs, which is {most}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    fn initialised() -> ncclConfig_t {
        const UNSET: c_int = NCCL_CONFIG_UNDEF_INT;
        ncclConfig_t {
            size: size_of::<ncclConfig_t>(),
            magic: NCCL_API_MAGIC,
            version: 23_203,
            blocking: UNSET,
            cgaClusterSize: UNSET,
            minCTAs: UNSET,
            maxCTAs: UNSET,
            netName: ptr::null(),
            splitShare: UNSET,
            trafficClass: UNSET,
            commName: ptr::null(),
            collnetEnable: UNSET,
            CTAPolicy: UNSET,
            shrinkShare: UNSET,
            nvlsCTAs: UNSET,
            nChannelsPerNetPeer: UNSET,
            nvlinkCentricSched: UNSET,
            graphUsageMode: UNSET,
            numRmaCtx: UNSET,
            maxP2pPeers: UNSET,
            graphStreamOrdering: UNSET,
            launchOrderImplicit: UNSET,
            numRmaSig: UNSET,
            rmaEagerInit: UNSET,
            hostCftMode: UNSET,
            nvlsHostMode: UNSET,
        }
    }

    fn read(config: &ncclConfig_t) -> Result<Config, StructError> {
        // SAFETY: a live struct; tests point its texts at C literals.
        unsafe { Config::read(config) }
    }

    #[test]
    fn an_initialised_struct_sets_nothing() {
        let config = read(&initialised()).unwrap();
        assert_eq!(config, Config { version: 23_203, ..Config::default() });
        assert!(config.is_blocking());
    }

    #[test]
    fn null_means_the_defaults() {
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { Config::read(ptr::null()) }, Ok(Config::default()));
    }

    #[test]
    fn what_the_caller_set_arrives() {
        let raw = ncclConfig_t { blocking: 0, commName: c"train".as_ptr(), nvlsHostMode: 3, ..initialised() };
        let config = read(&raw).unwrap();
        assert!(!config.is_blocking());
        assert_eq!((config.comm_name.as_deref(), config.nvls_host_mode), (Some("train"), Some(3)));
    }

    #[test]
    fn padding_of_an_older_struct_is_not_a_setting() {
        // 2.14's struct ended with `blocking` at byte 20 and was padded to 24, over what is now cgaClusterSize.
        let raw =
            ncclConfig_t { size: 24, version: 21_400, cgaClusterSize: 77, splitShare: 1, ..initialised() };
        let config = read(&raw).unwrap();
        assert_eq!((config.cga_cluster_size, config.split_share), (None, None));
    }

    #[test]
    fn members_of_the_future_are_counted_and_left_alone() {
        let raw = ncclConfig_t { size: size_of::<ncclConfig_t>() + 16, version: 24_000, ..initialised() };
        assert_eq!(read(&raw).unwrap().unknown_bytes, 16);
    }

    #[test]
    fn a_struct_without_its_initializer_is_refused_in_a_sentence() {
        let error = read(&ncclConfig_t { magic: 7, size: 0, ..initialised() }).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`ncclConfig_t` has magic `0x00000007` where its initializer puts `0xcafebeef`; \
             initialise it with `NCCL_CONFIG_INITIALIZER`"
        );
        let error = read(&ncclConfig_t { size: 8, ..initialised() }).unwrap_err();
        assert_eq!(error, StructError::Size { what: "ncclConfig_t", size: 8, least: 16 });
    }

    #[test]
    fn a_text_without_an_end_is_refused() {
        let text = [b'x'.cast_signed(); TEXT_BYTES_MAX];
        let error = read(&ncclConfig_t { netName: text.as_ptr(), ..initialised() }).unwrap_err();
        assert_eq!(error, StructError::Text { member: "netName" });
    }
}
