//! The functions' machine code: x86-64, position independent, no stack, no relocation.

use crate::Kind;

/// Where a function's parts lie, as addresses in the library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The function's first byte.
    pub(crate) at: u64,
    /// A byte that is 0 until the function was called.
    pub(crate) flag: u64,
    /// The sentence.
    pub(crate) text: u64,
    /// Its length, without the end.
    pub(crate) length: u32,
}

/// Bytes from one function to the next: the longest, aligned.
pub(crate) const FUNCTION_BYTES: usize = 48;

/// Instructions one after the other, and where they lie.
struct Code {
    at: u64,
    bytes: Vec<u8>,
}

impl Code {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// An instruction that ends in the distance from its own end to an address.
    fn put_relative(&mut self, opcode: &[u8], target: u64) {
        self.put(opcode);
        let end = self.at + self.bytes.len() as u64 + 4;
        // Libraries are far smaller than 2 GiB, so the low half is the distance.
        let distance = target.wrapping_sub(end).to_le_bytes();
        self.put(&distance[..4]);
    }
}

/// The code of one function.
pub(crate) fn function(kind: Kind, place: Place) -> Vec<u8> {
    let mut code = Code { at: place.at, bytes: Vec::with_capacity(FUNCTION_BYTES) };
    match kind {
        Kind::Text => {
            // lea rax, [rip + text]; ret
            code.put_relative(&[0x48, 0x8d, 0x05], place.text);
            code.put(&[0xc3]);
        }
        Kind::Refuses { code: answer, told } => {
            if told {
                tell(&mut code, place);
            }
            // mov eax, answer; ret
            code.put(&[0xb8]);
            code.put(&answer.to_le_bytes());
            code.put(&[0xc3]);
        }
    }
    debug_assert!(code.bytes.len() <= FUNCTION_BYTES, "a function is longer than its room");
    code.bytes.resize(FUNCTION_BYTES, 0xcc);
    code.bytes
}

/// `write(2, text, length)`, the first time. It changes registers that a callee may change.
fn tell(code: &mut Code, place: Place) {
    // mov al, 1; xchg [rip + flag], al; test al, al; jne past the call
    code.put(&[0xb0, 0x01]);
    code.put_relative(&[0x86, 0x05], place.flag);
    code.put(&[0x84, 0xc0]);
    code.put(&[0x75, 24]);
    // lea rsi, [rip + text]; mov edx, length; mov edi, 2; mov eax, 1; syscall
    code.put_relative(&[0x48, 0x8d, 0x35], place.text);
    code.put(&[0xba]);
    code.put(&place.length.to_le_bytes());
    code.put(&[0xbf, 2, 0, 0, 0]);
    code.put(&[0xb8, 1, 0, 0, 0]);
    code.put(&[0x0f, 0x05]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jump_skips_the_call_and_nothing_else() {
        let place = Place { at: 0x1000, flag: 0x3000, text: 0x2000, length: 7 };
        let code = function(Kind::Refuses { code: 801, told: true }, place);
        let jump = code.iter().position(|byte| *byte == 0x75).expect("a jump");
        let target = jump + 2 + usize::from(code[jump + 1]);
        assert_eq!((code[target], &code[target + 1..target + 5]), (0xb8, &801_i32.to_le_bytes()[..]));
        assert_eq!(&code[target - 2..target], [0x0f, 0x05]);
    }
}
