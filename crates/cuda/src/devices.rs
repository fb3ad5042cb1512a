//! Which devices this process sees, and what tells them apart.

use std::collections::BTreeMap;
use std::fmt;

use fakegpu_config::cluster::{Cluster, Node};
use fakegpu_config::{Profile, Settings, profiles};
use fakegpu_units::{GlobalRank, VirtualSpan};

use crate::error::{Error, ErrorKind, Result};

/// A device as the program counts them, from 0, after `CUDA_VISIBLE_DEVICES`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ordinal(pub u32);

impl Ordinal {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Ordinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A device's unique id: the same for every process on its node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GPU-")?;
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// One visible device.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its number in this process.
    pub ordinal: Ordinal,
    /// Its number on the node.
    pub node_device: u32,
    /// What kind of GPU it is.
    pub profile: &'static Profile,
    /// Its unique id.
    pub uuid: Uuid,
    /// PCI domain: the node's number, so that ids differ across the cluster.
    pub pci_domain: u32,
    /// PCI bus.
    pub pci_bus: u32,
    /// PCI device on the bus.
    pub pci_device: u32,
}

impl Device {
    /// The PCI address as CUDA prints it, such as `0000:12:00.0`.
    pub fn pci_bus_id(&self) -> String {
        format!("{:04x}:{:02x}:{:02x}.0", self.pci_domain, self.pci_bus, self.pci_device)
    }

    /// Bytes that programs may allocate: all but what a driver and a context take.
    pub const fn usable_bytes(&self) -> u64 {
        self.profile.memory_bytes() - RESERVED_BYTES
    }
}

/// What a context, its libraries and the driver take of a device before a program allocates anything: about what
/// `nvidia-smi` shows for a process with an empty context.
const RESERVED_BYTES: u64 = 512 << 20;

/// Devices of a node about which nobody says how many there are: those of the usual server.
const DEFAULT_COUNT: u32 = 8;

/// The devices that this process sees.
#[derive(Clone, Debug)]
pub struct Devices {
    visible: Vec<Device>,
    node: String,
    /// MB/s per direction between two devices of the node, where the cluster says it.
    peer_mb_s: Option<u64>,
}

impl Devices {
    /// What the settings, the cluster that they name (already read) and the process's environment come to.
    ///
    /// A cluster's node has the GPUs that the file gives it; without a cluster there are `FAKEGPU_GPU_COUNT`, else as
    /// many as the launcher started ranks on this node, else 8. `CUDA_VISIBLE_DEVICES` then selects and orders.
    ///
    /// # Errors
    /// [`ErrorKind::InitializationError`] where the cluster does not have the node, or has several and nothing
    /// says which.
    pub fn new(
        settings: &Settings,
        cluster: Option<&Cluster>,
        vars: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self> {
        let vars: BTreeMap<String, String> =
            vars.into_iter().filter(|(name, _)| READ.contains(&name.as_str())).collect();
        let (node, domain, gpus) = match cluster {
            Some(cluster) => of_cluster(settings, cluster)?,
            None => alone(settings, &vars),
        };
        let all: Vec<Device> =
            (0..).zip(gpus).map(|(index, profile)| device(&node, domain, index, profile)).collect();
        let chosen = match vars.get(VISIBLE) {
            Some(text) => select(text, &all),
            None => (0..all.len()).collect(),
        };
        let visible = (0..)
            .zip(chosen)
            .filter_map(|(ordinal, at)| {
                all.get(at).map(|device| Device { ordinal: Ordinal(ordinal), ..device.clone() })
            })
            .collect();
        Ok(Self { visible, node, peer_mb_s: cluster.map(peer_mb_s) })
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.visible.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.visible.is_empty()
    }

    /// The devices by ordinal.
    pub fn iter(&self) -> std::slice::Iter<'_, Device> {
        self.visible.iter()
    }

    /// The virtual node they are on.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// One of them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidDevice`], or [`ErrorKind::NoDevice`] where there is none at all.
    pub fn get(&self, ordinal: Ordinal) -> Result<&Device> {
        self.visible.get(ordinal.index()).ok_or_else(|| match self.visible.len() {
            0 => Error::new(
                ErrorKind::NoDevice,
                "this process sees no device; look at CUDA_VISIBLE_DEVICES and FAKEGPU_GPU_COUNT",
            ),
            count => Error::new(
                ErrorKind::InvalidDevice,
                format!("there is no device {ordinal}; this process sees {count}, counted from 0"),
            ),
        })
    }

