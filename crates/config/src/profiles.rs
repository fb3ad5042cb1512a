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
    /// Device memory in MiB as `nvidia-smi` prints it: what is left of the marketed size for programs and driver.
    pub memory_mib: u32,
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Highest clock of the multiprocessors, in kHz.
    pub clock_khz: u32,
    /// Highest clock of the memory, in kHz.
    pub memory_clock_khz: u32,
    /// Width of the memory bus, in bits.
    pub memory_bus_bits: u32,
    /// Level-2 cache, in KiB.
    pub l2_kib: u32,
    /// Memory bandwidth, in GB/s.
    pub memory_gb_s: u32,
    /// What connects it to the host.
    pub host_link: HostLink,
}

/// What connects a GPU to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLink {
    /// 16 lanes of PCI Express of this generation.
    Pcie(u32),
    /// NVLink-C2C, as in the Grace superchips.
    C2c,
}

impl HostLink {
    /// Its bandwidth in MB/s per direction, before the overhead of packets.
    pub const fn mb_s(self) -> u64 {
        match self {
            Self::Pcie(3) => 15_754,
            Self::Pcie(4) => 31_508,
            Self::Pcie(_) => 63_015,
            Self::C2c => 450_000,
        }
    }
}

/// What a multiprocessor offers; the same for all GPUs of a compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiprocessor {
    /// Threads resident at most.
    pub threads: u32,
    /// Blocks resident at most.
    pub blocks: u32,
    /// 32-bit registers, for the whole and for one block.
    pub registers: u32,
    /// Shared memory of the whole, in bytes.
    pub shared_bytes: u32,
    /// Shared memory a block may have after opting in, in bytes.
    pub shared_optin_bytes: u32,
    /// Shared memory the system keeps for itself in each block, in bytes.
    pub shared_reserved_bytes: u32,
}

/// Threads of a warp, on every GPU.
pub const WARP_THREADS: u32 = 32;
/// Threads of a block at most, on every GPU.
pub const BLOCK_THREADS: u32 = 1024;
/// Shared memory of a block that has not opted in, in bytes, on every GPU.
pub const SHARED_PER_BLOCK_BYTES: u32 = 48 << 10;
/// Modelled time from a call to the start of its work on an idle stream, in nanoseconds: about what an empty kernel
/// takes.
pub const LAUNCH_LATENCY_NS: u64 = 2_500;

impl Profile {
    /// Device memory, in bytes as `nvidia-smi` counts it.
    pub const fn memory_bytes(&self) -> u64 {
        (self.memory_mib as u64) << 20
    }

    /// What each of its multiprocessors offers.
    pub const fn multiprocessor(&self) -> Multiprocessor {
        // CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
        let (threads, blocks, shared_kib) = match self.compute_capability {
            (7, 5) => (1024, 16, 64),
            (7, _) => (2048, 32, 96),
            (8, 0) => (2048, 32, 164),
            (8, 6) => (1536, 16, 100),
            (8, _) => (1536, 24, 100),
            _ => (2048, 32, 228),
        };
        let shared_reserved_bytes = if self.compute_capability.0 < 8 { 0 } else { 1 << 10 };
        let shared_bytes = shared_kib << 10;
        let shared_optin_bytes = shared_bytes - shared_reserved_bytes;
        Multiprocessor {
            threads,
            blocks,
            registers: 1 << 16,
            shared_bytes,
            shared_optin_bytes,
            shared_reserved_bytes,
        }
    }

    /// Whether the driver lets such GPUs reach each other's memory: not those sold for games.
    pub fn has_peer_access(&self) -> bool {
        !self.product.contains("GeForce")
    }
}

/// The profile of a GPU about which the cluster file says nothing.
pub const DEFAULT: &str = "h100";

/// A row of the table: name, product, GiB, compute capability; MiB usable, multiprocessors; clocks in MHz of
/// multiprocessors and memory; bus bits, L2 in KiB, GB/s; host link.
type Row = (&'static str, &'static str, u32, (u32, u32), [u32; 2], [u32; 2], [u32; 3], HostLink);

const fn profile(row: Row) -> Profile {
    let (name, product, memory_gib, compute_capability, size, clocks, memory, host_link) = row;
    let ([memory_mib, sm_count], [clock_mhz, memory_clock_mhz]) = (size, clocks);
    let [memory_bus_bits, l2_kib, memory_gb_s] = memory;
    Profile {
        name,
        product,
        memory_gib,
        compute_capability,
        memory_mib,
        sm_count,
        clock_khz: clock_mhz * 1000,
        memory_clock_khz: memory_clock_mhz * 1000,
        memory_bus_bits,
        l2_kib,
        memory_gb_s,
        host_link,
    }
}

const PCIE_3: HostLink = HostLink::Pcie(3);
const PCIE_4: HostLink = HostLink::Pcie(4);
const PCIE_5: HostLink = HostLink::Pcie(5);

