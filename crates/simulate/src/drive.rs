//! Waiting for the coordinator's word about submissions, and moving their bytes.
//!
//! One thread may have several ranks and several communicators in hand, whose peers may be each other, so
//! nothing here waits for one of them alone while another could go on: every turn looks at every reply and
//! moves every plane, and only a turn in which nothing moved waits, for a bounded while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fakegpu_proto::Fault;

use crate::Handle;
use crate::communicator::Communicator;
use crate::lane::{self, Lane};
use crate::planes::Ticket;
use crate::submission::{Submission, involved};

/// How long a turn without movement waits where several things could move.
const SHORT: Duration = Duration::from_micros(200);

/// Submissions by number, in the order of their calls.
pub(crate) type Submissions = BTreeMap<u64, Submission>;

/// A failure, and what it is the failure of.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) blame: Blame,
    pub(crate) fault: Fault,
}

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// What was submitted together.
    Submission(u64),
    /// All that is called on a communicator.
    Comm(Handle),
}

/// Nobody hears of these submissions any more, and the communicators in which they left something to do are given up.
pub(crate) fn give_up<'a>(submissions: impl Iterator<Item = &'a Submission> + Clone, fault: &Fault) {
    submissions.clone().for_each(Submission::abandon);
    involved(submissions).iter().for_each(|comm| lane::give_up(comm, fault));
}

/// Submissions on their way, and the planes they move over.
pub(crate) struct Drive<'a> {
    submissions: &'a mut Submissions,
    /// By handle.
    lanes: Vec<Lane<'a>>,
    ended: Vec<Ticket>,
}

impl<'a> Drive<'a> {
    /// Takes the planes of the communicators involved, each once, by handle.
    pub(crate) fn enter(
        submissions: &'a mut Submissions,
        comms: &'a [Arc<Communicator>],
    ) -> Result<Self, Failure> {
        let enter = |comm: &'a Arc<Communicator>| {
            Lane::enter(comm).map_err(|fault| Failure { blame: Blame::Comm(comm.handle), fault })
        };
        let lanes = comms.iter().map(enter).collect::<Result<_, _>>()?;
        Ok(Self { submissions, lanes, ended: Vec::new() })
    }

    /// Does what can be done without waiting; whether anything moved.
    pub(crate) fn step(&mut self) -> Result<bool, Failure> {
        if self.hear_all()? | self.begin_ready()? | self.turn()? {
            return Ok(true);
        }
        let Err(failure) = self.look_for_bad_news() else { return Ok(false) };
        // A communicator failed. What its ranks did before is done, and may be all that was missing here.
        let is_aborted = self.lanes.iter().any(|lane| lane.comm.aborted.load(Ordering::Acquire));
        if !is_aborted && self.turn()? { Ok(true) } else { Err(failure) }
    }

    /// Whether something is waited for that others have to do: the coordinator, or the peers whose bytes move.
    pub(crate) fn waits_for_others(&self) -> bool {
        self.lanes.iter().any(|lane| lane.is_folding() || lane.is_flying())
            || self.submissions.values().any(Submission::is_open)
    }

    /// Hears what has come about submissions, without waiting.
    fn hear_all(&mut self) -> Result<bool, Failure> {
        let mut heard = false;
        for (&number, submission) in &mut *self.submissions {
            let failed = |fault| Failure { blame: Blame::Submission(number), fault };
            while submission.hear_one(Duration::ZERO).map_err(failed)? {
                heard = true;
            }
        }
        Ok(heard)
    }

    /// Begins what may run: that which has to follow nothing that was submitted before and has not ended.
    fn begin_ready(&mut self) -> Result<bool, Failure> {
        let (mut begun, mut held) = (false, BTreeSet::new());
        for (&number, submission) in &mut *self.submissions {
            for index in submission.take_ready(|key| held.contains(&key)) {
                begun = true;
                let prepared = submission.operation(index);
                let lane = lane_of(&mut self.lanes, &prepared.comm)?;
                if lane.begin((number, index), prepared).map_err(|fault| lane.failed(fault))? {
                    submission.end(index);
                }
            }
            held.extend(submission.busy_keys());
        }
        Ok(begun)
    }

    /// Moves every plane.
    fn turn(&mut self) -> Result<bool, Failure> {
        let mut moved = false;
        for lane in &mut self.lanes {
            moved |= lane.turn(&mut self.ended).map_err(|fault| lane.failed(fault))?;
            while let Some(at) = lane.next_collective() {
                let found = self.submissions.get(&at.0).and_then(|submission| submission.at(at.1));
                let run = found.map_or_else(|| Err(gone()), |prepared| lane.run(at, prepared));
                run.map_err(|fault| lane.failed(fault))?;
                moved = true;
                lane.turn(&mut self.ended).map_err(|fault| lane.failed(fault))?;
            }
        }
        for (number, index) in self.ended.drain(..) {
            if let Some(submission) = self.submissions.get_mut(&number) {
                submission.end(index);
            }
        }
        Ok(moved)
    }

    /// Waits until something may have moved, a shorter while where several things could.
    pub(crate) fn wait(&mut self, longest: Duration) -> Result<(), Failure> {
        let busy: usize = self
            .lanes
            .iter()
            .map(|lane| usize::from(lane.is_folding()) + usize::from(lane.is_flying()))
            .sum();
        let open = self.submissions.values().filter(|submission| submission.is_open()).count();
        let timeout = if busy + open == 1 { longest } else { SHORT };
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.is_folding() || lane.is_flying()) {
            lane.wait(timeout);
        } else if let Some((&number, submission)) =
            self.submissions.iter_mut().find(|(_, submission)| submission.is_open())
        {
            let failed = |fault| Failure { blame: Blame::Submission(number), fault };
            submission.hear_one(timeout).map_err(failed)?;
        }
        Ok(())
    }

    /// Whether a communicator has failed or was aborted.
    fn look_for_bad_news(&self) -> Result<(), Failure> {
        self.lanes.iter().try_for_each(|lane| lane.look_for_bad_news().map_err(|fault| lane.failed(fault)))
    }
}

fn gone() -> Fault {
    Fault::internal("a collective was to run that nobody knows any more")
}

fn lane_of<'a, 'b>(lanes: &'b mut [Lane<'a>], comm: &Communicator) -> Result<&'b mut Lane<'a>, Failure> {
    let at = lanes.binary_search_by_key(&comm.handle, |lane| lane.comm.handle);
    at.ok().and_then(|at| lanes.get_mut(at)).ok_or_else(|| Failure {
        blame: Blame::Comm(comm.handle),
        fault: Fault::internal("an operation runs in a communicator that was not entered"),
    })
}
