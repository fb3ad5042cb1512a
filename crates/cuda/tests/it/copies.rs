//! Copies, memsets and launches: their checks, their order, their account.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fakegpu_config::env::UnsupportedApi;
use fakegpu_cuda::{
    Arguments, Copy, CopyKind, Device, Error, ErrorKind, Kernels, Launch, Options, Ordinal, Poll, Polled,
    PolledWork, Prepared, Rows, StreamRef,
};
use fakegpu_units::VirtualSpan;

use super::{DEVICE, Gate, address_of, address_of_mut, at, read, stream, world, world_of};

#[test]
fn bytes_go_up_across_and_down_and_are_accounted_for() {
    let world = world();
    let sent: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let mine = world.malloc(DEVICE, 100_000).unwrap();
    let theirs = world.malloc(Ordinal(1), 100_000).unwrap();
    let copy = |dst, src, kind| {
        world.copy_sync(DEVICE, StreamRef::Legacy, &Copy::flat(at(dst), at(src), 100_000, kind)).unwrap();
    };
    copy(mine, address_of(&sent), CopyKind::HostToDevice);
    copy(theirs, mine, CopyKind::DeviceToDevice);
    copy(theirs, theirs, CopyKind::Default);
    assert_eq!(read(&world, theirs, 100_000), sent);
    let report = world.report();
    let (first, second) = (report.devices[0].copies, report.devices[1].copies);
    assert_eq!((first.host_to_device.count, first.host_to_device.bytes), (1, 100_000));
    assert_eq!(
        (first.peer.count, second.device_to_device.count, second.device_to_host.bytes),
        (1, 1, 100_000)
    );
}

#[test]
fn a_copy_over_the_end_of_an_allocation_names_both() {
    let world = world();
    let device = world.malloc(DEVICE, 1000).unwrap();
    let host = [0_u8; 2000];
    let copy = Copy::flat(at(device + 500), at(address_of(&host)), 501, CopyKind::Default);
    let error = world.copy(DEVICE, StreamRef::Legacy, &copy).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    let (from, base) = (device + 500, device);
    assert_eq!(
        error.text(),
        format!(
            "the destination of a copy of 501 bytes at {from:#x} runs over the end of its allocation: 1000 bytes at \
             {base:#x}, of which 500 lie behind the address"
        )
    );
    world.free(device).unwrap();
    let freed = Copy::flat(at(address_of(&host)), at(device), 1, CopyKind::Default);
    let error = world.copy(DEVICE, StreamRef::Legacy, &freed).unwrap_err();
    assert!(error.text().contains("was it freed?"), "{error}");
}

#[test]
fn arguments_that_cannot_be_meant_are_refused() {
    let world = world();
    let device = world.malloc(DEVICE, 4096).unwrap();
    let host = [0_u8; 64];
    let kind = |copy: Copy| world.copy(DEVICE, StreamRef::Legacy, &copy).unwrap_err().kind();
    let flat = |dst, src, kind| Copy::flat(at(dst), at(src), 64, kind);
    let own = address_of(&host);
    assert_eq!(kind(flat(0, device, CopyKind::Default)), ErrorKind::InvalidValue);
    assert_eq!(kind(flat(own, device, CopyKind::HostToDevice)), ErrorKind::InvalidValue);
    assert_eq!(kind(flat(device, own, CopyKind::DeviceToDevice)), ErrorKind::InvalidValue);
    assert_eq!(kind(flat(usize::MAX, own, CopyKind::Default)), ErrorKind::InvalidValue);
    let overlapping = Copy { height: 2, dst_pitch: 63, ..flat(device, own, CopyKind::Default) };
    assert_eq!(kind(overlapping), ErrorKind::InvalidPitchValue);
    let nothing = Copy { width: 0, ..flat(0, 0, CopyKind::Default) };
    world.copy(DEVICE, StreamRef::Legacy, &nothing).unwrap();
    assert_eq!(CopyKind::from_raw(5).unwrap_err().kind(), ErrorKind::InvalidMemcpyDirection);
    let fill = |at, element| world.fill(DEVICE, StreamRef::Legacy, at, 0, element, 8).unwrap_err().kind();
    assert_eq!(fill(at(own), 1), ErrorKind::InvalidValue);
    assert_eq!(
        (fill(at(device + 1), 4), fill(at(device), 3)),
        (ErrorKind::InvalidValue, ErrorKind::InvalidValue)
    );
}

