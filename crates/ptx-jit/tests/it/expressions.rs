//! Single instructions against what Rust makes of the same numbers.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::neg_cmp_op_on_partial_ord,
    reason = "Rust's conversions and comparisons are what the instructions are compared with"
)]

use fakegpu_ptx::{Format, Rounding, round};
use proptest::prelude::*;

use crate::{evaluate, evaluate32};

fn float(bits: u32) -> f32 {
    f32::from_bits(bits)
}

/// The same float, or both no number.
fn same(found: u32, expected: f32) -> bool {
    found == expected.to_bits() || (float(found).is_nan() && expected.is_nan())
}

/// Bits of floats, of which many are special.
fn any_float() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        any::<f32>().prop_map(f32::to_bits),
        (-1000_i16..1000).prop_map(|number| f32::from(number).to_bits()),
        Just(0x7fc0_0000),
        Just(0x8000_0000),
        Just(0),
        Just(1),
        Just(0x7f80_0000),
        Just(0xff80_0000),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn whole_numbers_as_rust_calculates(a in any::<u32>(), b in prop_oneof![any::<u32>(), 0_u32..70], c in any::<u32>()) {
        let words = [a, b, c];
        let (sa, sb) = (a.cast_signed(), b.cast_signed());
        let cases: &[(&str, u32)] = &[
            ("add.s32 %r0, %r1, %r2;", a.wrapping_add(b)),
            ("sub.s32 %r0, %r1, %r2;", a.wrapping_sub(b)),
            ("add.sat.s32 %r0, %r1, %r2;", sa.saturating_add(sb).cast_unsigned()),
            ("sub.sat.s32 %r0, %r1, %r2;", sa.saturating_sub(sb).cast_unsigned()),
            ("mul.lo.s32 %r0, %r1, %r2;", a.wrapping_mul(b)),
            ("mul.hi.u32 %r0, %r1, %r2;", u32::try_from((u64::from(a) * u64::from(b)) >> 32).unwrap()),
            ("mul.hi.s32 %r0, %r1, %r2;",
                (((i64::from(sa) * i64::from(sb)) >> 32).cast_unsigned() & 0xffff_ffff).try_into().unwrap()),
            ("mad.lo.s32 %r0, %r1, %r2, %r3;", a.wrapping_mul(b).wrapping_add(c)),
            ("div.u32 %r0, %r1, %r2;", a.checked_div(b).unwrap_or(u32::MAX)),
            ("div.s32 %r0, %r1, %r2;", if b == 0 { u32::MAX } else { sa.wrapping_div(sb).cast_unsigned() }),
            ("rem.u32 %r0, %r1, %r2;", a.checked_rem(b).unwrap_or(a)),
            ("rem.s32 %r0, %r1, %r2;", if b == 0 { a } else { sa.wrapping_rem(sb).cast_unsigned() }),
            ("min.s32 %r0, %r1, %r2;", sa.min(sb).cast_unsigned()),
            ("max.u32 %r0, %r1, %r2;", a.max(b)),
            ("abs.s32 %r0, %r1;", sa.wrapping_abs().cast_unsigned()),
            ("sad.u32 %r0, %r1, %r2, %r3;", a.abs_diff(b).wrapping_add(c)),
            ("shl.b32 %r0, %r1, %r2;", a.checked_shl(b).unwrap_or(0)),
            ("shr.u32 %r0, %r1, %r2;", a.checked_shr(b).unwrap_or(0)),
            ("shr.s32 %r0, %r1, %r2;", (sa >> b.min(31)).cast_unsigned()),
            ("shl.b32 %r0, %r1, 40;", 0),
            ("shr.s32 %r0, %r1, 40;", (sa >> 31).cast_unsigned()),
            ("shf.l.wrap.b32 %r0, %r1, %r3, %r2;",
                u32::try_from(((u64::from(c) << 32 | u64::from(a)) << (b & 31)) >> 32).unwrap()),
            ("shf.r.clamp.b32 %r0, %r1, %r3, %r2;",
                ((u64::from(c) << 32 | u64::from(a)) >> b.min(32) & 0xffff_ffff).try_into().unwrap()),
            ("clz.b32 %r0, %r1;", a.leading_zeros()),
            ("popc.b32 %r0, %r1;", a.count_ones()),
            ("brev.b32 %r0, %r1;", a.reverse_bits()),
            ("bfind.u32 %r0, %r1;", if a == 0 { u32::MAX } else { 31 - a.leading_zeros() }),
            ("not.b32 %r0, %r1;", !a),
            ("cnot.b32 %r0, %r1;", u32::from(a == 0)),
            ("lop3.b32 %r0, %r1, %r2, %r3, 0xe8;", a & b | a & c | b & c),
            ("bfi.b32 %r0, %r1, %r2, 8, 12;", b & !(0xfff << 8) | (a & 0xfff) << 8),
            ("bfe.u32 %r0, %r1, 4, 9;", a >> 4 & 0x1ff),
            ("prmt.b32 %r0, %r1, %r2, 0x6420;", {
                let ([a0, _, a2, _], [b0, _, b2, _]) = (a.to_le_bytes(), b.to_le_bytes());
                u32::from_le_bytes([a0, a2, b0, b2])
            }),
            ("setp.lt.s32 %p1, %r1, %r2; selp.b32 %r0, %r1, %r2, %p1;", sa.min(sb).cast_unsigned()),
            ("setp.hi.and.u32 %p1|%p2, %r1, %r2, 1; selp.b32 %r0, 1, 0, %p1; @%p2 add.s32 %r0, %r0, 2;",
                if a > b { 1 } else { 2 }),
            ("set.eq.u32.u32 %r0, %r1, %r2;", if a == b { u32::MAX } else { 0 }),
            ("cvt.s32.s8 %r0, %r1;", i32::from((a & 0xff).to_le_bytes()[0].cast_signed()).cast_unsigned()),
            ("cvt.sat.u8.s32 %r0, %r1;", sa.clamp(0, 255).cast_unsigned()),
            ("cvt.rn.f32.u32 %r0, %r1;", (a as f32).to_bits()),
            ("cvt.rz.f32.s32 %r0, %r1;", {
                let near = f64::from(sa);
                u32::try_from(round(near, Format::F32, Rounding::Zero)).unwrap()
            }),
            ("add.cc.u32 %r4, %r1, %r2; addc.u32 %r0, %r3, 0;", c.wrapping_add(u32::from(a.checked_add(b).is_none()))),
            ("sub.cc.u32 %r4, %r1, %r2; subc.u32 %r0, %r3, 0;", c.wrapping_sub(u32::from(a < b))),
        ];
        for (text, expected) in cases {
            prop_assert_eq!(evaluate32(text, words), *expected, "{} of {:?}", text, words);
        }
    }

    #[test]
    fn wide_numbers_as_rust_calculates(a in any::<u64>(), b in any::<u64>(), c in any::<u64>()) {
        let words = [a, b, c];
        let (sa, sb) = (a.cast_signed(), b.cast_signed());
        let high = |product: i128| u64::try_from((product >> 64).cast_unsigned() & u128::from(u64::MAX)).unwrap();
        let cases: &[(&str, u64)] = &[
            ("add.s64 %d0, %d1, %d2;", a.wrapping_add(b)),
            ("mul.hi.u64 %d0, %d1, %d2;", u64::try_from((u128::from(a) * u128::from(b)) >> 64).unwrap()),
            ("mul.hi.s64 %d0, %d1, %d2;", high(i128::from(sa) * i128::from(sb))),
            ("mul.wide.s32 %d0, %r1, %r2;", (i64::from(a as i32) * i64::from(b as i32)).cast_unsigned()),
            ("mad.wide.u32 %d0, %r1, %r2, %d3;",
                (u64::from(a as u32) * u64::from(b as u32)).wrapping_add(c)),
            ("div.s64 %d0, %d1, %d2;", if b == 0 { u64::MAX } else { sa.wrapping_div(sb).cast_unsigned() }),
            ("bfi.b64 %d0, %d1, %d2, 16, 16;", b & !0xffff_0000 | (a & 0xffff) << 16),
            ("cvt.rn.f64.s64 %d0, %d1;", (sa as f64).to_bits()),
            ("cvt.rn.f32.u64 %r0, %d1; cvt.u64.u32 %d0, %r0;", u64::from((a as f32).to_bits())),
            ("mov.b64 {%r4, %r5}, %d1; mov.b64 %d0, {%r5, %r4};", a.rotate_left(32)),
            ("clz.b64 %r0, %d1; cvt.u64.u32 %d0, %r0;", u64::from(a.leading_zeros())),
        ];
        for (text, expected) in cases {
            prop_assert_eq!(evaluate(text, words), *expected, "{} of {:?}", text, words);
        }
    }

    #[test]
    fn floats_as_ieee_demands(a in any_float(), b in any_float(), c in any_float()) {
        let words = [a, b, c];
        let (fa, fb, fc) = (float(a), float(b), float(c));
        let cases: &[(&str, f32)] = &[
            ("add.f32 %r0, %r1, %r2;", fa + fb),
            ("sub.rn.f32 %r0, %r1, %r2;", fa - fb),
            ("mul.f32 %r0, %r1, %r2;", fa * fb),
            ("fma.rn.f32 %r0, %r1, %r2, %r3;", fa.mul_add(fb, fc)),
            ("div.rn.f32 %r0, %r1, %r2;", fa / fb),
            ("rcp.rn.f32 %r0, %r1;", 1.0 / fa),
            ("sqrt.rn.f32 %r0, %r1;", fa.sqrt()),
            ("neg.f32 %r0, %r1;", -fa),
            ("abs.f32 %r0, %r1;", fa.abs()),
            ("cvt.rni.f32.f32 %r0, %r1;", fa.round_ties_even()),
            ("cvt.f64.f32 %d1, %r1; cvt.rn.f32.f64 %r0, %d1;", fa),
            ("copysign.f32 %r0, %r1, %r2;", fb.copysign(fa)),
            ("cvt.sat.f32.f32 %r0, %r1;", if fa.is_nan() { 0.0 } else { fa.clamp(0.0, 1.0) + 0.0 }),
        ];
        for (text, expected) in cases {
            let found = evaluate32(text, words);
            prop_assert!(same(found, *expected), "{} of {:x?}: {:x}, not {:x}", text, words, found, expected.to_bits());
        }
        let cases: &[(&str, u32)] = &[
            ("cvt.rzi.s32.f32 %r0, %r1;", (fa as i32).cast_unsigned()),
            ("cvt.rzi.u32.f32 %r0, %r1;", fa as u32),
            ("cvt.rmi.s32.f32 %r0, %r1;", (fa.floor() as i32).cast_unsigned()),
            ("setp.lt.f32 %p1, %r1, %r2; selp.u32 %r0, 1, 0, %p1;", u32::from(fa < fb)),
            ("setp.ltu.f32 %p1, %r1, %r2; selp.u32 %r0, 1, 0, %p1;", u32::from(!(fa >= fb))),
            ("setp.ne.f32 %p1, %r1, %r2; selp.u32 %r0, 1, 0, %p1;", u32::from(fa.partial_cmp(&fb).is_some_and(|order| order.is_ne()))),
            ("setp.neu.f32 %p1, %r1, %r2; selp.u32 %r0, 1, 0, %p1;", u32::from(fa != fb)),
            ("setp.nan.f32 %p1, %r1, %r2; selp.u32 %r0, 1, 0, %p1;", u32::from(fa.is_nan() || fb.is_nan())),
            ("testp.subnormal.f32 %p1, %r1; selp.u32 %r0, 1, 0, %p1;", u32::from(fa.is_subnormal())),
            ("testp.normal.f32 %p1, %r1; selp.u32 %r0, 1, 0, %p1;", u32::from(fa.is_normal())),
        ];
        for (text, expected) in cases {
            prop_assert_eq!(evaluate32(text, words), *expected, "{} of {:x?}", text, words);
        }
    }

    #[test]
    fn directed_rounding_encloses_the_exact_result(a in any::<f32>(), b in any::<f32>()) {
        let words = [a.to_bits(), b.to_bits(), 0];
        for op in ["add", "sub", "mul", "div"] {
            let by = |mode: &str| float(evaluate32(&format!("{op}.{mode}.f32 %r0, %r1, %r2;"), words));
            let (near, down, up, zero) = (by("rn"), by("rm"), by("rp"), by("rz"));
            if near.is_nan() {
                continue;
            }
            prop_assert!(down <= up && (near == down || near == up), "{op}: {down} {near} {up}");
            prop_assert!(down == up || down.next_up() == up, "{op}: {down} {up}");
            prop_assert!(zero == if near > 0.0 { down } else { up } || near == 0.0, "{op}: {zero}");
        }
    }

    #[test]
    fn narrow_floats_are_rounded_once(a in any::<u16>(), b in any::<u16>(), c in any::<u16>()) {
        let words = [a, b, c].map(u64::from);
        for (ty, format) in [("f16", Format::F16), ("bf16", Format::BF16)] {
            let number = |bits: u16| {
                let text = format!("cvt.f32.{ty} %r0, %h1; cvt.u64.u32 %d0, %r0;");
                f64::from(float(u32::try_from(evaluate(&text, [u64::from(bits), 0, 0])).unwrap()))
            };
            let (fa, fb) = (number(a), number(b));
            let back = evaluate(&format!("cvt.f32.{ty} %r0, %h1; cvt.rn.{ty}.f32 %h0, %r0; cvt.u64.u16 %d0, %h0;"), words);
            prop_assert!(back == u64::from(a) || fa.is_nan(), "{ty} {a:x} came back as {back:x}");
            let cases = [("add", fa + fb), ("mul", fa * fb), ("sub", fa - fb)];
            for (op, exact) in cases {
                let found = evaluate(&format!("{op}.rn.{ty} %h0, %h1, %h2; cvt.u64.u16 %d0, %h0;"), words);
                prop_assert_eq!(found, round(exact, format, Rounding::Nearest), "{}.{} of {:x} and {:x}", op, ty, a, b);
            }
            let one = if ty == "f16" { 0x3c00 } else { 0x3f80 };
            let text = format!("mov.b16 %h4, {one}; fma.rn.{ty} %h0, %h1, %h4, %h2; cvt.u64.u16 %d0, %h0;");
            prop_assert_eq!(evaluate(&text, words), round(fa + fb, format, Rounding::Nearest));
        }
    }

    #[test]
    fn packed_halves_are_two_numbers(a in any_float(), b in any_float()) {
        let words = [a, b, 0];
        let found = evaluate32("cvt.rn.f16x2.f32 %r0, %r1, %r2;", words);
        let near = |bits| round(f64::from(float(bits)), Format::F16, Rounding::Nearest);
        prop_assert_eq!(u64::from(found), near(a) << 16 | near(b));
        let doubled = evaluate32("cvt.rn.bf16x2.f32 %r4, %r1, %r2; add.rn.bf16x2 %r0, %r4, %r4;", words);
        let half = |bits: u32| {
            let narrow = round(f64::from(float(bits)), Format::BF16, Rounding::Nearest);
            let wide = float(u32::try_from(narrow << 16).unwrap());
            round(2.0 * f64::from(wide), Format::BF16, Rounding::Nearest)
        };
        prop_assert_eq!(u64::from(doubled), half(a) << 16 | half(b));
    }
}

