//! The life of communicators: made by id or from one another, asked, suspended, revoked, ended.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fakegpu_proto::{
    Fault, Gpu, JoinComm, Leave, ShrinkComm, Split, StagingKind, ToCoordinator, ToRank, UniqueId,
};
use fakegpu_units::Rank;

use crate::communicator::{CommOptions, Communicator, Joined, Newcomer, Place, Standing};
use crate::debug::Subsystem;
use crate::grouping::{self, Held, last_device, sit_on, thread_number};
use crate::init::{Pending, Way};
use crate::job::Outcome;
use crate::{Handle, Runtime, process};

/// A request to join a communicator.
#[derive(Debug)]
pub struct Request<'a> {
    /// The rendezvous.
    pub unique_id: &'a [u8; 128],
    /// Ranks, as the C call gives them.
    pub size: i32,
    /// The rank claimed.
    pub rank: i32,
    /// The device, where the caller chose one.
    pub device: Option<u32>,
    /// The GPU, where a CUDA runtime says so.
    pub gpu: Option<CudaDevice>,
    /// How it is to be.
    pub options: CommOptions,
}

/// A GPU as the process's CUDA runtime names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaDevice {
    /// Its number in this process.
    pub number: u32,
    /// Its PCI bus id.
    pub bus_id: String,
}

/// What a communicator made from another is asked to be; `None` leaves it as its parent is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildOptions {
    /// Whether calls wait for their outcome.
    pub blocking: Option<bool>,
    /// Its name.
    pub name: Option<String>,
}

/// `ncclCommSplit`'s colour that joins no child.
const NO_COLOR: i32 = -1;

/// How long a communicator that ends waits for what streams hold of it: beyond the coordinator's longest patience
/// the streams themselves stand still.
const FLUSH_PATIENCE: Duration = Duration::from_secs(600);

/// How long an abort waits for work in the background to let go of the program's memory.
const ABORT_PATIENCE: Duration = Duration::from_secs(1);

/// What a communicator is, for `ncclCommQueryProperties`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The caller's rank.
    pub rank: Rank,
    /// Ranks.
    pub size: u32,
    /// The CUDA device, or the virtual one.
    pub device: u32,
    /// The same number on every rank.
    pub hash: u64,
    /// Whether windows, and so one-sided operations, are there.
    pub has_windows: bool,
}

impl Runtime {
    /// `ncclCommInitRank`: joins, at once, when the group ends, or in the background. The handle is good for calls
    /// once it stands.
    ///
    /// # Errors
    /// Bad arguments, a wrong environment, and whatever keeps the communicator from coming together.
    pub fn init(&self, request: &Request<'_>) -> Result<(Handle, Outcome), Fault> {
        self.tell_environment();
        let settings = self.settings()?;
        let place = checked_place(request.size, request.rank)?;
        let session = self.session(settings, request.unique_id)?;
        let unique_id = UniqueId::new(request.unique_id);
        let options = self.options(request.options.clone());
        let comm = self.comms.add(Newcomer {
            meeting: unique_id.clone(),
            place: Some(place),
            device: request.device,
            preferred: last_device(),
            cuda_device: request.gpu.as_ref().map(|gpu| gpu.number),
            options,
        });
        sit_on(comm.device);
        let join = JoinComm {
            unique_id,
            size: place.size,
            rank: place.rank,
            device: comm.device,
            listener: None,
            gpu: self.gpu(request.gpu.as_ref()),
            reusable: self.environment.get("NCCL_COMM_ID").is_some(),
            parent: None,
            name: comm.options.name.clone(),
        };
        self.debug.info(Subsystem::Init, comm.device, || format!("{} - Init START", comm.described()));
        if !grouping::is_open() {
            comm.driven_here();
        }
        let way = Way::Join(Box::new(join));
        self.make_one(Pending { comm: Some(comm), parent: None, session, way })
    }

    /// Makes a communicator that is one for this rank for sure.
    fn make_one(&self, pending: Pending) -> Result<(Handle, Outcome), Fault> {
        self.make(pending).map(|(handle, outcome)| (handle.unwrap_or(Handle(0)), outcome))
    }

