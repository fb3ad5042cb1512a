//! Random schedules over streams of every kind against a sequential model: wherever order is asked for, every read sees
//! what the order gives.

use fakegpu_cuda::{Copy, CopyKind, EventFlags, PolledWork, StreamRef, World};
use fakegpu_units::VirtualSpan;
use proptest::prelude::*;

use super::{DEVICE, Gate, at, blocking_stream, stream, world};

/// Bytes of a cell.
const CELL: usize = 256;
const CELLS: usize = 4;
/// The legacy stream, two blocking ones, one that is not.
const STREAMS: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Fill {
        stream: usize,
        cell: usize,
        value: u8,
    },
    Move {
        stream: usize,
        from: usize,
        to: usize,
    },
    Read {
        stream: usize,
        cell: usize,
    },
    /// The stream stands still until the gate is opened.
    Hold {
        stream: usize,
    },
    /// Opens the oldest gate.
    Open,
    /// An order that nobody needs.
    Join {
        from: usize,
        to: usize,
    },
    Synchronize {
        stream: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (stream, cell) = (0..STREAMS, 0..CELLS);
    let step = prop_oneof![
        4 => (stream.clone(), cell.clone(), any::<u8>())
            .prop_map(|(stream, cell, value)| Step::Fill { stream, cell, value }),
        4 => (stream.clone(), cell.clone(), cell.clone()).prop_map(|(stream, from, to)| Step::Move { stream, from, to }),
        4 => (stream.clone(), cell).prop_map(|(stream, cell)| Step::Read { stream, cell }),
        3 => stream.clone().prop_map(|stream| Step::Hold { stream }),
        2 => Just(Step::Open),
        1 => (stream.clone(), stream.clone()).prop_map(|(from, to)| Step::Join { from, to }),
        1 => stream.prop_map(|stream| Step::Synchronize { stream }),
    ];
    proptest::collection::vec(step, 1..60)
}

struct Run<'a> {
    world: &'a World,
    streams: [StreamRef; STREAMS],
    cells: usize,
    /// Page-locked, so that reads need not wait: one place a read.
    reads: usize,
    count: usize,
    /// The stream that last touched each cell.
    touched: [Option<usize>; CELLS],
    gates: Vec<Gate>,
    model: [u8; CELLS],
    expected: Vec<u8>,
}

impl<'a> Run<'a> {
    fn new(world: &'a World, reads: usize) -> Self {
        let streams = [
            StreamRef::Legacy,
            blocking_stream(world).into(),
            blocking_stream(world).into(),
            stream(world).into(),
        ];
        let cells = world.malloc(DEVICE, CELL * CELLS).unwrap();
        world.fill(DEVICE, StreamRef::Legacy, at(cells), 0, 1, CELL * CELLS).unwrap();
        world.synchronize_device(DEVICE).unwrap();
        Self {
            world,
            streams,
            cells,
            reads: world.host_alloc(DEVICE, CELL * reads.max(1), 0).unwrap(),
            count: 0,
            touched: [None; CELLS],
            gates: Vec::new(),
            model: [0; CELLS],
            expected: Vec::new(),
        }
    }

    fn join(&self, from: usize, to: usize) {
        let event = self.world.create_event(DEVICE, EventFlags::default()).unwrap();
        self.world.record_event(DEVICE, event, self.streams[from]).unwrap();
        self.world.wait_event(DEVICE, self.streams[to], event).unwrap();
        self.world.destroy_event(event).unwrap();
    }

    /// Orders a stream behind whoever touched the cell before; the legacy stream and blocking ones need no help.
    fn touch(&mut self, stream: usize, cell: usize) {
        if let Some(before) = self.touched[cell].filter(|before| *before != stream) {
            let implied = before.min(stream) == 0 && before.max(stream) < 3;
            if !implied {
                self.join(before, stream);
            }
        }
        self.touched[cell] = Some(stream);
    }

    fn open_all(&mut self) {
        self.gates.drain(..).for_each(|gate| gate.open());
    }

    fn step(&mut self, step: &Step) {
        let place = |cell: usize| self.cells + CELL * cell;
        match *step {
            Step::Fill { stream, cell, value } => {
                let target = at(place(cell));
                self.touch(stream, cell);
                self.model[cell] = value;
                self.world.fill(DEVICE, self.streams[stream], target, value.into(), 1, CELL).unwrap();
            }
            Step::Move { stream, from, to } => {
                let copy = Copy::flat(at(place(to)), at(place(from)), CELL, CopyKind::DeviceToDevice);
                self.touch(stream, from);
                self.touch(stream, to);
                self.model[to] = self.model[from];
                self.world.copy(DEVICE, self.streams[stream], &copy).unwrap();
            }
            Step::Read { stream, cell } => {
                let slot = at(self.reads + CELL * self.count);
                let copy = Copy::flat(slot, at(place(cell)), CELL, CopyKind::DeviceToHost);
                self.touch(stream, cell);
                self.count += 1;
                self.expected.push(self.model[cell]);
                self.world.copy(DEVICE, self.streams[stream], &copy).unwrap();
            }
            Step::Hold { stream } => {
                let gate = Gate::default();
                let work = PolledWork::once(gate.item(VirtualSpan::from_micros(1)));
                self.world.enqueue_polled(DEVICE, self.streams[stream], work).unwrap();
                self.gates.push(gate);
            }
            Step::Open if self.gates.is_empty() => {}
            Step::Open => self.gates.remove(0).open(),
            Step::Join { from, to } => self.join(from, to),
            Step::Synchronize { stream } => {
                let gates: Vec<Gate> = self.gates.drain(..).collect();
                std::thread::scope(|scope| {
                    scope.spawn(move || gates.iter().for_each(Gate::open));
                    self.world.synchronize_stream(DEVICE, self.streams[stream]).unwrap();
                });
            }
        }
    }