/// Every known profile, newest architecture first.
///
/// Multiprocessors, bus widths, caches and bandwidths are those of NVIDIA's architecture white papers and data
/// sheets; usable memory and clocks are those that `nvidia-smi -q` prints on such a device with a driver of
/// the 5xx series.
pub const PROFILES: &[Profile] = &[
    profile((
        "b200",
        "NVIDIA B200",
        180,
        (10, 0),
        [183_359, 148],
        [1_965, 3_996],
        [8_192, 129_536, 8_000],
        PCIE_5,
    )),
    profile((
        "gb200",
        "NVIDIA GB200",
        186,
        (10, 0),
        [189_471, 152],
        [2_062, 3_996],
        [8_192, 129_536, 8_000],
        HostLink::C2c,
    )),
    profile((
        "h200",
        "NVIDIA H200",
        141,
        (9, 0),
        [143_771, 132],
        [1_980, 3_201],
        [6_144, 61_440, 4_800],
        PCIE_5,
    )),
    profile((
        "gh200",
        "NVIDIA GH200",
        96,
        (9, 0),
        [97_871, 132],
        [1_980, 2_619],
        [6_144, 61_440, 4_000],
        HostLink::C2c,
    )),
    profile((
        "h100",
        "NVIDIA H100 80GB HBM3",
        80,
        (9, 0),
        [81_559, 132],
        [1_980, 2_619],
        [5_120, 51_200, 3_350],
        PCIE_5,
    )),
    profile(("h20", "NVIDIA H20", 96, (9, 0), [97_871, 78], [1_980, 2_619], [6_144, 61_440, 4_000], PCIE_5)),
    profile(("l40s", "NVIDIA L40S", 48, (8, 9), [46_068, 142], [2_520, 9_001], [384, 98_304, 864], PCIE_4)),
    profile(("l4", "NVIDIA L4", 24, (8, 9), [23_034, 58], [2_040, 6_251], [192, 49_152, 300], PCIE_4)),
    profile((
        "rtx4090",
        "NVIDIA GeForce RTX 4090",
        24,
        (8, 9),
        [24_564, 128],
        [2_520, 10_501],
        [384, 73_728, 1_008],
        PCIE_4,
    )),
    profile((
        "rtx3090",
        "NVIDIA GeForce RTX 3090",
        24,
        (8, 6),
        [24_576, 82],
        [1_695, 9_751],
        [384, 6_144, 936],
        PCIE_4,
    )),
    profile(("a40", "NVIDIA A40", 48, (8, 6), [46_068, 84], [1_740, 7_251], [384, 6_144, 696], PCIE_4)),
    profile(("a10", "NVIDIA A10", 24, (8, 6), [23_028, 72], [1_695, 6_251], [384, 6_144, 600], PCIE_4)),
    profile((
        "a100",
        "NVIDIA A100-SXM4-80GB",
        80,
        (8, 0),
        [81_920, 108],
        [1_410, 1_593],
        [5_120, 40_960, 2_039],
        PCIE_4,
    )),
    profile((
        "a100-80",
        "NVIDIA A100-SXM4-80GB",
        80,
        (8, 0),
        [81_920, 108],
        [1_410, 1_593],
        [5_120, 40_960, 2_039],
        PCIE_4,
    )),
    profile((
        "a100-40",
        "NVIDIA A100-SXM4-40GB",
        40,
        (8, 0),
        [40_960, 108],
        [1_410, 1_215],
        [5_120, 40_960, 1_555],
        PCIE_4,
    )),
    profile(("t4", "Tesla T4", 16, (7, 5), [15_360, 40], [1_590, 5_001], [256, 4_096, 320], PCIE_3)),
    profile((
        "v100",
        "Tesla V100-SXM2-32GB",
        32,
        (7, 0),
        [32_768, 80],
        [1_530, 877],
        [4_096, 6_144, 900],
        PCIE_3,
    )),
    profile((
        "v100-16",
        "Tesla V100-SXM2-16GB",
        16,
        (7, 0),
        [16_384, 80],
        [1_530, 877],
        [4_096, 6_144, 900],
        PCIE_3,
    )),
];

const fn names() -> [&'static str; PROFILES.len()] {
    let mut names = [""; PROFILES.len()];
    let mut at = 0;
    while at < PROFILES.len() {
        names[at] = PROFILES[at].name;
        at += 1;
    }
    names
}

/// The names of [`PROFILES`].
pub const NAMES: &[&str] = &names();

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

    #[test]
    fn usable_memory_is_about_what_is_marketed() {
        for profile in PROFILES {
            let marketed = u64::from(profile.memory_gib) << 30;
            let part = profile.memory_bytes() as f64 / marketed as f64;
            assert!((0.92..1.06).contains(&part), "{}: {part}", profile.name);
        }
    }

    #[test]
    fn bandwidth_is_what_bus_and_clock_give() {
        for profile in PROFILES {
            // Both edges of the clock carry data; GDDR6X carries two bits on each, which the clock counts already.
            let peak = f64::from(profile.memory_clock_khz) * 2e3 * f64::from(profile.memory_bus_bits) / 8.0;
            let part = f64::from(profile.memory_gb_s) * 1e9 / peak;
            assert!((0.9..1.1).contains(&part), "{}: {part}", profile.name);
        }
    }

    #[test]
    fn a_multiprocessor_is_that_of_its_compute_capability() {
        let of = |name| find(name).map(Profile::multiprocessor).unwrap();
        assert_eq!((of("h100").shared_optin_bytes, of("a100").shared_optin_bytes), (232_448, 166_912));
        assert_eq!((of("v100").shared_bytes, of("t4").threads, of("l40s").blocks), (98_304, 1024, 24));
    }
}
