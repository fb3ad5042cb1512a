//! The event loop: one thread, all sockets, the core in the middle.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fakegpu_coordinator::{Coordinator, Errand, Options, PeerId};
use fakegpu_proto::{Lane, ToCoordinator};
use fakegpu_transport::Listener;
use fakegpu_transport_tcp::TcpDoor;
use fakegpu_transport_uds::UdsListener;
use fakegpu_units::{CommId, HostSpan, HostTime};
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::connection::{Connection, Reading, Said};
use crate::model::FabricModel;
use crate::relay::Relays;
use crate::report::Reporter;
use crate::switch::Switches;
use crate::worker::{StreamFailure, Workers};
use crate::{Setup, model};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
const SIGNALS: Token = Token(2);
/// Peers' tokens are their numbers, and the numbers begin here.
const FIRST_PEER: u64 = 8;
/// Set in the token of a peer's process.
const PROCESS: usize = 1 << (usize::BITS - 1);

/// How soon accepting is tried again after it failed, for want of descriptors for example: the poll speaks of
/// a waiting connection only once.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Turns of reading that the last words of a process that has ended may take.
const LAST_TURNS: usize = 16;

/// Connections at a time; each costs a descriptor and a little memory.
const CONNECTIONS_MAX: usize = 16_384;

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    listener: Box<dyn Listener>,
    poll: Poll,
    coordinator: Coordinator,
    connections: BTreeMap<PeerId, Connection>,
    /// Connections that had more to say than one turn allows.
    again: Vec<PeerId>,
    /// Connections that speak text and have ended their own direction; answers may still be due to them.
    ended: BTreeSet<PeerId>,
    /// Whether connections may be waiting that could not be accepted.
    accept_again: bool,
    relays: Relays,
    switches: Switches,
    stream_failures: Receiver<StreamFailure>,
    signals: UnixStream,
    reporter: Reporter,
    linger: Option<Duration>,
    started: Instant,
    idle_since: Instant,
    had_session: bool,
    next_peer: u64,
    stopping: bool,
    buffer: Vec<u8>,
}

impl Daemon {
    /// Listens at `address`: a path or `@name` for `unix`, `host:port` for `tcp`.
    pub fn bind(transport: &str, address: &str, setup: Setup) -> Result<Self> {
        let listener: Box<dyn Listener> = match transport {
            "unix" => {
                Box::new(UdsListener::bind(address).with_context(|| format!("cannot listen at `{address}`"))?)
            }
            "tcp" => {
                let door = TcpDoor::bind(address).with_context(|| format!("cannot listen at `{address}`"))?;
                if !door.is_loopback() && setup.token.is_none() {
                    bail!(
                        "`{address}` can be reached from other machines, so every peer must show a token: set FAKEGPU_COORDINATOR_TOKEN \
                         here and for every rank"
                    );
                }
                Box::new(door)
            }
            other => bail!("transport `{other}` is not known: use unix or tcp"),
        };
        raise_descriptor_limit();
        let poll = Poll::new()?;
        poll.registry().register(
            &mut SourceFd(&listener.as_fd().as_raw_fd()),
            LISTENER,
            Interest::READABLE,
        )?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let signals = signal_pipe()?;
        poll.registry().register(&mut SourceFd(&signals.as_raw_fd()), SIGNALS, Interest::READABLE)?;
        let (failures, stream_failures) = channel();
        let workers = Workers::new(failures, waker);
        let coordinator = Coordinator::new(options(transport, &setup), Box::new(FabricModel::new(&setup)));
        Ok(Self {
            listener,
            poll,
            coordinator,
            connections: BTreeMap::new(),
            again: Vec::new(),
            ended: BTreeSet::new(),
            accept_again: false,
            switches: Switches::new(workers.clone()),
            relays: Relays::new(workers, setup.no_uring),
            stream_failures,
            signals,
            reporter: Reporter::new(&setup)?,
            linger: setup.linger,
            started: Instant::now(),
            idle_since: Instant::now(),
            had_session: false,
            next_peer: FIRST_PEER,
            stopping: false,
            buffer: vec![0; 64 << 10],
        })
    }

    /// Where it listens; with port 0, the port that was free.
    pub fn address(&self) -> String {
        self.listener.address()
    }

