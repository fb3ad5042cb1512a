//! Capture and graphs: what is written down, what spoils it, what a launch does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fakegpu_cuda::{
    CaptureMode, CaptureStatus, Copy, CopyKind, ErrorKind, EventFlags, GraphHandle, HostFunction, NodeKind,
    Poll, Polled, PolledWork, Result, StreamHandle, StreamRef, World,
};
use fakegpu_units::VirtualSpan;

use super::{DEVICE, Gate, at, blocking_stream, read, stream, world};

fn kind<T: std::fmt::Debug>(answer: Result<T>) -> ErrorKind {
    answer.unwrap_err().kind()
}

fn begin(world: &World, stream: StreamHandle) {
    world.begin_capture(DEVICE, stream.into(), CaptureMode::Global).unwrap();
}

fn end(world: &World, stream: StreamHandle) -> Result<GraphHandle> {
    world.end_capture(DEVICE, stream.into())
}

/// Whether the capture is spoiled, which its end tells.
fn is_spoiled(world: &World, stream: StreamHandle) -> bool {
    let info = world.capture_info(DEVICE, stream.into()).unwrap();
    let ended = end(world, stream);
    info.status == CaptureStatus::Invalidated && kind(ended) == ErrorKind::StreamCaptureInvalidated
}

#[test]
fn a_launch_does_again_what_was_captured_and_capture_does_nothing() {
    let world = world();
    let stream = stream(&world);
    let (from, to) = (world.malloc(DEVICE, 64).unwrap(), world.malloc(DEVICE, 64).unwrap());
    world.fill(DEVICE, stream.into(), at(from), 5, 1, 64).unwrap();
    world.fill(DEVICE, stream.into(), at(to), 0, 1, 64).unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    begin(&world, stream);
    let copy = Copy::flat(at(to), at(from), 64, CopyKind::DeviceToDevice);
    world.copy(DEVICE, stream.into(), &copy).unwrap();
    world.fill(DEVICE, stream.into(), at(from), 9, 1, 32).unwrap();
    let count = Arc::clone(&calls);
    let function = HostFunction::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    world.enqueue_host_function(DEVICE, stream.into(), function).unwrap();
    let info = world.capture_info(DEVICE, stream.into()).unwrap();
    assert_eq!((info.status, info.dependencies.len()), (CaptureStatus::Active, 1));
    let graph = end(&world, stream).unwrap();
    assert_eq!(world.capture_info(DEVICE, stream.into()).unwrap().status, CaptureStatus::None);
    assert_eq!(read(&world, to, 64), [0; 64], "nothing was done");
    let kinds: Vec<NodeKind> = world.graph_nodes(graph).unwrap().iter().map(|node| node.kind).collect();
    assert_eq!(kinds, [NodeKind::Memcpy, NodeKind::Memset, NodeKind::Host]);
    let exec = world.instantiate(graph).unwrap();
    world.upload_graph(exec).unwrap();
    world.destroy_graph(graph).unwrap();
    for expected in [[5_u8; 32], [9; 32]] {
        world.launch_graph(DEVICE, exec, stream.into()).unwrap();
        world.synchronize_stream(DEVICE, stream.into()).unwrap();
        assert_eq!(read(&world, to, 32), expected);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    world.destroy_exec(exec).unwrap();
    assert_eq!(kind(world.launch_graph(DEVICE, exec, stream.into())), ErrorKind::InvalidValue);
}

/// Pending once, then done.
struct Twice(Arc<AtomicU32>, bool);

impl Polled for Twice {
    fn poll(&mut self) -> Poll {
        if std::mem::replace(&mut self.1, true) {
            self.0.fetch_add(1, Ordering::SeqCst);
            return Poll::Done { took: VirtualSpan::from_micros(7) };
        }
        Poll::Pending
    }

    fn wait(&mut self, _at_most: std::time::Duration) {}

    fn name(&self) -> &str {
        "twice"
    }
}

#[test]
fn what_waits_for_others_is_made_anew_for_each_launch() {
    let world = world();
    let stream = stream(&world);
    let runs = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&runs);
    begin(&world, stream);
    let work = PolledWork::remade(move || Box::new(Twice(Arc::clone(&count), false)));
    world.enqueue_polled(DEVICE, stream.into(), work).unwrap();
    let exec = world.instantiate(end(&world, stream).unwrap()).unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    (0..3).for_each(|_| world.launch_graph(DEVICE, exec, stream.into()).unwrap());
    world.synchronize_stream(DEVICE, stream.into()).unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    assert_eq!(world.stream_time(DEVICE, stream.into()).unwrap().as_picos(), 21_000_000);
}

