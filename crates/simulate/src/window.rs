//! Windows: memory of all ranks of a communicator that each can write into, and the operations that do.
//!
//! Making one is a call of all ranks. Where every rank's memory is of `ncclMemAlloc` and all stand on one host, rank
//! 0 collects a descriptor from each and hands all to all, everybody maps them, and all agree that it went well.
//! Otherwise the call succeeds and there is no window, as in NCCL where symmetric memory is not there.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fakegpu_proto::{Action, Awaited, Fault, StagingKind, ToCoordinator, ToRank, Window as Part};
use fakegpu_rank::checked_peer;
use fakegpu_staging_shm::{SendBuffer, SharedMemory};
use fakegpu_transport::{Dialer, Wire};
use fakegpu_transport_uds::{PrivateSocket, UdsDialer, receive_tagged, send_tagged};
use fakegpu_units::{DataType, Rank};

use crate::communicator::Communicator;
use crate::debug::Subsystem;
use crate::grouping::{Held, thread_number};
use crate::init::private_socket;
use crate::job::Outcome;
use crate::operation::{Copy, Prepared, Work};
use crate::session::Session;
use crate::{Handle, Runtime};

/// How long the ranks of a communicator may take to hand each other descriptors, all being alive.
const PATIENCE: Duration = Duration::from_secs(20);

/// `ncclCommWindowRegister`'s flags, all of them.
const FLAGS: i32 = 0b1111;

/// Why there is no window where nobody tried: some memory is not of `ncclMemAlloc`, or ranks share none.
const NOT_WANTED: &str = "no window was to be made";

/// The first number that stands for a window.
const NUMBER_BASE: usize = 0x40_0000;

/// The process's windows, and the memory that they can be made of.
#[derive(Debug, Default)]
pub(crate) struct Windows(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    /// By its first address.
    memory: BTreeMap<usize, Arc<SharedMemory>>,
    made: usize,
    windows: BTreeMap<usize, Arc<Window>>,
}

/// A range of memory that can be mapped.
#[derive(Clone, Debug)]
struct Range {
    memory: Arc<SharedMemory>,
    offset: usize,
    bytes: usize,
}

/// A window, seen from one rank.
#[derive(Debug)]
struct Window {
    comm: Handle,
    /// This rank's own address.
    user: usize,
    bytes: usize,
    /// Every rank's part, by rank.
    parts: Vec<Range>,
}

/// What is called when a window's number, or 0 for none, is known.
pub(crate) type Show = Box<dyn FnOnce(usize) + Send>;

/// A call of all ranks about a window, not yet made.
pub(crate) struct PendingWindow {
    pub(crate) comm: Arc<Communicator>,
    session: Arc<Session>,
    listener: Option<PrivateSocket>,
    tables: Arc<Windows>,
    wanted: Wanted,
}

enum Wanted {
    /// To make one of this memory, as far as it can be mapped.
    Register { range: Option<Range>, user: usize, bytes: usize, show: Show },
    /// To end one.
    Deregister(usize),
}

impl fmt::Debug for PendingWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingWindow").field("comm", &self.comm.handle).finish_non_exhaustive()
    }
}

/// What one-sided operations have in common.
#[derive(Clone, Copy, Debug)]
pub struct OneSided {
    /// The communicator.
    pub comm: Handle,
    /// The other rank, as given.
    pub peer: i32,
    /// Must be 0.
    pub sig_idx: i32,
    /// Must be 0.
    pub ctx: i32,
    /// Must be 0.
    pub flags: u32,
    /// The stream it is called on.
    pub stream: usize,
}

/// `ncclPutSignal`.
#[derive(Debug)]
pub struct Put {
    /// Between whom.
    pub one: OneSided,
    /// The source's address.
    pub local: usize,
    /// The source.
    pub from: SendBuffer,
    /// Elements.
    pub count: usize,
    /// Their type.
    pub data_type: DataType,
    /// The peer's window.
    pub window: usize,
    /// Where in it.
    pub offset: usize,
}

