//! A plan executed for all ranks in one thread, over plain memory: what every other road is compared with.

use fakegpu_units::Rank;

use crate::relay::belong_together;
use crate::{
    Collect, FoldStep, FoldTarget, Plan, Publish, Reduction, Round, RunError, Source, fold, prescale,
};
use crate::{plan, result_bytes};

/// One rank's user memory. The two buffers are offsets into it, so they may overlap as NCCL's in-place forms do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserMemory {
    /// All of it.
    pub bytes: Vec<u8>,
    /// Where the send buffer starts.
    pub send: usize,
    /// Where the receive buffer starts.
    pub recv: usize,
}

/// Executes `plan` from `sends` into `recvs`, one buffer per rank; those a rank does not use may be empty.
///
/// Contributions to an average of floats are scaled here; those of a `PreMulSum` are the caller's to scale.
///
/// # Errors
/// Where plan and reduction do not belong together, or a buffer is missing or short.
pub fn run_local(
    plan: &Plan,
    reduction: Option<Reduction>,
    sends: &[Vec<u8>],
    recvs: &mut [Vec<u8>],
) -> Result<(), RunError> {
    let size = plan.shape().size;
    if let Some(seen) = [sends.len(), recvs.len()].into_iter().find(|&seen| seen != size as usize) {
        return Err(RunError::RankCount { size, seen });
    }
    let join = |(send, recv): (&Vec<u8>, &Vec<u8>)| UserMemory {
        bytes: [send.as_slice(), recv.as_slice()].concat(),
        send: 0,
        recv: send.len(),
    };
    let mut users: Vec<_> = sends.iter().zip(recvs.iter()).map(join).collect();
    for (rank, send) in sends.iter().enumerate() {
        long_enough("send", Rank::from_index(rank), plan.send_bytes(Rank::from_index(rank)), send.len())?;
    }
    run_over(plan, reduction, &mut users)?;
    for (user, recv) in users.iter().zip(recvs) {
        recv.copy_from_slice(&user.bytes[user.recv..]);
    }
    Ok(())
}

/// Executes `plan` over memory in which a rank's buffers may overlap.
///
/// # Errors
/// As [`run_local`].
pub fn run_over(plan: &Plan, reduction: Option<Reduction>, users: &mut [UserMemory]) -> Result<(), RunError> {
    belong_together(plan, reduction)?;
    let size = plan.shape().size;
    if users.len() != size as usize {
        return Err(RunError::RankCount { size, seen: users.len() });
    }
    for (rank, user) in users.iter().enumerate() {
        let rank = Rank::from_index(rank);
        let from = |start: usize| user.bytes.len().saturating_sub(start);
        long_enough("send", rank, plan.send_bytes(rank), from(user.send))?;
        long_enough("receive", rank, plan.recv_bytes(rank), from(user.recv))?;
    }
    let mut world = World::new(plan, reduction);
    (0..plan.rounds()).try_for_each(|index| world.step(plan, index, users))
}

fn long_enough(side: &'static str, rank: Rank, expected: usize, seen: usize) -> Result<(), RunError> {
    if seen < expected { Err(RunError::Buffer { side, rank, expected, seen }) } else { Ok(()) }
}

/// Staging memory of all ranks, and what each does in the current round.
struct World {
    reduction: Option<Reduction>,
    slots: Vec<Vec<u8>>,
    results: Vec<Vec<u8>>,
    rounds: Vec<Round>,
}

impl World {
    fn new(plan: &Plan, reduction: Option<Reduction>) -> Self {
        let plan::Shape { size, slot_bytes, .. } = *plan.shape();
        let ranks = size as usize;
        Self {
            reduction,
            slots: vec![vec![0; slot_bytes]; ranks],
            results: vec![vec![0; result_bytes(slot_bytes, size)]; ranks],
            rounds: vec![Round::default(); ranks],
        }
    }

    fn step(&mut self, plan: &Plan, index: u64, users: &mut [UserMemory]) -> Result<(), RunError> {
        for (rank, round) in self.rounds.iter_mut().enumerate() {
            plan.fill(index, Rank::from_index(rank), round);
        }
        for ((round, slot), user) in self.rounds.iter().zip(&mut self.slots).zip(users.iter()) {
            round.publish.iter().try_for_each(|piece| publish(self.reduction, piece, user, slot))?;
        }
        for ((round, result), user) in self.rounds.iter().zip(&mut self.results).zip(users.iter_mut()) {
            if let (Some(step), Some(reduction)) = (round.fold, self.reduction) {
                fold_step(reduction, step, &self.slots, result, user)?;
            }
        }
        for (round, user) in self.rounds.iter().zip(users) {
            round.collect.iter().for_each(|piece| self.collect(piece, user));
        }
        Ok(())
    }

    fn collect(&self, piece: &Collect, user: &mut UserMemory) {
        let area = match piece.from {
            Source::Slot(rank) => &self.slots[rank.index()],
            Source::Result(rank) => &self.results[rank.index()],
        };
        let at = user.recv + piece.user;
        user.bytes[at..at + piece.bytes].copy_from_slice(&area[piece.offset..piece.offset + piece.bytes]);
    }
}

fn publish(
    reduction: Option<Reduction>,
    piece: &Publish,
    user: &UserMemory,
    slot: &mut [u8],
) -> Result<(), RunError> {
    let at = user.send + piece.user;
    let source = &user.bytes[at..at + piece.bytes];
    let target = &mut slot[piece.slot..piece.slot + piece.bytes];
    match reduction.and_then(|reduction| Some((reduction.data_type, reduction.prescale_scalar()?))) {
        Some((data_type, scalar)) => prescale(data_type, scalar, target, source)?,
        None => target.copy_from_slice(source),
    }
    Ok(())
}

fn fold_step(
    reduction: Reduction,
    step: FoldStep,
    slots: &[Vec<u8>],
    result: &mut [u8],
    user: &mut UserMemory,
) -> Result<(), RunError> {
    let sources: Vec<&[u8]> = slots.iter().map(|slot| &slot[step.slot..step.slot + step.bytes]).collect();
    let target = match step.to {
        FoldTarget::Result { offset } => &mut result[offset..offset + step.bytes],
        FoldTarget::Recv { user: at } => &mut user.bytes[user.recv + at..user.recv + at + step.bytes],
    };
    Ok(fold(reduction, target, &sources)?)
}
