//! Kernel launches: executed by whoever can, and never passed over in silence.

use std::ops::Range;

use fakegpu_config::env::UnsupportedApi;
use fakegpu_units::VirtualSpan;

use crate::devices::{Device, Ordinal};
use crate::engine::{PolledFactory, PolledWork, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::handle::StreamRef;
use crate::memory::{Element, Kind, Layout, MemoryKind, Move, Piece, Set, Shape, Vouched};
use crate::world::World;

/// A launch as the program asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch<'a> {
    /// The kernel's name as it was registered, mangled.
    pub name: &'a str,
    /// The number by which the executor tells it from others of the same name.
    pub function: usize,
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: usize,
    /// Where its arguments are, good during the call.
    pub arguments: Arguments,
}

/// How a program hands over a kernel's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// The address of an array of their addresses.
    Each(usize),
    /// The address of all of them as they lie in memory, and how many bytes that are.
    Packed(usize, usize),
}

/// What an executor makes of a launch.
pub enum Prepared {
    /// It does not know the kernel.
    Unknown,
    /// What runs it, made anew for each run, with the arguments as they were. It tells its modelled duration.
    Work(PolledFactory),
    /// It knows the kernel and cannot run it so, as the sentence says.
    Refused(String),
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => f.write_str("Unknown"),
            Self::Work(_) => f.write_str("Work"),
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
    /// [`ErrorKind::InvalidConfiguration`] for dimensions that no device has; as all work.
    pub fn launch(&self, device: Ordinal, stream: StreamRef, launch: &Launch<'_>) -> Result<()> {
        let on = self.device(device)?;
        check_dimensions(launch)?;
        let prepared = match &self.options.kernels {
            Some(kernels) => kernels.prepare(on, launch),
            None => Prepared::Unknown,
        };
        let why = match prepared {
            Prepared::Work(make) => {
                self.engine.enqueue(device, stream, Work::Polled(PolledWork::Remade(make)))?;
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

/// Memory that kernels touch, and variables that they have.
impl World {
    /// The allocation that an address lies in, if a kernel on `device` may touch it: memory of the device, of a peer that
    /// was enabled, of another process, or page-locked memory of the host.
    pub fn kernel_range(&self, device: Ordinal, address: usize) -> Option<Range<usize>> {
        let piece = self.memory.around(address).at?;
        let is_open = match piece.kind {
            MemoryKind::Host | MemoryKind::Managed => true,
            _ => piece.is_foreign || self.memory.has_peer(device, piece.device),
        };
        is_open.then(|| piece.base..piece.base + piece.bytes)
    }

    /// Where an address lies that a kernel on `device` may not touch, as a sentence without its subject.
    pub fn kernel_miss(&self, device: Ordinal, address: usize) -> String {
        let around = self.memory.around(address);
        if let Some(piece) = around.at {
            if self.kernel_range(device, address).is_some() {
                return format!("runs over the end of {}", shown(&piece));
            }
            let owner = piece.device;
            return format!(
                "is memory of device {owner}, which device {device} cannot reach before cudaDeviceEnablePeerAccess"
            );
        }
        let behind =
            around.before.map(|piece| (address - (piece.base + piece.bytes), "behind the end of", piece));
        let before = around.behind.map(|piece| (piece.base - address, "before", piece));
        let nearest = [behind, before].into_iter().flatten().min_by_key(|(distance, ..)| *distance);
        match nearest {
            Some((distance, side, piece)) if distance < NEAR_BYTES => {
                format!("lies {distance} bytes {side} {}", shown(&piece))
            }
            _ => "lies in no allocation: it is ordinary host memory, or nothing".to_owned(),
        }
    }

    /// The modelled duration of a kernel of which nobody knows how many bytes it moves: that of a launch.
    pub fn kernel_span(&self, device: Ordinal) -> Result<VirtualSpan> {
        Ok(self.device(device)?.memory_span(0))
    }

    /// Memory for a variable of a program's, filled with zeros; a managed one may be used by the host, too.
    ///
    /// # Errors
    /// As [`World::malloc`], but also during a capture: a program cannot know when its variables come to be.
    pub fn variable(&self, device: Ordinal, is_managed: bool, bytes: usize) -> Result<usize> {
        self.device(device)?;
        let bytes = bytes.max(1);
        let kind = if is_managed { Kind::Managed } else { Kind::Device };
        let address = self.memory.allocate(device, bytes, kind, None)?;
        let dst = Layout { start: Vouched::own(address), pitch: bytes, slice: bytes };
        let shape = Shape { width: bytes, height: 1, depth: 1 };
        Set { dst, shape, value: 0, element: Element::Byte }.run();
        Ok(address)
    }

    /// Writes a variable's first contents, at once.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] where they are more than the variable at this address has.
    pub fn write_variable(&self, address: usize, contents: &[u8]) -> Result<()> {
        let around = self.memory.around(address);
        let fits = around.at.is_some_and(|piece| piece.base == address && contents.len() <= piece.bytes);
        if !fits {
            return Err(Error::new(ErrorKind::InvalidValue, "a variable is shorter than its contents"));
        }
        let width = contents.len();
        let dst = Layout { start: Vouched::own(address), pitch: width, slice: width };
        Move { dst, src: dst, shape: Shape { width, height: 1, depth: 1 } }.scatter(contents);
        Ok(())
    }
}

/// Farther away than this, an allocation has nothing to do with an address.
const NEAR_BYTES: usize = 1 << 30;

fn shown(piece: &Piece) -> String {
    let whose = match piece.kind {
        MemoryKind::Host => "page-locked host memory".to_owned(),
        _ => format!("memory of device {}", piece.device),
    };
    format!("the allocation of {} bytes at {:#x} ({whose})", piece.bytes, piece.base)
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
    let text =
        format!("kernel `{}`: no device has a grid of {grid:?} blocks of {block:?} threads", launch.name);
    Err(Error::new(ErrorKind::InvalidConfiguration, text))
}
