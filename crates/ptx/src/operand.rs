//! Operands: registers, numbers, addresses and names, as they stand behind an opcode.

use std::collections::BTreeMap;

use crate::body::{Address, Base, Body, Operand, Reg, Slot, Special};
use crate::error::{Error, Unsupported};
use crate::lexer::{Lexer, Token, integer};
use crate::module::{Function, Head, Module};
use crate::types::{Space, Type};

/// The answer of a reader of bodies.
pub(crate) type Read<T> = Result<T, Unsupported>;

/// What stands between two commas.
#[derive(Clone, Debug)]
pub(crate) enum Raw<'a> {
    Value(Operand),
    /// `a|b`.
    Pair(Option<Reg>, Option<Reg>),
    /// `_`.
    Sink,
    /// `{a, b}`.
    Vector(Vec<Self>),
    /// `[a+1]`.
    Memory(Address),
    /// `(a, b)`.
    Group(Vec<Self>),
    /// A label, a function, or nothing that is known.
    Name(&'a str),
}

/// What a name stands for inside a function.
#[derive(Clone, Copy, Debug)]
enum Name {
    Reg(Reg),
    /// Registers that differ in the number behind the name.
    Regs {
        first: usize,
        count: u64,
    },
    Base(Base),
}

/// Names, the innermost scope last.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    module: &'a Module,
    scopes: Vec<BTreeMap<&'a str, Name>>,
}

/// More registers than any compiler gives a function.
const REGISTERS_MAX: u64 = 1 << 20;
/// More local memory than a GPU gives a thread.
const FRAME_BYTES_MAX: u64 = 512 << 10;

impl<'a> Names<'a> {
    pub(crate) fn new(module: &'a Module, function: &'a Function) -> Self {
        let params = function.params.iter().enumerate();
        let params = params.map(|(at, param)| (param.name.as_str(), Name::Base(Base::Param(at))));
        let returns = function.returns.iter().enumerate();
        let returns = returns.map(|(at, param)| (param.name.as_str(), Name::Base(Base::Return(at))));
        Self { module, scopes: vec![params.chain(returns).collect(), BTreeMap::new()] }
    }

    pub(crate) fn open(&mut self) {
        self.scopes.push(BTreeMap::new());
    }

    /// Whether there was a scope to close.
    pub(crate) fn close(&mut self) -> bool {
        self.scopes.len() > 2 && self.scopes.pop().is_some()
    }

