//! Streams and events: order, independence, the default streams, failure, modelled time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fakegpu_cuda::{
    Error, ErrorKind, EventFlags, EventHandle, HostFunction, Ordinal, PolledWork, Result, StreamFlags,
    StreamHandle, StreamRef, World,
};
use fakegpu_units::VirtualSpan;

use super::{DEVICE, Gate, Signal, blocking_stream, stream, world};

/// Puts an item into the stream that is pending until the gate opens.
fn pend(world: &World, stream: impl Into<StreamRef>, gate: &Gate) {
    let work = PolledWork::once(gate.item(VirtualSpan::from_micros(10)));
    world.enqueue_polled(DEVICE, stream.into(), work).unwrap();
}

fn event(world: &World) -> EventHandle {
    world.create_event(DEVICE, EventFlags::default()).unwrap()
}

#[track_caller]
fn becomes_ready(query: impl Fn() -> Result<()>) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match query() {
            Ok(()) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotReady, "{error}"),
        }
        assert!(Instant::now() < until, "it never became ready");
        std::thread::yield_now();
    }
}

fn is_pending(answer: Result<()>) -> bool {
    matches!(answer, Err(error) if error.kind() == ErrorKind::NotReady)
}

#[test]
fn what_is_pending_on_one_stream_holds_up_no_other() {
    let world = world();
    let (held, free) = (stream(&world), stream(&world));
    let gate = Gate::default();
    pend(&world, held, &gate);
    let called = Signal::default();
    let tell = called.clone();
    world.enqueue_host_function(DEVICE, free.into(), HostFunction::new(move || tell.give())).unwrap();
    called.expect();
    world.synchronize_stream(DEVICE, free.into()).unwrap();
    assert!(is_pending(world.query_stream(DEVICE, held.into())));
    gate.open();
    world.synchronize_stream(DEVICE, held.into()).unwrap();
}

#[test]
fn streams_and_events_become_ready_by_themselves() {
    let world = world();
    let stream = stream(&world);
    let gate = Gate::default();
    let event = event(&world);
    pend(&world, stream, &gate);
    world.record_event(DEVICE, event, stream.into()).unwrap();
    assert!(is_pending(world.query_event(event)) && is_pending(world.query_stream(DEVICE, stream.into())));
    gate.open();
    becomes_ready(|| world.query_event(event));
    becomes_ready(|| world.query_stream(DEVICE, stream.into()));
}

#[test]
fn a_host_function_is_never_called_by_the_thread_that_enqueues_it() {
    let world = world();
    let stream = stream(&world);
    for _ in 0..100 {
        let called = Signal::default();
        let by = Arc::new(Mutex::new(None));
        let (tell, note) = (called.clone(), Arc::clone(&by));
        let function = HostFunction::new(move || {
            *note.lock().unwrap() = Some(std::thread::current().id());
            tell.give();
        });
        world.enqueue_host_function(DEVICE, stream.into(), function).unwrap();
        called.expect();
        assert_ne!(*by.lock().unwrap(), Some(std::thread::current().id()));
    }
}

