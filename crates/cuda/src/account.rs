//! The account: what happened on each device, for `fake_gpu_report.json`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::devices::{Devices, Ordinal};
use crate::memory::locked;

/// What a process did with its devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Version of this format.
    pub version: u32,
    /// The process.
    pub pid: u32,
    /// The virtual node.
    pub node: String,
    /// The devices by ordinal.
    pub devices: Vec<DeviceReport>,
}

/// What a process did with one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Its number in the process.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// Its unique id.
    pub uuid: String,
    /// Its PCI address.
    pub pci_bus_id: String,
    /// Bytes of memory it has.
    pub memory_bytes: u64,
    /// Allocations made.
    pub allocations: u64,
    /// Allocations freed.
    pub frees: u64,
    /// Bytes allocated now, rounded up as the device does.
    pub live_bytes: u64,
    /// The most there ever were.
    pub peak_bytes: u64,
    /// Allocations refused because the device, or the machine, had no room.
    pub out_of_memory: u64,
    /// Copies, by where from and where to.
    pub copies: Copies,
    /// Memsets.
    pub memsets: Traffic,
    /// Kernels executed.
    pub launches: u64,
    /// Launches that nobody executed, by the kernel's name.
    pub refused_launches: BTreeMap<String, u64>,
    /// Streams made.
    pub streams: u64,
    /// Events made.
    pub events: u64,
}

/// Copies by where from and where to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    /// From host memory to host memory.
    pub host_to_host: Traffic,
    /// From host memory to the device.
    pub host_to_device: Traffic,
    /// From the device to host memory.
    pub device_to_host: Traffic,
    /// Within the device.
    pub device_to_device: Traffic,
    /// From the device to another, or from another process's memory.
    pub peer: Traffic,
}

/// How many, and how many bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// How many.
    pub count: u64,
    /// Bytes of all together.
    pub bytes: u64,
}

impl Report {
    /// Version of the format that this library writes.
    pub const VERSION: u32 = 1;

    /// As it is written to a file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).map_or_else(
            |error| format!("{{\"error\": \"{error}\"}}"),
            |mut text| {
                text.push('\n');
                text
            },
        )
    }
}

/// Where bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    HostToHost,
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    Peer,
}

/// Numbers that grow, one set a device.
#[derive(Debug)]
pub(crate) struct Account(Vec<DeviceAccount>);

#[derive(Debug, Default)]
struct DeviceAccount {
    allocations: AtomicU64,
    frees: AtomicU64,
    live: AtomicU64,
    peak: AtomicU64,
    out_of_memory: AtomicU64,
    copies: [Counter; 5],
    memsets: Counter,
    launches: AtomicU64,
    refused: Mutex<BTreeMap<String, u64>>,
    streams: AtomicU64,
    events: AtomicU64,
}

#[derive(Debug, Default)]
struct Counter {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Counter {
    fn add(&self, bytes: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn read(&self) -> Traffic {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Traffic { count: read(&self.count), bytes: read(&self.bytes) }
    }
}

/// Names of refused kernels that are told apart; the rest is counted together.
const NAMES_MAX: usize = 4096;

impl Account {
    pub(crate) fn new(devices: &Devices) -> Self {
        Self(devices.iter().map(|_| DeviceAccount::default()).collect())
    }

    fn with(&self, device: Ordinal, note: impl FnOnce(&DeviceAccount)) {
        if let Some(account) = self.0.get(device.index()) {
            note(account);
        }
    }

    pub(crate) fn note_allocated(&self, device: Ordinal, bytes: u64) {
        self.with(device, |account| {
            account.allocations.fetch_add(1, Ordering::Relaxed);
            let live = account.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
            account.peak.fetch_max(live, Ordering::Relaxed);
        });
    }

    pub(crate) fn note_freed(&self, device: Ordinal, bytes: u64) {
        self.with(device, |account| {
            account.frees.fetch_add(1, Ordering::Relaxed);
            account.live.fetch_sub(bytes, Ordering::Relaxed);
        });
    }

    pub(crate) fn note_oom(&self, device: Ordinal) {
        self.with(device, |account| {
            account.out_of_memory.fetch_add(1, Ordering::Relaxed);
        });
    }

    pub(crate) fn note_copy(&self, device: Ordinal, route: Route, bytes: u64) {
        self.with(device, |account| {
            let [host, up, down, within, peer] = &account.copies;
            let counter = match route {
                Route::HostToHost => host,
                Route::HostToDevice => up,
                Route::DeviceToHost => down,
                Route::DeviceToDevice => within,
                Route::Peer => peer,
            };
            counter.add(bytes);
        });
    }

    pub(crate) fn note_memset(&self, device: Ordinal, bytes: u64) {
        self.with(device, |account| account.memsets.add(bytes));
    }

    pub(crate) fn note_launch(&self, device: Ordinal) {
        self.with(device, |account| {
            account.launches.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// Whether it is the first of its name.
    pub(crate) fn note_refused(&self, device: Ordinal, name: &str) -> bool {
        let Some(account) = self.0.get(device.index()) else { return false };
        let mut refused = locked(&account.refused);
        if let Some(count) = refused.get_mut(name) {
            *count += 1;
            return false;
        }
        let name = if refused.len() < NAMES_MAX { name } else { "(others)" };
        *refused.entry(name.to_owned()).or_default() += 1;
        true
    }

    pub(crate) fn note_stream(&self, device: Ordinal) {
        self.with(device, |account| {
            account.streams.fetch_add(1, Ordering::Relaxed);
        });
    }

    pub(crate) fn note_event(&self, device: Ordinal) {
        self.with(device, |account| {
            account.events.fetch_add(1, Ordering::Relaxed);
        });
    }

    pub(crate) fn report(&self, devices: &Devices) -> Report {
        let devices_told = devices.iter().zip(&self.0).map(|(device, account)| {
            let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
            let [host, up, down, within, peer] = &account.copies;
            DeviceReport {
                ordinal: device.ordinal.0,
                name: device.profile.product.to_owned(),
                uuid: device.uuid.to_string(),
                pci_bus_id: device.pci_bus_id(),
                memory_bytes: device.profile.memory_bytes(),
                allocations: read(&account.allocations),
                frees: read(&account.frees),
                live_bytes: read(&account.live),
                peak_bytes: read(&account.peak),
                out_of_memory: read(&account.out_of_memory),
                copies: Copies {
                    host_to_host: host.read(),
                    host_to_device: up.read(),
                    device_to_host: down.read(),
                    device_to_device: within.read(),
                    peer: peer.read(),
                },
                memsets: account.memsets.read(),
                launches: read(&account.launches),
                refused_launches: locked(&account.refused).clone(),
                streams: read(&account.streams),
                events: read(&account.events),
            }
        });
        Report {
            version: Report::VERSION,
            pid: std::process::id(),
            node: devices.node().to_owned(),
            devices: devices_told.collect(),
        }
    }
}