/// Signals of one peer that `ncclWaitSignal` waits for.
#[derive(Clone, Copy, Debug)]
pub struct Awaiting {
    /// Whose, as given.
    pub peer: i32,
    /// How many.
    pub count: i32,
    /// Must be 0.
    pub sig_idx: i32,
    /// Must be 0.
    pub ctx: i32,
}

/// Bytes on their way into a peer's part of a window.
#[derive(Debug)]
struct Write {
    from: SendBuffer,
    to: Range,
    offset: usize,
}

impl Copy for Write {
    fn copy(&self) {
        if !self.to.memory.put(self.to.offset + self.offset, &self.from) {
            tracing::error!("a put that was checked lies outside its window");
        }
    }
}

impl Windows {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an address is of memory of ours.
    pub(crate) fn covers_address(&self, address: usize) -> bool {
        self.range(address, 1).is_some()
    }

    /// The memory of ours that holds all of a range.
    fn range(&self, address: usize, bytes: usize) -> Option<Range> {
        let tables = self.lock();
        let (start, memory) = tables.memory.range(..=address).next_back()?;
        let offset = address - start;
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= memory.len());
        fits.then(|| Range { memory: Arc::clone(memory), offset, bytes })
    }

    fn window(&self, comm: Handle, number: usize) -> Result<Arc<Window>, Fault> {
        let found = self.lock().windows.get(&number).cloned();
        match found {
            Some(window) if window.comm == comm => Ok(window),
            Some(_) => Err(Fault::argument("the window belongs to another communicator")),
            None if number == 0 => Err(Fault::argument(
                "the window is NULL: it was made where symmetric memory is not there (memory of ncclMemAlloc on every rank, all \
                 on one host)",
            )),
            None => Err(Fault::argument(format!(
                "{number:#x} is no window: it was never one, or is deregistered"
            ))),
        }
    }

    /// Whether a range lies in some window of this rank.
    fn covers(&self, comm: Handle, address: usize, bytes: usize) -> bool {
        let end = address.saturating_add(bytes);
        let holds = |window: &&Arc<Window>| {
            window.comm == comm && window.user <= address && end <= window.user.saturating_add(window.bytes)
        };
        self.lock().windows.values().any(|window| holds(&window))
    }

    fn add(&self, window: Window) -> usize {
        let mut tables = self.lock();
        tables.made += 1;
        let number = NUMBER_BASE + tables.made * 64;
        tables.windows.insert(number, Arc::new(window));
        number
    }
}

impl Runtime {
    /// `ncclMemAlloc`: memory that windows can be made of. NULL for no bytes.
    ///
    /// # Errors
    /// Where the machine has none.
    pub fn allocate(&self, bytes: usize) -> Result<*mut u8, Fault> {
        if bytes == 0 {
            return Ok(std::ptr::null_mut());
        }
        let memory = Arc::new(SharedMemory::allocate(bytes).map_err(Fault::system)?);
        let start = memory.start();
        self.windows.lock().memory.insert(start.addr(), memory);
        Ok(start)
    }

    /// `ncclMemFree`. A window made of it keeps it until it ends.
    ///
    /// # Errors
    /// Where it is not of `ncclMemAlloc`.
    pub fn free(&self, address: usize) -> Result<(), Fault> {
        let found = self.windows.lock().memory.remove(&address);
        match found {
            Some(memory) => {
                drop(memory);
                Ok(())
            }
            None => Err(Fault::argument(format!(
                "ncclMemFree: {address:#x} is not memory of ncclMemAlloc, or was freed"
            ))),
        }
    }

