//! Limits of the process and descriptors that are not what they should be: answers, never signals.

use std::os::fd::OwnedFd;

use fakegpu_staging_shm::{Geometry, Segment, StagingError, engine};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::processes::again;

fn geometry() -> Geometry {
    Geometry::new(4, 256 << 10).unwrap()
}

#[track_caller]
fn check_child(test: &str) {
    let status = again(test).env("FAKEGPU_TEST_CHILD", "1").status().unwrap();
    assert!(status.success(), "{status}");
}

/// Lowers the soft limit; only in a process of its own.
fn lower(resource: Resource, limit: u64) {
    let Rlimit { maximum, .. } = getrlimit(resource);
    setrlimit(resource, Rlimit { current: Some(limit), maximum }).unwrap();
}

fn in_child() -> bool {
    std::env::var_os("FAKEGPU_TEST_CHILD").is_some()
}

#[test]
fn a_file_size_limit_is_an_error_not_a_signal() {
    check_child("limits::child_with_a_file_size_limit");
}

#[test]
#[ignore = "lowers limits of its process; run by another test"]
fn child_with_a_file_size_limit() {
    if !in_child() {
        return;
    }
    lower(Resource::Fsize, 64 << 10);
    let expected = format!(
        "segment of `{}` bytes exceeds this process's file size limit of `65536`: raise `ulimit -f`",
        geometry().bytes()
    );
    assert_eq!(Segment::create(geometry()).unwrap_err().to_string(), expected);
}

#[test]
fn no_descriptors_left_is_an_error_and_streaming_goes_on_without_io_uring() {
    check_child("limits::child_without_descriptors");
}

#[test]
#[ignore = "lowers limits of its process; run by another test"]
fn child_without_descriptors() {
    if !in_child() {
        return;
    }
    lower(Resource::Nofile, 3);
    let error = Segment::create(geometry()).unwrap_err();
    assert!(matches!(&error, StagingError::Memory { call: "memfd_create", .. }), "{error}");
    assert_eq!(engine(false).name(), "poll");
    assert_eq!(engine::fallbacks(), 1);
}

#[test]
fn no_address_space_left_is_an_error_not_a_signal() {
    check_child("limits::child_without_address_space");
}

#[test]
#[ignore = "lowers limits of its process; run by another test"]
fn child_without_address_space() {
    if !in_child() {
        return;
    }
    lower(Resource::As, 1 << 20);
    let error = Segment::create(geometry()).unwrap_err();
    assert!(matches!(&error, StagingError::Memory { call: "mmap", .. }), "{error}");
}

#[test]
fn an_unlucky_geometry_is_refused() {
    for (size, slot_bytes) in [(0, 64), (2, 0), (2, 100)] {
        assert!(matches!(Geometry::new(size, slot_bytes), Err(StagingError::Geometry { .. })));
    }
    assert!(Geometry::within(8, 1 << 20, 8192).is_err());
}

#[test]
fn slots_shrink_until_the_segment_is_within_its_bound() {
    for size in [1, 2, 3, 8, 64, 1024] {
        let bound = 16 << 20;
        let geometry = Geometry::within(size, 256 << 10, bound).unwrap();
        assert!(geometry.channels_at() <= bound, "{geometry:?}");
        assert!(geometry.channels_at() > bound * 3 / 4 || geometry.slot_bytes() == 256 << 10, "{geometry:?}");
    }
}

fn file(bytes: usize, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("not-a-segment", flags).unwrap();
    rustix::fs::ftruncate(&fd, bytes as u64).unwrap();
    rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
    fd
}

#[track_caller]
fn check_foreign(fd: OwnedFd, geometry: Geometry, expected: &str) {
    let error = Segment::open(fd, geometry).unwrap_err();
    assert!(matches!(&error, StagingError::Foreign { what, .. } if *what == expected), "{error}");
}

#[test]
fn files_that_could_shrink_or_are_no_segment_are_not_mapped() {
    let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    let bytes = geometry().bytes();
    check_foreign(file(bytes - 1, all), geometry(), "its size in bytes");
    check_foreign(file(bytes, SealFlags::GROW), geometry(), "its set of seals");
    check_foreign(file(bytes, all), geometry(), "its mark");
}

#[test]
fn ranks_that_disagree_about_the_geometry_find_out() {
    let two_small = Geometry::new(2, 64).unwrap();
    let three_smaller = (64..=1 << 20).step_by(64).filter_map(|slot| Geometry::new(1, slot).ok());
    let same_size = three_smaller.filter(|other| other.bytes() == two_small.bytes()).last().unwrap();
    let (_segment, fd) = Segment::create(two_small).unwrap();
    check_foreign(fd, same_size, "its number of ranks");
}