#[test]
fn minima_pass_over_what_is_no_number() {
    let (nan, one) = (0x7fc0_0001, 1.0_f32.to_bits());
    assert_eq!(evaluate32("min.f32 %r0, %r1, %r2;", [nan, one, 0]), one);
    assert_eq!(evaluate32("max.f32 %r0, %r1, %r2;", [one, nan, 0]), one);
    assert_eq!(evaluate32("min.f32 %r0, %r1, %r2;", [nan, nan, 0]), 0x7fff_ffff);
    assert_eq!(evaluate32("min.NaN.f32 %r0, %r1, %r2;", [one, nan, 0]), 0x7fff_ffff);
    assert_eq!(evaluate32("min.f32 %r0, %r1, %r2;", [0x8000_0000, 0, 0]), 0x8000_0000);
    assert_eq!(evaluate32("max.f32 %r0, %r1, %r2;", [0x8000_0000, 0, 0]), 0);
}

#[test]
fn numbers_below_the_normal_ones_are_flushed_where_asked() {
    assert_eq!(evaluate32("add.f32 %r0, %r1, %r2;", [1, 1, 0]), 2);
    assert_eq!(evaluate32("add.ftz.f32 %r0, %r1, %r2;", [1, 1, 0]), 0);
    assert_eq!(evaluate32("mul.ftz.f32 %r0, %r1, %r2;", [0x8080_0000, 0x3f00_0000, 0]), 0x8000_0000);
    assert_eq!(evaluate32("setp.eq.ftz.f32 %p1, %r1, %r2; selp.u32 %r0, 1, 0, %p1;", [5, 0, 0]), 1);
}

#[test]
fn floats_of_8_bits_are_packed_in_pairs() {
    let words = [448.0_f32.to_bits(), (-1.0_f32).to_bits(), 0];
    let text = "cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r2; cvt.u32.u16 %r0, %h0;";
    assert_eq!(evaluate32(text, words), 0x7eb8);
    let text = "cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r2; cvt.rn.f16x2.e4m3x2 %r0, %h0;";
    assert_eq!(evaluate32(text, words), 0x5f00_bc00);
}