#[test]
fn a_host_function_that_calls_cuda_is_told_off() {
    let world = Arc::new(world());
    let stream = stream(&world);
    let (seen, inner) = (Arc::new(Mutex::new(Vec::new())), Arc::downgrade(&world));
    let note = Arc::clone(&seen);
    let function = HostFunction::new(move || {
        let world = inner.upgrade().unwrap();
        assert!(world.in_host_function());
        let answers = [
            world.synchronize_stream(DEVICE, stream.into()),
            world.enqueue_modelled(DEVICE, stream.into(), VirtualSpan::ZERO),
        ];
        note.lock().unwrap().extend(answers.map(|answer| answer.map_err(|error| error.kind())));
    });
    world.enqueue_host_function(DEVICE, stream.into(), function).unwrap();
    world.synchronize_stream(DEVICE, stream.into()).unwrap();
    assert_eq!(*seen.lock().unwrap(), [Err(ErrorKind::NotPermitted); 2]);
    assert!(!world.in_host_function());
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams_and_they_for_it() {
    let world = world();
    let (blocking, other) = (blocking_stream(&world), blocking_stream(&world));
    let apart = stream(&world);
    let mark = |stream: StreamRef| {
        let event = event(&world);
        world.record_event(DEVICE, event, stream).unwrap();
        event
    };
    let (first, second) = (Gate::default(), Gate::default());
    pend(&world, blocking, &first);
    let legacy = mark(StreamRef::Legacy);
    assert!(is_pending(world.query_event(legacy)), "it waits for the blocking stream");
    assert!(is_pending(world.query_stream(DEVICE, StreamRef::Legacy)));
    world.query_event(mark(other.into())).unwrap_err();
    world.query_event(mark(apart.into())).unwrap();
    first.open();
    world.synchronize_stream(DEVICE, StreamRef::Legacy).unwrap();
    world.query_event(legacy).unwrap();

    pend(&world, StreamRef::Legacy, &second);
    world.enqueue_modelled(DEVICE, blocking.into(), VirtualSpan::ZERO).unwrap();
    assert!(is_pending(world.query_stream(DEVICE, blocking.into())), "it waits for the legacy stream");
    world.enqueue_modelled(DEVICE, apart.into(), VirtualSpan::ZERO).unwrap();
    world.query_stream(DEVICE, apart.into()).unwrap();
    second.open();
    world.synchronize_device(DEVICE).unwrap();
}

#[test]
fn blocking_streams_do_not_wait_for_one_another_nor_devices_for_devices() {
    let world = world();
    let (one, two) = (blocking_stream(&world), blocking_stream(&world));
    let gate = Gate::default();
    pend(&world, one, &gate);
    world.enqueue_modelled(DEVICE, two.into(), VirtualSpan::ZERO).unwrap();
    world.synchronize_stream(DEVICE, two.into()).unwrap();
    world.enqueue_modelled(Ordinal(1), StreamRef::Legacy, VirtualSpan::ZERO).unwrap();
    world.synchronize_device(Ordinal(1)).unwrap();
    gate.open();
    world.synchronize_device(DEVICE).unwrap();
}

#[test]
fn each_thread_has_a_default_stream_of_its_own_that_goes_with_it() {
    let world = world();
    let id = |device| world.stream_id(device, StreamRef::PerThread).unwrap();
    let mine = id(DEVICE);
    assert_eq!(id(DEVICE), mine);
    assert_ne!(id(Ordinal(1)), mine);
    assert_ne!(world.stream_id(DEVICE, StreamRef::Legacy).unwrap(), mine);
    let gate = Gate::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_ne!(id(DEVICE), mine);
            pend(&world, StreamRef::PerThread, &gate);
        });
    });
    world.synchronize_stream(DEVICE, StreamRef::PerThread).unwrap();
    let legacy = event(&world);
    world.record_event(DEVICE, legacy, StreamRef::Legacy).unwrap();
    assert!(is_pending(world.query_event(legacy)), "the work of a thread that has ended is still done first");
    gate.open();
    world.synchronize_device(DEVICE).unwrap();
}

#[test]
fn a_wait_means_the_record_that_was_last_when_it_was_called() {
    let world = world();
    let (one, two) = (stream(&world), stream(&world));
    let (early, late) = (Gate::default(), Gate::default());
    let event = event(&world);
    pend(&world, one, &early);
    world.record_event(DEVICE, event, one.into()).unwrap();
    world.wait_event(DEVICE, two.into(), event).unwrap();
    pend(&world, one, &late);
    world.record_event(DEVICE, event, one.into()).unwrap();
    world.enqueue_modelled(DEVICE, two.into(), VirtualSpan::ZERO).unwrap();
    early.open();
    world.synchronize_stream(DEVICE, two.into()).unwrap();
    assert!(is_pending(world.query_event(event)), "the second record is not done");
    late.open();
    world.synchronize_event(event).unwrap();
}

#[test]
fn events_that_were_never_recorded_or_tell_no_time_answer_as_in_cuda() {
    let world = world();
    let stream = stream(&world);
    let (never, once) = (event(&world), event(&world));
    world.query_event(never).unwrap();
    world.synchronize_event(never).unwrap();
    world.wait_event(DEVICE, stream.into(), never).unwrap();
    world.record_event(DEVICE, once, stream.into()).unwrap();
    let kind = |answer: Result<f64>| answer.unwrap_err().kind();
    assert_eq!(kind(world.elapsed_ms(never, once)), ErrorKind::InvalidResourceHandle);
    let untimed = EventFlags { disable_timing: true, ..EventFlags::default() };
    let untimed = world.create_event(DEVICE, untimed).unwrap();
    world.record_event(DEVICE, untimed, stream.into()).unwrap();
    assert_eq!(kind(world.elapsed_ms(once, untimed)), ErrorKind::InvalidResourceHandle);
    let gate = Gate::default();
    pend(&world, stream, &gate);
    let pending = event(&world);
    world.record_event(DEVICE, pending, stream.into()).unwrap();
    assert_eq!(kind(world.elapsed_ms(once, pending)), ErrorKind::NotReady);
    world.destroy_event(pending).unwrap();
    assert_eq!(world.query_event(pending).unwrap_err().kind(), ErrorKind::InvalidResourceHandle);
    gate.open();
    let elsewhere = world.create_event(Ordinal(1), EventFlags::default()).unwrap();
    let refused = world.record_event(DEVICE, elsewhere, stream.into()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidResourceHandle);
    let timed_for_all = EventFlags { interprocess: true, ..EventFlags::default() };
    assert_eq!(world.create_event(DEVICE, timed_for_all).unwrap_err().kind(), ErrorKind::InvalidValue);
}

