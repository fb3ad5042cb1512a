//! Two hosts with a cable between them: it works, and a cut cable is an error on both sides within a bound.

use std::path::Path;
use std::process::Command;

use fakegpu_verification::Layout;

/// What became of a job on two hosts.
struct TwoHosts {
    folder: tempfile::TempDir,
}

impl TwoHosts {
    /// Runs it; `None` where this machine lets nobody make network namespaces, which is said.
    fn run(how: &str) -> Option<Self> {
        let layout = Layout::find();
        let folder = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("two_hosts.sh");
        let output = Command::new(script).arg(layout.root()).arg(folder.path()).arg(how).output().unwrap();
        match output.status.code() {
            Some(0) => Some(Self { folder }),
            // No network namespaces, or no packet filter: not on this machine, by this user.
            Some(2 | 3) => None,
            code => panic!("{code:?}: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    fn json(&self, name: &str) -> serde_json::Value {
        serde_json::from_str(&self.read(name))
            .unwrap_or_else(|error| panic!("{name}: {error}: {}", self.read(name)))
    }
}

/// Every rank is told, on both sides, and nothing is left of the job.
fn a_cut_is_told(how: &str) {
    let Some(job) = TwoHosts::run(how) else { return };
    for rank in 0..4 {
        let (output, code) = (job.read(&format!("rank.{rank}")), job.read(&format!("code.{rank}")));
        assert_eq!(code.trim(), "1", "rank {rank}: {output}");
        // Whoever moves bytes at that moment may see the data connection end first.
        let words = ["died", "is gone", "data connection"];
        assert!(words.iter().any(|word| output.contains(word)), "rank {rank}: {output}");
        let took: u64 = job.read(&format!("took.{rank}")).trim().parse().unwrap();
        assert!(took < 20_000, "rank {rank} was told after {took} ms");
    }
    assert_eq!(job.json("after.json")["communicators"], serde_json::json!([]), "{}", job.read("after.error"));
    assert!(job.json("report.json")["resilience"]["failure_count"].as_u64().unwrap() > 0);
}

#[test]
fn a_job_on_two_hosts_runs_to_its_end() {
    let Some(job) = TwoHosts::run("whole") else { return };
    for rank in 0..4 {
        assert_eq!(job.read(&format!("code.{rank}")).trim(), "0", "{}", job.read(&format!("rank.{rank}")));
    }
    let report = job.json("report.json");
    assert_eq!(report["resilience"]["failure_count"], 0);
    assert_eq!(report["cluster"]["nodes"].as_array().unwrap().len(), 2, "each host is a node");
}

#[test]
fn a_pulled_cable_is_told_on_both_sides() {
    a_cut_is_told("unplugged");
}

#[test]
fn packets_that_vanish_are_told_on_both_sides() {
    a_cut_is_told("dropped");
}