    /// `ncclCommWindowRegister`; `show` is told the window's number, 0 for none, once all ranks have called.
    ///
    /// # Errors
    /// Bad arguments, a mismatch, a time-out, a death.
    pub fn window_register(
        &self,
        comm: Handle,
        buffer: usize,
        bytes: usize,
        flags: i32,
        show: Box<dyn FnOnce(usize) + Send>,
    ) -> Result<Outcome, Fault> {
        const CALL: &str = "ncclCommWindowRegister";
        let pending = self.usable(comm, CALL).and_then(|comm| {
            if flags & !FLAGS != 0 {
                return Err(Fault::argument(format!("{CALL}: {flags:#x} are no flags of NCCL 2.32")));
            }
            if buffer == 0 || bytes == 0 {
                return Err(Fault::argument(format!("{CALL}: {bytes} bytes at {buffer:#x} are no buffer")));
            }
            let kind = comm.ready()?.kind;
            let range = self.windows.range(buffer, bytes).filter(|_| kind == StagingKind::Shared);
            self.pending_window(comm, Wanted::Register { range, user: buffer, bytes, show })
        });
        let pending = pending.inspect_err(|fault| self.refuse(fault))?;
        self.hold_or_perform(Held::Window(pending))
    }

    /// `ncclCommWindowDeregister`; of NULL it succeeds and is nobody's business.
    ///
    /// # Errors
    /// As [`Runtime::window_register`].
    pub fn window_deregister(&self, comm: Handle, number: usize) -> Result<Outcome, Fault> {
        if number == 0 {
            return Ok(Outcome::Done);
        }
        let pending = self.usable(comm, "ncclCommWindowDeregister").and_then(|comm| {
            self.windows.window(comm.handle, number)?;
            self.pending_window(comm, Wanted::Deregister(number))
        });
        let pending = pending.inspect_err(|fault| self.refuse(fault))?;
        self.hold_or_perform(Held::Window(pending))
    }

    fn pending_window(&self, comm: Arc<Communicator>, wanted: Wanted) -> Result<PendingWindow, Fault> {
        comm.driven_here();
        let session = Arc::clone(&comm.ready()?.session);
        let is_mappable = matches!(&wanted, Wanted::Register { range: Some(_), .. });
        let listener = if is_mappable && comm.rank() == Rank(0) { private_socket("win") } else { None };
        self.debug.info(Subsystem::Registration, comm.device, || format!("{} window", comm.described()));
        Ok(PendingWindow { comm, session, listener, tables: Arc::clone(&self.windows), wanted })
    }

    /// `ncclWinGetUserPtr`: this rank's own address of a window.
    ///
    /// # Errors
    /// Where it is no window of the communicator.
    pub fn window_user_address(&self, comm: Handle, number: usize) -> Result<usize, Fault> {
        self.comms.find(comm)?.check_idle("ncclWinGetUserPtr")?;
        self.windows.window(comm, number).map(|window| window.user)
    }

    /// A communicator's windows go with it.
    pub(crate) fn forget_windows(&self, comm: Handle) {
        self.windows.lock().windows.retain(|_, window| window.comm != comm);
    }

    /// `ncclPutSignal`: writes into a peer's window, then signals the peer.
    ///
    /// # Errors
    /// Bad arguments, and as [`Runtime::collective`].
    pub fn put_signal(&self, put: &Put) -> Result<Outcome, Fault> {
        self.go(self.prepare_put(put).map(Some), put.one.stream)
    }

    fn prepare_put(&self, put: &Put) -> Result<Prepared, Fault> {
        const CALL: &str = "ncclPutSignal";
        let (comm, peer) = self.one_sided(&put.one, CALL)?;
        let bytes = put.count.checked_mul(put.data_type.size()).ok_or_else(|| {
            Fault::argument(format!("{CALL}: count {} is more bytes than memory has", put.count))
        })?;
        let window = self.windows.window(comm.handle, put.window)?;
        let to = window.parts.get(peer.index()).cloned();
        let to = to.ok_or_else(|| Fault::internal("a window has no part for a rank of its communicator"))?;
        if put.offset.checked_add(bytes).is_none_or(|end| end > to.bytes) {
            return Err(Fault::argument(format!(
                "{CALL}: {bytes} bytes at offset {} lie outside the window of rank {peer}, which has {}",
                put.offset, to.bytes
            )));
        }
        if bytes > 0 && !self.windows.covers(comm.handle, put.local, bytes) {
            return Err(Fault::argument(format!(
                "{CALL}: the {bytes} bytes at {:#x} lie in no window of this rank: register the source with \
                 ncclCommWindowRegister too",
                put.local
            )));
        }
        self.check_staging(CALL, bytes)?;
        let copy = Box::new(Write { from: put.from, to, offset: put.offset });
        Ok(Prepared::new(comm, Work::Put { peer, bytes: bytes as u64, local: put.local, copy }))
    }

