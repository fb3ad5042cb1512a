//! No variable of ours is set at all: the first unique id starts a coordinator.

use std::process::Command;
use std::time::{Duration, Instant};

use fakegpu_verification::{Job, Layout};

/// Ends what `ncclGetUniqueId` started, so that tests do not wait for its minute of grace.
struct Embedded(Vec<u32>);

impl Embedded {
    /// The coordinators that a job in this folder left.
    fn of(folder: &std::path::Path) -> Self {
        let found = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let program = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
            let place = std::fs::read_link(entry.path().join("cwd")).ok()?;
            (program.contains("fakegpu-coordinator") && place == folder).then_some(pid)
        });
        Self(found.collect())
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        for pid in &self.0 {
            Command::new("kill").arg(pid.to_string()).status().map(|_| ()).unwrap_or_default();
        }
    }
}

#[test]
fn four_processes_of_a_shell_loop_find_each_other_by_a_file() {
    let layout = Layout::find();
    let folder = tempfile::tempdir().unwrap();
    let script = "for rank in 0 1 2 3; do RANK=$rank WORLD_SIZE=4 \"$0\" id & pids=\"$pids $!\"; done; \
                  for pid in $pids; do wait $pid || exit 1; done";
    let output = Command::new("/bin/sh")
        .args(["-c", script])
        .arg(layout.client("hello"))
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LD_LIBRARY_PATH", layout.lib())
        .output()
        .unwrap();
    let embedded = Embedded::of(&folder.path().canonicalize().unwrap());
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("every element is 10").count(), 4, "{text}");
    assert_eq!(embedded.0.len(), 1, "one coordinator for all");
    // The report is written as soon as the last rank has left.
    let report = folder.path().join("fake_gpu_cluster_report.json");
    let deadline = Instant::now() + Duration::from_secs(5);
    while !report.exists() {
        assert!(Instant::now() < deadline, "no report");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    assert!(folder.path().join("fake_gpu_cluster_report.md").exists());
}

#[test]
fn every_collective_works_with_an_embedded_coordinator() {
    let layout = Layout::find();
    let job = Job::new(&layout, 4, &["--quick"]);
    let folder = job.folder().canonicalize().unwrap();
    let outcome = job.run();
    let embedded = Embedded::of(&folder);
    outcome.assert_success();
    assert_eq!(embedded.0.len(), 1);
}

#[test]
fn an_embedded_coordinator_keeps_none_of_the_programs_descriptors_and_has_its_own_session() {
    let layout = Layout::find();
    let job = Job::new(&layout, 2, &["--quick", "--only", "broadcast"]);
    let folder = job.folder().canonicalize().unwrap();
    let outcome = job.run();
    outcome.assert_success();
    let embedded = Embedded::of(&folder);
    let pid = embedded.0[0];
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap();
    assert_eq!(session, pid.to_string(), "a Ctrl-C for the program is not for the coordinator");
    for fd in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
        let target = std::fs::read_link(fd.path()).unwrap().display().to_string();
        let own = ["/dev/null", "socket:", "anon_inode:"].iter().any(|kind| target.starts_with(kind));
        assert!(own, "it holds {target}");
    }
}
