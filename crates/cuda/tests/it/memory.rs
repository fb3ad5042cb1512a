//! Memory: accounting, attribution, refusals, pools, peers.

use fakegpu_cuda::{ErrorKind, MemoryKind, Options, Ordinal, PoolAttribute, StreamRef};

use super::{DEVICE, Gate, address_of, at, read, stream, world, world_of};

const MIB: usize = 1 << 20;

#[test]
fn a_device_runs_out_at_its_profiles_size_and_has_all_of_it_again() {
    let world = world_of(&[("FAKEGPU_GPU_COUNT", "1"), ("FAKEGPU_GPU_PROFILE", "t4")], Options::default());
    let empty = world.memory_info(DEVICE).unwrap();
    assert_eq!(empty.total, 15_360 << 20);
    assert_eq!(empty.free, (15_360 - 512) << 20, "all but what a driver takes");
    let mut taken = Vec::new();
    let refusal = loop {
        match world.malloc(DEVICE, 1024 * MIB) {
            Ok(address) => taken.push(address),
            Err(error) => break error,
        }
    };
    assert_eq!(taken.len(), 14);
    assert_eq!(refusal.kind(), ErrorKind::MemoryAllocation);
    let text = refusal.text();
    let expected = "device 0 (Tesla T4) is out of memory: 1073741824 bytes were asked for, 512 MiB of 14848 MiB are \
                    free, the longest piece has 512 MiB";
    assert_eq!(text, expected);
    world.malloc(DEVICE, 512 * MIB).unwrap();
    assert_eq!(world.memory_info(DEVICE).unwrap().free, 0);
    taken.into_iter().for_each(|address| world.free(address).unwrap());
    let report = &world.report().devices[0];
    assert_eq!((report.allocations, report.frees, report.out_of_memory), (15, 14, 1));
    assert_eq!((report.live_bytes, report.peak_bytes), (512 << 20, 14_848 << 20));
}

#[test]
fn an_address_inside_an_allocation_tells_all_about_it() {
    let world = world();
    let device = world.malloc(Ordinal(1), 1000).unwrap();
    let managed = world.malloc_managed(DEVICE, 3 * MIB).unwrap();
    let pinned = world.host_alloc(DEVICE, 5000, 3).unwrap();
    assert!(device.is_multiple_of(256) && managed.is_multiple_of(2 * MIB));
    let seen = world.attributes(device + 999).unwrap();
    assert_eq!((seen.kind, seen.device, seen.base), (MemoryKind::Device, Ordinal(1), device));
    assert_eq!((seen.bytes, seen.offset), (1000, 999));
    assert_eq!(world.attributes(device + 1000).unwrap().kind, MemoryKind::Unregistered);
    assert_eq!(world.attributes(managed + 1).unwrap().kind, MemoryKind::Managed);
    assert_eq!(world.attributes(pinned + 4999).unwrap().kind, MemoryKind::Host);
    assert_eq!(world.host_flags(pinned + 1).unwrap(), 3);
    let own = [0_u8; 64];
    let address = address_of(&own);
    assert_eq!(world.attributes(address).unwrap().kind, MemoryKind::Unregistered);
    world.host_register(DEVICE, at(address), 64, 1).unwrap();
    assert_eq!(world.attributes(address + 63).unwrap().kind, MemoryKind::Host);
    let twice = world.host_register(DEVICE, at(address + 8), 8, 0).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::HostMemoryAlreadyRegistered);
    world.host_unregister(address).unwrap();
    assert_eq!(world.host_unregister(address).unwrap_err().kind(), ErrorKind::HostMemoryNotRegistered);
    world.host_free(pinned).unwrap();
    assert_eq!(world.attributes(pinned).unwrap().kind, MemoryKind::Unregistered);
}

