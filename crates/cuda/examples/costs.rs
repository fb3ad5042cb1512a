//! What the commonest calls cost, printed: `cargo run --release -p fakegpu-cuda --example costs`.
//!
//! Each figure is the fastest of several rounds, in nanoseconds a call, beside a plain `memcpy` where there is one.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measuring program: a panic is its error report"
)]

use std::hint::black_box;
use std::time::Instant;

use fakegpu_cuda::{
    Copy, CopyKind, Devices, EventFlags, HostFunction, Options, Ordinal, Poll, Polled, PolledWork,
    StreamFlags, StreamRef, Vouched, World,
};
use fakegpu_units::VirtualSpan;

const DEVICE: Ordinal = Ordinal(0);
const ROUNDS: u32 = 15;

/// Done after being looked at so often.
struct Ready(u32);

impl Polled for Ready {
    fn poll(&mut self) -> Poll {
        match self.0.checked_sub(1) {
            None => Poll::Done { took: VirtualSpan::ZERO },
            Some(left) => {
                self.0 = left;
                Poll::Pending
            }
        }
    }
    fn wait(&mut self, _at_most: std::time::Duration) {}
    fn name(&self) -> &str {
        "ready"
    }
}

fn measure(what: &str, calls: u32, mut call: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(calls));
    }
    println!("{what:<44} {best:>12.1} ns");
    best
}

fn at(address: usize) -> Vouched {
    // SAFETY: memory of the world's, or vectors that outlive every call below, which are synchronous to the host.
    unsafe { Vouched::new(address) }
}

fn main() {
    let vars = [("FAKEGPU_GPU_COUNT".to_owned(), "2".to_owned())];
    let settings = fakegpu_config::Settings::from_vars(vars.clone()).unwrap();
    let world = World::new(Devices::new(&settings, None, vars).unwrap(), Options::default()).unwrap();
    let stream: StreamRef =
        world.create_stream(DEVICE, StreamFlags { non_blocking: true }, 0).unwrap().into();
    // A world with something in it: look-ups go through a table.
    let kept: Vec<usize> = (0..1000).map(|_| world.malloc(DEVICE, 4096).unwrap()).collect();
    let (device, pinned) =
        (world.malloc(DEVICE, 4 << 20).unwrap(), world.host_alloc(DEVICE, 4 << 20, 0).unwrap());
    let (from, mut to) = (vec![1_u8; 1024], vec![0_u8; 1024]);

    measure("memcpy 1 KiB", 100_000, || black_box(&mut to).copy_from_slice(black_box(&from)));
    for (name, place) in [("device, legacy stream", StreamRef::Legacy), ("device, own stream", stream)] {
        let copy = Copy::flat(at(device), at(pinned), 1024, CopyKind::Default);
        measure(&format!("copy 1 KiB to {name}"), 100_000, || world.copy(DEVICE, place, &copy).unwrap());
    }
    let down = Copy::flat(at(to.as_mut_ptr().expose_provenance()), at(device), 1024, CopyKind::Default);
    measure("copy 1 KiB down, synchronous", 100_000, || world.copy_sync(DEVICE, stream, &down).unwrap());
    measure("memset 1 KiB", 100_000, || world.fill(DEVICE, stream, at(device), 0, 1, 1024).unwrap());
    measure("synchronize an idle stream", 100_000, || world.synchronize_stream(DEVICE, stream).unwrap());
    measure("capture_info", 100_000, || drop(world.capture_info(DEVICE, stream).unwrap()));
    measure("attributes", 100_000, || {
        black_box(world.attributes(device + 5).unwrap());
    });
    let event = world.create_event(DEVICE, EventFlags::default()).unwrap();
    measure("record and query an event", 100_000, || {
        world.record_event(DEVICE, event, stream).unwrap();
        world.query_event(event).unwrap();
    });
    measure("a polled item that is ready", 100_000, || {
        world.enqueue_polled(DEVICE, stream, PolledWork::once(Ready(0))).unwrap();
    });
    measure("one that is ready at the third look, waited for", 1_000, || {
        world.enqueue_polled(DEVICE, stream, PolledWork::once(Ready(2))).unwrap();
        world.synchronize_stream(DEVICE, stream).unwrap();
    });
    measure("a host function, waited for", 1_000, || {
        world.enqueue_host_function(DEVICE, stream, HostFunction::new(|| {})).unwrap();
        world.synchronize_stream(DEVICE, stream).unwrap();
    });
    measure("malloc and free 4 KiB", 10_000, || world.free(world.malloc(DEVICE, 4096).unwrap()).unwrap());
    measure("malloc and free 32 MiB, untouched", 1_000, || {
        world.free(world.malloc(DEVICE, 32 << 20).unwrap()).unwrap();
    });
    for mib in [32_usize, 128] {
        let touch = || {
            let address = world.malloc(DEVICE, mib << 20).unwrap();
            world.fill(DEVICE, stream, at(address), 1, 1, mib << 20).unwrap();
            world.free(address).unwrap();
        };
        measure(&format!("malloc, memset and free {mib} MiB"), 3, touch);
    }
    let address = world.malloc(DEVICE, 32 << 20).unwrap();
    measure("memset 32 MiB of resident memory", 3, || {
        world.fill(DEVICE, stream, at(address), 1, 1, 32 << 20).unwrap();
    });
    kept.into_iter().for_each(|address| world.free(address).unwrap());
}