    /// The device at a PCI address such as `0000:12:00.0`; the domain and the function may be left out.
    pub fn by_pci_bus_id(&self, text: &str) -> Option<Ordinal> {
        let wanted = text.trim().to_ascii_lowercase();
        let wanted = wanted.strip_suffix(".0").unwrap_or(&wanted);
        let found = self.visible.iter().find(|device| {
            let short = format!("{:02x}:{:02x}", device.pci_bus, device.pci_device);
            match wanted.rsplit_once(&short) {
                Some(("", "")) => true,
                Some((domain, "")) => {
                    let number = domain.strip_suffix(':').map(|domain| u32::from_str_radix(domain, 16));
                    number == Some(Ok(device.pci_domain))
                }
                _ => false,
            }
        });
        found.map(|device| device.ordinal)
    }

    /// Modelled time for `bytes` from one device to another.
    pub(crate) fn peer_span(&self, device: &Device, bytes: u64) -> VirtualSpan {
        transfer(bytes, self.peer_mb_s.unwrap_or_else(|| device.profile.host_link.mb_s()))
    }
}

impl Device {
    /// Modelled time for `bytes` between it and the host.
    pub(crate) const fn host_span(&self, bytes: u64) -> VirtualSpan {
        transfer(bytes, self.profile.host_link.mb_s())
    }

    /// Modelled time to read or write `bytes` of its own memory.
    pub(crate) const fn memory_span(&self, bytes: u64) -> VirtualSpan {
        transfer(bytes, self.profile.memory_gb_s as u64 * 1000)
    }
}

/// A launch, then `bytes` at `mb_s`: a byte at 1 MB/s takes a microsecond.
const fn transfer(bytes: u64, mb_s: u64) -> VirtualSpan {
    let picos = bytes as u128 * 1_000_000 / (if mb_s == 0 { 1 } else { mb_s }) as u128;
    let latency = profiles::LAUNCH_LATENCY_NS as u128 * 1000;
    let picos = picos + latency;
    #[expect(clippy::cast_possible_truncation, reason = "bounded by the comparison")]
    let picos = if picos > u64::MAX as u128 { u64::MAX } else { picos as u64 };
    VirtualSpan::from_picos(picos)
}

const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
/// Where launchers say how many ranks they started here; in order of trust.
const LOCAL_SIZES: [&str; 3] = ["LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"];
/// All that is looked at. `CUDA_DEVICE_ORDER` is not: both of its orders are the same here.
const READ: [&str; 4] = [VISIBLE, LOCAL_SIZES[0], LOCAL_SIZES[1], LOCAL_SIZES[2]];

type NodeGpus = (String, u32, Vec<&'static Profile>);

fn of_cluster(settings: &Settings, cluster: &Cluster) -> Result<NodeGpus> {
    let refuse = |text: String| Err(Error::new(ErrorKind::InitializationError, text));
    let ids = || {
        let ids: Vec<&str> = cluster.nodes.iter().map(|node| node.id.as_str()).take(8).collect();
        ids.join(", ")
    };
    let by_rank = || {
        let rank = settings.placement?.global_rank;
        let index = cluster.node_of(GlobalRank(rank))?;
        cluster.indexed_nodes().find(|(at, _)| *at == index)
    };
    let found = match &settings.node {
        Some(id) => match cluster.node_by_id(id) {
            None => {
                return refuse(format!(
                    "FAKEGPU_NODE is `{id}`, but cluster `{}` has no such node; it has {}",
                    cluster.name,
                    ids()
                ));
            }
            found => found,
        },
        None => by_rank().or_else(|| cluster.indexed_nodes().next().filter(|_| cluster.nodes.len() == 1)),
    };
    match found {
        Some((index, node)) => Ok((node.id.clone(), index.0, gpus_of(node))),
        None => refuse(format!(
            "cluster `{}` has {} nodes, and nothing says on which of them this process stands; set FAKEGPU_NODE to \
             one of {}, or start the program by a launcher",
            cluster.name,
            cluster.nodes.len(),
            ids()
        )),
    }
}

fn gpus_of(node: &Node) -> Vec<&'static Profile> {
    node.gpus.iter().filter_map(|gpu| gpu.spec().or_else(default_profile)).collect()
}

fn default_profile() -> Option<&'static Profile> {
    profiles::find(profiles::DEFAULT)
}

