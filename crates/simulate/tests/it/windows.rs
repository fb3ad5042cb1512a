//! Windows and one-sided operations.

use fakegpu_simulate::{Awaiting, Code, Fault, Handle, OneSided, Outcome, Put, Runtime};
use fakegpu_staging_shm::SendBuffer;
use fakegpu_units::DataType;

use crate::{Desk, all, seats};

/// Memory of `ncclMemAlloc` as numbers.
struct Memory(*mut f32, usize);

impl Memory {
    fn new(runtime: &Runtime, count: usize) -> Self {
        Self(runtime.allocate(count * 4).unwrap().cast(), count)
    }

    fn values(&mut self) -> &mut [f32] {
        // SAFETY: mapped as long as the runtime, of that many floats, and every test waits for a signal before it looks.
        unsafe { std::slice::from_raw_parts_mut(self.0, self.1) }
    }
}

fn window(runtime: &Runtime, comm: Handle, at: usize, bytes: usize) -> usize {
    let (told, number) = std::sync::mpsc::channel();
    let show = Box::new(move |number| told.send(number).unwrap());
    assert_eq!(runtime.window_register(comm, at, bytes, 1, show).unwrap(), Outcome::Done);
    number.recv().unwrap()
}

fn put(
    runtime: &Runtime,
    (comm, peer): (Handle, i32),
    (window, offset): (usize, usize),
    from: &[f32],
) -> Result<Outcome, Fault> {
    // SAFETY: every test keeps its buffers until the operation has ended.
    let buffer = unsafe { SendBuffer::new(from.as_ptr().cast(), size_of_val(from)) };
    runtime.put_signal(&Put {
        one: one(comm, peer),
        local: from.as_ptr().addr(),
        from: buffer,
        count: from.len(),
        data_type: DataType::Float32,
        window,
        offset,
    })
}

const fn one(comm: Handle, peer: i32) -> OneSided {
    OneSided { comm, peer, sig_idx: 0, ctx: 0, flags: 0, stream: 0 }
}

fn wait(runtime: &Runtime, comm: Handle, peer: i32, count: i32) {
    let waits = [Awaiting { peer, count, sig_idx: 0, ctx: 0 }];
    assert_eq!(runtime.wait_signal(comm, &waits, 0).unwrap(), Outcome::Done);
}

#[test]
fn what_is_put_is_there_when_the_signal_has_come() {
    let desk = Desk::new();
    let seats = seats(&desk, 3, &[]);
    all(&seats, |runtime, comm, rank| {
        let mut memory = Memory::new(runtime, 5000);
        // A window may begin in the middle of an allocation.
        let (skip, count) = (1000 + rank, 3000);
        let bytes = count * 4;
        let at = memory.0.addr() + skip * 4;
        let window = window(runtime, comm, at, bytes);
        assert_ne!(window, 0);
        assert_eq!(runtime.window_user_address(comm, window).unwrap(), at);
        memory.values()[skip] = 7.0 + rank as f32;
        let rank = i32::try_from(rank).unwrap();
        let from = memory.values()[skip..=skip].to_vec();
        let source = &memory.values()[skip..=skip];
        assert_eq!(source, from);
        put(runtime, (comm, (rank + 1) % 3), (window, 400), source).unwrap();
        runtime.signal(&one(comm, (rank + 1) % 3)).unwrap();
        wait(runtime, comm, (rank + 2) % 3, 2);
        assert_eq!(memory.values()[skip + 100], 7.0 + ((rank + 2) % 3) as f32);
        // All have looked before anybody's window goes.
        assert_eq!(runtime.window_deregister(comm, window).unwrap(), Outcome::Done);
        assert_eq!(runtime.window_user_address(comm, window).unwrap_err().code, Code::InvalidArgument);
        runtime.free(memory.0.addr()).unwrap();
        assert_eq!(runtime.free(memory.0.addr()).unwrap_err().code, Code::InvalidArgument);
    });
}

#[test]
fn memory_of_another_kind_on_one_rank_means_no_window_on_any() {
    let desk = Desk::new();
    let seats = seats(&desk, 2, &[]);
    let windows = all(&seats, |runtime, comm, rank| {
        let mut plain = vec![0.0_f32; 64];
        let at = if rank == 0 { Memory::new(runtime, 64).0.addr() } else { plain.as_mut_ptr().addr() };
        window(runtime, comm, at, 256)
    });
    assert_eq!(windows, [0, 0]);
    let (runtime, comm) = &seats[0];
    assert_eq!(runtime.window_deregister(*comm, 0).unwrap(), Outcome::Done);
}

#[test]
fn streamed_ranks_have_no_windows_and_signals_all_the_same() {
    let desk = Desk::new();
    let seats = seats(&desk, 2, &[("FAKEGPU_STAGING_FORCE_SOCKET", "1")]);
    all(&seats, |runtime, comm, rank| {
        let memory = Memory::new(runtime, 64);
        assert_eq!(window(runtime, comm, memory.0.addr(), 256), 0);
        let peer = i32::try_from(1 - rank).unwrap();
        runtime.signal(&one(comm, peer)).unwrap();
        wait(runtime, comm, peer, 1);
    });
}

#[test]
fn a_put_checks_its_window_its_source_and_its_zeros() {
    let desk = Desk::new();
    let seats = seats(&desk, 1, &[]);
    let (runtime, comm) = (&seats[0].0, seats[0].1);
    let mut memory = Memory::new(runtime, 64);
    let window = window(runtime, comm, memory.0.addr(), 256);
    let code = |outcome: Result<Outcome, Fault>| outcome.unwrap_err().code;
    let values = memory.values();
    assert_eq!(code(put(runtime, (comm, 1), (window, 0), values)), Code::InvalidArgument);
    assert_eq!(code(put(runtime, (comm, 0), (window, 4), values)), Code::InvalidArgument);
    assert_eq!(code(put(runtime, (comm, 0), (0, 0), values)), Code::InvalidArgument);
    assert_eq!(code(put(runtime, (comm, 0), (window, 0), &[1.0])), Code::InvalidArgument);
    assert_eq!(code(runtime.signal(&OneSided { ctx: 1, ..one(comm, 0) })), Code::InvalidArgument);
    put(runtime, (comm, 0), (window, 128), &values[..1]).unwrap();
    wait(runtime, comm, 0, 1);
}
