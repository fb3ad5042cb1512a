//! Point to point, alone, in groups, and where collectives are made of it.

use fakegpu_simulate::{Code, Outcome};
use fakegpu_units::Collective as Op;

use crate::{Desk, all, collective, recv, seats, send, sum};

/// Both roads.
const ROADS: [&[(&str, &str)]; 2] = [
    &[("FAKEGPU_COLLECTIVE_TIMEOUT_MS", "3000")],
    &[("FAKEGPU_COLLECTIVE_TIMEOUT_MS", "3000"), ("FAKEGPU_STAGING_FORCE_SOCKET", "1")],
];

#[test]
fn a_ring_of_grouped_sends_and_receives_moves_every_byte() {
    for road in ROADS {
        let desk = Desk::new();
        let seats = seats(&desk, 3, road);
        let received = all(&seats, |runtime, comm, rank| {
            let count = 100_000;
            let sent: Vec<f32> = (0..count).map(|at| (rank * count + at) as f32).collect();
            let mut received = vec![0.0; count];
            let rank = i32::try_from(rank).unwrap();
            runtime.group_start();
            send(runtime, comm, (rank + 1) % 3, &sent).unwrap();
            recv(runtime, comm, (rank + 2) % 3, &mut received).unwrap();
            assert_eq!(runtime.group_end().unwrap(), Outcome::Done);
            received
        });
        for (rank, received) in received.iter().enumerate() {
            let from = (rank + 2) % 3;
            assert!(
                received.iter().enumerate().all(|(at, value)| *value == (from * 100_000 + at) as f32),
                "{rank}"
            );
        }
    }
}

#[test]
fn ungrouped_halves_meet_in_call_order() {
    let desk = Desk::new();
    let seats = seats(&desk, 2, &[]);
    let received = all(&seats, |runtime, comm, rank| {
        let mut got = [[0.0; 2]; 3];
        for (round, got) in got.iter_mut().enumerate() {
            if rank == 0 {
                send(runtime, comm, 1, &[round as f32, 7.0]).unwrap();
            } else {
                recv(runtime, comm, 0, got).unwrap();
            }
        }
        got
    });
    assert_eq!(received[1], [[0.0, 7.0], [1.0, 7.0], [2.0, 7.0]]);
}

#[test]
fn nothing_to_send_still_pairs_and_needs_no_buffer() {
    let desk = Desk::new();
    let seats = seats(&desk, 2, &[]);
    all(&seats, |runtime, comm, rank| {
        runtime.group_start();
        let peer = i32::try_from(1 - rank).unwrap();
        send(runtime, comm, peer, &[]).unwrap();
        recv(runtime, comm, peer, &mut []).unwrap();
        runtime.group_end().unwrap();
        let mut one = 1.0;
        sum(runtime, comm, &mut one).unwrap();
        assert_eq!(one, 2.0);
    });
}

#[test]
fn what_a_rank_sends_itself_is_there_and_half_a_pair_is_refused_at_once() {
    let desk = Desk::new();
    let seats = seats(&desk, 1, &[]);
    let (runtime, comm) = &seats[0];
    let (sent, mut received) = ([1.0, 2.0], [0.0; 2]);
    runtime.group_start();
    recv(runtime, *comm, 0, &mut received).unwrap();
    send(runtime, *comm, 0, &sent).unwrap();
    runtime.group_end().unwrap();
    assert_eq!(received, sent);
    assert_eq!(send(runtime, *comm, 0, &sent).unwrap_err().code, Code::InvalidUsage);
    // Nothing was poisoned by that.
    sum(runtime, *comm, &mut 1.0).unwrap();
}

#[test]
fn unequal_sizes_fail_both_ranks_with_both_numbers() {
    let desk = Desk::new();
    let seats = seats(&desk, 2, &[]);
    let faults = all(&seats, |runtime, comm, rank| {
        let mut buffer = [0.0; 3];
        match rank {
            0 => send(runtime, comm, 1, &buffer[..1]).unwrap_err(),
            _ => recv(runtime, comm, 0, &mut buffer).unwrap_err(),
        }
    });
    for fault in faults {
        assert_eq!(fault.code, Code::InvalidUsage);
        assert!(fault.detail.contains('4') && fault.detail.contains("12"), "{}", fault.detail);
    }
}

