//! Texts that no compiler wrote: read or refused in words, never a panic.

use proptest::prelude::*;

use crate::{compile, kernel_text};

/// A kernel with one of most things.
const BODY: &str = "
ld.param.u64 %d1, [p0];
cvta.to.global.u64 %d1, %d1;
mov.u32 %r1, %tid.x;
mad.lo.s32 %r2, %r1, 4, %r1;
setp.ge.s32 %p1, %r1, 16;
@%p1 bra DONE;
mul.wide.u32 %d2, %r1, 8;
add.s64 %d3, %d1, %d2;
ld.global.v2.u32 {%r3, %r4}, [%d3+8];
cvt.rn.f32.s32 %r5, %r3;
fma.rn.f32 %r6, %r5, 0f3F800000, %r5;
selp.b32 %r7, %r6, %r4, %p1;
shf.l.wrap.b32 %r8, %r3, %r4, 3;
atom.global.add.u32 %r9, [%d3], %r7;
st.global.v2.u32 [%d3+8], {%r8, %r9};
DONE:
ret;
";

/// The text's words, so that whole ones move.
fn words(text: &str) -> Vec<&str> {
    text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric()).collect()
}

#[test]
fn the_text_itself_is_translated() {
    compile(&kernel_text(1, BODY)).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn texts_with_words_moved_are_translated_or_refused(
        moves in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3_u8), 1..4)
    ) {
        let text = kernel_text(1, BODY);
        let mut words = words(&text);
        for (from, to, how) in moves {
            let (from, to) = (from.index(words.len()), to.index(words.len()));
            match how {
                0 => words.swap(from, to),
                1 => words[to] = words[from],
                _ => drop(words.remove(from)),
            }
        }
        if let Err(reason) = compile(&words.concat()) {
            prop_assert!(!reason.is_empty());
            prop_assert!(!reason.contains("panicked"), "{reason}\n{}", words.concat());
        }
    }

    #[test]
    fn texts_cut_off_are_refused(end in 0..600_usize) {
        let text = kernel_text(1, BODY);
        let cut = &text[..end.min(text.len() - 2)];
        prop_assert!(compile(cut).is_err());
    }
}
