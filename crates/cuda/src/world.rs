//! The world: everything a program can ask, one method a call.
//!
//! Each method first makes sure that this is not a child after `fork`. What a method does stands in the module of its
//! topic; here is the list.

use std::fmt;
use std::sync::Arc;

use fakegpu_config::env::UnsupportedApi;

use crate::account::{Account, Report};
use crate::devices::{Device, Devices, Ordinal};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::Kernels;
use crate::memory::{ForkGuard, Memory};

/// What a world does where there is a choice.
#[derive(Clone)]
pub struct Options {
    /// Who executes kernels; nobody by default.
    pub kernels: Option<Arc<dyn Kernels>>,
    /// What a launch that nobody executes is.
    pub unsupported: UnsupportedApi,
    /// Where warnings go, one sentence each; nowhere by default.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Default for Options {
    fn default() -> Self {
        Self { kernels: None, unsupported: UnsupportedApi::Error, warn: Arc::new(|_| {}) }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("has_kernels", &self.kernels.is_some())
            .field("unsupported", &self.unsupported)
            .finish_non_exhaustive()
    }
}

/// The CUDA world of this process. Every method may be called from any thread.
///
/// A `device` argument is the calling thread's current device. Streams are named by [`StreamRef`](crate::StreamRef);
/// the default streams are those of that device.
#[derive(Debug)]
pub struct World {
    pub(crate) devices: Devices,
    pub(crate) options: Options,
    pub(crate) account: Arc<Account>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) engine: Arc<Engine>,
    guard: ForkGuard,
}

impl World {
    /// A world of these devices. Nothing is mapped and no thread started before it is needed.
    ///
    /// # Errors
    /// [`ErrorKind::OperatingSystem`] where not even a page for the fork guard can be had.
    pub fn new(devices: Devices, options: Options) -> Result<Self> {
        let guard = ForkGuard::new()?;
        let account = Arc::new(Account::new(&devices));
        let memory = Arc::new(Memory::new(&devices, Arc::clone(&account)));
        let engine = Engine::new(&devices);
        Ok(Self { devices, options, account, memory, engine, guard })
    }

    /// Whether the world can be used: not in a child of the process that made it.
    ///
    /// # Errors
    /// [`ErrorKind::InitializationError`] after `fork`.
    pub fn check(&self) -> Result<()> {
        if self.guard.is_forked() {
            return Err(Error::new(
                ErrorKind::InitializationError,
                "this process was forked from one that had used CUDA already, and CUDA does not survive a fork; start \
                 workers by spawn or forkserver, or fork before the first CUDA call",
            ));
        }
        Ok(())
    }

    /// The devices.
    pub const fn devices(&self) -> &Devices {
        &self.devices
    }

    /// One device.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidDevice`], or [`ErrorKind::NoDevice`] where there is none at all.
    pub fn device(&self, ordinal: Ordinal) -> Result<&Device> {
        self.check()?;
        self.devices.get(ordinal)
    }

    /// What happened so far, for `fake_gpu_report.json`.
    pub fn report(&self) -> Report {
        self.account.report(&self.devices)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // In a child after `fork` there is no thread to end, and whoever held the mutex is not there to let go.
        if !self.guard.is_forked() {
            self.engine.close();
        }
    }
}
