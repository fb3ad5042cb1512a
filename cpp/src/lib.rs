//! What a C++ compiler makes of `include/nccl.h`: sizes, offsets and values, to compare with the Rust tables.
//!
//! No program links this crate: it exists for its test, and because the C and C++ clients beside it
//! (`clients/`) want one place. Nothing here may be used to decide how FakeGPU behaves.
//!
//! Read [`answers`], then [`Answer`].
//!
//! ```
//! let size = fakegpu_cpp::answers().into_iter().find(|answer| answer.name == "ncclUniqueId").unwrap();
//! assert_eq!(size.size, 128);
//! ```
//!
//! Sources: `include/nccl.h`, itself generated from `fakegpu-nccl-abi`.
#![warn(missing_docs)]
#![expect(
    unused_qualifications,
    clippy::multiple_unsafe_ops_per_block,
    reason = "so cxx writes its side of the bridge"
)]

pub use bridge::{Answer, answers};

#[cxx::bridge(namespace = "fakegpu")]
mod bridge {
    /// One thing asked of the compiler.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Answer {
        /// `type`, `type.member`, an enumerator or a function.
        name: String,
        /// Bytes of a type or member; 0 for the others.
        size: u64,
        /// Bytes before a member, an enumerator's value, or a function's number of parameters; 0 for a type.
        value: i64,
    }

    unsafe extern "C++" {
        include!("fakegpu-cpp/src/probe.h");

        /// Every struct, member, enumerator and function of the tables, as the compiler sees them.
        fn answers() -> Vec<Answer>;
    }
}
