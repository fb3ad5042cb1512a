//! One collective call: are its arguments acceptable, and what does it say to the other ranks?

use fakegpu_proto::{Descriptor, Fault};
use fakegpu_units::{Collective, DataType, Rank, ReduceOp};

/// A collective call as the C interface gives it, with addresses as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which.
    pub op: Collective,
    /// The send buffer's address; 0 is NULL.
    pub send: usize,
    /// The receive buffer's address; 0 is NULL.
    pub recv: usize,
    /// Elements in a block.
    pub count: usize,
    /// Their type.
    pub data_type: DataType,
    /// The operator, where values are combined.
    pub reduce: Option<ReduceOp>,
    /// The root as given, where there is one.
    pub root: Option<i32>,
    /// The caller's rank.
    pub rank: Rank,
    /// Ranks in the communicator.
    pub size: u32,
}

/// A call that is well formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// It has no elements: it succeeds at once and matches, orders and synchronises nothing.
    Dropped,
    /// It runs.
    Runs(Descriptor),
}

/// Buffers that overlap in a way that is no in-place form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// What was seen and what the in-place form would be.
    pub detail: String,
}

impl Call {
    /// Checks the arguments as NCCL does: all of them, also where the count is 0.
    pub fn check(&self) -> Result<Checked, Fault> {
        let name = self.op.nccl_name();
        let root = self.checked_root(name)?;
        let blocks = u64::from(self.op.send_blocks(self.size).max(self.op.recv_blocks(self.size)));
        let bytes = (self.count as u64)
            .checked_mul(self.data_type.size() as u64)
            .and_then(|block| block.checked_mul(blocks));
        if bytes.is_none_or(|bytes| bytes > isize::MAX as u64) {
            return Err(Fault::argument(format!(
                "{name}: count {} of {} is more bytes than memory has",
                self.count, self.data_type
            )));
        }
        if self.count == 0 {
            return Ok(Checked::Dropped);
        }
        if self.uses_send(root) && self.send == 0 {
            return Err(Fault::argument(format!(
                "{name}: the send buffer is NULL, but count is {}",
                self.count
            )));
        }
        if self.uses_recv(root) && self.recv == 0 {
            return Err(Fault::argument(format!(
                "{name}: the receive buffer is NULL, but count is {}",
                self.count
            )));
        }
        Ok(Checked::Runs(Descriptor {
            op: self.op,
            count: self.count as u64,
            data_type: self.data_type,
            reduce: self.reduce,
            root,
        }))
    }

    fn checked_root(&self, name: &str) -> Result<Option<Rank>, Fault> {
        let Some(root) = self.root else { return Ok(None) };
        match u32::try_from(root) {
            Ok(root) if root < self.size => Ok(Some(Rank(root))),
            _ => Err(Fault::argument(format!(
                "{name}: root {root} is no rank of a communicator of {}",
                self.size
            ))),
        }
    }

    fn is_root(&self, root: Option<Rank>) -> bool {
        root == Some(self.rank)
    }

    /// Whether this rank's send buffer is read.
    pub fn uses_send(&self, root: Option<Rank>) -> bool {
        match self.op {
            Collective::Broadcast | Collective::Scatter => self.is_root(root),
            _ => true,
        }
    }

    /// Whether this rank's receive buffer is written.
    pub fn uses_recv(&self, root: Option<Rank>) -> bool {
        match self.op {
            Collective::Reduce | Collective::Gather => self.is_root(root),
            _ => true,
        }
    }

    /// Bytes of the send buffer.
    pub fn send_bytes(&self) -> usize {
        self.block_bytes().saturating_mul(self.op.send_blocks(self.size) as usize)
    }

    /// Bytes of the receive buffer.
    pub fn recv_bytes(&self) -> usize {
        self.block_bytes().saturating_mul(self.op.recv_blocks(self.size) as usize)
    }

    fn block_bytes(&self) -> usize {
        self.count.saturating_mul(self.data_type.size())
    }

    /// Where the buffers overlap without being an in-place form, NCCL computes garbage in silence.
    pub fn overlap(&self) -> Option<Overlap> {
        let root = self.root.and_then(|root| u32::try_from(root).ok()).map(Rank);
        if !self.uses_send(root) || !self.uses_recv(root) {
            return None;
        }
        let end = |start: usize, bytes: usize| start.saturating_add(bytes);
        let apart =
            end(self.send, self.send_bytes()) <= self.recv || end(self.recv, self.recv_bytes()) <= self.send;
        let own = self.rank.index().saturating_mul(self.block_bytes());
        let (in_place, form) = match self.op {
            Collective::AllGather | Collective::Gather => (
                self.send == self.recv + own,
                format!("sendbuff = recvbuff + rank*count (here + {own} bytes)"),
            ),
            Collective::ReduceScatter | Collective::Scatter => (
                self.recv == self.send + own,
                format!("recvbuff = sendbuff + rank*count (here + {own} bytes)"),
            ),
            _ => (self.send == self.recv, "sendbuff = recvbuff".to_owned()),
        };
        (!apart && !in_place).then(|| Overlap {
            detail: format!(
                "{} on rank {}: the buffers overlap ({:#x} + {} bytes, {:#x} + {} bytes) but are not in place, which is {form}",
                self.op.nccl_name(),
                self.rank,
                self.send,
                self.send_bytes(),
                self.recv,
                self.recv_bytes()
            ),
        })
    }
}

