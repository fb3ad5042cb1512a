//! Calls that return at once and are done in stream order, over queues of the test's own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fakegpu_simulate::{
    Code, CommOptions, Fault, Handle, NeverSpawn, Outcome, Remake, Request, Runtime, Standing, Stream,
    StreamWork, Streams, Turn,
};
use fakegpu_units::{Collective as Op, VirtualSpan};

use crate::{Desk, collective_on};

type Queue = VecDeque<Box<dyn StreamWork>>;

/// A queue for each stream, brought on by whoever drains it; and the time that the model gives each.
#[derive(Clone, Debug, Default)]
struct Queues(
    Arc<Mutex<BTreeMap<usize, Queue>>>,
    Arc<Mutex<BTreeMap<usize, VirtualSpan>>>,
    Arc<Mutex<Vec<Captured>>>,
);

type Captured = (Stream, Box<dyn Remake>);

/// Streams from here on capture.
const CAPTURING: usize = 50;

impl Queues {
    /// Turns every stream's first piece once; the failures seen. Whether anything is left.
    fn turn(&self, failures: &mut Vec<String>) -> bool {
        let mut queues = self.0.lock().unwrap();
        for (stream, queue) in queues.iter_mut() {
            match queue.front_mut().map(|work| work.turn()) {
                None | Some(Turn::Pending) => {}
                Some(Turn::Ended(span)) => {
                    let mut clocks = self.1.lock().unwrap();
                    let clock = clocks.entry(*stream).or_default();
                    *clock += span;
                    queue.pop_front();
                }
                Some(Turn::Failed(text)) => {
                    failures.push(text);
                    queue.clear();
                }
            }
        }
        queues.values().any(|queue| !queue.is_empty())
    }

    fn drain(&self) -> Vec<String> {
        let (mut failures, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(20));
        while self.turn(&mut failures) {
            assert!(Instant::now() < deadline, "streams stand still: {self:?}");
            let mut queues = self.0.lock().unwrap();
            if let Some(work) = queues.values_mut().find_map(VecDeque::front_mut) {
                work.wait(Duration::from_millis(1));
            }
        }
        failures
    }
}

impl Queues {
    /// Launches what was captured.
    fn launch(&self) {
        for (stream, work) in self.2.lock().unwrap().iter() {
            self.enqueue(*stream, work.again()).unwrap();
        }
    }
}

impl Streams for Queues {
    fn is_there(&self) -> bool {
        true
    }

    fn knows(&self, _: usize) -> bool {
        true
    }

    fn is_capturing(&self, stream: Stream) -> Result<bool, Fault> {
        (stream.handle < 100)
            .then_some(stream.handle >= CAPTURING)
            .ok_or_else(|| Fault::argument("no stream"))
    }

    fn capture(&self, stream: Stream, work: Box<dyn Remake>) -> Result<(), Fault> {
        self.2.lock().unwrap().push((stream, work));
        Ok(())
    }

    fn enqueue(&self, stream: Stream, work: Box<dyn StreamWork>) -> Result<(), Fault> {
        self.0.lock().unwrap().entry(stream.handle).or_default().push_back(work);
        Ok(())
    }

    fn forgive(&self, _: Stream) {}

    fn join(&self, _: &[Stream]) -> Result<(), Fault> {
        Ok(())
    }
}

/// A rank of two communicators of two, with streams.
struct Rank {
    runtime: Runtime,
    queues: Queues,
    comms: Vec<Handle>,
    values: Vec<f32>,
}

impl Rank {
    fn sum(&mut self, comm: usize, stream: usize) -> Result<Outcome, Fault> {
        let place: *mut f32 = &raw mut self.values[comm];
        collective_on(stream, &self.runtime, self.comms[comm], (Op::AllReduce, None), 1, (place, place))
    }
}

fn two_ranks(desk: &Desk, more: &[(&str, &str)]) -> [Rank; 2] {
    let join = |rank: i32| {
        let mut vars = vec![("FAKEGPU_COORDINATOR_ADDR".to_owned(), desk.address())];
        vars.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let queues = Queues::default();
        let runtime = Runtime::new(vars, Box::new(NeverSpawn)).on_streams(Box::new(queues.clone()));
        let init = |id: u8| {
            let options = CommOptions::default();
            let request = Request { unique_id: &[id; 128], size: 2, rank, device: None, gpu: None, options };
            runtime.init(&request).unwrap().0
        };
        let comms = vec![init(1), init(2)];
        let values = (0..2u8).map(|comm| f32::from(10 * comm) + if rank == 0 { 1.0 } else { 2.0 }).collect();
        Rank { runtime, queues, comms, values }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| join(1));
        [join(0), other.join().unwrap()]
    })
}

#[test]
fn a_call_returns_before_its_peer_comes_and_is_done_in_stream_order() {
    let desk = Desk::new();
    let [mut first, mut second] = two_ranks(&desk, &[]);
    assert_eq!(first.sum(0, 7), Ok(Outcome::Done));
    assert_eq!(first.sum(0, 7), Ok(Outcome::Done));
    assert!(first.queues.turn(&mut Vec::new()), "its peer has not called");
    assert_eq!(first.values[0], 1.0);
    second.sum(0, 8).unwrap();
    second.sum(0, 8).unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| second.queues.drain());
        assert_eq!((first.queues.drain(), other.join().unwrap()), (vec![], vec![]));
    });
    assert_eq!((first.values[0], second.values[0]), (6.0, 6.0));
    let clock = |rank: &Rank, stream| rank.queues.1.lock().unwrap()[&stream];
    assert!(clock(&first, 7) > VirtualSpan::ZERO, "two sums take time in the model");
    assert_eq!(clock(&first, 7), clock(&second, 8), "the same on both ranks");
}