#[test]
fn a_group_mixes_kinds_and_thousands_of_transfers() {
    let desk = Desk::new();
    let seats = seats(&desk, 2, &[]);
    let sums = all(&seats, |runtime, comm, rank| {
        const MANY: usize = 2_000;
        let peer = i32::try_from(1 - rank).unwrap();
        let sent: Vec<f32> = (0..MANY).map(|at| at as f32).collect();
        let (mut received, mut total) = (vec![0.0; MANY], 1.0_f32);
        let place: *mut f32 = &raw mut total;
        runtime.group_start();
        for at in 0..MANY {
            send(runtime, comm, peer, &sent[at..=at]).unwrap();
            recv(runtime, comm, peer, &mut received[at..=at]).unwrap();
        }
        collective(runtime, comm, (Op::AllReduce, None), 1, (place, place)).unwrap();
        runtime.group_end().unwrap();
        assert_eq!(received, sent);
        total
    });
    assert_eq!(sums, [2.0, 2.0]);
}

#[test]
fn an_all_to_all_meets_the_same_call_in_a_group_and_grouped_halves() {
    for road in ROADS {
        let desk = Desk::new();
        let seats = seats(&desk, 3, road);
        let received = all(&seats, |runtime, comm, rank| {
            let sent: Vec<f32> = (0..3).map(|to| (10 * rank + to) as f32).collect();
            let mut received = vec![0.0; 3];
            match rank {
                // Alone: the quick way, until the others turn out to call it otherwise.
                0 => drop(
                    collective(
                        runtime,
                        comm,
                        (Op::AllToAll, None),
                        1,
                        (sent.as_ptr(), received.as_mut_ptr()),
                    )
                    .unwrap(),
                ),
                1 => {
                    runtime.group_start();
                    let place = received.as_mut_ptr();
                    collective(runtime, comm, (Op::AllToAll, None), 1, (sent.as_ptr(), place)).unwrap();
                    let mut extra = [0.0];
                    send(runtime, comm, 1, &[5.0]).unwrap();
                    recv(runtime, comm, 1, &mut extra).unwrap();
                    runtime.group_end().unwrap();
                }
                _ => {
                    runtime.group_start();
                    for peer in 0..3_usize {
                        let to = i32::try_from(peer).unwrap();
                        send(runtime, comm, to, &sent[peer..=peer]).unwrap();
                        recv(runtime, comm, to, &mut received[peer..=peer]).unwrap();
                    }
                    runtime.group_end().unwrap();
                }
            }
            received
        });
        assert_eq!(received, [[0.0, 10.0, 20.0], [1.0, 11.0, 21.0], [2.0, 12.0, 22.0]]);
    }
}

#[test]
fn gather_and_scatter_go_round_and_their_others_need_no_buffer() {
    let desk = Desk::new();
    let seats = seats(&desk, 3, &[]);
    let received = all(&seats, |runtime, comm, rank| {
        let own = [rank as f32, rank as f32 + 0.5];
        let (mut gathered, mut back) = (vec![0.0; 6], [0.0; 2]);
        let root = |buffer: *mut f32| if rank == 1 { buffer } else { std::ptr::null_mut() };
        let to = root(gathered.as_mut_ptr());
        collective(runtime, comm, (Op::Gather, Some(1)), 2, (own.as_ptr(), to)).unwrap();
        gathered.iter_mut().for_each(|value| *value *= 2.0);
        let from = root(gathered.as_mut_ptr());
        collective(runtime, comm, (Op::Scatter, Some(1)), 2, (from, back.as_mut_ptr())).unwrap();
        back
    });
    assert_eq!(received, [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]);
}

#[test]
fn a_bad_call_fails_its_group_and_no_later_one() {
    let desk = Desk::new();
    let seats = seats(&desk, 1, &[]);
    let (runtime, comm) = &seats[0];
    runtime.group_start();
    let mut value = 1.0;
    let place: *mut f32 = &raw mut value;
    collective(runtime, *comm, (Op::AllReduce, None), 1, (place, place)).unwrap();
    assert_eq!(send(runtime, *comm, 9, &[1.0]).unwrap_err().code, Code::InvalidArgument);
    let fault = runtime.group_end().unwrap_err();
    assert!(fault.detail.contains("peer 9"), "{}", fault.detail);
    sum(runtime, *comm, &mut value).unwrap();
}

#[test]
fn a_simulated_group_costs_time_and_runs_nothing() {
    let desk = Desk::new();
    let seats = seats(&desk, 2, &[]);
    let (runtime, comm) = &seats[0];
    let mut value = vec![1.0; 1 << 20];
    let place = value.as_mut_ptr();
    runtime.group_start();
    collective(runtime, *comm, (Op::AllReduce, None), 1 << 20, (place, place)).unwrap();
    let micros = runtime.group_simulate_end().unwrap();
    assert!(micros > 1.0, "{micros}");
    assert!(desk.ask("STATS").contains("pending=0"), "{}", desk.ask("STATS"));
    assert_eq!(runtime.group_simulate_end().unwrap_err().code, Code::InvalidUsage);
}