#[test]
fn branches_fork_and_join_by_events_and_run_side_by_side() {
    let world = world();
    let (main, side) = (stream(&world), stream(&world));
    let event = || world.create_event(DEVICE, EventFlags::default()).unwrap();
    let (fork, join) = (event(), event());
    let span = |stream: StreamHandle, micros| {
        world.enqueue_modelled(DEVICE, stream.into(), VirtualSpan::from_micros(micros)).unwrap();
    };
    begin(&world, main);
    span(main, 1);
    world.record_event(DEVICE, fork, main.into()).unwrap();
    world.wait_event(DEVICE, side.into(), fork).unwrap();
    assert_eq!(world.capture_info(DEVICE, side.into()).unwrap().status, CaptureStatus::Active);
    span(side, 20);
    span(main, 5);
    assert_eq!(kind(end(&world, side)), ErrorKind::StreamCaptureUnmatched);
    world.record_event(DEVICE, join, side.into()).unwrap();
    assert_eq!(kind(world.synchronize_event(join)), ErrorKind::StreamCaptureUnsupported);
    drop(end(&world, main));

    begin(&world, main);
    span(main, 1);
    world.record_event(DEVICE, fork, main.into()).unwrap();
    world.wait_event(DEVICE, side.into(), fork).unwrap();
    span(side, 20);
    span(main, 5);
    world.record_event(DEVICE, join, side.into()).unwrap();
    world.wait_event(DEVICE, main.into(), join).unwrap();
    span(main, 2);
    let graph = end(&world, main).unwrap();
    assert_eq!(kind(world.query_event(join)), ErrorKind::CapturedEvent);
    assert_eq!(kind(world.wait_event(DEVICE, main.into(), join)), ErrorKind::CapturedEvent);
    let nodes = world.graph_nodes(graph).unwrap();
    assert_eq!(nodes[3].dependencies.len(), 2);
    let exec = world.instantiate(graph).unwrap();
    world.launch_graph(DEVICE, exec, main.into()).unwrap();
    world.synchronize_stream(DEVICE, main.into()).unwrap();
    assert_eq!(world.stream_time(DEVICE, main.into()).unwrap().as_picos(), 23_000_000, "1 + max(20, 5) + 2");
}

#[test]
fn a_branch_that_is_not_joined_back_ends_the_capture_in_an_error() {
    let world = world();
    let (main, side) = (stream(&world), stream(&world));
    let fork = world.create_event(DEVICE, EventFlags::default()).unwrap();
    begin(&world, main);
    world.record_event(DEVICE, fork, main.into()).unwrap();
    world.wait_event(DEVICE, side.into(), fork).unwrap();
    world.enqueue_modelled(DEVICE, side.into(), VirtualSpan::ZERO).unwrap();
    assert_eq!(kind(end(&world, main)), ErrorKind::StreamCaptureUnjoined);
    assert_eq!(world.capture_info(DEVICE, side.into()).unwrap().status, CaptureStatus::None);
    world.synchronize_stream(DEVICE, side.into()).unwrap();
}

#[test]
fn calls_that_cannot_be_captured_spoil_the_capture() {
    let world = world();
    let stream = stream(&world);
    let spoils = |call: &dyn Fn() -> ErrorKind, expected| {
        begin(&world, stream);
        assert_eq!(call(), expected);
        assert!(is_spoiled(&world, stream), "{expected:?}");
    };
    let host = [0_u8; 8];
    let device = world.malloc(DEVICE, 8).unwrap();
    let pageable = Copy::flat(at(device), at(super::address_of(&host)), 8, CopyKind::Default);
    let once = || PolledWork::once(Gate::default().item(VirtualSpan::ZERO));
    let outside = world.create_event(DEVICE, EventFlags::default()).unwrap();
    world.record_event(DEVICE, outside, stream.into()).unwrap();
    let unsupported = ErrorKind::StreamCaptureUnsupported;
    spoils(&|| kind(world.synchronize_stream(DEVICE, stream.into())), unsupported);
    spoils(&|| kind(world.query_stream(DEVICE, stream.into())), unsupported);
    spoils(&|| kind(world.destroy_stream(stream)), unsupported);
    spoils(&|| kind(world.synchronize_device(DEVICE)), unsupported);
    spoils(&|| kind(world.malloc(DEVICE, 1)), unsupported);
    spoils(&|| kind(world.free(device)), unsupported);
    spoils(&|| kind(world.copy(DEVICE, stream.into(), &pageable)), unsupported);
    spoils(&|| kind(world.copy_sync(DEVICE, StreamRef::Legacy, &pageable)), unsupported);
    spoils(&|| kind(world.malloc_async(DEVICE, stream.into(), 1)), unsupported);
    spoils(&|| kind(world.enqueue_polled(DEVICE, stream.into(), once())), unsupported);
    spoils(&|| kind(world.wait_event(DEVICE, stream.into(), outside)), ErrorKind::StreamCaptureIsolation);
    world.synchronize_stream(DEVICE, stream.into()).unwrap();
}

