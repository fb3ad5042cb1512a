//! The GPUs that a node may claim to have: name, memory, compute capability.
//!
//! A profile is what a program sees of a virtual device; it does not make compute slower or faster.

/// One kind of GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The name in cluster files, such as `h100`.
    pub name: &'static str,
    /// The device name as the vendor's tools print it.
    pub product: &'static str,
    /// Device memory, in GiB as marketed.
    pub memory_gib: u32,
    /// Compute capability: major and minor.
    pub compute_capability: (u32, u32),
}

/// The profile of a GPU about which the cluster file says nothing.
pub const DEFAULT: &str = "h100";

const fn profile(
    name: &'static str,
    product: &'static str,
    memory_gib: u32,
    compute_capability: (u32, u32),
) -> Profile {
    Profile { name, product, memory_gib, compute_capability }
}

/// Every known profile, newest architecture first.
pub const PROFILES: &[Profile] = &[
    profile("b200", "NVIDIA B200", 180, (10, 0)),
    profile("gb200", "NVIDIA GB200", 186, (10, 0)),
    profile("h200", "NVIDIA H200", 141, (9, 0)),
    profile("gh200", "NVIDIA GH200", 96, (9, 0)),
    profile("h100", "NVIDIA H100 80GB HBM3", 80, (9, 0)),
    profile("h20", "NVIDIA H20", 96, (9, 0)),
    profile("l40s", "NVIDIA L40S", 48, (8, 9)),
    profile("l4", "NVIDIA L4", 24, (8, 9)),
    profile("rtx4090", "NVIDIA GeForce RTX 4090", 24, (8, 9)),
    profile("rtx3090", "NVIDIA GeForce RTX 3090", 24, (8, 6)),
    profile("a40", "NVIDIA A40", 48, (8, 6)),
    profile("a10", "NVIDIA A10", 24, (8, 6)),
    profile("a100", "NVIDIA A100-SXM4-80GB", 80, (8, 0)),
    profile("a100-80", "NVIDIA A100-SXM4-80GB", 80, (8, 0)),
    profile("a100-40", "NVIDIA A100-SXM4-40GB", 40, (8, 0)),
    profile("t4", "Tesla T4", 16, (7, 5)),
    profile("v100", "Tesla V100-SXM2-32GB", 32, (7, 0)),
    profile("v100-16", "Tesla V100-SXM2-16GB", 16, (7, 0)),
];

/// The profile named so in cluster files.
///
/// ```
/// let a100 = fakegpu_config::profiles::find("a100").expect("in the table");
/// assert_eq!((a100.memory_gib, a100.compute_capability), (80, (8, 0)));
/// ```
pub fn find(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_the_default_is_one() {
        for profile in PROFILES {
            assert_eq!(find(profile.name), Some(profile));
        }
        assert!(find(DEFAULT).is_some());
    }
}
