//! Several processes: handles that another opens, and children that may not go on.

use std::process::{Command, Stdio};

use fakegpu_cuda::{ErrorKind, EventFlags, IpcHandle, Options, PolledWork, StreamRef, World};
use fakegpu_units::VirtualSpan;

use super::{DEVICE, Gate, at, read, stream, world, world_of};

const HANDLES: &str = "CUDA_TEST_HANDLES";

fn hex(handle: IpcHandle) -> String {
    handle.into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn handle(text: &str) -> IpcHandle {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    IpcHandle::from_bytes(std::array::from_fn(byte))
}

/// Runs a test of this file, one that waits for it, in a process of its own.
fn run(test: &str, handles: &[IpcHandle]) -> std::process::Child {
    let handles: Vec<String> = handles.iter().map(|handle| hex(*handle)).collect();
    Command::new(std::env::current_exe().unwrap())
        .args([&format!("processes::{test}"), "--exact", "--ignored", "--nocapture"])
        .env(HANDLES, handles.join(","))
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

fn handed() -> Vec<IpcHandle> {
    std::env::var(HANDLES).unwrap().split(',').map(handle).collect()
}

#[track_caller]
fn succeeds(child: std::process::Child) {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn memory_is_reached_from_another_process() {
    let world = world();
    let (first, second) = (world.malloc(DEVICE, 5000).unwrap(), world.malloc(DEVICE, 4096).unwrap());
    world.fill(DEVICE, StreamRef::Legacy, at(first), 0x11, 1, 5000).unwrap();
    world.fill(DEVICE, StreamRef::Legacy, at(second), 0x22, 1, 4096).unwrap();
    let handles = [world.ipc_memory_handle(first + 100).unwrap(), world.ipc_memory_handle(second).unwrap()];
    let own = world.ipc_open_memory(DEVICE, handles[0]).unwrap_err();
    assert_eq!(own.kind(), ErrorKind::DeviceUninitialized);
    succeeds(run("opens_memory", &handles));
    assert_eq!(read(&world, first, 5000), [vec![0x11; 4999], vec![0x33]].concat());
    world.free(first).unwrap();
    world.free(second).unwrap();
}

#[test]
#[ignore = "run by another test in a process of its own"]
fn opens_memory() {
    let world = world();
    let handles = handed();
    let first = world.ipc_open_memory(DEVICE, handles[0]).unwrap();
    let second = world.ipc_open_memory(DEVICE, handles[1]).unwrap();
    assert_eq!(world.ipc_open_memory(DEVICE, handles[0]).unwrap(), first, "mapped once");
    let known = world.attributes(first + 7).unwrap();
    assert_eq!((known.bytes, known.offset, known.is_foreign), (5000, 7, true), "the whole allocation");
    assert_eq!(read(&world, first, 5000), vec![0x11; 5000]);
    assert_eq!(read(&world, second, 4096), vec![0x22; 4096]);
    world.fill(DEVICE, StreamRef::Legacy, at(first + 4999), 0x33, 1, 1).unwrap();
    assert!(world.fill(DEVICE, StreamRef::Legacy, at(first + 4999), 0x33, 1, 2).is_err());
    assert!(world.free(first).unwrap_err().text().contains("cudaIpcCloseMemHandle"));
    world.ipc_close_memory(first).unwrap();
    assert_eq!(read(&world, first, 1), [0x11], "opened twice");
    world.ipc_close_memory(first).unwrap();
    assert!(world.ipc_close_memory(first).is_err());
    assert_eq!(read(&world, second, 1), [0x22]);
    world.ipc_close_memory(second).unwrap();
    let again = world.ipc_open_memory(DEVICE, handles[1]).unwrap();
    assert_eq!(read(&world, again, 1), [0x22]);
}

#[test]
fn a_handle_of_a_process_that_is_gone_or_of_nobody_is_a_sentence() {
    let world = world();
    let address = world.malloc(DEVICE, 1).unwrap();
    let mut bytes = world.ipc_memory_handle(address).unwrap().into_bytes();
    let refused = world.ipc_open_memory(DEVICE, IpcHandle::from_bytes([0; 64])).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidResourceHandle);
    let event = world.ipc_open_event(DEVICE, IpcHandle::from_bytes(bytes)).unwrap_err();
    assert_eq!(event.kind(), ErrorKind::InvalidResourceHandle, "memory is no event");
    // Beyond every process number.
    bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    let gone = world.ipc_open_memory(DEVICE, IpcHandle::from_bytes(bytes)).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::MapBufferObjectFailed);
    assert!(gone.text().contains("has ended"), "{gone}");
    // A process that lives and has something else at this descriptor.
    let parent = std::os::unix::process::parent_id();
    bytes[12..16].copy_from_slice(&parent.to_le_bytes());
    bytes[16..20].copy_from_slice(&0_u32.to_le_bytes());
    let other = world.ipc_open_memory(DEVICE, IpcHandle::from_bytes(bytes)).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::MapBufferObjectFailed, "{other}");
    let host = world.host_alloc(DEVICE, 10, 0).unwrap();
    assert_eq!(world.ipc_memory_handle(host).unwrap_err().kind(), ErrorKind::InvalidValue);
}