    /// Makes what is pending, or holds it back; a handle for which nothing came to be is no handle.
    fn make(&self, pending: Pending) -> Result<(Option<Handle>, Outcome), Fault> {
        let handle = pending.comm.as_ref().map(|comm| comm.handle);
        match self.hold_or_perform(Held::Join(pending)) {
            Ok(outcome) => Ok((handle, outcome)),
            Err(fault) => {
                if let Some(handle) = handle {
                    self.comms.remove(handle);
                }
                Err(fault)
            }
        }
    }

    /// The options a program asked for, but for what the environment overrides.
    fn options(&self, asked: CommOptions) -> CommOptions {
        let blocking = match self.environment.get("NCCL_COMM_BLOCKING") {
            Some("0") => false,
            Some("1") => true,
            _ => asked.blocking,
        };
        CommOptions { blocking, ..asked }
    }

    /// A GPU that no other rank may use, unless the environment allows it.
    fn gpu(&self, device: Option<&CudaDevice>) -> Option<Gpu> {
        let device = device.filter(|_| !self.environment.is_on("NCCL_MULTI_RANK_GPU_ENABLE"))?;
        let host = self.environment.get("NCCL_HOSTID").map_or_else(process::host_identity, str::to_owned);
        Some(Gpu { host, id: device.bus_id.clone() })
    }

    /// Tells the version, and once what is odd about the environment.
    fn tell_environment(&self) {
        self.debug.version();
        if self.environment_told.swap(true, Ordering::Relaxed) {
            return;
        }
        for remark in self.environment.remarks() {
            tracing::warn!("{remark}");
            self.debug.warn(0, remark);
        }
    }

    /// `ncclCommInitAll`: all ranks of a communicator in this process, driven by this thread.
    ///
    /// # Errors
    /// As [`Runtime::init`].
    pub fn init_all(&self, devices: &[u32]) -> Result<Vec<Handle>, Fault> {
        let id = self.unique_id()?;
        let size = i32::try_from(devices.len()).map_err(|_| Fault::argument("too many devices"))?;
        self.group_start();
        let join = |(rank, &device): (i32, &u32)| {
            let options = CommOptions::default();
            let request = Request { unique_id: &id, size, rank, device: Some(device), gpu: None, options };
            self.init(&request).map(|(handle, _)| handle)
        };
        let joined: Vec<Result<Handle, Fault>> = (0..size).zip(devices).map(join).collect();
        let ended = self.group_end();
        let made: Vec<Handle> = joined.iter().filter_map(|joined| joined.as_ref().ok()).copied().collect();
        let outcome = joined.into_iter().collect::<Result<Vec<Handle>, Fault>>().and(ended);
        match outcome {
            Ok(_) => Ok(made),
            Err(fault) => {
                // Nobody is given their handles.
                made.into_iter().for_each(|handle| self.comms.remove(handle));
                Err(fault)
            }
        }
    }

    /// `ncclCommSplit`: the child's handle, or none for the colour that joins none.
    ///
    /// # Errors
    /// A colour that is none, and as [`Runtime::init`].
    pub fn split(
        &self,
        parent: Handle,
        color: i32,
        key: i32,
        options: ChildOptions,
    ) -> Result<(Option<Handle>, Outcome), Fault> {
        const CALL: &str = "ncclCommSplit";
        let pending = self.parent_of_child(parent, CALL).and_then(|parent| {
            let color = match u32::try_from(color) {
                Ok(color) => Some(color),
                Err(_) if color == NO_COLOR => None,
                Err(_) => {
                    return Err(Fault::argument(format!(
                        "{CALL}: {color} is no colour: use 0 or more, or NCCL_SPLIT_NOCOLOR"
                    )));
                }
            };
            let joined = parent.standing()?;
            let child = color.map(|_| self.child(&parent, None, &options));
            let split = Split { color, key, listener: None, name: options.name.clone() };
            let way = Way::Split { comm: joined.comm, rank: parent.rank(), split, thread: thread_number() };
            let session = Arc::clone(&joined.session);
            Ok(Pending { comm: child, parent: Some(Arc::clone(&parent)), session, way })
        });
        self.make(pending.inspect_err(|fault| self.refuse(fault))?)
    }

    /// A communicator from which another is to be made: well, or revoked.
    fn parent_of_child(&self, parent: Handle, call: &str) -> Result<Arc<Communicator>, Fault> {
        let parent = self.comms.find(parent)?;
        parent.check_idle(call)?;
        let state = parent.state();
        if state.finalized {
            return Err(Fault::usage(format!("{call} after ncclCommFinalize")));
        }
        let is_revoked = state.revoked;
        drop(state);
        if is_revoked { parent.standing() } else { parent.ready() }.map(drop)?;
        parent.driven_here();
        Ok(parent)
    }

