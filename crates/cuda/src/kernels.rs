//! Kernel launches: executed by whoever can, and never passed over in silence.

use std::sync::Arc;

use fakegpu_config::env::UnsupportedApi;
use fakegpu_units::VirtualSpan;

use crate::devices::{Device, Ordinal};
use crate::engine::Work;
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::handle::StreamRef;
use crate::world::World;

/// A launch as the program asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch<'a> {
    /// The kernel's name as it was registered, mangled.
    pub name: &'a str,
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: usize,
    /// The address of the array of the arguments' addresses, good during the call.
    pub arguments: usize,
}

/// What an executor makes of a launch.
pub enum Prepared {
    /// It does not know the kernel.
    Unknown,
    /// What to run, as often as wanted, with the arguments as they were; and its modelled duration.
    Work(Arc<dyn Fn() + Send + Sync>, VirtualSpan),
    /// It knows the kernel and cannot run it so, as the sentence says.
    Refused(String),
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => f.write_str("Unknown"),
            Self::Work(_, span) => f.debug_tuple("Work").field(span).finish_non_exhaustive(),
            Self::Refused(text) => f.debug_tuple("Refused").field(text).finish(),
        }
    }
}

/// Who executes kernels.
pub trait Kernels: Send + Sync {
    /// Looks at a launch, copies its arguments, and says what is to be run.
    fn prepare(&self, device: &Device, launch: &Launch<'_>) -> Prepared;
}

/// Most blocks in the second and third dimension, on every GPU.
const GRID_MAX: u32 = 65_535;

impl World {
    /// Launches a kernel on a stream.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`], naming the kernel, where nobody can execute it, unless the options say otherwise;
    /// [`ErrorKind::InvalidValue`] for dimensions that no device has; as all work.
    pub fn launch(&self, device: Ordinal, stream: StreamRef, launch: &Launch<'_>) -> Result<()> {
        let on = self.device(device)?;
        check_dimensions(launch)?;
        let prepared = match &self.options.kernels {
            Some(kernels) => kernels.prepare(on, launch),
            None => Prepared::Unknown,
        };
        let why = match prepared {
            Prepared::Work(run, span) => {
                self.engine.enqueue(device, stream, Work::Kernel(run, span))?;
                self.account.note_launch(device);
                return Ok(());
            }
            Prepared::Unknown => "there is no GPU, and nothing that executes it instead".to_owned(),
            Prepared::Refused(why) => why,
        };
        let is_first = self.account.note_refused(device, launch.name);
        let text = format!(
            "the kernel `{}` was not executed: {why}. Its results would be missing; FAKEGPU_UNSUPPORTED_API=warn or \
             =allow passes over such launches",
            launch.name
        );
        match self.options.unsupported {
            UnsupportedApi::Error => Err(Error::new(ErrorKind::NotSupported, text)),
            UnsupportedApi::Warn => {
                if is_first {
                    (self.options.warn)(&text);
                }
                Ok(())
            }
            UnsupportedApi::Allow => Ok(()),
        }
    }
}

fn check_dimensions(launch: &Launch<'_>) -> Result<()> {
    let threads = launch.block.iter().try_fold(1_u32, |product, &side| product.checked_mul(side));
    let block =
        threads.is_some_and(|threads| (1..=fakegpu_config::profiles::BLOCK_THREADS).contains(&threads));
    let [x, y, z] = launch.grid;
    let grid =
        x > 0 && x <= i32::MAX.unsigned_abs() && (1..=GRID_MAX).contains(&y) && (1..=GRID_MAX).contains(&z);
    if block && grid {
        return Ok(());
    }
    let (grid, block) = (launch.grid, launch.block);
    invalid(format!("kernel `{}`: no device has a grid of {grid:?} blocks of {block:?} threads", launch.name))
}