fn alone(settings: &Settings, vars: &BTreeMap<String, String>) -> NodeGpus {
    let launched = || {
        let said = LOCAL_SIZES.iter().find_map(|name| vars.get(*name)?.trim().parse::<u32>().ok());
        said.filter(|count| (1..=1024).contains(count))
    };
    let count = settings.gpu.count.or_else(launched).unwrap_or(DEFAULT_COUNT);
    let profile = profiles::find(&settings.gpu.profile).or_else(default_profile);
    let node = settings.node.clone().unwrap_or_else(|| "node0".to_owned());
    (node, 0, profile.into_iter().cycle().take(count as usize).collect())
}

fn device(node: &str, domain: u32, index: u32, profile: &'static Profile) -> Device {
    Device {
        ordinal: Ordinal(index),
        node_device: index,
        profile,
        uuid: uuid(node, index, profile.name),
        pci_domain: domain,
        // Buses as sparse as on a real board, as far as a byte allows.
        pci_bus: if index < 64 { 0x0f + 3 * index } else { index / 31 },
        // The many of a node that no machine has share buses, where they are never device 0.
        pci_device: if index < 64 { 0 } else { index % 31 + 1 },
    }
}

/// FNV-1a over what names a device, shaped as a UUID of the free form (version 8).
fn uuid(node: &str, index: u32, profile: &str) -> Uuid {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let text = format!("fakegpu/{node}/{index}/{profile}");
    let hash = text.bytes().fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    let mut bytes = (hash ^ hash.rotate_right(59)).to_be_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid(bytes)
}

/// What `CUDA_VISIBLE_DEVICES` selects, as places in `all`: up to the first entry that names nothing; nothing at all
/// where an entry comes twice.
fn select(text: &str, all: &[Device]) -> Vec<usize> {
    let mut chosen = Vec::new();
    let by_uuid = text.trim_start().starts_with("GPU-");
    for entry in text.split(',').map(str::trim) {
        let place = if by_uuid { place_by_uuid(entry, all) } else { place_by_number(entry, all.len()) };
        match place {
            None => break,
            Some(place) if chosen.contains(&place) => return Vec::new(),
            Some(place) => chosen.push(place),
        }
    }
    chosen
}

/// By the start of a UUID, if only one device has it.
fn place_by_uuid(entry: &str, all: &[Device]) -> Option<usize> {
    if !entry.starts_with("GPU-") {
        return None;
    }
    let lower = format!("GPU-{}", entry[4..].to_ascii_lowercase());
    let mut fits = all.iter().enumerate().filter(|(_, device)| device.uuid.to_string().starts_with(&lower));
    fits.next().map(|(at, _)| at).filter(|_| fits.next().is_none())
}

