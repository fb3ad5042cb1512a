//! Graphs: work written down once and launched many times.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fakegpu_units::{VirtualSpan, VirtualTime};

use crate::devices::Ordinal;
use crate::engine::{HostFunction, Poll, Polled, PolledFactory, Record, State, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::handle::{ExecHandle, GraphHandle, StreamRef};
use crate::memory::{Move, Set};
use crate::world::World;

/// What a node of a graph does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Nothing.
    Empty,
    /// A copy.
    Memcpy,
    /// A memset.
    Memset,
    /// A kernel, or other work of a library.
    Kernel,
    /// A function of the program's.
    Host,
    /// Another graph.
    Graph,
}

/// A node of a graph, for those who look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    /// Its number, unique in the process.
    pub id: u64,
    /// What it does.
    pub kind: NodeKind,
    /// The nodes that it depends on, by number.
    pub dependencies: Vec<u64>,
}

/// A graph.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    nodes: Arc<Vec<Node>>,
}

/// A graph made ready to launch.
#[derive(Debug)]
pub(crate) struct Exec {
    nodes: Arc<Vec<Node>>,
    /// The end of its last launch: two launches of one graph do not overlap.
    last: Option<Arc<Record>>,
}

/// One piece of work; it depends on nodes before it only.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) work: NodeWork,
    /// Places in the graph.
    pub(crate) dependencies: Vec<usize>,
}

#[derive(Clone)]
pub(crate) enum NodeWork {
    Nothing,
    Span(VirtualSpan),
    Move(Move, VirtualSpan),
    Set(Set, VirtualSpan),
    Host(HostFunction),
    Polled(PolledFactory),
    Graph(Arc<Vec<Node>>),
}

impl NodeWork {
    const fn kind(&self) -> NodeKind {
        match self {
            Self::Nothing => NodeKind::Empty,
            Self::Move(..) => NodeKind::Memcpy,
            Self::Set(..) => NodeKind::Memset,
            Self::Span(_) | Self::Polled(_) => NodeKind::Kernel,
            Self::Host(_) => NodeKind::Host,
            Self::Graph(_) => NodeKind::Graph,
        }
    }
}

impl fmt::Debug for NodeWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind().fmt(f)
    }
}

fn calls_host(nodes: &[Node]) -> bool {
    nodes.iter().any(|node| match &node.work {
        NodeWork::Host(_) => true,
        NodeWork::Graph(child) => calls_host(child),
        _ => false,
    })
}

impl Graph {
    pub(crate) fn new(nodes: Vec<Node>) -> Self {
        Self { nodes: Arc::new(nodes) }
    }
}

impl State {
    pub(crate) fn insert_graph(&mut self, graph: Graph) -> Result<GraphHandle> {
        let full = || Error::new(ErrorKind::MemoryAllocation, "there are too many graphs; destroy some");
        self.graphs.insert(graph).map(GraphHandle).ok_or_else(full)
    }
}

fn no_graph() -> Error {
    Error::new(ErrorKind::InvalidValue, "this is no graph, or one that was destroyed")
}

fn no_exec() -> Error {
    Error::new(ErrorKind::InvalidValue, "this is no graph to launch, or one that was destroyed")
}

impl World {
    /// A graph without nodes.
    ///
    /// # Errors
    /// After `fork` only.
    pub fn create_graph(&self) -> Result<GraphHandle> {
        self.check()?;
        self.engine.state().insert_graph(Graph::new(Vec::new()))
    }

    /// A copy of a graph.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for none.
    pub fn clone_graph(&self, graph: GraphHandle) -> Result<GraphHandle> {
        self.check()?;
        let mut state = self.engine.state();
        let copy = state.graphs.get(graph.0).ok_or_else(no_graph)?.clone();
        state.insert_graph(copy)
    }

    /// Destroys a graph; what was made ready from it stays.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for none.
    pub fn destroy_graph(&self, graph: GraphHandle) -> Result<()> {
        self.check()?;
        let removed = self.engine.state().graphs.remove(graph.0);
        removed.map(drop).ok_or_else(no_graph)
    }

