//! Whole kernels: threads and blocks, memory, calls, faults.

use std::sync::Arc;

use fakegpu_ptx_jit::FaultKind;

use crate::{compile, kernel_text, run, span};

const INDEX: &str = "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3; ld.param.u64 %d1, [p0]; mul.wide.u32 %d2, %r4, 4; add.s64 %d3, %d1, %d2;";

#[test]
fn every_thread_of_every_block_runs_once() {
    let body = format!("{INDEX} st.global.u32 [%d3], %r4; ret;");
    let kernel = compile(&kernel_text(1, &body)).unwrap();
    let mut memory = vec![7_u32; 1000 * 96 + 1];
    let range = span(&mut memory);
    let most = range.start..range.end - 4;
    run(&kernel, ([1000, 1, 1], [96, 1, 1]), &[range.start], vec![most]).unwrap();
    let memory = std::hint::black_box(memory);
    assert!((0..).zip(&memory[..96_000]).all(|(number, value)| number == *value));
    assert_eq!(memory[96_000], 7);
}

#[test]
fn dimensions_and_lanes_are_told() {
    let body =
        "mov.u32 %r1, %tid.y; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, %r1, %r2, %r3;
        ld.param.u64 %d1, [p0]; mul.wide.u32 %d2, %r4, 16; add.s64 %d3, %d1, %d2;
        mov.u32 %r5, %laneid; mov.u32 %r6, %warpid; mov.u32 %r7, %nctaid.z; mov.u32 %r8, %lanemask_lt;
        st.global.v4.u32 [%d3], {%r5, %r6, %r7, %r8}; ret;";
    let kernel = compile(&kernel_text(1, body)).unwrap();
    let mut memory = vec![[0_u32; 4]; 40];
    let range = span(&mut memory);
    run(&kernel, ([1, 1, 1], [10, 4, 1]), &[range.start], vec![range]).unwrap();
    let memory = std::hint::black_box(memory);
    assert_eq!(memory[0], [0, 0, 1, 0]);
    assert_eq!(memory[35], [3, 1, 1, 7]);
}

#[test]
fn atomics_lose_nothing() {
    let body = "ld.param.u64 %d1, [p0]; red.global.add.u32 [%d1], 1; atom.global.add.f32 %r1, [%d1+4], 0f3F800000;
        atom.global.max.s32 %r2, [%d1+8], -5; atom.global.inc.u32 %r3, [%d1+12], 6;
        $again: ld.volatile.global.u32 %r4, [%d1+16]; add.s32 %r5, %r4, 3; atom.global.cas.b32 %r6, [%d1+16], %r4, %r5;
        setp.ne.s32 %p1, %r6, %r4; @%p1 bra $again; ret;";
    let kernel = compile(&kernel_text(1, body)).unwrap();
    let mut memory = [0_u32, 0, (-9_i32).cast_unsigned(), 0, 0];
    let range = span(&mut memory);
    run(&kernel, ([64, 1, 1], [256, 1, 1]), &[range.start], vec![range]).unwrap();
    let memory = std::hint::black_box(memory);
    let threads = 64 * 256_u32;
    assert_eq!(memory, [threads, 16384.0_f32.to_bits(), (-5_i32).cast_unsigned(), threads % 7, 3 * threads]);
}

#[test]
fn functions_have_frames_of_their_own() {
    let text = ".version 9.0 .target sm_90 .address_size 64
        .func (.param .b32 r) twice(.param .b32 a) {
            .local .align 4 .b8 depot[8]; .reg .b32 %r<3>; .reg .b64 %d<3>;
            ld.param.u32 %r1, [a]; mov.u64 %d1, depot; st.local.u32 [%d1+4], %r1; ld.local.u32 %r2, [%d1+4];
            add.s32 %r2, %r2, %r1; st.param.b32 [r+0], %r2; ret;
        }
        .visible .entry k(.param .u64 p0, .param .u64 p1) {
            .local .align 16 .b8 depot[16]; .reg .b32 %r<9>; .reg .b64 %d<9>;
            ld.param.u64 %d1, [p0]; ld.param.u32 %r1, [p1+4]; mov.u64 %d2, depot; st.local.u32 [%d2+8], %r1;
            { .param .b32 param0; st.param.b32 [param0+0], %r1; .param .b32 retval0;
              call.uni (retval0), twice, (param0); ld.param.b32 %r2, [retval0+0]; }
            ld.local.u32 %r3, [%d2+8]; st.global.v2.u32 [%d1], {%r2, %r3}; ret;
        }";
    let kernel = compile(text).unwrap();
    let mut memory = [0_u32; 2];
    let range = span(&mut memory);
    run(&kernel, ([1; 3], [1; 3]), &[range.start, 21 << 32], vec![range]).unwrap();
    assert_eq!(std::hint::black_box(memory), [42, 21]);
}