#[test]
fn rows_are_copied_and_set_without_their_gaps() {
    let world = world();
    let (device, pitch) = world.malloc_pitch(DEVICE, 6, 3, 1).unwrap();
    world.fill(DEVICE, StreamRef::Legacy, at(device), 0xee, 1, 3 * pitch).unwrap();
    let rows = Rows { pitch, slice: 3 * pitch, width: 3, height: 2, depth: 1 };
    world.fill_rows(DEVICE, StreamRef::Legacy, at(device), (0x0102, 2), rows).unwrap();
    let mut seen = [0_u8; 18];
    let copy = Copy {
        height: 3,
        src_pitch: pitch,
        dst_pitch: 6,
        ..Copy::flat(at(address_of_mut(&mut seen)), at(device), 6, CopyKind::DeviceToHost)
    };
    world.copy_sync(DEVICE, StreamRef::Legacy, &copy).unwrap();
    assert_eq!(seen[..12], [2, 1].repeat(6));
    assert_eq!(seen[12..], [0xee; 6]);
    assert_eq!(read(&world, device + 6, 1), [0xee]);
}

#[test]
fn pageable_memory_may_be_reused_as_soon_as_the_call_returns() {
    let world = world();
    let stream = stream(&world);
    let gate = Gate::default();
    let device = world.malloc(DEVICE, 8).unwrap();
    world.enqueue_polled(DEVICE, stream.into(), PolledWork::once(gate.item(VirtualSpan::ZERO))).unwrap();
    let mut sent = [1_u8; 8];
    let copy = Copy::flat(at(device), at(address_of(&sent)), 8, CopyKind::HostToDevice);
    world.copy(DEVICE, stream.into(), &copy).unwrap();
    sent.fill(9);
    gate.open();
    let mut seen = [0_u8; 8];
    let back = Copy::flat(at(address_of_mut(&mut seen)), at(device), 8, CopyKind::DeviceToHost);
    world.copy(DEVICE, stream.into(), &back).unwrap();
    assert_eq!((seen, sent), ([1; 8], [9; 8]), "written on return, since it is pageable too");
}