    /// The nodes of a graph, each after those that it depends on.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for none.
    pub fn graph_nodes(&self, graph: GraphHandle) -> Result<Vec<GraphNode>> {
        self.check()?;
        let state = self.engine.state();
        let nodes = &state.graphs.get(graph.0).ok_or_else(no_graph)?.nodes;
        let ids = |places: &[usize]| places.iter().filter_map(|at| Some(nodes.get(*at)?.id)).collect();
        let shown = nodes.iter().map(|node| GraphNode {
            id: node.id,
            kind: node.work.kind(),
            dependencies: ids(&node.dependencies),
        });
        Ok(shown.collect())
    }

    /// Makes a graph ready to launch, as it is now.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for none.
    pub fn instantiate(&self, graph: GraphHandle) -> Result<ExecHandle> {
        self.check()?;
        let mut state = self.engine.state();
        let nodes = Arc::clone(&state.graphs.get(graph.0).ok_or_else(no_graph)?.nodes);
        let full = || Error::new(ErrorKind::MemoryAllocation, "there are too many graphs; destroy some");
        state.execs.insert(Exec { nodes, last: None }).map(ExecHandle).ok_or_else(full)
    }

    /// Lets a graph that is ready to launch do what another of the same shape does: the same kinds of nodes with the same
    /// dependencies. Launches under way are not changed.
    ///
    /// # Errors
    /// [`ErrorKind::GraphExecUpdateFailure`] for another shape; [`ErrorKind::InvalidValue`] for none.
    pub fn update_exec(&self, exec: ExecHandle, graph: GraphHandle) -> Result<()> {
        self.check()?;
        let mut state = self.engine.state();
        let new = Arc::clone(&state.graphs.get(graph.0).ok_or_else(no_graph)?.nodes);
        let exec = state.execs.get_mut(exec.0).ok_or_else(no_exec)?;
        let is_alike = |(new, old): (&Node, &Node)| {
            new.work.kind() == old.work.kind() && new.dependencies == old.dependencies
        };
        if new.len() != exec.nodes.len() || !new.iter().zip(exec.nodes.iter()).all(is_alike) {
            let text = "the graph has another shape than the one that was made ready; instantiate it anew";
            return Err(Error::new(ErrorKind::GraphExecUpdateFailure, text));
        }
        exec.nodes = new;
        Ok(())
    }

    /// Has nothing to do: a graph is where it runs.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for none.
    pub fn upload_graph(&self, exec: ExecHandle) -> Result<()> {
        self.check()?;
        self.engine.state().execs.get(exec.0).map(|_| ()).ok_or_else(no_exec)
    }

    /// Destroys a graph that was ready to launch; launches under way are still done.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for none.
    pub fn destroy_exec(&self, exec: ExecHandle) -> Result<()> {
        self.check()?;
        let removed = self.engine.state().execs.remove(exec.0);
        removed.map(drop).ok_or_else(no_exec)
    }

    /// Launches a graph on a stream: its copies, memsets, kernels and host functions run again, and what waits for
    /// others is made anew.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for no graph; as all work.
    pub fn launch_graph(&self, device: Ordinal, exec: ExecHandle, stream: StreamRef) -> Result<()> {
        self.device(device)?;
        let (mut state, key) = self.engine.open(device, stream)?;
        let found = state.execs.get(exec.0).ok_or_else(no_exec)?;
        let (nodes, last) = (Arc::clone(&found.nodes), found.last.clone());
        if state.stream(key)?.capture.is_some() {
            return state.capture_graph(key, nodes);
        }
        self.engine.refuse_implicit(&mut state, key)?;
        // What waits for others is made now, in the order of the program's calls, and by code that may look at streams.
        drop(state);
        let has_host = calls_host(&nodes);
        let work = Work::Graph(Box::new(Run::new(nodes)), has_host);
        let (state, key) = self.engine.open(device, stream)?;
        let last = last.filter(|record| record.is_pending() && record.stream != key);
        let record = self.engine.submit(state, key, work, last.into_iter().collect())?;
        if let Some(exec) = self.engine.state().execs.get_mut(exec.0) {
            exec.last = record;
        }
        Ok(())
    }
}