    /// A rank of a communicator that is made from another one.
    fn child(
        &self,
        parent: &Communicator,
        place: Option<Place>,
        options: &ChildOptions,
    ) -> Arc<Communicator> {
        let child = self.comms.add(Newcomer {
            meeting: UniqueId::default(),
            place,
            device: Some(parent.device),
            preferred: parent.device,
            cuda_device: parent.cuda_device,
            options: self.options(CommOptions {
                blocking: options.blocking.unwrap_or(parent.options.blocking),
                name: options.name.clone(),
            }),
        });
        child.driven_here();
        child
    }

    /// `ncclCommShrink`: a communicator without the listed ranks. With `abort`, what the parent is doing is stopped
    /// first, and a parent that failed will do.
    ///
    /// # Errors
    /// A list that is empty or holds what it must not, and as [`Runtime::init`].
    pub fn shrink(
        &self,
        parent: Handle,
        exclude: &[i32],
        abort: bool,
        options: ChildOptions,
    ) -> Result<(Handle, Outcome), Fault> {
        const CALL: &str = "ncclCommShrink";
        let pending = (|| {
            let parent = if abort {
                let parent = self.comms.find(parent)?;
                parent.check_idle(CALL)?;
                parent.standing()?;
                parent
            } else {
                self.parent_of_child(parent, CALL)?
            };
            let joined = parent.standing()?;
            let (rank, name) = (parent.rank(), options.name.clone());
            let exclude = checked_exclusion(exclude, rank, parent.size())?;
            let child = self.child(&parent, None, &options);
            let shrink = ShrinkComm { parent: joined.comm, rank, exclude, abort, listener: None, name };
            let (session, way) = (Arc::clone(&joined.session), Way::Shrink(Box::new(shrink)));
            Ok(Pending { comm: Some(child), parent: Some(Arc::clone(&parent)), session, way })
        })();
        self.make_one(pending.inspect_err(|fault| self.refuse(fault))?)
    }

    /// `ncclCommGetUniqueId`: the id by which new ranks will join this communicator when it grows.
    ///
    /// # Errors
    /// Where the communicator cannot grow, or the coordinator is gone.
    pub fn grow_id(&self, comm: Handle) -> Result<[u8; 128], Fault> {
        let comm = self.parent_of_child(comm, "ncclCommGetUniqueId")?;
        let joined = comm.ready()?;
        let id = self.id_of(&joined.session)?;
        let (unique_id, rank) = (UniqueId::new(&id), comm.rank());
        done(joined.session.ask(&ToCoordinator::GrowId { comm: joined.comm, rank, unique_id })?)?;
        Ok(id)
    }

    /// `ncclCommGrow` for a rank that is in the communicator already.
    ///
    /// # Errors
    /// A size that is no growth, and as [`Runtime::init`].
    pub fn grow(
        &self,
        parent: Handle,
        size: i32,
        unique_id: Option<&[u8; 128]>,
        options: ChildOptions,
    ) -> Result<(Handle, Outcome), Fault> {
        let pending = self.parent_of_child(parent, "ncclCommGrow").and_then(|parent| {
            let rank = parent.rank();
            let size = u32::try_from(size).ok().filter(|size| *size > parent.size()).ok_or_else(|| {
                Fault::argument(format!("ncclCommGrow: {size} ranks are not more than {}", parent.size()))
            })?;
            let joined = parent.ready()?;
            let child = self.child(&parent, Some(Place { rank, size }), &options);
            let join = JoinComm {
                unique_id: unique_id.map(|id| UniqueId::new(id)).unwrap_or_default(),
                size,
                rank,
                device: parent.device,
                parent: Some((joined.comm, rank)),
                name: options.name.clone(),
                ..JoinComm::default()
            };
            let (session, way) = (Arc::clone(&joined.session), Way::Join(Box::new(join)));
            Ok(Pending { comm: Some(child), parent: Some(Arc::clone(&parent)), session, way })
        });
        self.make_one(pending.inspect_err(|fault| self.refuse(fault))?)
    }