#[test]
fn a_destroyed_stream_does_its_work_and_its_handle_is_stale() {
    let world = world();
    let stream = stream(&world);
    let gate = Gate::default();
    let called = Signal::default();
    let tell = called.clone();
    pend(&world, stream, &gate);
    world.enqueue_host_function(DEVICE, stream.into(), HostFunction::new(move || tell.give())).unwrap();
    world.destroy_stream(stream).unwrap();
    let stale = |answer: Result<()>| assert_eq!(answer.unwrap_err().kind(), ErrorKind::InvalidResourceHandle);
    stale(world.synchronize_stream(DEVICE, stream.into()));
    stale(world.destroy_stream(stream));
    stale(
        world.synchronize_stream(
            DEVICE,
            StreamHandle::from_raw(stream.into_raw() + (1 << 20)).unwrap().into(),
        ),
    );
    gate.open();
    called.expect();
    let next = super::stream(&world);
    assert_ne!(next, stream);
}

#[test]
fn elapsed_time_is_the_models_not_the_hosts() {
    let world = world();
    let (one, two) = (stream(&world), stream(&world));
    let (start, middle, end) = (event(&world), event(&world), event(&world));
    world.record_event(DEVICE, start, one.into()).unwrap();
    world.enqueue_modelled(DEVICE, one.into(), VirtualSpan::from_micros(1500)).unwrap();
    world.record_event(DEVICE, middle, one.into()).unwrap();
    world.enqueue_modelled(DEVICE, two.into(), VirtualSpan::from_micros(100)).unwrap();
    world.wait_event(DEVICE, two.into(), middle).unwrap();
    world.enqueue_modelled(DEVICE, two.into(), VirtualSpan::from_micros(250)).unwrap();
    world.record_event(DEVICE, end, two.into()).unwrap();
    assert_eq!(world.elapsed_ms(start, middle).unwrap(), 1.5);
    assert_eq!(world.elapsed_ms(start, end).unwrap(), 1.75, "the later of the two, then its own");
    assert_eq!(world.elapsed_ms(end, start).unwrap(), -1.75);
    // What is enqueued after the program waited starts no earlier than what it waited for.
    world.synchronize_event(end).unwrap();
    let fresh = stream(&world);
    let after = event(&world);
    world.record_event(DEVICE, after, fresh.into()).unwrap();
    assert_eq!(world.elapsed_ms(start, after).unwrap(), 1.75);
    assert_eq!(world.host_time().as_picos(), 1_750_000_000);
}

#[test]
fn a_pending_item_tells_its_own_duration() {
    let world = world();
    let stream = stream(&world);
    let (start, end) = (event(&world), event(&world));
    let gate = Gate::default();
    world.record_event(DEVICE, start, stream.into()).unwrap();
    pend(&world, stream, &gate);
    world.record_event(DEVICE, end, stream.into()).unwrap();
    gate.open();
    world.synchronize_event(end).unwrap();
    assert_eq!(world.elapsed_ms(start, end).unwrap(), 0.01);
}

#[test]
fn a_failure_stays_with_its_stream_and_reaches_whoever_depends_on_it() {
    let world = world();
    let (failing, dependent, apart) = (stream(&world), stream(&world), stream(&world));
    let gate = Gate::default();
    let mark = event(&world);
    let work = PolledWork::once(gate.failing("rank 3 died"));
    world.enqueue_polled(DEVICE, failing.into(), work).unwrap();
    let skipped = Arc::new(AtomicU64::new(0));
    let (count, told) = (Arc::clone(&skipped), Arc::new(Mutex::new(None)));
    let plain = HostFunction::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let note = Arc::clone(&told);
    let callback =
        HostFunction::callback(move |failure: Option<&Error>| *note.lock().unwrap() = failure.cloned());
    world.enqueue_host_function(DEVICE, failing.into(), plain).unwrap();
    world.enqueue_host_function(DEVICE, failing.into(), callback).unwrap();
    world.record_event(DEVICE, mark, failing.into()).unwrap();
    world.wait_event(DEVICE, dependent.into(), mark).unwrap();
    gate.open();
    let expected = "cudaErrorLaunchFailure: a gate failed: rank 3 died";
    let text = |answer: Result<()>| answer.unwrap_err().to_string();
    assert_eq!(text(world.synchronize_stream(DEVICE, failing.into())), expected);
    assert_eq!(text(world.synchronize_stream(DEVICE, dependent.into())), expected);
    assert_eq!(text(world.synchronize_event(mark)), expected);
    assert_eq!(text(world.query_stream(DEVICE, failing.into())), expected);
    assert_eq!(text(world.enqueue_modelled(DEVICE, failing.into(), VirtualSpan::ZERO)), expected);
    assert_eq!(text(world.synchronize_device(DEVICE)), expected);
    world.synchronize_stream(DEVICE, apart.into()).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while told.lock().unwrap().is_none() && Instant::now() < until {
        std::thread::yield_now();
    }
    assert_eq!(told.lock().unwrap().as_ref().unwrap().to_string(), expected);
    assert_eq!(skipped.load(Ordering::SeqCst), 0, "what came behind was given up");
    for stream in [failing, dependent] {
        world.clear_failure(DEVICE, stream.into()).unwrap();
        world.enqueue_modelled(DEVICE, stream.into(), VirtualSpan::ZERO).unwrap();
        world.synchronize_stream(DEVICE, stream.into()).unwrap();
    }
}