/// Reductions of 8-bit floats are compiled for compute capability 9.0 and later only; moving them is not.
///
/// # Errors
/// Where the GPU of this compute capability has none.
pub fn check_capability(descriptor: &Descriptor, capability: (u32, u32)) -> Result<(), Fault> {
    if descriptor.reduce.is_none() || !descriptor.data_type.is_fp8() || capability >= (9, 0) {
        return Ok(());
    }
    Err(Fault::argument(format!(
        "{} of {}: FP8 reduction requires sm90 (compute capability 9.0), this rank's GPU has {}.{}",
        descriptor.op.nccl_name(),
        descriptor.data_type,
        capability.0,
        capability.1
    )))
}

#[cfg(test)]
mod tests {
    use fakegpu_proto::Code;

    use super::*;

    fn call(op: Collective) -> Call {
        Call {
            op,
            send: 0x10_000,
            recv: 0x20_000,
            count: 16,
            data_type: DataType::Float32,
            reduce: op.reduces().then_some(ReduceOp::Sum),
            root: op.has_root().then_some(0),
            rank: Rank(1),
            size: 4,
        }
    }

    #[track_caller]
    fn refused(call: Call, words: &str) {
        let fault = call.check().unwrap_err();
        assert_eq!(fault.code, Code::InvalidArgument);
        assert!(fault.detail.contains(words), "{}", fault.detail);
    }

    #[test]
    fn null_with_elements_is_refused_and_without_is_dropped() {
        for &op in Collective::ALL {
            let null = Call { send: 0, recv: 0, ..call(op) };
            assert!(null.check().is_err(), "{op}");
            assert_eq!(Call { count: 0, ..null }.check(), Ok(Checked::Dropped), "{op}");
        }
    }

    #[test]
    fn a_buffer_the_rank_does_not_use_may_be_null() {
        assert!(Call { recv: 0, ..call(Collective::Reduce) }.check().is_ok());
        assert!(Call { recv: 0, ..call(Collective::Gather) }.check().is_ok());
        assert!(Call { send: 0, ..call(Collective::Broadcast) }.check().is_ok());
        assert!(Call { send: 0, ..call(Collective::Scatter) }.check().is_ok());
        refused(Call { recv: 0, rank: Rank(0), ..call(Collective::Reduce) }, "receive buffer is NULL");
    }

    #[test]
    fn roots_are_checked_even_without_elements() {
        refused(Call { root: Some(4), count: 0, ..call(Collective::Broadcast) }, "root 4");
        refused(Call { root: Some(-1), ..call(Collective::Reduce) }, "root -1");
    }

    #[test]
    fn a_count_that_overflows_memory_is_refused() {
        refused(Call { count: usize::MAX, ..call(Collective::AllReduce) }, "more bytes than memory");
        refused(Call { count: usize::MAX / 24, ..call(Collective::AllGather) }, "more bytes than memory");
    }

    #[test]
    fn in_place_forms_are_no_overlap_and_others_name_the_right_offset() {
        let gather = call(Collective::AllGather);
        assert_eq!(Call { send: gather.recv + 64, ..gather }.overlap(), None);
        let wrong = Call { send: gather.recv, ..gather }.overlap().unwrap();
        assert!(wrong.detail.contains("here + 64 bytes"), "{}", wrong.detail);
        let reduce = call(Collective::AllReduce);
        assert_eq!(Call { recv: reduce.send, ..reduce }.overlap(), None);
        assert!(Call { recv: reduce.send + 4, ..reduce }.overlap().is_some());
        assert_eq!(reduce.overlap(), None);
    }

    #[test]
    fn eight_bit_floats_are_summed_from_hopper_on_and_moved_everywhere() {
        let of = |op| {
            let fp8 = Call { data_type: DataType::Float8E5M2, ..call(op) };
            let Ok(Checked::Runs(descriptor)) = fp8.check() else { panic!("{op}") };
            descriptor
        };
        assert!(check_capability(&of(Collective::AllReduce), (8, 0)).unwrap_err().detail.contains("sm90"));
        assert_eq!(check_capability(&of(Collective::AllReduce), (9, 0)), Ok(()));
        assert_eq!(check_capability(&of(Collective::AllGather), (8, 0)), Ok(()));
    }
}
