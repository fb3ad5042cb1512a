//! Who executes kernels: their PTX, translated, on threads of the host.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fakegpu_cuda::{
    Arguments, Device, Error, ErrorKind, Kernels, Launch, Ordinal, Poll, Polled, Prepared, World,
};
use fakegpu_ptx_jit::{FaultKind, Job, Kernel, Launch as Run, Memory, Pool};
use fakegpu_units::VirtualSpan;

use crate::process;
use crate::registry;

/// Executes what it finds PTX for.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    pool: Arc<Pool>,
}

impl Kernels for Executor {
    fn prepare(&self, device: &Device, launch: &Launch<'_>) -> Prepared {
        match self.plan(device, launch) {
            Ok(plan) => {
                let plan = Arc::new(plan);
                Prepared::Work(Arc::new(move || Box::new(Running { plan: Arc::clone(&plan), job: None })))
            }
            Err(reason) => Prepared::Refused(reason),
        }
    }
}

impl Executor {
    fn plan(&self, device: &Device, launch: &Launch<'_>) -> Result<Plan, String> {
        let binary = registry::binary_of(launch.function).ok_or("its module was unloaded")?;
        let code = registry::code(binary)?;
        let kernel = code.kernel(launch.name)?;
        let world = process::world().map_err(|failure| failure.text.into_owned())?;
        let variables = code.addresses(world, device.ordinal).map_err(|failure| failure.text.into_owned())?;
        let arguments = arguments(&kernel, launch.arguments)?;
        Ok(Plan {
            pool: Arc::clone(&self.pool),
            span: world.kernel_span(device.ordinal).unwrap_or(VirtualSpan::ZERO),
            kernel,
            grid: launch.grid,
            block: launch.block,
            shared_bytes: u32::try_from(launch.shared_bytes).unwrap_or(u32::MAX),
            arguments,
            variables: variables.iter().map(|address| *address as u64).collect(),
            multiprocessors: device.profile.sm_count,
            memory: Arc::new(Reachable(device.ordinal)),
        })
    }
}

/// The arguments as they lie in memory on a device.
fn arguments(kernel: &Kernel, from: Arguments) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0_u8; kernel.param_bytes()];
    if bytes.is_empty() {
        return Ok(bytes);
    }
    match from {
        Arguments::Each(0) | Arguments::Packed(0, _) => {
            return Err("it has arguments, and none were given".to_owned());
        }
        Arguments::Each(array) => {
            let array = std::ptr::with_exposed_provenance::<*const u8>(array);
            for (number, param) in kernel.params().iter().enumerate() {
                let (start, length) = (usize::try_from(param.offset), usize::try_from(param.bytes));
                let place = start
                    .ok()
                    .zip(length.ok())
                    .and_then(|(start, length)| bytes.get_mut(start..start.checked_add(length)?));
                let Some(place) = place else { return Err("its arguments have no end".to_owned()) };
                // SAFETY: a launch gives the address of an array of as many addresses as the kernel has parameters, as
                // CUDA demands; the kernel's own text tells how many.
                let argument = unsafe { array.wrapping_add(number).read() };
                if argument.is_null() {
                    return Err(format!("its argument {number} is at address 0"));
                }
                // SAFETY: each address is that of an argument with as many bytes as its parameter has.
                unsafe { std::ptr::copy_nonoverlapping(argument, place.as_mut_ptr(), place.len()) };
            }
        }
        Arguments::Packed(address, length) => {
            let from = std::ptr::with_exposed_provenance::<u8>(address);
            let length = length.min(bytes.len());
            // SAFETY: the launch says that so many bytes of arguments lie there.
            unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), length) };
        }
    }
    Ok(bytes)
}

/// A launch that was found to be in order.
struct Plan {
    pool: Arc<Pool>,
    kernel: Arc<Kernel>,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    arguments: Vec<u8>,
    variables: Vec<u64>,
    multiprocessors: u32,
    memory: Arc<Reachable>,
    span: VirtualSpan,
}

impl Plan {
    fn start(&self) -> Job {
        let memory: Arc<Reachable> = Arc::clone(&self.memory);
        let run = Run {
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            params: self.arguments.clone(),
            variables: self.variables.clone(),
            multiprocessors: self.multiprocessors,
            memory,
        };
        self.pool.start(Arc::clone(&self.kernel), run)
    }
}

/// One run of a launch, as an item of its stream.
struct Running {
    plan: Arc<Plan>,
    job: Option<Job>,
}

impl Polled for Running {
    fn poll(&mut self) -> Poll {
        let job = self.job.get_or_insert_with(|| self.plan.start());
        match job.poll() {
            None => Poll::Pending,
            Some(Ok(())) => Poll::Done { took: self.plan.span },
            Some(Err(fault)) => {
                let kind = match fault.kind {
                    FaultKind::IllegalAddress => ErrorKind::IllegalAddress,
                    FaultKind::Misaligned => ErrorKind::MisalignedAddress,
                    FaultKind::Assert => ErrorKind::Assert,
                    FaultKind::Trap => ErrorKind::LaunchFailure,
                };
                Poll::Faulted { error: Error::new(kind, fault.text) }
            }
        }
    }

    fn wait(&mut self, at_most: Duration) {
        match &self.job {
            Some(job) => job.wait(at_most),
            None => std::thread::sleep(at_most.min(Duration::from_micros(50))),
        }
    }

    fn name(&self) -> &str {
        self.plan.kernel.name()
    }
}

/// What kernels of a device may touch.
#[derive(Debug)]
struct Reachable(Ordinal);

impl Reachable {
    fn world() -> Option<&'static World> {
        process::world().ok()
    }
}

impl Memory for Reachable {
    fn find(&self, address: u64) -> Option<Range<u64>> {
        let found = Self::world()?.kernel_range(self.0, usize::try_from(address).ok()?)?;
        Some(found.start as u64..found.end as u64)
    }

    fn describe(&self, address: u64) -> String {
        let told = Self::world().zip(usize::try_from(address).ok());
        told.map_or_else(String::new, |(world, address)| world.kernel_miss(self.0, address))
    }
}
