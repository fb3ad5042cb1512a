//! Capture: streams that write down their work instead of doing it.
//!
//! A stream that captures knows the nodes that its next one depends on, its frontier. A stream joins by waiting for an
//! event that was recorded in the capture, and must be joined back before the capture ends. A call that cannot be
//! written down invalidates the capture: the program learns it there, and again when it ends the capture.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::ThreadId;

use crate::devices::Ordinal;
use crate::engine::{Engine, PolledWork, State, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Graph, Node, NodeWork};
use crate::handle::{GraphHandle, Key, StreamRef};
use crate::world::World;

/// Which calls of which threads a capture forbids, where they could do harm to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaptureMode {
    /// Those of all threads.
    #[default]
    Global,
    /// Those of the thread that began it.
    ThreadLocal,
    /// None.
    Relaxed,
}

/// What a stream's capture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureStatus {
    /// The stream does not capture.
    None,
    /// It does.
    Active,
    /// It does, but a call spoiled the capture, which can only be ended.
    Invalidated,
}

/// What is known of a stream's capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureInfo {
    /// What it is.
    pub status: CaptureStatus,
    /// Number of the capture in this process; 0 for none.
    pub id: u64,
    /// Ids of the nodes that the stream's next one depends on.
    pub dependencies: Vec<u64>,
}

/// A capture under way.
#[derive(Debug)]
pub(crate) struct Capture {
    id: u64,
    origin: Key,
    mode: CaptureMode,
    thread: ThreadId,
    nodes: Vec<Node>,
    members: Vec<Key>,
    is_invalid: bool,
}

/// A place in a capture: what comes next depends on these nodes.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    pub(crate) capture: Key,
    pub(crate) frontier: Vec<usize>,
}

thread_local! {
    static MODE: Cell<CaptureMode> = const { Cell::new(CaptureMode::Global) };
}

fn invalidated() -> Error {
    let text = "an earlier call spoiled this capture; end it, and look at that call's error";
    Error::new(ErrorKind::StreamCaptureInvalidated, text)
}

fn unsupported(call: &str) -> Error {
    Error::new(
        ErrorKind::StreamCaptureUnsupported,
        format!("{call} is not permitted while a stream captures, and invalidates the capture"),
    )
}

impl State {
    fn invalidate(&mut self, capture: Key) {
        if let Some(capture) = self.captures.get_mut(capture) {
            capture.is_invalid = true;
        }
    }

    /// Whether the capture of this place is still under way and sound.
    pub(crate) fn capture_alive(&self, at: &Captured) -> Result<()> {
        match self.captures.get(at.capture) {
            Some(capture) if !capture.is_invalid => Ok(()),
            _ => Err(invalidated()),
        }
    }

    /// Writes work down as the next node of a stream.
    pub(crate) fn capture_work(&mut self, key: Key, work: Work) -> Result<()> {
        let Some(at) = self.stream(key)?.capture.clone() else { return Ok(()) };
        self.capture_alive(&at)?;
        let node = match node_work(work) {
            Ok(node) => node,
            Err(what) => {
                self.invalidate(at.capture);
                let text =
                    format!("{what} cannot be captured: it is for one run; the capture is invalid now");
                return Err(Error::new(ErrorKind::StreamCaptureUnsupported, text));
            }
        };
        self.capture_node(key, node)
    }

    fn capture_node(&mut self, key: Key, node: NodeWork) -> Result<()> {
        let Some(at) = self.stream(key)?.capture.clone() else { return Ok(()) };
        self.capture_alive(&at)?;
        let id = self.next_id();
        let Some(capture) = self.captures.get_mut(at.capture) else { return Err(invalidated()) };
        let index = capture.nodes.len();
        capture.nodes.push(Node { id, work: node, dependencies: at.frontier });
        self.stream_mut(key)?.capture = Some(Captured { capture: at.capture, frontier: vec![index] });
        Ok(())
    }