    /// `ncclSignal`.
    ///
    /// # Errors
    /// As [`Runtime::put_signal`].
    pub fn signal(&self, one: &OneSided) -> Result<Outcome, Fault> {
        let prepared = self
            .one_sided(one, "ncclSignal")
            .map(|(comm, peer)| Some(Prepared::new(comm, Work::Signal { peer })));
        self.go(prepared, one.stream)
    }

    /// `ncclWaitSignal`: returns when the signals have come.
    ///
    /// # Errors
    /// As [`Runtime::put_signal`].
    pub fn wait_signal(&self, comm: Handle, awaiting: &[Awaiting], stream: usize) -> Result<Outcome, Fault> {
        const CALL: &str = "ncclWaitSignal";
        let prepared = self.usable(comm, CALL).and_then(|comm| {
            let size = comm.size();
            let awaited = awaiting.iter().map(|each| {
                check_zero(CALL, "signal index", each.sig_idx.into())?;
                check_zero(CALL, "context", each.ctx.into())?;
                let count = u64::try_from(each.count).ok().filter(|count| *count > 0).ok_or_else(|| {
                    Fault::argument(format!("{CALL}: {} signals are none to wait for", each.count))
                })?;
                Ok(Awaited { peer: checked_peer(CALL, each.peer, size)?, count })
            });
            let awaited = awaited.collect::<Result<Vec<_>, Fault>>()?;
            self.fail_on_purpose(&comm, CALL)?;
            Ok(Some(Prepared::new(comm, Work::Await(awaited))))
        });
        self.go(prepared, stream)
    }

    fn one_sided(&self, one: &OneSided, call: &str) -> Result<(Arc<Communicator>, Rank), Fault> {
        let comm = self.usable(one.comm, call)?;
        check_zero(call, "signal index", one.sig_idx.into())?;
        check_zero(call, "context", one.ctx.into())?;
        check_zero(call, "flags", one.flags.into())?;
        let peer = checked_peer(call, one.peer, comm.size())?;
        self.fail_on_purpose(&comm, call)?;
        Ok((comm, peer))
    }
}

fn check_zero(call: &str, what: &str, value: i64) -> Result<(), Fault> {
    if value == 0 {
        Ok(())
    } else {
        Err(Fault::argument(format!("{call}: the {what} is {value}, and must be 0")))
    }
}

/// A call about a window while its ranks answer.
struct Making {
    pending: PendingWindow,
    request: u64,
    /// Where descriptors are collected, if there is to be a window, and every part's bytes.
    met: Option<(Option<String>, Vec<u64>)>,
    parts: Result<Vec<Range>, String>,
}

/// Makes calls of all ranks about windows, those of this process in step: all ask, all are answered, then one
/// communicator after the other, in the same order in every process, exchanges its descriptors.
pub(crate) fn perform(windows: Vec<PendingWindow>) -> Result<(), Fault> {
    let mut makings = Vec::with_capacity(windows.len());
    for pending in windows {
        let request = pending.submit(pending.action())?;
        makings.push(Making { pending, request, met: None, parts: Err(NOT_WANTED.to_owned()) });
    }
    for making in &mut makings {
        match making.hear()? {
            ToRank::Window { listener, bytes } => making.met = Some((listener, bytes)),
            ToRank::Done => {}
            other => return Err(Fault::internal(format!("a window was answered with {other:?}"))),
        }
    }
    let mut comms: Vec<_> = makings.iter().filter_map(Making::comm).collect();
    comms.sort();
    comms.dedup();
    for comm in comms {
        let together = makings.iter_mut().filter(|making| making.comm() == Some(comm));
        exchange(&mut together.collect::<Vec<_>>());
    }
    agree(&mut makings)?;
    makings.into_iter().try_for_each(Making::end)
}