#[test]
fn what_cannot_be_freed_so_is_refused_and_says_how() {
    let world = world();
    let device = world.malloc(DEVICE, 1000).unwrap();
    let pinned = world.host_alloc(DEVICE, 1000, 0).unwrap();
    let text = |error: fakegpu_cuda::Error| {
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        error.text().to_owned()
    };
    assert!(text(world.free(device + 256).unwrap_err()).contains("only its first address can be freed"));
    assert!(text(world.free(pinned).unwrap_err()).contains("belongs to cudaFreeHost"));
    assert!(text(world.host_free(device).unwrap_err()).contains("belongs to cudaFree"));
    world.free(device).unwrap();
    assert!(text(world.free(device).unwrap_err()).contains("was it freed already?"));
    world.free(0).unwrap();
    assert_eq!(world.malloc(DEVICE, 0).unwrap(), 0);
    assert_eq!(world.malloc(Ordinal(2), 1).unwrap_err().kind(), ErrorKind::InvalidDevice);
}

#[test]
fn freed_memory_goes_back_to_the_machine_beyond_what_is_kept() {
    let world = world();
    let file = world.device_file(DEVICE).unwrap();
    let held = || rustix::fs::fstat(&file.fd).unwrap().st_blocks * 512;
    let bytes = 192 * MIB;
    let address = world.malloc(DEVICE, bytes).unwrap();
    world.fill(DEVICE, StreamRef::Legacy, at(address), 7, 1, bytes).unwrap();
    assert_eq!(held(), 192 << 20);
    world.free(address).unwrap();
    assert_eq!(held(), 0, "more than is kept goes back at once");
    let small = world.malloc(DEVICE, 16 * MIB).unwrap();
    world.fill(DEVICE, StreamRef::Legacy, at(small), 7, 1, 16 * MIB).unwrap();
    world.free(small).unwrap();
    assert_eq!(held(), 16 << 20, "little is kept for the next allocation");
    let again = world.malloc(DEVICE, 16 * MIB).unwrap();
    assert_eq!((again, read(&world, again, 3)), (small, vec![7; 3]), "and not cleared, as CUDA does not");
}

#[test]
fn a_free_of_one_small_piece_keeps_its_neighbours_bytes() {
    let world = world();
    let pieces: Vec<usize> = (0..64).map(|_| world.malloc(DEVICE, 3000).unwrap()).collect();
    // So much that nothing is kept, and every free punches what it can.
    let filler = world.malloc(DEVICE, 64 * MIB).unwrap();
    world.fill(DEVICE, StreamRef::Legacy, at(filler), 1, 1, 64 * MIB).unwrap();
    world.free(filler).unwrap();
    for (value, piece) in (0..).zip(&pieces) {
        world.fill(DEVICE, StreamRef::Legacy, at(*piece), value, 1, 3000).unwrap();
    }
    pieces.iter().step_by(3).for_each(|piece| world.free(*piece).unwrap());
    for (value, piece) in (0_u8..).zip(&pieces) {
        if value % 3 != 0 {
            assert_eq!(read(&world, *piece, 3000), vec![value; 3000]);
        }
    }
}

#[test]
fn a_stream_frees_in_its_order_and_a_second_free_is_refused() {
    let world = world();
    let stream = stream(&world);
    let gate = Gate::default();
    let address = world.malloc_async(DEVICE, stream.into(), 1000).unwrap();
    let work = fakegpu_cuda::PolledWork::once(gate.item(fakegpu_units::VirtualSpan::ZERO));
    world.enqueue_polled(DEVICE, stream.into(), work).unwrap();
    world.free_async(DEVICE, stream.into(), address).unwrap();
    assert_eq!(world.attributes(address).unwrap().kind, MemoryKind::Device, "the stream is not that far");
    let twice = world.free_async(DEVICE, stream.into(), address).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::InvalidValue);
    gate.open();
    world.synchronize_stream(DEVICE, stream.into()).unwrap();
    assert_eq!(world.attributes(address).unwrap().kind, MemoryKind::Unregistered);
}