    /// Writes the launch of a graph down as the next node of a stream.
    pub(crate) fn capture_graph(&mut self, key: Key, nodes: Arc<Vec<Node>>) -> Result<()> {
        self.capture_node(key, NodeWork::Graph(nodes))
    }

    /// Refuses a call that a stream's capture does not bear, which spoils it.
    pub(crate) fn refuse_capturing(&mut self, key: Key, call: &str) -> Result<()> {
        let Some(at) = self.streams.get(key).and_then(|stream| stream.capture.as_ref()) else {
            return Ok(());
        };
        let capture = at.capture;
        self.invalidate(capture);
        Err(unsupported(call))
    }

    /// Lets a stream wait for a place in a capture, which takes it into the capture.
    pub(crate) fn join_capture(&mut self, key: Key, at: &Captured, gone: impl Fn() -> Error) -> Result<()> {
        if self.captures.get(at.capture).is_none() {
            return Err(gone());
        }
        self.capture_alive(at)?;
        let stream = self.stream_mut(key)?;
        match &mut stream.capture {
            None if stream.is_legacy => {
                self.invalidate(at.capture);
                Err(implicit())
            }
            None => {
                stream.capture = Some(at.clone());
                if let Some(capture) = self.captures.get_mut(at.capture) {
                    capture.members.push(key);
                }
                Ok(())
            }
            Some(mine) if mine.capture == at.capture => {
                let new = at.frontier.iter().filter(|node| !mine.frontier.contains(node)).copied();
                let new: Vec<usize> = new.collect();
                mine.frontier.extend(new);
                Ok(())
            }
            Some(mine) => {
                let mine = mine.capture;
                self.invalidate(mine);
                self.invalidate(at.capture);
                let text = "the event belongs to another capture, and two captures cannot be merged";
                Err(Error::new(ErrorKind::StreamCaptureMerge, text))
            }
        }
    }

    /// Refuses a dependency between captured and other work.
    pub(crate) fn isolate(&mut self, key: Key) -> Result<()> {
        if let Some(at) = self.stream(key)?.capture.clone() {
            self.invalidate(at.capture);
        }
        Err(Error::new(
            ErrorKind::StreamCaptureIsolation,
            "work in a capture cannot depend on work outside of it, nor be depended on; record the event in the capture",
        ))
    }

    /// Ends a capture for all its streams.
    fn dissolve(&mut self, capture: Key) -> Option<Capture> {
        let ended = self.captures.remove(capture)?;
        for member in &ended.members {
            if let Some(stream) = self.streams.get_mut(*member) {
                stream.capture = None;
            }
        }
        Some(ended)
    }
}

fn implicit() -> Error {
    Error::new(
        ErrorKind::StreamCaptureImplicit,
        "the legacy default stream waits for every blocking stream, one of which captures; use another stream, or make \
         them non-blocking",
    )
}

fn node_work(work: Work) -> std::result::Result<NodeWork, &'static str> {
    Ok(match work {
        Work::Nothing => NodeWork::Nothing,
        Work::Span(span) => NodeWork::Span(span),
        Work::Move(copy, span) => NodeWork::Move(copy, span),
        Work::Set(set, span) => NodeWork::Set(set, span),
        Work::Host(function) => NodeWork::Host(function),
        Work::Polled(PolledWork::Remade(make)) => NodeWork::Polled(make),
        Work::Polled(PolledWork::Once(_)) | Work::Running(_) => return Err("this operation"),
        Work::Graph(..) => return Err("this launch of a graph"),
        Work::Staged(..) => return Err("a copy from memory that is reused"),
        Work::Quick(_) => return Err("this call"),
    })
}

