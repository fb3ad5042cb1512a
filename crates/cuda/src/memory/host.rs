//! How much memory the host has left: a program is refused in a sentence before the kernel ends it without one.

use std::sync::atomic::{AtomicI64, Ordering};

use super::arena::read_small;
use crate::error::{Error, ErrorKind, Result};

/// What is left of the host's memory, measured anew whenever a part of it was used up.
#[derive(Debug)]
pub(crate) struct HostMemory {
    /// Bytes that may still be written before the next measurement.
    credit: AtomicI64,
    cgroups: Vec<Cgroup>,
}

/// A memory controller that bounds this process: folders from its own group up to the root.
#[derive(Debug)]
struct Cgroup {
    folder: String,
    limit: &'static str,
    usage: &'static str,
}

/// Left to everybody else on the machine.
const RESERVE_BYTES: u64 = 256 << 20;
/// Part of what is left that is used up before it is measured again.
const CREDIT_PART: u64 = 8;

impl HostMemory {
    pub(crate) fn new() -> Self {
        Self { credit: AtomicI64::new(0), cgroups: cgroups(&read_small("/proc/self/cgroup")) }
    }

    /// Admits `bytes` that are about to be written for the first time, or refuses them in a sentence about `what`.
    pub(crate) fn admit(&self, bytes: u64, what: &str) -> Result<()> {
        let wanted = i64::try_from(bytes).unwrap_or(i64::MAX);
        if self.credit.fetch_sub(wanted, Ordering::Relaxed) >= wanted {
            return Ok(());
        }
        let left = self.left_bytes();
        if left < bytes.saturating_add(RESERVE_BYTES) {
            self.credit.store(0, Ordering::Relaxed);
            return Err(Error::new(
                ErrorKind::MemoryAllocation,
                format!(
                    "{what} needs {} MiB of this machine's memory, which has {} MiB left, and {} MiB are kept free: \
                     virtual devices live in host memory; run fewer ranks here, or smaller tensors",
                    bytes >> 20,
                    left >> 20,
                    RESERVE_BYTES >> 20
                ),
            ));
        }
        let credit = (left - bytes - RESERVE_BYTES) / CREDIT_PART;
        self.credit.store(i64::try_from(credit).unwrap_or(i64::MAX), Ordering::Relaxed);
        Ok(())
    }

    /// The least of what the machine has available and what each group may still take.
    fn left_bytes(&self) -> u64 {
        let machine = available(&read_small("/proc/meminfo")).unwrap_or(u64::MAX);
        self.cgroups.iter().filter_map(Cgroup::left_bytes).fold(machine, u64::min)
    }
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

impl Cgroup {
    /// `None` where the group has no limit.
    fn left_bytes(&self) -> Option<u64> {
        let limit: u64 = self.read(self.limit)?;
        let usage: u64 = self.read(self.usage)?;
        // Cache that the kernel would drop first counts as free, as it does in MemAvailable.
        let stat = read_small(&format!("{}/memory.stat", self.folder));
        let cache = stat.lines().find_map(|line| {
            let value =
                line.strip_prefix("total_inactive_file ").or_else(|| line.strip_prefix("inactive_file "));
            value?.trim().parse::<u64>().ok()
        });
        Some(limit.saturating_sub(usage.saturating_sub(cache.unwrap_or(0))))
    }

    fn read(&self, file: &str) -> Option<u64> {
        read_small(&format!("{}/{file}", self.folder)).trim().parse().ok()
    }
}

/// The memory groups of a process with this `/proc/self/cgroup`, of either version.
fn cgroups(text: &str) -> Vec<Cgroup> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, limit, usage) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max", "memory.current")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
        } else {
            continue;
        };
        let mut path = path.trim_end_matches('/');
        loop {
            found.push(Cgroup { folder: format!("{root}{path}"), limit, usage });
            match path.rsplit_once('/') {
                Some((above, _)) => path = above,
                None => break,
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_are_found_up_to_their_roots() {
        let found = cgroups("12:cpu,cpuacct:/a\n9:memory:/docker/7\n0::/user.slice/x.scope\n");
        let folders: Vec<&str> = found.iter().map(|group| group.folder.as_str()).collect();
        let expected = [
            "/sys/fs/cgroup/memory/docker/7",
            "/sys/fs/cgroup/memory/docker",
            "/sys/fs/cgroup/memory",
            "/sys/fs/cgroup/user.slice/x.scope",
            "/sys/fs/cgroup/user.slice",
            "/sys/fs/cgroup",
        ];
        assert_eq!(folders, expected);
    }

    #[test]
    fn a_group_leaves_what_its_limit_allows_and_its_cache_would_yield() {
        let folder = std::env::temp_dir().join(format!("fakegpu-cuda-cgroup-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        let shown = folder.display().to_string();
        let group = || Cgroup { folder: shown.clone(), limit: "memory.max", usage: "memory.current" };
        write("memory.current", "700\n");
        write("memory.max", "max\n");
        assert_eq!(group().left_bytes(), None);
        write("memory.max", "1000\n");
        assert_eq!(group().left_bytes(), Some(300));
        write("memory.stat", "anon 1\ninactive_file 200\n");
        assert_eq!(group().left_bytes(), Some(500));
        let host = HostMemory { credit: AtomicI64::new(0), cgroups: vec![group()] };
        assert!(host.admit(1, "an allocation").unwrap_err().text().contains("has 0 MiB left"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn more_than_the_machine_has_is_refused_in_a_sentence_and_little_is_not() {
        let host = HostMemory::new();
        assert_eq!(available("MemTotal: 1 kB\nMemAvailable:   1024 kB\n"), Some(1 << 20));
        assert!(host.left_bytes() > 0);
        let refused = host.admit(1 << 60, "a memset").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::MemoryAllocation);
        assert!(refused.text().starts_with("a memset needs"), "{refused}");
        host.admit(4096, "a copy").unwrap();
    }
}
