//! What the environment and NCCL's configuration files change.

use fakegpu_simulate::{Code, CommOptions, CudaDevice, Fault, Handle, Request, Runtime};
use fakegpu_units::Collective as Op;

use crate::{Desk, all, collective, seats, send, sum};

#[test]
fn without_payload_operations_match_and_no_byte_moves() {
    let desk = Desk::new();
    let seats = seats(&desk, 2, &[("FAKEGPU_PAYLOAD", "off")]);
    let values = all(&seats, |runtime, comm, rank| {
        let mut value = 1.0;
        sum(runtime, comm, &mut value).unwrap();
        if rank == 0 {
            send(runtime, comm, 1, &[9.0]).unwrap();
        } else {
            crate::recv(runtime, comm, 0, std::slice::from_mut(&mut value)).unwrap();
        }
        value
    });
    assert_eq!(values, [1.0, 1.0]);
}

#[test]
fn a_tensor_above_the_staging_limit_fails_unless_it_is_cut() {
    let desk = Desk::new();
    let limit = ("FAKEGPU_STAGING_MAX_BYTES", "4096");
    let run = |more: &[(&str, &str)]| {
        let runtime = desk.runtime(more);
        let place = crate::Place { id: 3, size: 1, rank: 0 };
        let (comm, _) = crate::join_with(&runtime, place, CommOptions::default()).unwrap();
        let mut values = vec![1.0; 2000];
        let at = values.as_mut_ptr();
        collective(&runtime, comm, (Op::AllReduce, None), 2000, (at, at)).map(drop)
    };
    let fault = run(&[limit]).unwrap_err();
    assert_eq!(fault.code, Code::SystemError);
    for words in ["system error", "FAKEGPU_STAGING_MAX_BYTES", "FAKEGPU_STAGING_CHUNK_BYTES"] {
        assert!(fault.detail.contains(words), "{}", fault.detail);
    }
    let desk = Desk::new();
    let runtime = desk.runtime(&[limit, ("FAKEGPU_STAGING_CHUNK_BYTES", "1024")]);
    let place = crate::Place { id: 3, size: 1, rank: 0 };
    let (comm, _) = crate::join_with(&runtime, place, CommOptions::default()).unwrap();
    let mut values = vec![1.0; 2000];
    let at = values.as_mut_ptr();
    collective(&runtime, comm, (Op::AllReduce, None), 2000, (at, at)).map(drop).unwrap();
}

#[test]
fn a_fault_on_purpose_fails_every_rank() {
    let desk = Desk::new();
    let fault = [("FAKEGPU_NCCL_FAULT_RANK", "1"), ("FAKEGPU_NCCL_FAULT_SEQNO", "2")];
    let seats = seats(&desk, 2, &fault);
    let faults = all(&seats, |runtime, comm, _| {
        (0..2).for_each(|_| sum(runtime, comm, &mut 1.0).unwrap());
        sum(runtime, comm, &mut 1.0).unwrap_err()
    });
    for fault in faults {
        assert_eq!(fault.code, Code::RemoteError);
        assert!(fault.detail.contains("rank 1") && fault.detail.contains("call 2"), "{}", fault.detail);
    }
}

fn join_on(runtime: &Runtime, rank: i32, bus_id: &str) -> Result<Handle, Fault> {
    let gpu = Some(CudaDevice { number: 0, bus_id: bus_id.to_owned() });
    let options = CommOptions::default();
    runtime
        .init(&Request { unique_id: &[4; 128], size: 2, rank, device: None, gpu, options })
        .map(|(handle, _)| handle)
}

#[track_caller]
fn on_gpus(gpus: [&str; 2], more: [&[(&str, &str)]; 2]) -> Result<(), Fault> {
    let desk = Desk::new();
    let runtimes = more.map(|more| desk.runtime(more));
    std::thread::scope(|scope| {
        let joins: Vec<_> = (0..2)
            .zip(&runtimes)
            .zip(gpus)
            .map(|((rank, runtime), gpu)| scope.spawn(move || join_on(runtime, rank, gpu)))
            .collect();
        let joined: Vec<_> = joins.into_iter().map(|join| join.join().unwrap()).collect();
        assert_eq!(joined[0].is_ok(), joined[1].is_ok());
        joined.into_iter().try_for_each(|joined| joined.map(drop))
    })
}