impl Capture {
    /// Whether every node leads to one of `frontier`.
    fn is_joined(&self, frontier: &[usize]) -> bool {
        let mut reached = vec![false; self.nodes.len()];
        let mut open = frontier.to_vec();
        while let Some(at) = open.pop() {
            if let (Some(seen), Some(node)) = (reached.get_mut(at), self.nodes.get(at))
                && !*seen
            {
                *seen = true;
                open.extend(&node.dependencies);
            }
        }
        reached.into_iter().all(|seen| seen)
    }
}

impl Engine {
    /// Refuses work on a legacy stream that would wait for a stream that captures.
    pub(crate) fn refuse_implicit(&self, state: &mut State, key: Key) -> Result<()> {
        if self.captures.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let stream = state.stream(key)?;
        if !stream.is_legacy {
            return Ok(());
        }
        let device = stream.device;
        let joined = |member: &Key| {
            let member = state.streams.get(*member);
            member.is_some_and(|member| member.is_blocking && member.device == device)
        };
        let spoiled: Vec<Key> = state
            .captures
            .iter()
            .filter(|(_, capture)| capture.members.iter().any(joined))
            .map(|(key, _)| key)
            .collect();
        if spoiled.is_empty() {
            return Ok(());
        }
        spoiled.into_iter().for_each(|capture| state.invalidate(capture));
        Err(implicit())
    }

    /// Refuses what cannot be captured, if the stream captures.
    pub(crate) fn refuse_captured(
        self: &Arc<Self>,
        device: Ordinal,
        stream: StreamRef,
        what: &str,
    ) -> Result<()> {
        if self.captures.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let key = self.resolve(device, stream)?;
        self.state().refuse_capturing(key, what)
    }

    /// Whether a stream captures.
    pub(crate) fn is_capturing(self: &Arc<Self>, device: Ordinal, stream: StreamRef) -> Result<bool> {
        if self.captures.load(Ordering::Acquire) == 0 {
            return Ok(false);
        }
        let key = self.resolve(device, stream)?;
        Ok(self.state().stream(key)?.capture.is_some())
    }
}