impl PendingWindow {
    fn action(&self) -> Action {
        Action::Window(match &self.wanted {
            Wanted::Register { range, bytes, .. } => Part::Register {
                bytes: *bytes as u64,
                mappable: range.is_some(),
                listener: self.listener.as_ref().map(|socket| socket.name().to_owned()),
            },
            Wanted::Deregister(_) => Part::Deregister,
        })
    }

    fn submit(&self, action: Action) -> Result<u64, Fault> {
        let ops = vec![(self.comm.ready()?.comm, self.comm.rank(), action)];
        self.session.request(&ToCoordinator::Submit { ops, thread: thread_number() })
    }
}

impl Making {
    fn comm(&self) -> Option<fakegpu_units::CommId> {
        self.pending.comm.joined.get().map(|joined| joined.comm)
    }

    fn hear(&self) -> Result<ToRank, Fault> {
        let comm = &self.pending.comm;
        let stop = || {
            if comm.aborted.load(Ordering::Acquire) {
                return Err(Fault::usage("the communicator was aborted while a window was made"));
            }
            comm.fault().map_or(Ok(()), Err)
        };
        match self.pending.session.reply_unless(self.request, stop)? {
            ToRank::Failed(fault) => Err(fault),
            reply => Ok(reply),
        }
    }

    /// Whether this rank's part can be mapped by others, and they by it.
    fn range(&self) -> Option<&Range> {
        match &self.pending.wanted {
            Wanted::Register { range, .. } => range.as_ref(),
            Wanted::Deregister(_) => None,
        }
    }

    fn listener(&self) -> Option<&str> {
        self.met.as_ref()?.0.as_deref()
    }

    /// The number of a window that came to be is shown; one that ends is forgotten.
    fn end(self) -> Result<(), Fault> {
        let (comm, tables) = (self.pending.comm.handle, self.pending.tables);
        match self.pending.wanted {
            Wanted::Register { user, bytes, show, .. } => {
                let made = self.parts.map(|parts| tables.add(Window { comm, user, bytes, parts }));
                show(made.unwrap_or_else(|why| {
                    if why == NOT_WANTED {
                        tracing::debug!("{why}");
                    } else {
                        tracing::warn!("a window could not be made, and its handle is NULL: {why}");
                    }
                    0
                }));
            }
            Wanted::Deregister(number) => {
                tables.lock().windows.remove(&number);
            }
        }
        Ok(())
    }
}

/// All ranks say whether they have mapped every part; one that has not is enough for there to be no window.
fn agree(makings: &mut [Making]) -> Result<(), Fault> {
    for making in makings.iter_mut().filter(|making| making.listener().is_some()) {
        making.request = making.pending.submit(Action::Agree { fine: making.parts.is_ok() })?;
    }
    for making in makings.iter_mut().filter(|making| making.listener().is_some()) {
        match making.hear()? {
            ToRank::Agreed { fine: true } => {}
            ToRank::Agreed { fine: false } => {
                if making.parts.is_ok() {
                    making.parts = Err("another rank could not map all parts".to_owned());
                }
            }
            other => return Err(Fault::internal(format!("an agreement was answered with {other:?}"))),
        }
    }
    Ok(())
}

/// Hands descriptors round among the ranks of one communicator. This process's ranks go in step: all dial and send,
/// rank 0 collects and hands out, all receive.
fn exchange(together: &mut [&mut Making]) {
    let dialled: Vec<Result<Option<Wire>, String>> =
        together.iter().map(|making| send_own(making).map_err(|error| error.to_string())).collect();
    let leads = |making: &&mut &mut Making| making.pending.listener.is_some() && making.listener().is_some();
    if let Some(making) = together.iter_mut().find(leads) {
        making.parts = lead(making).map_err(|error| error.to_string());
        // Whoever still waits there learns at once that nothing will come.
        making.pending.listener = None;
    }
    for (making, dialled) in together.iter_mut().zip(dialled) {
        match dialled {
            Ok(Some(wire)) => making.parts = receive_all(making, &wire).map_err(|error| error.to_string()),
            Ok(None) => {}
            Err(why) => making.parts = Err(why),
        }
    }
}