#[test]
fn a_launch_that_nobody_executes_is_an_error_unless_the_user_says_otherwise() {
    let launch = Launch {
        name: "_Z3addPf",
        grid: [1, 1, 1],
        block: [32, 1, 1],
        shared_bytes: 0,
        function: 0,
        arguments: Arguments::Each(0),
    };
    let options = |unsupported| Options { unsupported, ..Options::default() };
    let strict = world_of(&[], options(UnsupportedApi::Error));
    let error = strict.launch(DEVICE, StreamRef::Legacy, &launch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert!(error.text().starts_with("the kernel `_Z3addPf` was not executed"), "{error}");
    let said = Arc::new(AtomicU32::new(0));
    let heard = Arc::clone(&said);
    let warn: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(move |text| {
        assert!(text.contains("_Z3addPf"));
        heard.fetch_add(1, Ordering::SeqCst);
    });
    let warning = world_of(&[], Options { warn, ..options(UnsupportedApi::Warn) });
    (0..3).for_each(|_| warning.launch(DEVICE, StreamRef::Legacy, &launch).unwrap());
    assert_eq!(said.load(Ordering::SeqCst), 1, "once by name");
    assert_eq!(warning.report().devices[0].refused_launches["_Z3addPf"], 3);
    let wide = Launch { block: [1024, 2, 1], ..launch };
    assert_eq!(
        strict.launch(DEVICE, StreamRef::Legacy, &wide).unwrap_err().kind(),
        ErrorKind::InvalidConfiguration
    );
}

/// Doubles a number, or faults where it is zero.
struct Doubling(Arc<AtomicU32>);

impl Polled for Doubling {
    fn poll(&mut self) -> Poll {
        let before = self.0.fetch_add(self.0.load(Ordering::SeqCst), Ordering::SeqCst);
        match before {
            0 => Poll::Faulted { error: Error::new(ErrorKind::IllegalAddress, "nothing can be doubled") },
            _ => Poll::Done { took: VirtualSpan::from_micros(5) },
        }
    }

    fn wait(&mut self, _at_most: Duration) {}

    fn name(&self) -> &str {
        "double"
    }
}

struct Doubler(Arc<AtomicU32>);

impl Kernels for Doubler {
    fn prepare(&self, _device: &Device, launch: &Launch<'_>) -> Prepared {
        match launch.name {
            "double" => {
                let number = Arc::clone(&self.0);
                Prepared::Work(Arc::new(move || Box::new(Doubling(Arc::clone(&number)))))
            }
            "triple" => Prepared::Refused("only doubling is known".to_owned()),
            _ => Prepared::Unknown,
        }
    }
}

#[test]
fn an_executor_runs_what_it_knows_in_the_streams_order() {
    let number = Arc::new(AtomicU32::new(1));
    let options = Options { kernels: Some(Arc::new(Doubler(Arc::clone(&number)))), ..Options::default() };
    let world = world_of(&[], options);
    let stream = stream(&world);
    let gate = Gate::default();
    world.enqueue_polled(DEVICE, stream.into(), PolledWork::once(gate.item(VirtualSpan::ZERO))).unwrap();
    let launch = |name| {
        let launch = Launch {
            name,
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            function: 0,
            arguments: Arguments::Each(0),
        };
        world.launch(DEVICE, stream.into(), &launch)
    };
    launch("double").unwrap();
    launch("double").unwrap();
    assert!(launch("triple").unwrap_err().text().contains("only doubling is known"));
    assert_eq!(number.load(Ordering::SeqCst), 1);
    gate.open();
    world.synchronize_stream(DEVICE, stream.into()).unwrap();
    assert_eq!(number.load(Ordering::SeqCst), 4);
    assert_eq!(world.stream_time(DEVICE, stream.into()).unwrap().as_picos(), 10_000_000);
    assert_eq!(world.report().devices[0].launches, 2);
}

#[test]
fn a_fault_of_a_kernel_is_the_devices_and_stays() {
    let number = Arc::new(AtomicU32::new(0));
    let options = Options { kernels: Some(Arc::new(Doubler(number))), ..Options::default() };
    let world = world_of(&[("FAKEGPU_GPU_COUNT", "2")], options);
    let (mine, other) = (stream(&world), stream(&world));
    let launch = Launch {
        name: "double",
        function: 0,
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        arguments: Arguments::Each(0),
    };
    world.launch(DEVICE, mine.into(), &launch).unwrap();
    let kind = |answer: fakegpu_cuda::Result<()>| answer.unwrap_err().kind();
    assert_eq!(kind(world.synchronize_stream(DEVICE, mine.into())), ErrorKind::IllegalAddress);
    assert_eq!(kind(world.synchronize_stream(DEVICE, other.into())), ErrorKind::IllegalAddress);
    assert_eq!(kind(world.synchronize_device(DEVICE)), ErrorKind::IllegalAddress);
    assert_eq!(kind(world.malloc(DEVICE, 16).map(drop)), ErrorKind::IllegalAddress);
    world.synchronize_device(Ordinal(1)).unwrap();
    world.malloc(Ordinal(1), 16).unwrap();
}

#[test]
fn a_kernel_reaches_what_cuda_lets_it_reach() {
    let world = world_of(&[("FAKEGPU_GPU_COUNT", "2"), ("FAKEGPU_GPU_PROFILE", "a100")], Options::default());
    let (own, foreign) = (world.malloc(DEVICE, 1000).unwrap(), world.malloc(Ordinal(1), 64).unwrap());
    assert_eq!(world.kernel_range(DEVICE, own + 999), Some(own..own + 1000));
    assert_eq!(world.kernel_range(DEVICE, own + 1000), None);
    let miss = world.kernel_miss(DEVICE, own + 1004).replace(&format!("{own:#x}"), "HERE");
    assert_eq!(
        miss,
        "lies 4 bytes behind the end of the allocation of 1000 bytes at HERE (memory of device 0)"
    );
    assert_eq!(world.kernel_range(DEVICE, foreign), None);
    assert!(world.kernel_miss(DEVICE, foreign).contains("cudaDeviceEnablePeerAccess"));
    world.enable_peer(DEVICE, Ordinal(1)).unwrap();
    assert!(world.kernel_range(DEVICE, foreign).is_some());
    let host = world.host_alloc(DEVICE, 64, 0).unwrap();
    assert!(world.kernel_range(Ordinal(1), host).is_some());
    let (local, variable) = (0_u8, world.variable(DEVICE, false, 8).unwrap());
    assert_eq!(world.kernel_range(DEVICE, (&raw const local).addr()), None);
    world.write_variable(variable, &[1; 8]).unwrap();
    assert_eq!(world.write_variable(variable, &[1; 9]).unwrap_err().kind(), ErrorKind::InvalidValue);
}

#[test]
fn the_report_reads_as_people_expect() {
    let world = world_of(&[("FAKEGPU_GPU_COUNT", "1")], Options::default());
    let device = world.malloc(DEVICE, 1000).unwrap();
    world.fill(DEVICE, StreamRef::Legacy, at(device), 1, 1, 1000).unwrap();
    read(&world, device, 10);
    let mut report = world.report();
    report.pid = 4711;
    insta::assert_snapshot!(report.to_json());
}