#[test]
fn jumps_by_table_go_where_it_says() {
    let body = "ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r3, 0;
        ts: .branchtargets L0, L1, L2;
        brx.idx %r1, ts;
        L0: add.s32 %r3, %r3, 1;
        L1: add.s32 %r3, %r3, 10;
        L2: add.s32 %r3, %r3, 100;
        mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2; st.global.u32 [%d1], %r3; ret;";
    let kernel = compile(&kernel_text(1, body)).unwrap();
    let mut memory = [0_u32; 3];
    let range = span(&mut memory);
    run(&kernel, ([1; 3], [3, 1, 1]), &[range.start], vec![range]).unwrap();
    assert_eq!(std::hint::black_box(memory), [111, 110, 100]);
}

#[test]
fn an_access_beyond_its_memory_ends_the_kernel_and_names_the_thread() {
    let body = format!("{INDEX}\n\nst.global.u32 [%d3], %r4; ret;");
    let kernel = compile(&kernel_text(1, &body)).unwrap();
    let mut memory = vec![0_u32; 64];
    let range = span(&mut memory);
    let lent = range.start..range.start + 40 * 4;
    let fault = run(&kernel, ([2, 1, 1], [32, 1, 1]), &[range.start], vec![lent]).unwrap_err();
    assert_eq!(fault.kind, FaultKind::IllegalAddress);
    let text = fault.text.replace(&format!("{:#x}", range.start + 160), "HERE");
    insta::assert_snapshot!(text, @"thread (8,0,0) of block (1,0,0) of the kernel `k`, at line 10 of its PTX, wrote 4 bytes at HERE, which was never lent");
    let memory = std::hint::black_box(memory);
    assert!(memory[40..].iter().all(|value| *value == 0));
}

#[test]
fn misaligned_accesses_traps_and_assertions_are_told_apart() {
    let mut memory = [0_u64; 4];
    let range = span(&mut memory);
    let ended = |body: &str| {
        let kernel = compile(&kernel_text(1, body)).unwrap();
        run(&kernel, ([1; 3], [1; 3]), &[range.start], vec![range.clone()]).unwrap_err()
    };
    let misaligned = ended("ld.param.u64 %d1, [p0]; ld.global.u32 %r1, [%d1+2]; ret;");
    assert_eq!(misaligned.kind, FaultKind::Misaligned);
    assert!(misaligned.text.ends_with("which is no multiple of 4"), "{misaligned}");
    assert_eq!(ended("trap;").kind, FaultKind::Trap);
    assert_eq!(ended("ld.param.u64 %d1, [p0]; ld.u8 %h1, [%d1+32]; ret;").kind, FaultKind::IllegalAddress);
    assert_eq!(ended("mov.u64 %d1, 0; st.u8 [%d1], %h1; ret;").kind, FaultKind::IllegalAddress);
    assert_eq!(
        ended("ld.param.u64 %d1, [p0]; ld.v4.u64 {%d2, %d3, %d4, %d5}, [%d1+8]; ret;").kind,
        FaultKind::Misaligned
    );
}

#[test]
fn what_is_not_translated_is_refused_with_its_reason() {
    let reason = |body: &str| compile(&kernel_text(1, body)).map(|kernel| Arc::clone(&kernel)).unwrap_err();
    let reasons = [
        reason("bar.sync 0;\nret;"),
        reason("\n.shared .align 4 .b8 smem[64]; ret;"),
        reason("shfl.sync.down.b32 %r1|%p1, %r2, 1, 31, -1; ret;"),
        reason("cp.async.ca.shared.global [%r1], [%d1], 16; ret;"),
        reason("fma.rz.f64 %d1, %d1, %d1, %d1; ret;"),
        reason("frobnicate.f64 %d1, %d1; ret;"),
        reason("call.uni vprintf, (); ret;"),
        reason("ld.param.u64 %d1, [p0+4]; ret;"),
    ];
    insta::assert_snapshot!(reasons.join("\n"));
}