    /// `ncclCommRevoke`: stops what is in flight; splits and shrinks go on.
    ///
    /// # Errors
    /// Flags, a second time, or a communicator that does not stand.
    pub fn revoke(&self, comm: Handle, flags: i32) -> Result<(), Fault> {
        let comm = self.comms.find(comm)?;
        comm.check_idle("ncclCommRevoke")?;
        if flags != 0 {
            return Err(Fault::argument(format!(
                "ncclCommRevoke: {flags} are no flags: use NCCL_REVOKE_DEFAULT"
            )));
        }
        let joined = comm.standing()?;
        {
            let mut state = comm.state();
            if state.revoked {
                return Err(Fault::argument("ncclCommRevoke was called twice"));
            }
            if state.finalized {
                return Err(Fault::argument("ncclCommRevoke after ncclCommFinalize"));
            }
            // Also where a peer has revoked it before, or it failed: this rank's calls end here.
            state.revoked = true;
        }
        let rank = comm.rank();
        done(joined.session.ask(&ToCoordinator::Revoke { comm: joined.comm, rank })?)
    }

    /// `ncclCommSuspend`: there is no device memory to give back, and the promise not to use it is kept.
    ///
    /// # Errors
    /// Flags that are none, or a communicator that is suspended or does not stand.
    pub fn suspend(&self, comm: Handle, flags: i32) -> Result<(), Fault> {
        const SUSPEND_MEM: i32 = 1;
        let comm = self.comms.find(comm)?;
        comm.check_idle("ncclCommSuspend")?;
        if flags != SUSPEND_MEM {
            return Err(Fault::argument(format!(
                "ncclCommSuspend: {flags} are no flags: use NCCL_SUSPEND_MEM"
            )));
        }
        comm.ready()?;
        if std::mem::replace(&mut comm.state().suspended, true) {
            return Err(Fault::argument("ncclCommSuspend was called twice without ncclCommResume"));
        }
        Ok(())
    }

    /// `ncclCommResume`.
    ///
    /// # Errors
    /// Where it is not suspended.
    pub fn resume(&self, comm: Handle) -> Result<(), Fault> {
        let comm = self.comms.find(comm)?;
        comm.check_idle("ncclCommResume")?;
        if std::mem::replace(&mut comm.state().suspended, false) {
            return Ok(());
        }
        Err(Fault::argument("ncclCommResume: the communicator is not suspended"))
    }

    /// Ranks of the communicator.
    ///
    /// # Errors
    /// Where the communicator is not one, or does not know them yet.
    pub fn size(&self, comm: Handle) -> Result<u32, Fault> {
        self.place(comm, "ncclCommCount").map(|place| place.size)
    }

    /// The caller's rank in it.
    ///
    /// # Errors
    /// As [`Runtime::size`].
    pub fn rank(&self, comm: Handle) -> Result<Rank, Fault> {
        self.place(comm, "ncclCommUserRank").map(|place| place.rank)
    }

    fn place(&self, comm: Handle, call: &str) -> Result<Place, Fault> {
        let comm = self.comms.find(comm)?;
        comm.check_idle(call)?;
        match comm.place() {
            Some(place) => Ok(place),
            None => Err(comm.standing().err().unwrap_or_else(crate::communicator::not_ready)),
        }
    }

    /// The rank's device: the one a CUDA runtime names, else that of its virtual node.
    ///
    /// # Errors
    /// Where the communicator is not one, or does not stand yet.
    pub fn device(&self, comm: Handle) -> Result<u32, Fault> {
        let comm = self.comms.find(comm)?;
        comm.check_idle("ncclCommCuDevice")?;
        Ok(device_of(&comm))
    }

    /// What the communicator is.
    ///
    /// # Errors
    /// Where it is none, or does not stand yet.
    pub fn properties(&self, comm: Handle) -> Result<Properties, Fault> {
        let comm = self.comms.find(comm)?;
        comm.check_idle("ncclCommQueryProperties")?;
        let joined = comm.standing()?;
        let digest = process::digest(&format!("{} {}", joined.session.address, joined.comm.0));
        Ok(Properties {
            rank: comm.rank(),
            size: comm.size(),
            device: device_of(&comm),
            hash: digest.iter().take(8).fold(0, |hash, byte| (hash << 8) | u64::from(*byte)),
            has_windows: joined.kind == StagingKind::Shared,
        })
    }

