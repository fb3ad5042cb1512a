//! Which coordinators run on this machine, by what the kernel tells of sockets and processes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::find::COORDINATOR;

/// A running coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    /// Where it listens.
    pub(crate) address: String,
    /// Its process, where this user may see it.
    pub(crate) pid: Option<u32>,
}

/// A process's name, as the kernel keeps it.
const COMM_BYTES_MAX: usize = 15;

/// All of this user's coordinators, by address. Those of other pid namespaces are known by their socket's name alone.
pub(crate) fn coordinators() -> Vec<Running> {
    let mut owners = BTreeMap::new();
    for pid in own_coordinators() {
        for inode in sockets_of(pid) {
            owners.insert(inode, pid);
        }
    }
    let mut running: BTreeMap<String, Option<u32>> = BTreeMap::new();
    for (inode, name) in listening_unix(&read("/proc/net/unix")) {
        let pid = owners.get(&inode).copied();
        if pid.is_some() || is_ours(&name) {
            running.insert(name, pid);
        }
    }
    for (inode, address) in listening_tcp(&read("/proc/net/tcp")) {
        if let Some(pid) = owners.get(&inode) {
            running.insert(address, Some(*pid));
        }
    }
    running.into_iter().map(|(address, pid)| Running { address, pid }).collect()
}

/// The token that a coordinator of this user was started with; the kernel shows a process's environment to nobody else.
pub(crate) fn token_of(pid: u32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let token = environment
        .split(|byte| *byte == 0)
        .find_map(|variable| variable.strip_prefix(b"FAKEGPU_COORDINATOR_TOKEN="))?;
    String::from_utf8(token.to_vec()).ok().filter(|token| !token.is_empty())
}

fn own_coordinators() -> Vec<u32> {
    let own = rustix::process::geteuid().as_raw();
    let name = &COORDINATOR[..COORDINATOR.len().min(COMM_BYTES_MAX)];
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let is_own = entry.metadata().ok()?.uid() == own;
            let comm = fs::read_to_string(entry.path().join("comm")).ok()?;
            (is_own && comm.trim_end() == name).then_some(pid)
        })
        .collect()
}

/// Inodes of a process's sockets.
fn sockets_of(pid: u32) -> Vec<u64> {
    let entries = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd"));
    entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
        })
        .collect()
}

fn read(path: &str) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Listening sockets that have a name, by inode.
fn listening_unix(table: &str) -> Vec<(u64, String)> {
    /// `__SO_ACCEPTCON`.
    const LISTENS: u32 = 1 << 16;
    let row = |line: &str| {
        // Num RefCount Protocol Flags Type St Inode Path; a path may have spaces.
        let mut rest = line;
        let mut fields = Vec::new();
        for _ in 0..7 {
            let (field, behind) = rest.trim_start().split_once(' ')?;
            fields.push(field);
            rest = behind;
        }
        let name = rest.trim();
        let listens = u32::from_str_radix(fields.get(3)?, 16).ok()? & LISTENS != 0;
        (listens && !name.is_empty()).then(|| Some((fields.get(6)?.parse().ok()?, name.to_owned())))?
    };
    table.lines().skip(1).filter_map(row).collect()
}

/// Listening IPv4 sockets, by inode.
fn listening_tcp(table: &str) -> Vec<(u64, String)> {
    const LISTENS: &str = "0A";
    let row = |line: &str| {
        // sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        if *fields.get(3)? != LISTENS {
            return None;
        }
        let (host, port) = fields.get(1)?.split_once(':')?;
        let host = std::net::Ipv4Addr::from(u32::from_str_radix(host, 16).ok()?.to_ne_bytes());
        let host = if host.is_unspecified() { std::net::Ipv4Addr::LOCALHOST } else { host };
        let port = u16::from_str_radix(port, 16).ok()?;
        Some((fields.get(9)?.parse().ok()?, format!("{host}:{port}")))
    };
    table.lines().skip(1).filter_map(row).collect()
}

/// Whether an abstract name is one that `fakegpu run`, or the library for its own coordinator, makes up:
/// `@fakegpu-run-PID-HEX` and `@fakegpu-PID-HEX`.
fn is_ours(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("@fakegpu-") else { return false };
    let rest = rest.strip_prefix("run-").unwrap_or(rest);
    let Some((pid, random)) = rest.split_once('-') else { return false };
    let is = |text: &str, of: fn(u8) -> bool| !text.is_empty() && text.bytes().all(of);
    is(pid, |byte| byte.is_ascii_digit()) && random.len() == 12 && is(random, |byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIX: &str = "\
Num       RefCount Protocol Flags    Type St Inode Path
00000000f4da42c9: 00000003 00000000 00000000 0001 03  1657
0000000000000001: 00000002 00000000 00010000 0001 01 20001 @fakegpu-run-4711-0a1b2c3d4e5f
0000000000000002: 00000003 00000000 00000000 0001 03 20002 @fakegpu-run-4711-0a1b2c3d4e5f
0000000000000003: 00000002 00000000 00010000 0001 01 20003 /tmp/with space/s
0000000000000004: 00000002 00000000 00010000 0001 01 20004 @fakegpu-seg-4711-0a1b2c3d4e5f0a1b
0000000000000005: 00000002 00000000 00010000 0005 01 20005
";

    #[test]
    fn only_sockets_that_listen_and_have_a_name_are_taken() {
        let names: Vec<_> =
            listening_unix(UNIX).into_iter().map(|(inode, name)| format!("{inode} {name}")).collect();
        assert_eq!(
            names,
            [
                "20001 @fakegpu-run-4711-0a1b2c3d4e5f",
                "20003 /tmp/with space/s",
                "20004 @fakegpu-seg-4711-0a1b2c3d4e5f0a1b"
            ]
        );
    }

    #[test]
    fn a_coordinator_s_name_is_told_from_a_segment_s() {
        assert!(is_ours("@fakegpu-run-4711-0a1b2c3d4e5f") && is_ours("@fakegpu-4711-0a1b2c3d4e5f"));
        for other in
            ["@fakegpu-seg-4711-0a1b2c3d4e5f0a1b", "@fakegpu-doctor-1-0a1b2c3d4e5f", "@fakegpu", "/tmp/s"]
        {
            assert!(!is_ours(other), "{other}");
        }
    }

    #[test]
    fn tcp_sockets_are_read_in_the_kernel_s_byte_order() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:0FA0 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 31 1 0 100 0\n   \
                     1: 0100007F:0FA0 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 32 1 0 100 0\n";
        assert_eq!(listening_tcp(table), [(31, "127.0.0.1:4000".to_owned())]);
    }

    #[test]
    fn a_table_that_is_no_table_has_no_sockets() {
        assert_eq!((listening_unix("x\ny z"), listening_tcp("x\n\u{fffd} 1")), (Vec::new(), Vec::new()));
    }
}
