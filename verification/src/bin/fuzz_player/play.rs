//! One rank of one program, from joining the world to leaving it.

use std::time::Instant;

use fakegpu_verification::fuzz::{At, Forecast, Op, Program, Step};
use serde_json::{Value, json};

use crate::buffers::Buffers;
use crate::nccl::{Comm, Nccl, SUCCESS};

/// A call that failed.
#[derive(Debug)]
struct Failure {
    call: String,
    code: i32,
    sentence: String,
}

/// A rank as it plays.
struct Player<'a> {
    nccl: &'a Nccl,
    program: &'a Program,
    forecast: Forecast,
    rank: usize,
    comms: Vec<Comm>,
    /// What must not be, in words.
    trouble: Vec<String>,
    torn: usize,
    /// Of everything that was received by calls that succeeded.
    digest: u64,
}

/// Plays a rank; gives what there is to say about it.
pub(crate) fn play(nccl: &Nccl, program: &Program, rank: usize, tag: &str) -> Value {
    let started = Instant::now();
    let mut player = Player {
        nccl,
        program,
        forecast: Forecast::of(program),
        rank,
        comms: vec![Comm::NONE; program.comms],
        trouble: Vec::new(),
        torn: 0,
        digest: 0xcbf2_9ce4_8422_2325,
    };
    let (code, world) = nccl.init(program.ranks(), &format!("fuzz {tag} {}", program.seed), rank);
    if let Some(place) = player.comms.first_mut() {
        *place = world;
    }
    // What counts is how long the program took, not how long the others took for the one before.
    let joined = Instant::now();
    // Of a wrong program a rank may have failed and given up before the last one has come in.
    let (done, failure) = match player.failure("ncclCommInitRank", code) {
        None => player.steps(),
        failure => (0, failure),
    };
    if let Some(failure) = failure.as_ref().filter(|failure| failure.sentence.trim().is_empty()) {
        player.trouble.push(format!("step {done}: {} failed without a sentence", failure.call));
    }
    let ended = joined.elapsed();
    player.leave(failure.is_some());
    json!({
        "seed": program.seed,
        "rank": rank,
        "steps": program.scripts[rank].len(),
        "reach": player.forecast.reach(rank),
        "whole": player.forecast.is_whole(program),
        "done": done,
        "failed": failure.as_ref().map(|failure| failure.call.as_str()),
        "code": failure.as_ref().map(|failure| failure.code),
        "sentence": failure.as_ref().map(|failure| failure.sentence.as_str()),
        "trouble": player.trouble,
        "torn": player.torn,
        "digest": format!("{:016x}", player.digest),
        "ms": ended.as_millis(),
        "all_ms": started.elapsed().as_millis(),
    })
}

impl Player<'_> {
    /// Takes steps until one fails; how many ended, and what failed.
    fn steps(&mut self) -> (usize, Option<Failure>) {
        let script = &self.program.scripts[self.rank];
        for (at, step) in script.iter().enumerate() {
            let failure = match step {
                Step::Split { parent, child, colour, key } => {
                    self.split(at, *parent, *child, (*colour, *key))
                }
                Step::Group { ops, grouped } => self.group(at, ops, *grouped),
            };
            if failure.is_some() {
                return (at, failure);
            }
            if at >= self.forecast.reach(self.rank) {
                // From here on the model cannot say what buffers hold.
                let sentence = format!("step {at} succeeded, but can have no end: {step}");
                self.trouble.push(sentence.clone());
                return (at, Some(Failure { call: "nothing".to_owned(), code: SUCCESS, sentence }));
            }
        }
        (script.len(), None)
    }

    fn failure(&self, call: &str, code: i32) -> Option<Failure> {
        let failed = code != SUCCESS;
        failed.then(|| Failure { call: call.to_owned(), code, sentence: self.nccl.last_error() })
    }

    fn split(&mut self, at: usize, parent: usize, child: usize, by: (Option<i32>, i32)) -> Option<Failure> {
        let (code, comm) = self.nccl.split(self.comms[parent], by.0, by.1);
        if code == SUCCESS {
            self.comms[child] = comm;
            self.check_place(at, child);
        }
        self.failure("ncclCommSplit", code)
    }

    /// Whether a split has made what it should have.
    fn check_place(&mut self, at: usize, child: usize) {
        // Where a rank stands is known from the next step on; what ends with a split is never used.
        if at + 1 >= self.program.scripts[self.rank].len() || at >= self.forecast.reach(self.rank) {
            return;
        }
        let wanted = self.forecast.place(self.rank, at + 1, child);
        let number = |number: usize| i32::try_from(number).unwrap_or(-1);
        let wanted = wanted.map(|place| (number(place.size), number(place.member)));
        let comm = self.comms[child];
        let found = (comm != Comm::NONE).then(|| self.nccl.place(comm));
        if wanted != found {
            self.trouble.push(format!("step {at}: the split made {found:?}, not {wanted:?} (size, rank)"));
        }
    }

    fn group(&mut self, step: usize, ops: &[Op], grouped: bool) -> Option<Failure> {
        let mut buffers: Vec<Option<Buffers>> = ops
            .iter()
            .map(|op| {
                let place = self.forecast.place(self.rank, step, op.comm)?;
                Some(Buffers::new(self.program, self.rank, op, place))
            })
            .collect();
        let mut failure =
            if grouped { self.failure("ncclGroupStart", self.nccl.group_start()) } else { None };
        for (op, buffers) in ops.iter().zip(&mut buffers) {
            let null = (std::ptr::null(), std::ptr::null_mut());
            let pointers = buffers.as_mut().map_or(null, Buffers::pointers);
            let code = self.nccl.call(op, pointers, self.comms[op.comm]);
            failure = failure.or_else(|| self.failure(op.kind.name(), code));
        }
        if grouped {
            let code = self.nccl.group_end();
            if failure.is_some() && code == SUCCESS {
                self.trouble
                    .push(format!("step {step}: ncclGroupEnd succeeded though a call of its group failed"));
            }
            failure = failure.or_else(|| self.failure("ncclGroupEnd", code));
        }
        for (op, buffers) in buffers.iter().enumerate() {
            if let Some(buffers) = buffers {
                self.check(At { rank: self.rank, step, op }, buffers, failure.is_none());
            }
        }
        failure
    }

    fn check(&mut self, at: At, buffers: &Buffers, succeeded: bool) {
        let finding = buffers.check(self.program, &self.forecast, at, succeeded);
        let troubles = finding.trouble.into_iter();
        self.trouble.extend(troubles.map(|trouble| format!("step {}, call {}: {trouble}", at.step, at.op)));
        self.torn += finding.torn;
        if succeeded {
            for &byte in buffers.received() {
                self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }

    /// Leaves all communicators, the last one first.
    fn leave(&mut self, failed: bool) {
        for (number, &comm) in self.comms.iter().enumerate().rev() {
            if comm == Comm::NONE {
                continue;
            }
            let (name, code) = match failed {
                true => ("ncclCommAbort", self.nccl.abort(comm)),
                false => ("ncclCommDestroy", self.nccl.destroy(comm)),
            };
            if code != SUCCESS {
                let sentence = self.nccl.last_error();
                self.trouble.push(format!("{name} of communicator {number} returned {code}: {sentence}"));
            }
        }
    }
}