#[test]
fn an_event_orders_streams_of_two_processes() {
    let world = world();
    let flags = EventFlags { disable_timing: true, interprocess: true, ..EventFlags::default() };
    let event = world.create_event(DEVICE, flags).unwrap();
    let back = world.create_event(DEVICE, flags).unwrap();
    let memory = world.malloc(DEVICE, 8).unwrap();
    let stream = stream(&world);
    world.fill(DEVICE, stream.into(), at(memory), 1, 1, 8).unwrap();
    world.query_event(event).unwrap();
    let gate = Gate::default();
    world.enqueue_polled(DEVICE, stream.into(), PolledWork::once(gate.item(VirtualSpan::ZERO))).unwrap();
    world.fill(DEVICE, stream.into(), at(memory), 2, 1, 8).unwrap();
    world.record_event(DEVICE, event, stream.into()).unwrap();
    assert_eq!(world.query_event(event).unwrap_err().kind(), ErrorKind::NotReady);
    let handles = [
        world.ipc_event_handle(event).unwrap(),
        world.ipc_event_handle(back).unwrap(),
        world.ipc_memory_handle(memory).unwrap(),
    ];
    let child = run("waits_for_an_event", &handles);
    gate.open();
    succeeds(child);
    world.synchronize_event(back).unwrap();
    assert_eq!(read(&world, memory, 8), [3; 8]);
    let plain = world.create_event(DEVICE, EventFlags::default()).unwrap();
    assert_eq!(world.ipc_event_handle(plain).unwrap_err().kind(), ErrorKind::InvalidResourceHandle);
}

#[test]
#[ignore = "run by another test in a process of its own"]
fn waits_for_an_event() {
    let world = world();
    let handles = handed();
    let event = world.ipc_open_event(DEVICE, handles[0]).unwrap();
    let back = world.ipc_open_event(DEVICE, handles[1]).unwrap();
    let memory = world.ipc_open_memory(DEVICE, handles[2]).unwrap();
    let stream = stream(&world);
    let seen = world.host_alloc(DEVICE, 8, 0).unwrap();
    world.wait_event(DEVICE, stream.into(), event).unwrap();
    let copy = fakegpu_cuda::Copy::flat(at(seen), at(memory), 8, fakegpu_cuda::CopyKind::Default);
    world.copy(DEVICE, stream.into(), &copy).unwrap();
    world.fill(DEVICE, stream.into(), at(memory), 3, 1, 8).unwrap();
    world.record_event(DEVICE, back, stream.into()).unwrap();
    world.synchronize_stream(DEVICE, stream.into()).unwrap();
    assert_eq!(read(&world, seen, 8), [2; 8]);
    world.ipc_close_memory(memory).unwrap();
}

/// Runs `body` in a forked child, and returns the status that it ends with.
fn in_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls `body`, which takes no lock that another thread may hold, and ends without unwinding.
    match unsafe { libc::fork() } {
        0 => {
            let status = body();
            // SAFETY: ends the child without running what belongs to the parent.
            unsafe { libc::_exit(status) }
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for the child made above.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(waited, child);
            assert!(libc::WIFEXITED(status), "the child was killed: {status:#x}");
            libc::WEXITSTATUS(status)
        }
    }
}

fn all_refused(world: &World, address: usize) -> bool {
    let kinds = [
        world.check(),
        world.malloc(DEVICE, 1).map(drop),
        world.free(address),
        world.synchronize_stream(DEVICE, StreamRef::Legacy),
        world.synchronize_device(DEVICE),
        world.attributes(address).map(drop),
        world.create_event(DEVICE, EventFlags::default()).map(drop),
        world.capture_info(DEVICE, StreamRef::Legacy).map(drop),
    ];
    kinds.into_iter().all(|answer| answer.is_err_and(|error| error.kind() == ErrorKind::InitializationError))
}

#[test]
fn after_a_fork_the_child_is_refused_and_the_parent_goes_on() {
    let world = world();
    let address = world.malloc(DEVICE, 4096).unwrap();
    let stream = stream(&world);
    let gate = Gate::default();
    world.enqueue_polled(DEVICE, stream.into(), PolledWork::once(gate.item(VirtualSpan::ZERO))).unwrap();
    assert_eq!(in_child(|| i32::from(!all_refused(&world, address))), 0);
    gate.open();
    world.synchronize_stream(DEVICE, stream.into()).unwrap();
    world.free(address).unwrap();
}

#[test]
fn a_child_that_begins_after_the_fork_has_a_world_of_its_own() {
    let status = in_child(|| {
        let world = world_of(&[("FAKEGPU_GPU_COUNT", "1")], Options::default());
        let worked = world.malloc(DEVICE, 4096).and_then(|address| world.free(address)).is_ok();
        i32::from(!worked)
    });
    assert_eq!(status, 0);
}