#[test]
fn opposite_orders_on_two_streams_are_right() {
    let desk = Desk::new();
    let [mut first, mut second] = two_ranks(&desk, &[]);
    first.sum(0, 1).unwrap();
    first.sum(1, 2).unwrap();
    second.sum(1, 2).unwrap();
    second.sum(0, 1).unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| second.queues.drain());
        assert_eq!((first.queues.drain(), other.join().unwrap()), (vec![], vec![]));
    });
    assert_eq!((&first.values[..], &second.values[..]), (&[3.0, 23.0][..], &[3.0, 23.0][..]));
}

#[test]
fn opposite_orders_on_one_stream_end_with_a_sentence() {
    let desk = Desk::new();
    let [mut first, mut second] = two_ranks(&desk, &[]);
    first.sum(0, 1).unwrap();
    first.sum(1, 1).unwrap();
    second.sum(1, 1).unwrap();
    second.sum(0, 1).unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| second.queues.drain());
        let told = [first.queues.drain(), other.join().unwrap()].concat();
        assert!(!told.is_empty() && told.iter().all(|text| text.contains("deadlock")), "{told:?}");
    });
}

#[test]
fn a_mismatch_touches_nothing_and_fails_both_streams_and_communicators() {
    let desk = Desk::new();
    let [mut first, mut second] = two_ranks(&desk, &[]);
    first.sum(0, 1).unwrap();
    let mut values = [5.0_f32, 6.0];
    let place: *mut f32 = values.as_mut_ptr();
    collective_on(1, &second.runtime, second.comms[0], (Op::AllReduce, None), 2, (place, place)).unwrap();
    second.sum(1, 2).unwrap();
    first.sum(1, 2).unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| second.queues.drain());
        for told in [first.queues.drain(), other.join().unwrap()] {
            assert!(told.len() == 1 && told[0].contains("count"), "{told:?}");
        }
    });
    assert_eq!((values, first.values[0]), ([5.0, 6.0], 1.0));
    assert_eq!((first.values[1], second.values[1]), (23.0, 23.0), "the other communicator is well");
    for rank in [&first, &second] {
        let Standing::Failed(fault) = rank.runtime.async_error(rank.comms[0]).unwrap() else {
            panic!("it is well")
        };
        assert_eq!(fault.code, Code::InvalidUsage);
    }
}

#[test]
fn an_abort_lets_the_stream_go_on() {
    let desk = Desk::new();
    let [mut first, _second] = two_ranks(&desk, &[]);
    first.sum(0, 1).unwrap();
    assert!(first.queues.turn(&mut Vec::new()));
    first.runtime.abort(first.comms[0]).unwrap();
    assert_eq!(first.queues.drain(), Vec::<String>::new());
}

#[test]
fn what_is_no_stream_is_refused_at_the_call() {
    let desk = Desk::new();
    let [mut first, _second] = two_ranks(&desk, &[]);
    assert_eq!(first.sum(0, 100).unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn a_captured_call_runs_with_every_launch_in_the_order_of_the_programs_calls() {
    let desk = Desk::new();
    let ranks = two_ranks(&desk, &[]);
    let run = |mut rank: Rank| {
        rank.sum(0, CAPTURING).unwrap();
        assert_eq!(rank.queues.drain(), Vec::<String>::new());
        let captured = rank.values[0];
        rank.queues.launch();
        rank.sum(0, 7).unwrap();
        rank.queues.launch();
        assert_eq!(rank.queues.drain(), Vec::<String>::new());
        (captured, rank.values[0])
    };
    std::thread::scope(|scope| {
        let [first, second] = ranks.map(|rank| scope.spawn(|| run(rank)));
        // Nothing is done before a launch; then 1 + 2 is summed three times.
        assert_eq!(first.join().unwrap(), (1.0, 12.0));
        assert_eq!(second.join().unwrap(), (2.0, 12.0));
    });
}

#[test]
fn a_group_is_one_submission_of_each_launch_also_over_several_streams() {
    let desk = Desk::new();
    let ranks = two_ranks(&desk, &[]);
    let run = |mut rank: Rank| {
        rank.runtime.group_start();
        rank.sum(0, CAPTURING).unwrap();
        rank.sum(1, CAPTURING + 1).unwrap();
        rank.runtime.group_end().unwrap();
        for _ in 0..2 {
            rank.queues.launch();
        }
        assert_eq!(rank.queues.drain(), Vec::<String>::new());
        rank.values.clone()
    };
    std::thread::scope(|scope| {
        for thread in ranks.map(|rank| scope.spawn(|| run(rank))) {
            assert_eq!(thread.join().unwrap(), [6.0, 46.0]);
        }
    });
}

#[test]
fn a_group_that_is_captured_in_part_is_refused() {
    let desk = Desk::new();
    let [mut first, _second] = two_ranks(&desk, &[]);
    first.runtime.group_start();
    first.sum(0, CAPTURING).unwrap();
    first.sum(1, 7).unwrap();
    let fault = first.runtime.group_end().unwrap_err();
    assert!(fault.detail.contains("1 of the 2 streams of this group capture"), "{}", fault.detail);
}

#[test]
fn the_launch_of_a_call_whose_communicator_has_ended_fails_in_words() {
    let desk = Desk::new();
    let [mut first, _second] = two_ranks(&desk, &[]);
    first.sum(0, CAPTURING).unwrap();
    first.runtime.abort(first.comms[0]).unwrap();
    first.queues.launch();
    let failures = first.queues.drain();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].contains("aborted"), "{failures:?}");
}