#[test]
fn two_ranks_on_one_gpu_are_refused_unless_they_may() {
    let one = ["0000:65:00.0"; 2];
    let fault = on_gpus(one, [&[], &[]]).unwrap_err();
    assert_eq!(fault.code, Code::InvalidUsage);
    assert!(fault.detail.contains("0000:65:00.0"), "{}", fault.detail);
    on_gpus(["0000:65:00.0", "0000:66:00.0"], [&[], &[]]).unwrap();
    on_gpus(one, [&[("NCCL_HOSTID", "a")], &[("NCCL_HOSTID", "b")]]).unwrap();
    let both = [("NCCL_MULTI_RANK_GPU_ENABLE", "1")];
    on_gpus(one, [&both, &both]).unwrap();
}

#[test]
fn a_comm_id_makes_the_same_id_everywhere_and_again() {
    let desk = Desk::new();
    let set = [("NCCL_COMM_ID", "10.0.0.1:4000")];
    let runtimes = [desk.runtime(&set), desk.runtime(&set)];
    let ids = runtimes.each_ref().map(|runtime| runtime.unique_id().unwrap());
    assert_eq!(ids[0], ids[1]);
    for _ in 0..2 {
        std::thread::scope(|scope| {
            for (rank, runtime) in (0..2).zip(&runtimes) {
                scope.spawn(move || {
                    let options = CommOptions::default();
                    let unique_id = &ids[0];
                    let request = Request { unique_id, size: 2, rank, device: None, gpu: None, options };
                    let (comm, _) = runtime.init(&request).unwrap();
                    sum(runtime, comm, &mut 1.0).unwrap();
                    runtime.destroy(comm).unwrap();
                });
            }
        });
    }
}

#[test]
fn eight_bit_sums_need_a_newer_gpu_than_an_a100() {
    let desk = Desk::new();
    let code = |preset: &str| {
        let seats = seats(&desk, 1, &[("FAKEGPU_PRESET", preset)]);
        let (runtime, comm) = &seats[0];
        let mut value = [0x38_u8];
        let at = value.as_mut_ptr();
        let call = fakegpu_rank::Call {
            op: Op::AllReduce,
            send: at.addr(),
            recv: at.addr(),
            count: 1,
            data_type: fakegpu_units::DataType::Float8E4M3,
            reduce: None,
            root: None,
            rank: fakegpu_units::Rank(0),
            size: 1,
        };
        // SAFETY: the byte outlives the call.
        let send = unsafe { fakegpu_staging_shm::SendBuffer::new(at, 1) };
        // SAFETY: as above.
        let recv = unsafe { fakegpu_staging_shm::RecvBuffer::new(at, 1) };
        let op = Some(fakegpu_simulate::RedOp::Builtin(fakegpu_units::ReduceOp::Sum));
        let outcome =
            runtime.collective(fakegpu_simulate::Collective { comm: *comm, call, op, send, recv, stream: 0 });
        runtime.destroy(*comm).unwrap();
        outcome.map(drop).map_err(|fault| (fault.code, fault.detail.contains("sm90")))
    };
    assert_eq!(code("dgx-a100"), Err((Code::InvalidArgument, true)));
}

#[test]
fn nccls_log_tells_inits_and_where_it_is_asked_for_calls() {
    let desk = Desk::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nccl-%p.log");
    let conf = folder.path().join("nccl.conf");
    std::fs::write(&conf, format!("NCCL_DEBUG_FILE={}\nNCCL_DEBUG_SUBSYS=INIT,COLL,P2P\n", file.display()))
        .unwrap();
    let set = [("NCCL_CONF_FILE", conf.to_str().unwrap()), ("NCCL_DEBUG", "INFO")];
    let seats = seats(&desk, 1, &set);
    let (runtime, comm) = &seats[0];
    sum(runtime, *comm, &mut 1.0).unwrap();
    runtime.destroy(*comm).unwrap();
    let log = folder.path().join(format!("nccl-{}.log", std::process::id()));
    let text = std::fs::read_to_string(log).unwrap();
    for words in [
        "NCCL version 2.32.3",
        "rank 0 nranks 1",
        "Init COMPLETE",
        "AllReduce: opCount 0",
        "Destroy COMPLETE",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
}
