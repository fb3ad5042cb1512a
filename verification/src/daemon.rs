//! A coordinator process that ends with its guard.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Layout;

/// How long anything that needs no rank may take.
const PROMPT: Duration = Duration::from_secs(10);

/// A running coordinator.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    transport: String,
    address: String,
    folder: tempfile::TempDir,
}

/// A connection to it.
pub trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Daemon {
    /// Starts one on a free address, with further environment variables, and waits until it says it is ready.
    ///
    /// # Panics
    /// Where it does not start.
    pub fn start(layout: &Layout, transport: &str, environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let address = match transport {
            "unix" => folder.path().join("coordinator.sock").display().to_string(),
            _ => "127.0.0.1:0".to_owned(),
        };
        let mut command = Command::new(layout.coordinator());
        command.args(["--transport", transport, "--address", &address]).current_dir(folder.path());
        command.env("FAKEGPU_CLUSTER_REPORT_PATH", folder.path().join("report.json"));
        command.envs(environment.iter().copied()).stdout(Stdio::piped()).stdin(Stdio::null());
        let mut child = command.spawn().expect("starting the coordinator");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("its first line");
        let address = line.trim().strip_prefix("fakegpu-coordinator listening on ");
        let address = address.unwrap_or_else(|| panic!("the coordinator said `{}`", line.trim())).to_owned();
        Self { child, transport: transport.to_owned(), address, folder }
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its folder: the socket and the report are in it.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A fresh connection.
    ///
    /// # Panics
    /// Where it cannot be reached.
    pub fn connect(&self) -> Box<dyn Stream> {
        if self.transport == "unix" {
            let stream = UnixStream::connect(&self.address).expect("connecting");
            stream.set_read_timeout(Some(PROMPT)).expect("a read timeout");
            Box::new(stream)
        } else {
            let stream = TcpStream::connect(&self.address).expect("connecting");
            stream.set_read_timeout(Some(PROMPT)).expect("a read timeout");
            Box::new(stream)
        }
    }

    /// Asks one line and gives the answer.
    ///
    /// # Panics
    /// Where no answer comes.
    pub fn ask(&self, line: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(format!("{line}\n").as_bytes()).expect("asking");
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).expect("an answer");
        answer.trim_end().to_owned()
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// Where the process is gone.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the coordinator lives");
    }

    /// Waits for its end; gives its exit code.
    ///
    /// # Panics
    /// Where it does not end.
    pub fn wait(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PROMPT;
        loop {
            if let Some(status) = self.child.try_wait().expect("waiting") {
                return status.code();
            }
            assert!(Instant::now() < deadline, "the coordinator does not end");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Stops it in order and gives its report.
    ///
    /// # Panics
    /// Where it does not stop, or writes no report.
    pub fn stop(mut self) -> serde_json::Value {
        assert_eq!(self.ask("SHUTDOWN"), "OK status=stopping");
        assert_eq!(self.wait(), Some(0));
        self.report()
    }

    /// The report as it stands in the folder.
    ///
    /// # Panics
    /// Where there is none.
    pub fn report(&self) -> serde_json::Value {
        let text = std::fs::read_to_string(self.folder.path().join("report.json")).expect("a report");
        serde_json::from_str(&text).expect("a report in JSON")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended in order already.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(|_| ()).unwrap_or_default();
    }
}