/// A rank other than 0 dials and sends its descriptor.
fn send_own(making: &Making) -> std::io::Result<Option<Wire>> {
    let (Some(listener), Some(range)) = (making.listener(), making.range()) else { return Ok(None) };
    let rank = making.pending.comm.rank();
    if rank == Rank(0) {
        return Ok(None);
    }
    let wire = UdsDialer::new(listener).dial(PATIENCE)?;
    send_tagged(&wire, own_fd(range)?, tag(rank, range), PATIENCE)?;
    Ok(Some(wire))
}

/// What peers can map this rank's own part by.
fn own_fd(range: &Range) -> std::io::Result<BorrowedFd<'_>> {
    range
        .memory
        .fd()
        .ok_or_else(|| std::io::Error::other("a rank's own part was allocated by another process"))
}

fn tag(rank: Rank, range: &Range) -> [u64; 3] {
    [u64::from(rank.0), range.offset as u64, range.memory.len() as u64]
}

/// Rank 0 collects all descriptors and hands all to all.
fn lead(making: &Making) -> std::io::Result<Vec<Range>> {
    let (Some(listener), Some(own)) = (&making.pending.listener, making.range()) else {
        return Err(std::io::Error::other("rank 0 has no private socket"));
    };
    let size = making.pending.comm.size();
    let mut wires = Vec::new();
    // Peers' descriptors are kept until they are handed on; what is mapped needs none.
    let mut handed: Vec<(OwnedFd, [u64; 3])> = Vec::new();
    let mut parts = BTreeMap::from([(0, own.clone())]);
    for _ in 1..size {
        let wire = listener.accept(PATIENCE)?;
        let (fd, tag) = receive_tagged(&wire, PATIENCE)?;
        parts.insert(tag[0], opened(making, fd.as_fd(), tag)?);
        handed.push((fd, tag));
        wires.push(wire);
    }
    for wire in &wires {
        send_tagged(wire, own_fd(own)?, tag(Rank(0), own), PATIENCE)?;
        for (fd, tag) in &handed {
            send_tagged(wire, fd.as_fd(), *tag, PATIENCE)?;
        }
    }
    in_order(size, parts)
}

/// Every other rank receives all descriptors.
fn receive_all(making: &Making, wire: &Wire) -> std::io::Result<Vec<Range>> {
    let (rank, size) = (making.pending.comm.rank(), making.pending.comm.size());
    let mut parts = BTreeMap::new();
    for _ in 0..size {
        let (fd, tag) = receive_tagged(wire, PATIENCE)?;
        let range = match making.range().filter(|_| tag[0] == u64::from(rank.0)) {
            // Its own memory needs no second mapping.
            Some(own) => own.clone(),
            None => opened(making, fd.as_fd(), tag)?,
        };
        parts.insert(tag[0], range);
    }
    in_order(size, parts)
}

/// A peer's part, mapped, if it is as long as the peer told everybody.
fn opened(making: &Making, fd: BorrowedFd<'_>, tag: [u64; 3]) -> std::io::Result<Range> {
    let wrong = || std::io::Error::other("a rank sent a descriptor of another memory than it told");
    let [rank, offset, whole] = tag.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    let bytes = making.met.as_ref().and_then(|(_, bytes)| bytes.get(rank).copied()).ok_or_else(wrong)?;
    let bytes = usize::try_from(bytes).map_err(|_| wrong())?;
    if offset.checked_add(bytes).is_none_or(|end| end > whole) {
        return Err(wrong());
    }
    let memory = SharedMemory::open(fd, whole).map_err(std::io::Error::other)?;
    Ok(Range { memory: Arc::new(memory), offset, bytes })
}

fn in_order(size: u32, parts: BTreeMap<u64, Range>) -> std::io::Result<Vec<Range>> {
    if parts.len() == size as usize && parts.keys().copied().eq(0..u64::from(size)) {
        return Ok(parts.into_values().collect());
    }
    Err(std::io::Error::other("some rank sent no descriptor"))
}