    fn finish(mut self) -> (Vec<u8>, Vec<u8>) {
        self.open_all();
        self.world.synchronize_device(DEVICE).unwrap();
        let mut seen = vec![0_u8; CELL * self.count];
        let to = super::address_of_mut(&mut seen);
        let copy = Copy::flat(at(to), at(self.reads), CELL * self.count, CopyKind::HostToHost);
        self.world.copy_sync(DEVICE, StreamRef::Legacy, &copy).unwrap();
        let cells = super::read(self.world, self.cells, CELL * CELLS);
        let expected = self.expected.iter().chain(&self.model).flat_map(|value| [*value; CELL]).collect();
        seen.extend(cells);
        self.world.free(self.cells).unwrap();
        self.world.host_free(self.reads).unwrap();
        (seen, expected)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_read_sees_what_the_order_gives(steps in steps()) {
        let world = world();
        let mut run = Run::new(&world, steps.len());
        steps.iter().for_each(|step| run.step(step));
        let (seen, expected) = run.finish();
        prop_assert!(seen == expected, "{steps:?}");
    }
}

/// What takes modelled time, or orders it.
#[derive(Clone, Debug)]
enum Timed {
    Work {
        stream: usize,
        micros: u64,
    },
    /// Pending until the end of the schedule, at the latest.
    Held {
        stream: usize,
        micros: u64,
    },
    Record {
        stream: usize,
        event: usize,
    },
    Wait {
        stream: usize,
        event: usize,
    },
    Open,
}

fn timed() -> impl Strategy<Value = Vec<Timed>> {
    let (stream, event) = (0..3_usize, 0..3_usize);
    let step = prop_oneof![
        4 => (stream.clone(), 0..50_u64).prop_map(|(stream, micros)| Timed::Work { stream, micros }),
        2 => (stream.clone(), 0..50_u64).prop_map(|(stream, micros)| Timed::Held { stream, micros }),
        3 => (stream.clone(), event.clone()).prop_map(|(stream, event)| Timed::Record { stream, event }),
        3 => (stream, event).prop_map(|(stream, event)| Timed::Wait { stream, event }),
        2 => Just(Timed::Open),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn modelled_time_is_the_longest_way_however_the_threads_run(steps in timed()) {
        let world = world();
        let streams: [StreamRef; 3] = std::array::from_fn(|_| stream(&world).into());
        let events: [_; 3] = std::array::from_fn(|_| world.create_event(DEVICE, EventFlags::default()).unwrap());
        let (mut clocks, mut marks) = ([0_u64; 3], [None; 3]);
        let mut gates: Vec<Gate> = Vec::new();
        for step in &steps {
            match *step {
                Timed::Work { stream, micros } => {
                    clocks[stream] += micros;
                    world.enqueue_modelled(DEVICE, streams[stream], VirtualSpan::from_micros(micros)).unwrap();
                }
                Timed::Held { stream, micros } => {
                    clocks[stream] += micros;
                    let gate = Gate::default();
                    let work = PolledWork::once(gate.item(VirtualSpan::from_micros(micros)));
                    world.enqueue_polled(DEVICE, streams[stream], work).unwrap();
                    gates.push(gate);
                }
                Timed::Record { stream, event } => {
                    marks[event] = Some(clocks[stream]);
                    world.record_event(DEVICE, events[event], streams[stream]).unwrap();
                }
                Timed::Wait { stream, event } => {
                    clocks[stream] = clocks[stream].max(marks[event].unwrap_or(0));
                    world.wait_event(DEVICE, streams[stream], events[event]).unwrap();
                }
                Timed::Open if gates.is_empty() => {}
                Timed::Open => gates.remove(0).open(),
            }
        }
        gates.iter().for_each(Gate::open);
        world.synchronize_device(DEVICE).unwrap();
        let seen = streams.map(|stream| world.stream_time(DEVICE, stream).unwrap().as_picos() / 1_000_000);
        prop_assert_eq!(seen, clocks);
        for (from, start) in (0..).zip(marks) {
            for (to, end) in (0..).zip(marks) {
                if let (Some(start), Some(end)) = (start, end) {
                    let elapsed = world.elapsed_ms(events[from], events[to]).unwrap();
                    prop_assert_eq!(elapsed, (end as f64 - start as f64) / 1e3);
                }
            }
        }
    }
}