impl World {
    /// Begins to write a stream's work down.
    ///
    /// # Errors
    /// [`ErrorKind::StreamCaptureUnsupported`] on the legacy stream; [`ErrorKind::IllegalState`] where it captures
    /// already.
    pub fn begin_capture(&self, device: Ordinal, stream: StreamRef, mode: CaptureMode) -> Result<()> {
        self.device(device)?;
        let (mut state, key) = self.engine.open(device, stream)?;
        let found = state.stream(key)?;
        if found.is_legacy {
            let text = "the legacy default stream cannot be captured; use a stream of your own";
            return Err(Error::new(ErrorKind::StreamCaptureUnsupported, text));
        }
        if found.capture.is_some() {
            return Err(Error::new(ErrorKind::IllegalState, "the stream captures already"));
        }
        let id = state.next_id();
        let capture = Capture {
            id,
            origin: key,
            mode,
            thread: std::thread::current().id(),
            nodes: Vec::new(),
            members: vec![key],
            is_invalid: false,
        };
        let full = || Error::new(ErrorKind::MemoryAllocation, "there are too many captures");
        let capture = state.captures.insert(capture).ok_or_else(full)?;
        state.stream_mut(key)?.capture = Some(Captured { capture, frontier: Vec::new() });
        self.engine.captures.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Ends the capture that began on this stream, and gives its graph.
    ///
    /// # Errors
    /// [`ErrorKind::IllegalState`] where the stream does not capture; [`ErrorKind::StreamCaptureUnmatched`] where the
    /// capture began on another; [`ErrorKind::StreamCaptureWrongThread`]; and, with the capture ended all the same,
    /// [`ErrorKind::StreamCaptureInvalidated`] or [`ErrorKind::StreamCaptureUnjoined`].
    pub fn end_capture(&self, device: Ordinal, stream: StreamRef) -> Result<GraphHandle> {
        self.device(device)?;
        let (mut state, key) = self.engine.open(device, stream)?;
        let Some(at) = state.stream(key)?.capture.clone() else {
            return Err(Error::new(ErrorKind::IllegalState, "the stream does not capture"));
        };
        let Some(capture) = state.captures.get(at.capture) else { return Err(invalidated()) };
        if capture.origin != key {
            let text = "the capture began on another stream, and ends there";
            return Err(Error::new(ErrorKind::StreamCaptureUnmatched, text));
        }
        if capture.mode != CaptureMode::Relaxed && capture.thread != std::thread::current().id() {
            let text = "the capture was begun by another thread, and ends there unless its mode is relaxed";
            return Err(Error::new(ErrorKind::StreamCaptureWrongThread, text));
        }
        let Some(capture) = state.dissolve(at.capture) else { return Err(invalidated()) };
        self.engine.captures.fetch_sub(1, Ordering::AcqRel);
        if capture.is_invalid {
            drop(state);
            return Err(invalidated());
        }
        if !capture.is_joined(&at.frontier) {
            drop(state);
            let text = "a stream that joined the capture was not joined back: let the first stream wait for an event \
                        that is recorded at the end of the other";
            return Err(Error::new(ErrorKind::StreamCaptureUnjoined, text));
        }
        state.insert_graph(Graph::new(capture.nodes))
    }

    /// What is known of a stream's capture.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidResourceHandle`]; [`ErrorKind::StreamCaptureImplicit`] for the legacy stream while a
    /// blocking one captures.
    pub fn capture_info(&self, device: Ordinal, stream: StreamRef) -> Result<CaptureInfo> {
        self.check()?;
        let none = CaptureInfo { status: CaptureStatus::None, id: 0, dependencies: Vec::new() };
        if self.engine.captures.load(Ordering::Acquire) == 0 {
            self.device(device)?;
            if let StreamRef::Made(handle) = stream {
                self.engine.state().stream(handle.0)?;
            }
            return Ok(none);
        }
        let key = self.engine.resolve(device, stream)?;
        let mut state = self.engine.state();
        let Some(at) = state.stream(key)?.capture.clone() else {
            return self.engine.refuse_implicit(&mut state, key).map(|()| none);
        };
        let Some(capture) = state.captures.get(at.capture) else { return Ok(none) };
        let status = if capture.is_invalid { CaptureStatus::Invalidated } else { CaptureStatus::Active };
        let nodes = at.frontier.iter().filter_map(|node| capture.nodes.get(*node));
        Ok(CaptureInfo { status, id: capture.id, dependencies: nodes.map(|node| node.id).collect() })
    }

    /// Sets what the calling thread may do while streams capture, and returns what it was.
    pub fn exchange_capture_mode(&self, mode: CaptureMode) -> CaptureMode {
        MODE.replace(mode)
    }

    /// Refuses a call that could do harm to a capture, where the calling thread's mode forbids it.
    ///
    /// # Errors
    /// [`ErrorKind::StreamCaptureUnsupported`], and the captures that forbid it are invalid then; after `fork`.
    pub fn refuse_in_capture(&self, call: &'static str) -> Result<()> {
        self.check()?;
        let mode = MODE.get();
        if self.engine.captures.load(Ordering::Acquire) == 0 || mode == CaptureMode::Relaxed {
            return Ok(());
        }
        let me = std::thread::current().id();
        let forbids = |capture: &Capture| match capture.mode {
            CaptureMode::Relaxed => false,
            _ if capture.thread == me => true,
            CaptureMode::ThreadLocal => false,
            CaptureMode::Global => mode == CaptureMode::Global,
        };
        let mut state = self.engine.state();
        let mut is_forbidden = false;
        for (_, capture) in state.captures.iter_mut().filter(|(_, capture)| forbids(capture)) {
            capture.is_invalid = true;
            is_forbidden = true;
        }
        if is_forbidden { Err(unsupported(call)) } else { Ok(()) }
    }
}