    /// Serves until told to stop, then writes the report.
    pub fn run(mut self) -> Result<()> {
        let mut events = Events::with_capacity(1024);
        tracing::info!(address = %self.address(), "listening");
        self.drain();
        while !self.stopping {
            let timeout = self.timeout();
            if let Err(error) = self.poll.poll(&mut events, timeout)
                && error.kind() != std::io::ErrorKind::Interrupted
            {
                return Err(error).context("waiting for events");
            }
            for event in &events {
                self.handle(event);
            }
            if self.accept_again {
                self.accept();
            }
            for peer in std::mem::take(&mut self.again) {
                self.read(peer);
            }
            self.coordinator.handle_timeout(self.now());
            self.check_linger();
            self.drain();
        }
        self.flush_last();
        self.reporter.write().context("writing the report")
    }

    fn now(&self) -> HostTime {
        HostTime::ZERO + HostSpan::from(self.started.elapsed())
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() {
            return Some(Duration::ZERO);
        }
        let core = self.coordinator.poll_timeout().map(|at| Duration::from(at.since(self.now())));
        let idle = self.linger.filter(|_| self.coordinator.session_count() == 0);
        let idle = idle.map(|linger| linger.saturating_sub(self.idle_since.elapsed()));
        // The kernel's timer counts whole milliseconds: round up, or the loop would spin through the last one.
        let wait = [core, idle].into_iter().flatten().min().map(|wait| wait + Duration::from_millis(1));
        let again = self.accept_again.then_some(ACCEPT_AGAIN);
        [wait, again].into_iter().flatten().min()
    }

    fn handle(&mut self, event: &Event) {
        match event.token() {
            LISTENER => self.accept(),
            WAKER => self.hear_failures(),
            SIGNALS => self.signalled(),
            Token(number) if number & PROCESS != 0 => self.process_ended(PeerId((number & !PROCESS) as u64)),
            Token(number) => {
                let peer = PeerId(number as u64);
                if event.is_writable() {
                    self.flush(peer);
                }
                self.read(peer);
                // Both directions are closed: nobody is there to take an answer.
                if event.is_write_closed() && self.ended.contains(&peer) {
                    self.disconnect(peer);
                }
            }
        }
        self.drain();
    }

    /// Closes the connections whose peers have said all they had to say and have every answer.
    fn close_answered(&mut self) {
        let answered = |peer: &PeerId| {
            self.connections.get(peer).is_none_or(Connection::is_flushed)
                && !self.coordinator.awaits_answer(*peer)
        };
        for peer in self.ended.iter().copied().filter(answered).collect::<Vec<_>>() {
            self.disconnect(peer);
        }
    }

    /// A peer's process has ended, though a child of it may hold the socket open: hear its last words, then
    /// treat the connection as ended. Who speaks text may have handed its connection on, and keeps it.
    fn process_ended(&mut self, peer: PeerId) {
        for _ in 0..LAST_TURNS {
            if !self.read(peer) {
                break;
            }
        }
        if self.connections.get(&peer).is_some_and(|connection| !connection.is_text()) {
            self.disconnect(peer);
        }
    }