#[test]
fn a_pool_keeps_up_to_its_threshold_and_trims() {
    let world = world();
    let stream = stream(&world);
    let pool = world.default_pool(DEVICE).unwrap();
    let ask = |what| world.pool_attribute(pool, what).unwrap();
    let first = world.malloc_async(DEVICE, stream.into(), 2 * MIB).unwrap();
    assert_eq!((ask(PoolAttribute::UsedCurrent), ask(PoolAttribute::ReservedCurrent)), (2 << 20, 2 << 20));
    world.free_async(DEVICE, stream.into(), first).unwrap();
    assert_eq!((ask(PoolAttribute::UsedCurrent), ask(PoolAttribute::ReservedCurrent)), (0, 0));
    world.set_pool_attribute(pool, PoolAttribute::ReleaseThreshold, u64::MAX).unwrap();
    let second = world.malloc_async(DEVICE, stream.into(), 2 * MIB).unwrap();
    world.free_async(DEVICE, stream.into(), second).unwrap();
    assert_eq!((ask(PoolAttribute::UsedCurrent), ask(PoolAttribute::ReservedCurrent)), (0, 2 << 20));
    assert_eq!(world.malloc_async(DEVICE, stream.into(), 2 * MIB).unwrap(), second, "kept and given again");
    world.free(second).unwrap();
    let free = world.memory_info(DEVICE).unwrap().free;
    world.trim_pool(pool, 0).unwrap();
    assert_eq!(world.memory_info(DEVICE).unwrap().free, free + (2 << 20));
    assert_eq!(ask(PoolAttribute::ReservedHigh), 2 << 20);
    let mine = world.create_pool(DEVICE, 1 << 20).unwrap();
    let beyond = world.malloc_from_pool(mine, DEVICE, stream.into(), 2 * MIB).unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::MemoryAllocation);
    world.set_current_pool(DEVICE, mine).unwrap();
    world.destroy_pool(mine).unwrap();
    assert_eq!(world.current_pool(DEVICE).unwrap(), pool);
    assert!(world.destroy_pool(pool).is_err() && world.destroy_pool(mine).is_err());
    assert!(world.set_current_pool(Ordinal(1), pool).is_err());
}

#[test]
fn what_streams_are_about_to_free_is_not_called_lacking() {
    let world = world_of(&[("FAKEGPU_GPU_COUNT", "1"), ("FAKEGPU_GPU_PROFILE", "t4")], Options::default());
    let stream = stream(&world);
    let gate = Gate::default();
    let address = world.malloc_async(DEVICE, stream.into(), 10_000 * MIB).unwrap();
    let work = fakegpu_cuda::PolledWork::once(gate.item(fakegpu_units::VirtualSpan::ZERO));
    world.enqueue_polled(DEVICE, stream.into(), work).unwrap();
    world.free_async(DEVICE, stream.into(), address).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| gate.open());
        world.malloc_async(DEVICE, stream.into(), 10_000 * MIB).unwrap();
    });
}

#[test]
fn peers_are_let_in_once_and_only_where_the_hardware_lets_them() {
    let world = world();
    let (one, two) = (Ordinal(0), Ordinal(1));
    assert!(world.can_access_peer(one, two).unwrap() && !world.can_access_peer(one, one).unwrap());
    assert_eq!(world.disable_peer(one, two).unwrap_err().kind(), ErrorKind::PeerAccessNotEnabled);
    world.enable_peer(one, two).unwrap();
    assert_eq!(world.enable_peer(one, two).unwrap_err().kind(), ErrorKind::PeerAccessAlreadyEnabled);
    world.disable_peer(one, two).unwrap();
    let games = world_of(&[("FAKEGPU_GPU_PROFILE", "rtx4090")], Options::default());
    assert_eq!(games.enable_peer(one, two).unwrap_err().kind(), ErrorKind::PeerAccessUnsupported);
}

#[test]
fn pitched_rows_begin_at_multiples_of_512() {
    let world = world();
    let (address, pitch) = world.malloc_pitch(DEVICE, 1000, 3, 2).unwrap();
    assert_eq!((pitch, world.attributes(address).unwrap().bytes), (1024, 6144));
    assert!(world.malloc_pitch(DEVICE, usize::MAX, 3, 2).is_err());
}
