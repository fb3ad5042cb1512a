//! Starting a coordinator where nobody configured one, so that `mpirun -np 4 ./app` just works.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use fakegpu_config::env::Address;
use fakegpu_proto::Fault;

use crate::process;

/// How a program is started, detached: in its own session, its standard streams at /dev/null, every other
/// descriptor closed; and how a thread is. The fence crate implements the one with posix_spawn.
pub trait Spawn: Send + Sync + std::fmt::Debug {
    /// Starts `program` with `arguments` and exactly `environment`; gives its process id.
    ///
    /// # Errors
    /// The system's, where the program cannot be started.
    fn spawn(
        &self,
        program: &Path,
        arguments: &[OsString],
        environment: &[(OsString, OsString)],
    ) -> io::Result<u32>;

    /// Runs `job` in a thread of its own. In someone else's process that thread should take no signals.
    ///
    /// # Errors
    /// The system's, where no thread can be had.
    fn start_thread(&self, job: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        std::thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(job).map(drop)
    }
}

/// What threads of this library are called.
pub const THREAD_NAME: &str = "fakegpu-nccl";

/// Starts nothing; for programs that always configure a coordinator, and for tests.
#[derive(Clone, Copy, Debug)]
pub struct NeverSpawn;

impl Spawn for NeverSpawn {
    fn spawn(&self, _: &Path, _: &[OsString], _: &[(OsString, OsString)]) -> io::Result<u32> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this process starts no coordinator"))
    }
}

/// How long an embedded coordinator stays after its last session.
const LINGER_MS: &str = "60000";

/// The way to an embedded coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) address: Address,
    pub(crate) token: String,
}

impl Way {
    /// To one of its own. An abstract name: nothing in the file system that a crash could leave behind.
    pub(crate) fn fresh() -> Self {
        let random = process::hex(&process::random::<6>());
        Self {
            address: Address::Unix(format!("@fakegpu-{}-{random}", std::process::id())),
            token: process::hex(&process::random::<16>()),
        }
    }

    /// To the one that all processes of this user with this `NCCL_COMM_ID` share.
    pub(crate) fn of_comm_id(comm_id: &str) -> Self {
        let uid = rustix::process::geteuid().as_raw();
        Self {
            address: Address::Unix(format!(
                "@fakegpu-comm-id-{uid}-{}",
                process::hex(&process::digest(comm_id)[..8])
            )),
            token: process::hex(&process::digest(&format!("{uid} {comm_id}"))),
        }
    }
}

/// Starts a coordinator there.
pub(crate) fn start(spawn: &dyn Spawn, configured: Option<&Path>, way: &Way) -> Result<(), Fault> {
    let binary = find(configured)?;
    let (address, token) = (way.address.to_string(), &way.token);
    let arguments: Vec<OsString> = ["--transport", "unix", "--address", &address, "--linger-ms", LINGER_MS]
        .into_iter()
        .map(OsString::from)
        .collect();
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os()
        .filter(|(name, _)| name != "LD_PRELOAD" && name != "FAKEGPU_COORDINATOR_TOKEN")
        .collect();
    environment.push(("FAKEGPU_COORDINATOR_TOKEN".into(), token.into()));
    let pid = spawn.spawn(&binary, &arguments, &environment).map_err(|error| {
        Fault::system(format!(
            "the embedded coordinator `{}` could not be started: {error}",
            binary.display()
        ))
    })?;
    tracing::debug!(pid, address, "embedded coordinator started");
    Ok(())
}

/// The coordinator's binary: where the environment says, beside this library, or on the PATH.
fn find(configured: Option<&Path>) -> Result<PathBuf, Fault> {
    if let Some(path) = configured {
        return if path.is_file() {
            Ok(path.to_path_buf())
        } else {
            Err(Fault::system(format!("FAKEGPU_COORDINATOR_BIN is `{}`, which is no file", path.display())))
        };
    }
    const NAME: &str = "fakegpu-coordinator";
    let library = process::library_path();
    let beside =
        library.as_deref().and_then(Path::parent).map(|lib| [lib.join("../bin").join(NAME), lib.join(NAME)]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(NAME));
    beside.into_iter().flatten().chain(on_path).find(|candidate| candidate.is_file()).ok_or_else(|| {
        Fault::system(format!(
            "no coordinator is configured and `{NAME}` was not found beside {} or on PATH: use `fakegpu run`, or set FAKEGPU_COORDINATOR_BIN \
             or FAKEGPU_COORDINATOR_ADDR",
            library.map_or_else(|| "the library".to_owned(), |path| path.display().to_string())
        ))
    })
}