    fn accept(&mut self) {
        loop {
            let accepted = match self.listener.accept() {
                Ok(Some(accepted)) => accepted,
                Ok(None) => {
                    self.accept_again = false;
                    return;
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.accept_again, true) {
                        tracing::warn!(%error, "connections cannot be accepted for now");
                    }
                    return;
                }
            };
            if self.connections.len() >= CONNECTIONS_MAX {
                tracing::warn!(limit = CONNECTIONS_MAX, "too many connections, one is turned away");
                continue;
            }
            let peer = PeerId(self.next_peer);
            self.next_peer += 1;
            let fd = accepted.wire.as_fd().as_raw_fd();
            let registered = self.poll.registry().register(
                &mut SourceFd(&fd),
                Token(usize::try_from(peer.0).unwrap_or(usize::MAX)),
                Interest::READABLE | Interest::WRITABLE,
            );
            if let Err(error) = registered {
                tracing::warn!(%error, "a connection could not be watched");
                continue;
            }
            let process = accepted.pid.and_then(|pid| self.watch_process(peer, pid));
            self.connections.insert(peer, Connection::new(accepted.wire, process));
            self.coordinator.handle_connect(self.now(), peer, accepted.trusted, nonce());
        }
    }

    /// Asks for an event at the end of a process; without one, the end of its connection must do.
    fn watch_process(&self, peer: PeerId, pid: u32) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let token = Token(usize::try_from(peer.0).ok()? | PROCESS);
        let source = process.as_raw_fd();
        self.poll.registry().register(&mut SourceFd(&source), token, Interest::READABLE).ok()?;
        Some(process)
    }

    fn signalled(&mut self) {
        let mut byte = [0; 16];
        if matches!(self.signals.read(&mut byte), Ok(count) if count > 0) {
            let now = self.now();
            self.coordinator.handle_stop(now, "signal");
        }
    }

    /// Reads one turn and acts on what was said; whether there may be more.
    fn read(&mut self, peer: PeerId) -> bool {
        let Some(connection) = self.connections.get_mut(&peer) else { return false };
        let mut said = Vec::new();
        let reading = connection.read(&mut self.buffer, &mut said);
        let is_text = connection.is_text();
        if !said.into_iter().all(|said| self.act_on(peer, said, is_text)) {
            return false;
        }
        match reading {
            Reading::Drained => {}
            Reading::More => self.again.push(peer),
            // Whoever speaks text may end its own direction and still listen, as `echo PING | socat` does.
            Reading::Ended if is_text => drop(self.ended.insert(peer)),
            Reading::Ended => self.disconnect(peer),
        }
        reading == Reading::More
    }

    /// Hands on what a peer said; false if nothing it says after that can be heard.
    fn act_on(&mut self, peer: PeerId, said: Said, is_text: bool) -> bool {
        let now = self.now();
        match said {
            Said::Message(request, message) => {
                let is_data = matches!(*message, ToCoordinator::Data(_));
                self.coordinator.handle_message(now, peer, request, *message);
                !is_data
            }
            Said::Line(line) => {
                self.coordinator.handle_text(now, peer, &line);
                true
            }
            Said::Nonsense(why) if is_text => {
                // What it asked before comes first.
                self.drain();
                let error = fakegpu_proto::text::TextError::new("malformed_request", why);
                self.send_last_line(peer, &error.to_line());
                false
            }
            Said::Nonsense(why) => {
                tracing::warn!(peer = peer.0, why, "a connection speaks nonsense and is closed");
                self.coordinator.handle_nonsense(now, peer, &why);
                false
            }
        }
    }

    fn send_last_line(&mut self, peer: PeerId, line: &str) {
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.queue(&fakegpu_coordinator::Outgoing::Line(line.to_owned()));
            connection.closing = true;
        }
        self.flush(peer);
    }

    fn disconnect(&mut self, peer: PeerId) {
        self.ended.remove(&peer);
        let Some(connection) = self.connections.remove(&peer) else { return };
        self.unwatch(&connection);
        let now = self.now();
        self.coordinator.handle_disconnect(now, peer);
    }

    fn unwatch(&self, connection: &Connection) {
        let fd = connection.wire().as_fd().as_raw_fd();
        // Closing the descriptor would do it too; a failure here changes nothing.
        self.poll.registry().deregister(&mut SourceFd(&fd)).unwrap_or_default();
        if let Some(process) = connection.process() {
            self.poll.registry().deregister(&mut SourceFd(&process.as_raw_fd())).unwrap_or_default();
        }
    }

    fn flush(&mut self, peer: PeerId) {
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        match connection.flush() {
            Ok(true) if connection.closing => self.disconnect(peer),
            Ok(_) => {}
            Err(_) => self.disconnect(peer),
        }
    }

    /// Carries out everything the core has to say.
    fn drain(&mut self) {
        loop {
            let mut idle = true;
            while let Some(transmit) = self.coordinator.poll_transmit() {
                idle = false;
                let Some(connection) = self.connections.get_mut(&transmit.peer) else { continue };
                if connection.queue(&transmit.outgoing) {
                    self.flush(transmit.peer);
                } else {
                    tracing::warn!(
                        peer = transmit.peer.0,
                        "a peer does not read what is sent to it and is closed"
                    );
                    self.disconnect(transmit.peer);
                }
            }
            while let Some(event) = self.coordinator.poll_event() {
                self.reporter.apply(&event);
            }
            while let Some(errand) = self.coordinator.poll_errand() {
                idle = false;
                self.run_errand(errand);
            }
            if idle {
                return self.close_answered();
            }
        }
    }

    fn run_errand(&mut self, errand: Errand) {
        match errand {
            Errand::Attach { peer, comm, rank, lane, size, slot_bytes } => {
                let Some(connection) = self.connections.remove(&peer) else { return };
                self.unwatch(&connection);
                let now = self.now();
                match connection.into_wire() {
                    Ok(wire) => match lane {
                        Lane::Collectives => self.relays.attach(comm, rank, size, slot_bytes, wire),
                        Lane::Transfers => self.switches.attach(comm, rank, size, slot_bytes, wire),
                    },
                    Err(error) => self.coordinator.handle_stream_failure(now, comm, &error.to_string()),
                }
                self.coordinator.handle_disconnect(now, peer);
            }
            Errand::Stream { comm, seq: _, descriptor } => self.stream(comm, descriptor),
            Errand::Detach { comm } => {
                self.relays.detach(comm);
                self.switches.detach(comm);
            }
            Errand::Close(peer) => {
                if let Some(connection) = self.connections.get_mut(&peer) {
                    connection.closing = true;
                }
                self.flush(peer);
            }
            Errand::Stop => self.stopping = true,
        }
    }

    fn stream(&mut self, comm: CommId, descriptor: fakegpu_proto::Descriptor) {
        if let Err(why) = self.relays.stream(comm, descriptor) {
            // What stopped it may have been said already, and says more.
            self.hear_failures();
            let now = self.now();
            self.coordinator.handle_stream_failure(now, comm, &why);
        }
    }

    fn hear_failures(&mut self) {
        while let Ok(StreamFailure { comm, why }) = self.stream_failures.try_recv() {
            self.coordinator.handle_stream_failure(self.now(), comm, &why);
        }
    }

    /// Ends after the last session, if told to; writes the report as soon as the last one has left.
    fn check_linger(&mut self) {
        if self.coordinator.session_count() > 0 {
            self.had_session = true;
            self.idle_since = Instant::now();
            return;
        }
        if self.had_session {
            self.had_session = false;
            self.idle_since = Instant::now();
            if self.linger.is_some()
                && let Err(error) = self.reporter.write()
            {
                tracing::error!(%error, "the report could not be written");
            }
        }
        if self.linger.is_some_and(|linger| self.idle_since.elapsed() >= linger) {
            let now = self.now();
            self.coordinator.handle_stop(now, "idle");
        }
    }

    /// Gives peers a moment to take their last replies.
    fn flush_last(&mut self) {
        for connection in self.connections.values_mut() {
            // A peer that does not take its reply now is one that will not.
            if let Err(error) = connection.flush() {
                tracing::debug!(%error, "a last reply was not taken");
            }
        }
        self.relays.detach_all();
        self.switches.detach_all();
    }
}

fn options(transport: &str, setup: &Setup) -> Options {
    let defaults = Options::default();
    let collective = setup.collective_timeout.map(HostSpan::from);
    Options {
        transport: transport.to_owned(),
        token: setup.token.clone(),
        cluster: model::summary(setup),
        join_timeout: setup.join_timeout.map_or(defaults.join_timeout, HostSpan::from),
        stuck_timeout: collective.unwrap_or(defaults.stuck_timeout),
        patience: collective.unwrap_or(defaults.patience),
        ..defaults
    }
}

/// SIGTERM and SIGINT as bytes in a pipe, so that they are events like all others.
fn signal_pipe() -> Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)
            .context("registering for signals")?;
    }
    Ok(reader)
}

/// A thousand ranks take a thousand descriptors, and more for data connections.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Where it may not be raised, the soft limit still serves a few hundred ranks.
    setrlimit(Resource::Nofile, raised).unwrap_or_default();
}

/// A number no peer can guess: it proves that a data connection belongs to a session.
fn nonce() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        // A kernel without it is older than everything else we need.
        _ => u64::from(std::process::id()) << 32 | u64::from(Instant::now().elapsed().subsec_nanos()),
    }
}