/// As `strtol` reads it: digits, and no matter what follows them.
fn place_by_number(entry: &str, count: usize) -> Option<usize> {
    let digits = entry.find(|c: char| !c.is_ascii_digit()).unwrap_or(entry.len());
    entry[..digits].parse().ok().filter(|&place| place < count)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a bandwidth is finite and above 0; float casts saturate"
)]
fn peer_mb_s(cluster: &Cluster) -> u64 {
    (cluster.fabric.intra_node.bandwidth_gbps * 125.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(vars: &[(&str, &str)], cluster: Option<&Cluster>) -> Result<Devices> {
        let vars: Vec<_> =
            vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Devices::new(&Settings::from_vars(vars.clone()).unwrap(), cluster, vars)
    }

    #[track_caller]
    fn check_visible(text: &str, expected: &[u32]) {
        let seen = devices(&[("FAKEGPU_GPU_COUNT", "4"), (VISIBLE, text)], None).unwrap();
        let numbers: Vec<u32> = seen.iter().map(|device| device.node_device).collect();
        assert_eq!(numbers, expected, "{text:?}");
        let ordinals: Vec<usize> = seen.iter().map(|device| device.ordinal.index()).collect();
        assert_eq!(ordinals, (0..seen.len()).collect::<Vec<_>>());
    }

    #[test]
    fn visible_devices_select_order_and_stop_at_the_first_that_is_none() {
        check_visible("2,0", &[2, 0]);
        check_visible(" 1 , 3 ", &[1, 3]);
        check_visible("", &[]);
        check_visible("-1", &[]);
        check_visible("1,-1,2", &[1]);
        check_visible("0,9,1", &[0]);
        check_visible("0,x", &[0]);
        check_visible("1,1", &[]);
        check_visible("GPU-zz", &[]);
    }

    #[test]
    fn visible_devices_may_be_named_by_uuid() {
        let all = devices(&[("FAKEGPU_GPU_COUNT", "4")], None).unwrap();
        let uuid = |at: u32| all.get(Ordinal(at)).unwrap().uuid.to_string();
        check_visible(&format!("{},{}", uuid(3), uuid(1)), &[3, 1]);
        check_visible(&uuid(2)[..12], &[2]);
        check_visible("GPU-", &[]);
        check_visible(&format!("{},0", uuid(3)), &[3]);
    }

    #[test]
    fn the_count_is_that_of_the_variable_then_the_launcher_then_eight() {
        let count = |vars: &[(&str, &str)]| devices(vars, None).unwrap().len();
        assert_eq!(count(&[]), 8);
        assert_eq!(count(&[("OMPI_COMM_WORLD_LOCAL_SIZE", "3")]), 3);
        assert_eq!(count(&[("LOCAL_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "3")]), 2);
        assert_eq!(count(&[("LOCAL_WORLD_SIZE", "2"), ("FAKEGPU_GPU_COUNT", "5")]), 5);
        assert_eq!(count(&[("FAKEGPU_GPU_COUNT", "0")]), 0);
        let none = devices(&[("FAKEGPU_GPU_COUNT", "0")], None).unwrap();
        assert_eq!(none.get(Ordinal(0)).unwrap_err().kind(), ErrorKind::NoDevice);
    }

    #[test]
    fn a_device_is_the_same_to_every_process_of_its_node_and_to_no_other() {
        let mine = devices(&[("FAKEGPU_GPU_COUNT", "4"), (VISIBLE, "2")], None).unwrap();
        let theirs = devices(&[("FAKEGPU_GPU_COUNT", "4")], None).unwrap();
        let (here, there) = (mine.get(Ordinal(0)).unwrap(), theirs.get(Ordinal(2)).unwrap());
        assert_eq!((here.uuid, here.pci_bus_id()), (there.uuid, there.pci_bus_id()));
        let cluster = Cluster::preset("dgx-h100").unwrap().resized(40, 8).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for node in &cluster.nodes {
            let all = devices(&[("FAKEGPU_NODE", &node.id)], Some(&cluster)).unwrap();
            for device in all.iter() {
                assert!(seen.insert(device.pci_bus_id()) && seen.insert(device.uuid.to_string()));
                assert_eq!(all.by_pci_bus_id(&device.pci_bus_id()), Some(device.ordinal));
            }
        }
        let many = devices(&[("LOCAL_WORLD_SIZE", "1024")], None).unwrap();
        let addresses: std::collections::BTreeSet<String> = many.iter().map(Device::pci_bus_id).collect();
        assert_eq!(addresses.len(), 1024);
        assert_eq!(theirs.by_pci_bus_id("12:00.0"), Some(Ordinal(1)));
        assert_eq!(theirs.by_pci_bus_id("0001:12:00.0"), None);
    }

    #[test]
    fn a_cluster_gives_the_node_its_gpus_and_an_unclear_node_is_a_sentence() {
        let cluster = Cluster::preset("dgx-a100").unwrap().resized(2, 4).unwrap();
        let by_rank = devices(&[("RANK", "5"), ("WORLD_SIZE", "8")], Some(&cluster)).unwrap();
        assert_eq!((by_rank.len(), by_rank.node()), (4, cluster.nodes[1].id.as_str()));
        assert_eq!(by_rank.get(Ordinal(0)).unwrap().profile.memory_gib, 80);
        let unclear = devices(&[], Some(&cluster)).unwrap_err();
        assert!(unclear.text().contains("set FAKEGPU_NODE"), "{unclear}");
        let wrong = devices(&[("FAKEGPU_NODE", "nowhere")], Some(&cluster)).unwrap_err();
        assert!(wrong.text().contains("`nowhere`"), "{wrong}");
    }

    #[test]
    fn modelled_copies_take_a_launch_and_the_bytes() {
        let all = devices(&[("FAKEGPU_GPU_PROFILE", "h100")], None).unwrap();
        let device = all.get(Ordinal(0)).unwrap();
        assert_eq!(device.host_span(0).as_picos(), 2_500_000);
        assert_eq!(device.host_span(63_015_000).as_picos(), 2_500_000 + 1_000_000_000);
    }
}
