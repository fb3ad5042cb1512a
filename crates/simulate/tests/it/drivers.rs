//! One thread that drives several ranks of one communicator, with and without groups.

use fakegpu_simulate::{Handle, Outcome, Runtime};
use fakegpu_units::Collective as Op;

use crate::{Desk, collective, recv, send};

fn driven(desk: &Desk, devices: &[u32]) -> (Runtime, Vec<Handle>) {
    let runtime = desk.runtime(&[]);
    let comms = runtime.init_all(devices).unwrap();
    (runtime, comms)
}

#[test]
fn four_ranks_of_one_thread_sum_with_and_without_a_group() {
    let desk = Desk::new();
    let (runtime, comms) = driven(&desk, &[0, 1, 2, 3]);
    for grouped in [true, false] {
        let mut values = [1.0_f32, 2.0, 3.0, 4.0];
        if grouped {
            runtime.group_start();
        }
        for (comm, value) in comms.iter().zip(&mut values) {
            let place: *mut f32 = value;
            collective(&runtime, *comm, (Op::AllReduce, None), 1, (place, place)).unwrap();
        }
        if grouped {
            assert_eq!(runtime.group_end().unwrap(), Outcome::Done);
        }
        assert_eq!(values, [10.0; 4], "grouped: {grouped}");
    }
}

#[test]
fn a_send_waits_for_the_threads_own_receive_and_what_follows_waits_for_the_send() {
    let desk = Desk::new();
    let (runtime, comms) = driven(&desk, &[0, 1]);
    let (sent, mut received) = ([1.0, 2.0, 3.0], [0.0; 3]);
    send(&runtime, comms[0], 1, &sent).unwrap();
    // Rank 0 goes on before rank 1 has received.
    let mut values = [1.0_f32, 2.0];
    let places = [&raw mut values[0], &raw mut values[1]];
    collective(&runtime, comms[0], (Op::AllReduce, None), 1, (places[0], places[0])).unwrap();
    recv(&runtime, comms[1], 0, &mut received).unwrap();
    assert_eq!(received, sent);
    collective(&runtime, comms[1], (Op::AllReduce, None), 1, (places[1], places[1])).unwrap();
    assert_eq!(values, [3.0; 2]);
}

#[test]
fn all_to_alls_gathers_and_scatters_of_one_thread_end_with_the_last_rank() {
    let desk = Desk::new();
    let (runtime, comms) = driven(&desk, &[0, 1]);
    let sent = [[1.0_f32, 2.0], [3.0, 4.0]];
    let mut received = [[0.0_f32; 2]; 2];
    for op in [(Op::AllToAll, None), (Op::Gather, Some(1)), (Op::Scatter, Some(0))] {
        for ((comm, from), to) in comms.iter().zip(&sent).zip(&mut received) {
            collective(&runtime, *comm, op, 1, (from.as_ptr(), to.as_mut_ptr())).unwrap();
        }
        match op.0 {
            Op::AllToAll => assert_eq!(received, [[1.0, 3.0], [2.0, 4.0]]),
            Op::Gather => assert_eq!(received[1], [1.0, 3.0]),
            _ => assert_eq!((received[0][0], received[1][0]), (1.0, 2.0)),
        }
    }
}