#[test]
fn work_that_panics_fails_its_stream_and_nothing_else() {
    let world = world();
    let stream = stream(&world);
    let function = HostFunction::new(|| panic!("on purpose"));
    world.enqueue_host_function(DEVICE, stream.into(), function).unwrap();
    let error = world.synchronize_stream(DEVICE, stream.into()).unwrap_err();
    assert!(error.text().contains("panicked"), "{error}");
    world.synchronize_stream(DEVICE, StreamRef::Legacy).unwrap();
}

#[test]
fn freeing_memory_waits_for_the_work_that_uses_it() {
    let world = world();
    let stream = stream(&world);
    let address = world.malloc(DEVICE, 4096).unwrap();
    let gate = Gate::default();
    pend(&world, stream, &gate);
    world.fill(DEVICE, stream.into(), super::at(address), 1, 1, 4096).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| gate.open());
        world.free(address).unwrap();
    });
    world.query_stream(DEVICE, stream.into()).unwrap();
}

#[test]
fn an_item_is_given_up_when_the_world_ends() {
    let world = world();
    let stream = stream(&world);
    let gate = Gate::default();
    pend(&world, stream, &gate);
    pend(&world, stream, &gate);
    drop(world);
    assert!(gate.looks() >= 1);
}

#[test]
fn many_threads_on_a_few_streams_lose_nothing() {
    let world = world();
    let streams: Vec<StreamHandle> = (0..3).map(|_| blocking_stream(&world)).collect();
    let done = Arc::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..6_usize {
            let (world, streams, done) = (&world, &streams, &done);
            scope.spawn(move || {
                for round in 0..200_usize {
                    let stream = streams[(thread + round) % 3];
                    let count = Arc::clone(done);
                    let function = HostFunction::new(move || {
                        count.fetch_add(1, Ordering::SeqCst);
                    });
                    world.enqueue_host_function(DEVICE, stream.into(), function).unwrap();
                    world.enqueue_modelled(DEVICE, stream.into(), VirtualSpan::from_picos(1)).unwrap();
                    match round % 4 {
                        0 => world.synchronize_stream(DEVICE, stream.into()).unwrap(),
                        1 => world.enqueue_modelled(DEVICE, StreamRef::Legacy, VirtualSpan::ZERO).unwrap(),
                        2 => {
                            let event = event(world);
                            world.record_event(DEVICE, event, stream.into()).unwrap();
                            world.wait_event(DEVICE, streams[thread % 3].into(), event).unwrap();
                            world.destroy_event(event).unwrap();
                        }
                        _ => {}
                    }
                }
            });
        }
    });
    world.synchronize_device(DEVICE).unwrap();
    assert_eq!(done.load(Ordering::SeqCst), 1200);
    let total: u64 = streams
        .iter()
        .map(|stream| world.stream_time(DEVICE, (*stream).into()).unwrap().as_picos())
        .max()
        .unwrap();
    assert!((400..=1200).contains(&total), "{total}");
}

#[test]
fn flags_and_priorities_are_kept_in_range() {
    let world = world();
    let made = world.create_stream(DEVICE, StreamFlags { non_blocking: true }, -100).unwrap();
    assert_eq!(world.stream_priority(DEVICE, made.into()).unwrap(), World::PRIORITY_GREATEST);
    assert!(world.stream_flags(DEVICE, made.into()).unwrap().non_blocking);
    assert_eq!(world.stream_device(Ordinal(1), made.into()).unwrap(), DEVICE);
    assert_eq!(world.stream_device(Ordinal(1), StreamRef::Legacy).unwrap(), Ordinal(1));
    assert!(made.into_raw() > 2);
}