/// One launch of a graph under way.
struct Run {
    nodes: Arc<Vec<Node>>,
    states: Vec<NodeState>,
    /// Nodes that wait for others, looked at in turn.
    turn: usize,
}

enum NodeState {
    Waiting,
    /// As waiting, with what it will run.
    Made(Box<dyn Polled>),
    Running(VirtualTime, Box<dyn Polled>),
    /// Done at this time since the launch.
    Done(VirtualTime),
}

impl Run {
    fn new(nodes: Arc<Vec<Node>>) -> Self {
        let state = |node: &Node| match &node.work {
            NodeWork::Polled(make) => NodeState::Made(make()),
            NodeWork::Graph(nodes) => NodeState::Made(Box::new(Self::new(Arc::clone(nodes)))),
            _ => NodeState::Waiting,
        };
        let states = nodes.iter().map(state).collect();
        Self { nodes, states, turn: 0 }
    }

    /// When a node can start; `None` where one that it depends on is not done.
    fn start_of(&self, node: &Node) -> Option<VirtualTime> {
        node.dependencies.iter().try_fold(VirtualTime::ZERO, |start, at| match self.states.get(*at) {
            Some(NodeState::Done(time)) => Some(start.max(*time)),
            _ => None,
        })
    }
}

fn begin(work: &NodeWork, start: VirtualTime) -> NodeState {
    match work {
        NodeWork::Nothing => NodeState::Done(start),
        NodeWork::Span(span) => NodeState::Done(start + *span),
        NodeWork::Move(copy, span) => {
            copy.run();
            NodeState::Done(start + *span)
        }
        NodeWork::Set(set, span) => {
            set.run();
            NodeState::Done(start + *span)
        }
        NodeWork::Host(function) => {
            function.call(None);
            NodeState::Done(start)
        }
        NodeWork::Polled(make) => NodeState::Running(start, make()),
        NodeWork::Graph(nodes) => NodeState::Running(start, Box::new(Run::new(Arc::clone(nodes)))),
    }
}

impl Polled for Run {
    fn poll(&mut self) -> Poll {
        let nodes = Arc::clone(&self.nodes);
        let mut end = VirtualTime::ZERO;
        let mut is_done = true;
        // Nodes come after those that they depend on, so one pass goes as far as can be gone.
        for (at, node) in nodes.iter().enumerate() {
            if let Some(NodeState::Waiting | NodeState::Made(_)) = self.states.get(at)
                && let Some(start) = self.start_of(node)
                && let Some(state) = self.states.get_mut(at)
            {
                *state = match std::mem::replace(state, NodeState::Waiting) {
                    NodeState::Made(item) => NodeState::Running(start, item),
                    _ => begin(&node.work, start),
                };
            }
            let Some(state) = self.states.get_mut(at) else { continue };
            if let NodeState::Running(start, item) = state {
                match item.poll() {
                    Poll::Pending => {}
                    Poll::Done { took } => *state = NodeState::Done(*start + took),
                    Poll::Failed { text } => {
                        return Poll::Failed { text: format!("{} in a graph failed: {text}", item.name()) };
                    }
                    Poll::Faulted { error } => return Poll::Faulted { error },
                }
            }
            match state {
                NodeState::Done(time) => end = end.max(*time),
                _ => is_done = false,
            }
        }
        if is_done { Poll::Done { took: end.since(VirtualTime::ZERO) } } else { Poll::Pending }
    }

    fn wait(&mut self, at_most: Duration) {
        let mut running: Vec<&mut Box<dyn Polled>> = Vec::new();
        for state in &mut self.states {
            if let NodeState::Running(_, item) = state {
                running.push(item);
            }
        }
        // Each in its turn, so that none is waited for while others could go on.
        let count = running.len();
        let share = at_most / u32::try_from(count.max(1)).unwrap_or(1);
        if let Some(at) = self.turn.checked_rem(count)
            && let Some(item) = running.get_mut(at)
        {
            item.wait(share);
        }
        self.turn = self.turn.wrapping_add(1);
    }

    fn name(&self) -> &str {
        "the launch of a graph"
    }
}