    fn insert(&mut self, name: &'a str, meaning: Name) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, meaning);
        }
    }

    fn get(&self, name: &str) -> Option<Name> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    /// `.reg .b32 %r<10>, %x;` behind the first word.
    pub(crate) fn registers(&mut self, lexer: &mut Lexer<'a>, body: &mut Body) -> Read<()> {
        let head = Head::read(lexer)?;
        loop {
            let declared = head.named(lexer)?;
            let first = body.registers.len();
            let count = declared.count.unwrap_or(1);
            if count.saturating_add(first as u64) > REGISTERS_MAX {
                return Err(Error::at(lexer.line, "a function has more registers than are read").into());
            }
            body.registers.extend((0..count).map(|_| declared.ty));
            let name = match declared.count {
                Some(count) => Name::Regs { first, count },
                None => Name::Reg(Reg(first)),
            };
            self.insert(declared.name, name);
            if !lexer.take(',')? {
                return Ok(lexer.expect(';')?);
            }
        }
    }

    /// `.local .align 8 .b8 depot[16];` behind the first word.
    pub(crate) fn slots(&mut self, lexer: &mut Lexer<'a>, body: &mut Body) -> Read<()> {
        let head = Head::read(lexer)?;
        loop {
            let declared = head.named(lexer)?;
            // Arguments are copied as they lie, so each begins where any type may.
            let offset = body.frame_bytes.next_multiple_of(declared.align.max(16));
            body.frame_bytes = offset.saturating_add(declared.bytes).next_multiple_of(16);
            if body.frame_bytes > FRAME_BYTES_MAX {
                let bytes = body.frame_bytes;
                let reason = format!("needs {bytes} bytes of local memory a thread, and a GPU has 512 KiB");
                return Err(Unsupported::new(reason));
            }
            self.insert(declared.name, Name::Base(Base::Slot(body.slots.len())));
            body.slots.push(Slot { offset, bytes: declared.bytes });
            if !lexer.take(',')? {
                return Ok(lexer.expect(';')?);
            }
        }
    }

    pub(crate) fn reg(&self, word: &str) -> Option<Reg> {
        if let Some(Name::Reg(reg)) = self.get(word) {
            return Some(reg);
        }
        let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = word.get(stem.len()..)?;
        // `%r1` may be a register 1 of `%r`, or register 1 of `%r<...>`; `%x12` also register 2 of `%x1<...>`.
        (0..digits.len()).find_map(|cut| {
            let Some(Name::Regs { first, count }) = self.get(word.get(..stem.len() + cut)?) else {
                return None;
            };
            let number: u64 = digits.get(cut..)?.parse().ok()?;
            (number < count).then(|| Reg(first + usize::try_from(number).unwrap_or(0)))
        })
    }

    fn base(&self, word: &str, line: u32) -> Read<Option<Base>> {
        if let Some(Name::Base(base)) = self.get(word) {
            return Ok(Some(base));
        }
        let Some(at) = self.module.variable(word) else { return Ok(None) };
        match self.module.variables.get(at) {
            Some(variable) if variable.space == Space::Shared => {
                Err(Unsupported::new(format!("uses shared memory (`{word}` at line {line} of the PTX)")))
            }
            Some(variable) if variable.is_external => {
                Err(Unsupported::new(format!("names `{word}`, which its module does not define")))
            }
            _ => Ok(Some(Base::Variable(at))),
        }
    }

    /// The operands up to the semicolon, which is taken.
    pub(crate) fn operands(&self, lexer: &mut Lexer<'a>) -> Read<Vec<Raw<'a>>> {
        let mut found = Vec::new();
        if lexer.take(';')? {
            return Ok(found);
        }
        loop {
            found.push(self.operand(lexer)?);
            match lexer.next()? {
                Token::Sign(',') => {}
                Token::Sign(';') => return Ok(found),
                other => {
                    let text = format_args!("expected `,` or `;`, found {other:?}");
                    return Err(Error::at(lexer.line, text).into());
                }
            }
        }
    }

    fn list(&self, lexer: &mut Lexer<'a>, end: char) -> Read<Vec<Raw<'a>>> {
        let mut found = Vec::new();
        if lexer.take(end)? {
            return Ok(found);
        }
        loop {
            found.push(match lexer.peek()? {
                // Braces inside braces would nest as deep as a text likes.
                Token::Sign('{' | '(') => {
                    return Err(Error::at(lexer.line, "a list stands inside a list").into());
                }
                _ => self.operand(lexer)?,
            });
            if !lexer.take(',')? {
                lexer.expect(end)?;
                return Ok(found);
            }
        }
    }

    fn operand(&self, lexer: &mut Lexer<'a>) -> Read<Raw<'a>> {
        match lexer.next()? {
            Token::Sign('{') => Ok(Raw::Vector(self.list(lexer, '}')?)),
            Token::Sign('(') => Ok(Raw::Group(self.list(lexer, ')')?)),
            Token::Sign('[') => self.memory(lexer).map(Raw::Memory),
            Token::Sign('!') => {
                let word = lexer.word()?;
                let reg = self.reg(word);
                let reg =
                    reg.ok_or_else(|| Error::at(lexer.line, format_args!("`{word}` is no register")))?;
                Ok(Raw::Value(Operand::Not(reg)))
            }
            Token::Sign('-') => {
                let word = lexer.word()?;
                let value = number(word, true);
                let wrong = || Error::at(lexer.line, format_args!("`-{word}` is no number"));
                Ok(Raw::Value(value.ok_or_else(wrong)?))
            }
            Token::Word(word) => self.word(lexer, word),
            found => Err(Error::at(lexer.line, format_args!("{found:?} is no operand")).into()),
        }
    }

    fn word(&self, lexer: &mut Lexer<'a>, word: &'a str) -> Read<Raw<'a>> {
        let first = if word == "_" { None } else { self.reg(word) };
        if lexer.take('|')? {
            let second = lexer.word()?;
            return Ok(Raw::Pair(first, if second == "_" { None } else { self.reg(second) }));
        }
        if let Some(reg) = first {
            return Ok(Raw::Value(Operand::Reg(reg)));
        }
        if word == "_" {
            return Ok(Raw::Sink);
        }
        if let Some(value) = number(word, false) {
            return Ok(Raw::Value(value));
        }
        if word.starts_with('%') {
            return special(word, lexer.line).map(|found| Raw::Value(Operand::Special(found)));
        }
        if let Some(base) = self.base(word, lexer.line)? {
            let offset = offset(lexer)?;
            return Ok(Raw::Value(Operand::Address(Address { base, offset })));
        }
        Ok(Raw::Name(word))
    }

    /// An address up to the closing bracket.
    fn memory(&self, lexer: &mut Lexer<'a>) -> Read<Address> {
        let word = lexer.word()?;
        let address = if let Some(reg) = self.reg(word) {
            Address { base: Base::Reg(reg), offset: offset(lexer)? }
        } else if let Some(value) = integer(word) {
            Address { base: Base::Zero, offset: value.cast_signed() }
        } else if let Some(base) = self.base(word, lexer.line)? {
            Address { base, offset: offset(lexer)? }
        } else {
            return Err(Error::at(lexer.line, format_args!("`{word}` is no address")).into());
        };
        lexer.expect(']')?;
        Ok(address)
    }
}

/// What is added to an address.
fn offset(lexer: &mut Lexer<'_>) -> Read<i64> {
    let is_minus = if lexer.take('+')? {
        lexer.take('-')?
    } else if lexer.take('-')? {
        true
    } else {
        return Ok(0);
    };
    let word = lexer.word()?;
    let value = integer(word).ok_or_else(|| Error::at(lexer.line, format_args!("`{word}` is no number")))?;
    Ok(if is_minus { value.wrapping_neg().cast_signed() } else { value.cast_signed() })
}

fn number(word: &str, is_minus: bool) -> Option<Operand> {
    if word == "WARP_SZ" {
        return Some(Operand::Int(32));
    }
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let hex = |small, large| word.strip_prefix(small).or_else(|| word.strip_prefix(large));
    if let Some(digits) = hex("0f", "0F") {
        let bits = u32::from_str_radix(digits, 16).ok()?;
        return Some(Operand::F32(if is_minus { bits ^ (1 << 31) } else { bits }));
    }
    if let Some(digits) = hex("0d", "0D") {
        let value = f64::from_bits(u64::from_str_radix(digits, 16).ok()?);
        return Some(Operand::F64(if is_minus { -value } else { value }));
    }
    if let Some(value) = integer(word) {
        return Some(Operand::Int(if is_minus { value.wrapping_neg() } else { value }));
    }
    let value: f64 = word.parse().ok()?;
    Some(Operand::F64(if is_minus { -value } else { value }))
}

fn special(word: &str, line: u32) -> Read<Special> {
    let (name, dimension) = word.split_once('.').unwrap_or((word, "x"));
    let dimension = match dimension {
        "x" => 0,
        "y" => 1,
        "z" => 2,
        _ => 3,
    };
    Ok(match name {
        "%tid" => Special::Tid(dimension),
        "%ntid" => Special::Ntid(dimension),
        "%ctaid" => Special::Ctaid(dimension),
        "%nctaid" => Special::Nctaid(dimension),
        "%laneid" => Special::LaneId,
        "%warpid" => Special::WarpId,
        "%nwarpid" => Special::NwarpId,
        "%smid" => Special::SmId,
        "%nsmid" => Special::NsmId,
        "%gridid" => Special::GridId,
        "%lanemask_eq" => Special::LanemaskEq,
        "%lanemask_lt" => Special::LanemaskLt,
        "%lanemask_le" => Special::LanemaskLe,
        "%lanemask_gt" => Special::LanemaskGt,
        "%lanemask_ge" => Special::LanemaskGe,
        "%clock" => Special::Clock,
        "%clock_hi" => Special::Zero,
        "%clock64" => Special::Clock64,
        "%globaltimer" | "%globaltimer_lo" => Special::GlobalTimer,
        "%dynamic_smem_size" => Special::DynamicSharedBytes,
        _ => {
            let reason = format!("reads `{word}` (line {line} of the PTX), which is not translated");
            return Err(Unsupported::new(reason));
        }
    })
}

/// The type that a register has.
pub(crate) fn type_of(body: &Body, reg: Reg) -> Type {
    body.registers.get(reg.0).copied().unwrap_or(Type::B32)
}