#[test]
fn the_legacy_stream_spoils_captures_of_blocking_streams_only() {
    let world = world();
    let (apart, blocking) = (stream(&world), blocking_stream(&world));
    let legacy = || world.enqueue_modelled(DEVICE, StreamRef::Legacy, VirtualSpan::ZERO);
    assert_eq!(
        kind(world.begin_capture(DEVICE, StreamRef::Legacy, CaptureMode::Relaxed)),
        ErrorKind::StreamCaptureUnsupported
    );
    begin(&world, apart);
    legacy().unwrap();
    end(&world, apart).unwrap();
    begin(&world, blocking);
    assert_eq!(kind(legacy()), ErrorKind::StreamCaptureImplicit);
    assert!(is_spoiled(&world, blocking));
    legacy().unwrap();
}

#[test]
fn modes_say_whose_calls_do_harm() {
    let world = world();
    let stream = stream(&world);
    let malloc = || world.malloc(DEVICE, 1).map(drop);
    let elsewhere = || std::thread::scope(|scope| scope.spawn(malloc).join().unwrap());
    let capture = |mode| world.begin_capture(DEVICE, stream.into(), mode).unwrap();
    capture(CaptureMode::Relaxed);
    malloc().unwrap();
    end(&world, stream).unwrap();
    capture(CaptureMode::ThreadLocal);
    elsewhere().unwrap();
    assert!(malloc().is_err() && end(&world, stream).is_err());
    capture(CaptureMode::Global);
    assert!(elsewhere().is_err() && end(&world, stream).is_err());
    // As PyTorch's allocator does around its own calls.
    capture(CaptureMode::Global);
    let before = world.exchange_capture_mode(CaptureMode::Relaxed);
    malloc().unwrap();
    assert_eq!(world.exchange_capture_mode(before), CaptureMode::Relaxed);
    end(&world, stream).unwrap();
}

#[test]
fn captures_begin_once_and_end_where_and_by_whom_they_began() {
    let world = world();
    let stream = stream(&world);
    assert_eq!(kind(end(&world, stream)), ErrorKind::IllegalState);
    begin(&world, stream);
    let again = world.begin_capture(DEVICE, stream.into(), CaptureMode::Global);
    assert_eq!(kind(again), ErrorKind::IllegalState);
    let elsewhere = std::thread::scope(|scope| scope.spawn(|| end(&world, stream)).join().unwrap());
    assert_eq!(kind(elsewhere), ErrorKind::StreamCaptureWrongThread);
    let graph = end(&world, stream).unwrap();
    assert!(world.graph_nodes(graph).unwrap().is_empty());
    let exec = world.instantiate(graph).unwrap();
    world.launch_graph(DEVICE, exec, stream.into()).unwrap();
    world.synchronize_stream(DEVICE, stream.into()).unwrap();
}

#[test]
fn two_captures_cannot_be_merged() {
    let world = world();
    let (one, two) = (stream(&world), stream(&world));
    let event = world.create_event(DEVICE, EventFlags::default()).unwrap();
    begin(&world, one);
    begin(&world, two);
    world.record_event(DEVICE, event, one.into()).unwrap();
    assert_eq!(kind(world.wait_event(DEVICE, two.into(), event)), ErrorKind::StreamCaptureMerge);
    assert!(is_spoiled(&world, one) && is_spoiled(&world, two));
}

#[test]
fn a_graph_may_hold_the_launch_of_another() {
    let world = world();
    let stream = stream(&world);
    let device = world.malloc(DEVICE, 4).unwrap();
    world.fill(DEVICE, stream.into(), at(device), 0, 1, 4).unwrap();
    begin(&world, stream);
    world.fill(DEVICE, stream.into(), at(device), 3, 1, 4).unwrap();
    let inner = world.instantiate(end(&world, stream).unwrap()).unwrap();
    begin(&world, stream);
    world.launch_graph(DEVICE, inner, stream.into()).unwrap();
    let outer = end(&world, stream).unwrap();
    assert_eq!(world.graph_nodes(outer).unwrap()[0].kind, NodeKind::Graph);
    let copy = world.clone_graph(outer).unwrap();
    let exec = world.instantiate(copy).unwrap();
    world.launch_graph(DEVICE, exec, stream.into()).unwrap();
    world.synchronize_stream(DEVICE, stream.into()).unwrap();
    assert_eq!(read(&world, device, 4), [3; 4]);
    assert_eq!(kind(world.update_exec(inner, outer)), ErrorKind::GraphExecUpdateFailure);
    begin(&world, stream);
    world.fill(DEVICE, stream.into(), at(device), 4, 1, 4).unwrap();
    let other = end(&world, stream).unwrap();
    world.update_exec(inner, other).unwrap();
    world.launch_graph(DEVICE, inner, stream.into()).unwrap();
    world.synchronize_stream(DEVICE, stream.into()).unwrap();
    assert_eq!(read(&world, device, 4), [4; 4]);
}