    /// Bytes of memory that the communicator takes in this process: it keeps them through a suspend.
    ///
    /// # Errors
    /// Where it is none, or does not stand yet.
    pub fn memory(&self, comm: Handle) -> Result<u64, Fault> {
        let comm = self.comms.find(comm)?;
        comm.check_idle("ncclCommMemStats")?;
        Ok(comm.standing()?.staged_bytes)
    }

    /// `ncclCommRegister`: what stands for the buffer.
    ///
    /// # Errors
    /// Where the communicator is none.
    pub fn register(&self, comm: Handle, buffer: usize, bytes: usize) -> Result<usize, Fault> {
        let comm = self.comms.find(comm)?;
        comm.check_idle("ncclCommRegister")?;
        if buffer == 0 || bytes == 0 {
            return Err(Fault::argument(format!(
                "ncclCommRegister: {bytes} bytes at {buffer:#x} are no buffer"
            )));
        }
        let mut state = comm.state();
        let number = state.registered.last_key_value().map_or(REGISTERED_BASE, |(last, _)| last + 64);
        state.registered.insert(number, bytes);
        Ok(number)
    }

    /// `ncclCommDeregister`.
    ///
    /// # Errors
    /// Where nothing is registered by this number.
    pub fn deregister(&self, comm: Handle, number: usize) -> Result<(), Fault> {
        let comm = self.comms.find(comm)?;
        comm.check_idle("ncclCommDeregister")?;
        if number == 0 {
            return Ok(());
        }
        match comm.state().registered.remove(&number) {
            Some(_) => Ok(()),
            None => Err(Fault::usage(format!(
                "ncclCommDeregister: {number:#x} is no registration of this communicator"
            ))),
        }
    }

    /// `ncclCommGetAsyncError`: how the communicator is.
    ///
    /// # Errors
    /// Where the communicator is not one.
    pub fn async_error(&self, comm: Handle) -> Result<Standing, Fault> {
        if let Err(fault) = self.comms.check_process() {
            return Ok(Standing::Failed(fault));
        }
        Ok(self.comms.find(comm)?.how_it_is())
    }

    /// `ncclCommFinalize`: what was called on streams ends; beyond that it never waits for peers.
    ///
    /// # Errors
    /// Where it was finalized or revoked already.
    pub fn finalize(&self, comm: Handle) -> Result<(), Fault> {
        let comm = self.comms.find(comm)?;
        comm.check_idle("ncclCommFinalize")?;
        if comm.state().revoked {
            return Err(Fault::argument("ncclCommFinalize after ncclCommRevoke"));
        }
        if std::mem::replace(&mut comm.state().finalized, true) {
            return Err(Fault::argument("ncclCommFinalize was called twice"));
        }
        self.flush(&comm, "ncclCommFinalize");
        Ok(())
    }

    /// What streams hold of a communicator ends before it does. The coordinator bounds each operation's wait.
    fn flush(&self, comm: &Arc<Communicator>, call: &str) {
        if !self.engine.flush(comm, FLUSH_PATIENCE) {
            tracing::warn!(
                rank = comm.rank().0,
                "{call}: after {} s a stream still holds operations of the communicator; they are given up",
                FLUSH_PATIENCE.as_secs()
            );
        }
    }

    /// `ncclCommDestroy`: leaves in order. The handle is gone whatever happens.
    ///
    /// # Errors
    /// Where the communicator is not one, has an operation in the background, or the coordinator is gone.
    pub fn destroy(&self, handle: Handle) -> Result<(), Fault> {
        let comm = self.comms.find(handle)?;
        comm.check_idle("ncclCommDestroy")?;
        if self.is_deferred(&comm) {
            tracing::warn!(
                rank = comm.rank().0,
                "a communicator is destroyed while an operation waits for this thread's other ranks"
            );
        }
        self.flush(&comm, "ncclCommDestroy");
        // One after the other: both look into what the communicator's lock guards.
        let expected = {
            let state = comm.state();
            state.finalized || state.revoked
        };
        if let Some(fault) = comm.fault().filter(|_| !expected) {
            let line = format!("ncclCommDestroy of a communicator that failed: {}", fault.detail);
            self.debug.warn(comm.device, &line);
            comm.hazard("destroy", &line);
        }
        self.let_go(&comm);
        let Some(joined) = comm.joined.get() else { return Ok(()) };
        let leave = ToCoordinator::Leave { comm: joined.comm, rank: comm.rank(), how: Leave::Destroy };
        let left = joined.session.ask(&leave).map(|_| ());
        self.debug.info(Subsystem::Init, comm.device, || format!("{} - Destroy COMPLETE", comm.described()));
        self.forget(&comm, joined);
        left
    }

