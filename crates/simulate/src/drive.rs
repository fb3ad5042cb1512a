//! Waiting for the coordinator's word about submissions, and moving their bytes.
//!
//! One thread may have several ranks and several communicators in hand, whose peers may be each other, so
//! nothing here waits for one of them alone while another could go on: every turn looks at every reply and
//! moves every plane, and only a turn in which nothing moved waits, for a bounded while.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fakegpu_proto::Fault;

use crate::communicator::Communicator;
use crate::lane::{Lane, Ticket};
use crate::submission::{Submission, involved};

/// How long a turn without movement waits before it looks for bad news.
const SLICE: Duration = Duration::from_millis(20);

/// How long it waits where several things could move.
const SHORT: Duration = Duration::from_micros(200);

/// The coordinator bounds every wait; beyond its longest bound it must be dead or stopped itself.
const COORDINATOR_PATIENCE: Duration = Duration::from_secs(600);

/// Runs submissions to their end. On failure every communicator in which something was left to do is given up,
/// and its peers are told: they would wait for bytes that never come.
pub(crate) fn run(mut submissions: Vec<Submission>) -> Result<(), Fault> {
    let comms = involved(submissions.iter());
    let lanes = comms.iter().map(Lane::enter).collect::<Result<Vec<_>, Fault>>();
    let mut drive = match lanes {
        Ok(lanes) => Drive { submissions: &mut submissions, lanes, ended: Vec::new() },
        Err(fault) => {
            submissions.iter().for_each(Submission::abandon);
            return Err(fault);
        }
    };
    let outcome = drive.run();
    if let Err(fault) = &outcome {
        drive.give_up(fault);
    }
    outcome
}

/// Submissions on their way, and the planes they move over.
struct Drive<'a> {
    submissions: &'a mut [Submission],
    /// By handle.
    lanes: Vec<Lane<'a>>,
    ended: Vec<Ticket>,
}

impl Drive<'_> {
    fn run(&mut self) -> Result<(), Fault> {
        let mut last_moved = Instant::now();
        loop {
            let moved = self.hear_all()? | self.begin_ready()? | self.turn()?;
            if self.submissions.iter().all(Submission::is_finished) {
                return Ok(());
            }
            if moved {
                last_moved = Instant::now();
                continue;
            }
            self.wait()?;
            if let Err(fault) = self.lanes.iter().try_for_each(Lane::look_for_bad_news) {
                return self.run_out(fault);
            }
            if last_moved.elapsed() > COORDINATOR_PATIENCE {
                return Err(Fault::system(
                    "timeout: the coordinator has said nothing for ten minutes; it may be stopped",
                ));
            }
        }
    }

    /// A communicator failed. What its ranks did before is done, and may be all that was missing here.
    fn run_out(&mut self, fault: Fault) -> Result<(), Fault> {
        let is_aborted = self.lanes.iter().any(|lane| lane.comm.aborted.load(Ordering::Acquire));
        while !is_aborted && self.turn()? {}
        if self.submissions.iter().all(Submission::is_finished) { Ok(()) } else { Err(fault) }
    }

    /// Hears what has come about submissions, without waiting.
    fn hear_all(&mut self) -> Result<bool, Fault> {
        let mut heard = false;
        for submission in self.submissions.iter_mut() {
            while submission.hear_one(Duration::ZERO)? {
                heard = true;
            }
        }
        Ok(heard)
    }

    /// Begins what may run: operations of a rank only when all that it submitted before has ended.
    fn begin_ready(&mut self) -> Result<bool, Fault> {
        let (mut begun, mut held) = (false, BTreeSet::new());
        for at in 0..self.submissions.len() {
            for index in self.submissions[at].take_ready(|key| held.contains(&key)) {
                begun = true;
                let prepared = self.submissions[at].operation(index);
                let lane = lane_of(&mut self.lanes, &prepared.comm)?;
                if lane.begin((at, index), prepared)? {
                    self.submissions[at].end(index);
                }
            }
            held.extend(self.submissions[at].busy_keys());
        }
        Ok(begun)
    }

    /// Moves every plane.
    fn turn(&mut self) -> Result<bool, Fault> {
        let mut moved = false;
        for lane in &mut self.lanes {
            moved |= lane.turn(&mut self.ended)?;
            while let Some((at, index)) = lane.next_collective() {
                lane.run((at, index), self.submissions[at].operation(index))?;
                moved = true;
                lane.turn(&mut self.ended)?;
            }
        }
        for (at, index) in self.ended.drain(..) {
            if let Some(submission) = self.submissions.get_mut(at) {
                submission.end(index);
            }
        }
        Ok(moved)
    }

    /// Waits until something may have moved.
    fn wait(&mut self) -> Result<(), Fault> {
        let busy: usize = self
            .lanes
            .iter()
            .map(|lane| usize::from(lane.is_folding()) + usize::from(lane.is_flying()))
            .sum();
        let open = self.submissions.iter().filter(|submission| submission.is_open()).count();
        let timeout = if busy + open == 1 { SLICE } else { SHORT };
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.is_folding() || lane.is_flying()) {
            lane.wait(timeout);
        } else if let Some(submission) = self.submissions.iter_mut().find(|submission| submission.is_open()) {
            submission.hear_one(timeout)?;
        }
        Ok(())
    }

    fn give_up(&mut self, fault: &Fault) {
        self.submissions.iter().for_each(Submission::abandon);
        let left = involved(self.submissions.iter());
        for lane in &mut self.lanes {
            if left.iter().any(|comm| Arc::ptr_eq(comm, lane.comm)) {
                lane.give_up(fault);
            }
        }
    }
}

fn lane_of<'a, 'b>(lanes: &'b mut [Lane<'a>], comm: &Communicator) -> Result<&'b mut Lane<'a>, Fault> {
    let at = lanes.binary_search_by_key(&comm.handle, |lane| lane.comm.handle);
    at.ok()
        .and_then(|at| lanes.get_mut(at))
        .ok_or_else(|| Fault::internal("an operation runs in a communicator that was not entered"))
}