    /// What this process keeps of a communicator goes.
    fn let_go(&self, comm: &Communicator) {
        self.drop_deferred(comm);
        self.comms.remove(comm.handle);
        self.redops.forget(comm.handle);
        self.forget_windows(comm.handle);
    }

    /// What the session remembers of a communicator goes with the process's last rank in it.
    fn forget(&self, comm: &Communicator, joined: &Joined) {
        if self.comms.siblings(comm).is_empty() {
            joined.session.forget(joined.comm);
        }
    }

    /// `ncclCommAbort`: leaves at once, from any thread, whatever the communicator is doing.
    ///
    /// # Errors
    /// Where the communicator is not one.
    pub fn abort(&self, handle: Handle) -> Result<(), Fault> {
        let comm = self.comms.find(handle)?;
        comm.aborted.store(true, Ordering::Release);
        self.let_go(&comm);
        comm.leave_at_once();
        // The program may free its buffers when this returns.
        comm.wait_idle(ABORT_PATIENCE);
        self.engine.flush(&comm, ABORT_PATIENCE);
        let streams = std::mem::take(&mut comm.state().streams);
        streams.into_iter().for_each(|stream| self.streams.forgive(stream));
        self.debug.info(Subsystem::Init, comm.device, || format!("{} - Abort COMPLETE", comm.described()));
        if let Some(joined) = comm.joined.get() {
            self.forget(&comm, joined);
        }
        Ok(())
    }

    /// A call failed: NCCL's log says so where it is asked for.
    pub fn log_failure(&self, fault: &Fault) {
        self.debug.warn(last_device(), &fault.detail);
    }

    /// `ncclResetDebugInit`: reads the settings of the log again.
    pub fn reset_debug(&self, vars: impl IntoIterator<Item = (String, String)>) {
        self.debug.reset(&crate::environment::Environment::read(vars));
    }
}

/// The first number that stands for a registered buffer.
const REGISTERED_BASE: usize = 0x20_0000;

fn device_of(comm: &Communicator) -> u32 {
    let member = comm.joined.get().and_then(|joined| joined.members.get(comm.rank().index()));
    comm.cuda_device.unwrap_or_else(|| member.map_or(comm.device, |member| member.device))
}

fn done(reply: ToRank) -> Result<(), Fault> {
    match reply {
        ToRank::Done => Ok(()),
        ToRank::Failed(fault) => Err(fault),
        other => Err(Fault::internal(format!("a request was answered with {other:?}"))),
    }
}

fn checked_place(size: i32, rank: i32) -> Result<Place, Fault> {
    match (u32::try_from(size), u32::try_from(rank)) {
        (Ok(size), Ok(rank)) if size > 0 && rank < size => Ok(Place { rank: Rank(rank), size }),
        _ => Err(Fault::argument(format!(
            "rank {rank} of {size} is no rank: a communicator has at least one, numbered from 0"
        ))),
    }
}

/// The ranks to leave out, sorted.
fn checked_exclusion(exclude: &[i32], own: Rank, size: u32) -> Result<Vec<Rank>, Fault> {
    if exclude.is_empty() {
        return Err(Fault::argument("ncclCommShrink: the list of ranks to leave out is empty"));
    }
    let mut ranks = BTreeSet::new();
    for &given in exclude {
        let rank = u32::try_from(given).ok().filter(|rank| *rank < size).map(Rank).ok_or_else(|| {
            Fault::argument(format!("ncclCommShrink: {given} is no rank of a communicator of {size}"))
        })?;
        if rank == own {
            return Err(Fault::argument(format!("ncclCommShrink: rank {rank} leaves itself out")));
        }
        if !ranks.insert(rank) {
            return Err(Fault::argument(format!("ncclCommShrink: rank {rank} is listed twice")));
        }
    }
    Ok(ranks.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_to_leave_out_is_sorted_and_checked() {
        assert_eq!(checked_exclusion(&[3, 1], Rank(0), 4), Ok(vec![Rank(1), Rank(3)]));
        for bad in [&[][..], &[4], &[-1], &[0], &[1, 1]] {
            assert!(checked_exclusion(bad, Rank(0), 4).is_err(), "{bad:?}");
        }
    }
}
