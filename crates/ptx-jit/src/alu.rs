//! Calculations of registers alone, with PTX's rules where they differ from the host's: shifts that clamp, divisions by
//! zero that give all ones, minima that pass over what is no number.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, Value, types};
use fakegpu_ptx::{Alu, Class, Float, Format, Logic, Operand, Reg, Rounding, Test, Type};

use crate::compile::Answer;
use crate::helpers::{Helper, rounding_word};
use crate::translate::{Translator, as_is, int_type};

/// A calculation that needs an operand more than the text has.
fn missing() -> String {
    "has an instruction without an operand".to_owned()
}

fn arg(args: &[Operand], place: usize) -> Answer<Operand> {
    args.get(place).copied().ok_or_else(missing)
}

impl Translator<'_, '_, '_> {
    pub(crate) fn alu(&mut self, op: Alu, ty: Type, to: Reg, args: &[Operand]) -> Answer<()> {
        let value = match op {
            Alu::MulWide | Alu::MadWide => self.wide(op, ty, args)?,
            Alu::Shl | Alu::Shr => self.shift(op, ty, args)?,
            Alu::AddCarry { .. } | Alu::SubCarry { .. } | Alu::MadLoCarry { .. } | Alu::MadHiCarry { .. } => {
                self.with_carry(op, ty, args)?
            }
            Alu::Select => {
                let (a, b) = (self.operand(arg(args, 0)?, ty)?, self.operand(arg(args, 1)?, ty)?);
                let holds = self.operand(arg(args, 2)?, Type::Pred)?;
                self.builder.ins().select(holds, a, b)
            }
            Alu::SelectBySign => {
                let (a, b) = (self.operand(arg(args, 0)?, ty)?, self.operand(arg(args, 1)?, ty)?);
                let by = self.operand(arg(args, 2)?, Type::S32)?;
                let holds = self.builder.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, by, 0);
                self.builder.ins().select(holds, a, b)
            }
            Alu::BitInsert | Alu::BitExtract | Alu::Permute | Alu::Dp4a { .. } | Alu::Funnel { .. } => {
                self.bits(op, ty, args)?
            }
            _ if ty.is_float() => self.float_alu(op, ty, args)?,
            _ => self.int_alu(op, ty, args)?,
        };
        self.set(to, value, ty.is_signed());
        Ok(())
    }

    fn int_alu(&mut self, op: Alu, ty: Type, args: &[Operand]) -> Answer<Value> {
        let a = self.operand(arg(args, 0)?, ty)?;
        let b = match args.get(1) {
            Some(b) => self.operand(*b, ty)?,
            None => a,
        };
        let c = match args.get(2) {
            Some(c) => self.operand(*c, ty)?,
            None => a,
        };
        let host = int_type(ty)?;
        let is_signed = ty.is_signed();
        Ok(match op {
            Alu::Add { saturates: true } => self.saturating(a, b, true),
            Alu::Sub { saturates: true } => self.saturating(a, b, false),
            Alu::Add { .. } => self.builder.ins().iadd(a, b),
            Alu::Sub { .. } => self.builder.ins().isub(a, b),
            Alu::MulLo => self.builder.ins().imul(a, b),
            Alu::MadLo => {
                let product = self.builder.ins().imul(a, b);
                self.builder.ins().iadd(product, c)
            }
            Alu::MulHi => self.high(a, b, is_signed),
            Alu::MadHi { saturates } => {
                let high = self.high(a, b, is_signed);
                if saturates { self.saturating(high, c, true) } else { self.builder.ins().iadd(high, c) }
            }
            Alu::Mul24 { high } | Alu::Mad24 { high } => {
                let product = self.product24(a, b, is_signed, high);
                if matches!(op, Alu::Mad24 { .. }) { self.builder.ins().iadd(product, c) } else { product }
            }
            Alu::Sad => {
                let (less, more) =
                    (self.extreme(a, b, is_signed, true), self.extreme(a, b, is_signed, false));
                let difference = self.builder.ins().isub(more, less);
                self.builder.ins().iadd(difference, c)
            }
            Alu::Div | Alu::Rem => self.divide(op == Alu::Div, a, b, is_signed),
            Alu::Min => self.extreme(a, b, is_signed, true),
            Alu::Max => self.extreme(a, b, is_signed, false),
            Alu::Abs => {
                let negative = self.builder.ins().ineg(a);
                let is_negative = self.builder.ins().icmp_imm_s(IntCC::SignedLessThan, a, 0);
                self.builder.ins().select(is_negative, negative, a)
            }
            Alu::Neg => self.builder.ins().ineg(a),
            Alu::And => self.builder.ins().band(a, b),
            Alu::Or => self.builder.ins().bor(a, b),
            Alu::Xor => self.builder.ins().bxor(a, b),
            // A predicate is 0 or 1.
            Alu::Not if ty == Type::Pred => self.builder.ins().bxor_imm_u(a, 1),
            Alu::Not => self.builder.ins().bnot(a),
            Alu::Cnot => {
                let is_zero = self.builder.ins().icmp_imm_s(IntCC::Equal, a, 0);
                self.fit(is_zero, host, false)
            }
            Alu::BitReverse => self.builder.ins().bitrev(a),
            Alu::LeadingZeros => {
                let count = self.builder.ins().clz(a);
                self.fit(count, types::I32, false)
            }
            Alu::PopCount => {
                let count = self.builder.ins().popcnt(a);
                self.fit(count, types::I32, false)
            }
            Alu::FindHigh { shift_amount } => self.find_high(a, host, is_signed, shift_amount),
            Alu::Lop3(table) => self.lop3(table, a, b, c),
            other => return Err(format!("calculates {other:?} of {ty:?}, which is not translated")),
        })
    }

    fn saturating(&mut self, a: Value, b: Value, adds: bool) -> Value {
        let (wide_a, wide_b) = (self.fit(a, types::I64, true), self.fit(b, types::I64, true));
        let exact = if adds {
            self.builder.ins().iadd(wide_a, wide_b)
        } else {
            self.builder.ins().isub(wide_a, wide_b)
        };
        let clamped = self.clamp(exact, i64::from(i32::MIN), i64::from(i32::MAX));
        self.builder.ins().ireduce(types::I32, clamped)
    }

    /// A signed number, brought between two.
    pub(crate) fn clamp(&mut self, value: Value, least: i64, most: i64) -> Value {
        let ty = self.builder.func.dfg.value_type(value);
        let (least, most) = (self.int(ty, least.cast_unsigned()), self.int(ty, most.cast_unsigned()));
        let value = self.builder.ins().smax(value, least);
        self.builder.ins().smin(value, most)
    }

    fn extreme(&mut self, a: Value, b: Value, is_signed: bool, is_least: bool) -> Value {
        let ins = self.builder.ins();
        match (is_signed, is_least) {
            (true, true) => ins.smin(a, b),
            (true, false) => ins.smax(a, b),
            (false, true) => ins.umin(a, b),
            (false, false) => ins.umax(a, b),
        }
    }

    fn high(&mut self, a: Value, b: Value, is_signed: bool) -> Value {
        let ty = self.builder.func.dfg.value_type(a);
        if ty == types::I64 {
            return if is_signed { self.builder.ins().smulhi(a, b) } else { self.builder.ins().umulhi(a, b) };
        }
        let (a, b) = (self.fit(a, types::I64, is_signed), self.fit(b, types::I64, is_signed));
        let product = self.builder.ins().imul(a, b);
        let high = self.builder.ins().ushr_imm_u(product, i64::from(ty.bits()));
        self.builder.ins().ireduce(ty, high)
    }

    fn product24(&mut self, a: Value, b: Value, is_signed: bool, high: bool) -> Value {
        let mut low24 = |value: Value| {
            let raised = self.builder.ins().ishl_imm_u(value, 8);
            let lowered = if is_signed {
                self.builder.ins().sshr_imm_u(raised, 8)
            } else {
                self.builder.ins().ushr_imm_u(raised, 8)
            };
            self.fit(lowered, types::I64, is_signed)
        };
        let (a, b) = (low24(a), low24(b));
        let product = self.builder.ins().imul(a, b);
        let product = if high { self.builder.ins().ushr_imm_u(product, 16) } else { product };
        self.builder.ins().ireduce(types::I32, product)
    }

    /// A division by zero gives all ones, and leaves the dividend; the least number by -1 is itself.
    fn divide(&mut self, quotient: bool, a: Value, b: Value, is_signed: bool) -> Value {
        let ty = self.builder.func.dfg.value_type(a);
        let work = if ty.bits() < 32 { types::I32 } else { ty };
        let (a, b) = (self.fit(a, work, is_signed), self.fit(b, work, is_signed));
        let is_zero = self.builder.ins().icmp_imm_s(IntCC::Equal, b, 0);
        let one = self.int(work, 1);
        let mut by = self.builder.ins().select(is_zero, one, b);
        let mut is_minus = None;
        if is_signed {
            let minus = self.builder.ins().icmp_imm_s(IntCC::Equal, by, -1);
            by = self.builder.ins().select(minus, one, by);
            is_minus = Some(minus);
        }
        let ones = self.int(work, u64::MAX);
        let value = if quotient {
            let found =
                if is_signed { self.builder.ins().sdiv(a, by) } else { self.builder.ins().udiv(a, by) };
            let negative = self.builder.ins().ineg(a);
            let found = is_minus.map_or(found, |minus| self.builder.ins().select(minus, negative, found));
            self.builder.ins().select(is_zero, ones, found)
        } else {
            let found =
                if is_signed { self.builder.ins().srem(a, by) } else { self.builder.ins().urem(a, by) };
            self.builder.ins().select(is_zero, a, found)
        };
        self.fit(value, ty, false)
    }

    fn find_high(&mut self, a: Value, host: ir::Type, is_signed: bool, shift_amount: bool) -> Value {
        let mut value = a;
        if is_signed {
            let inverted = self.builder.ins().bnot(a);
            let is_negative = self.builder.ins().icmp_imm_s(IntCC::SignedLessThan, a, 0);
            value = self.builder.ins().select(is_negative, inverted, a);
        }
        let zeros = self.builder.ins().clz(value);
        let zeros = self.fit(zeros, types::I32, false);
        let found = if shift_amount {
            zeros
        } else {
            let last = self.int(types::I32, u64::from(host.bits() - 1));
            self.builder.ins().isub(last, zeros)
        };
        let none = self.builder.ins().icmp_imm_s(IntCC::Equal, value, 0);
        let ones = self.int(types::I32, u64::MAX);
        self.builder.ins().select(none, ones, found)
    }

    fn lop3(&mut self, table: u8, a: Value, b: Value, c: Value) -> Value {
        let ty = self.builder.func.dfg.value_type(a);
        let mut result = self.int(ty, 0);
        for row in 0..8_u8 {
            if table >> row & 1 == 0 {
                continue;
            }
            let mut term = None;
            for (bit, value) in [(4, a), (2, b), (1, c)] {
                let value = if row & bit != 0 { value } else { self.builder.ins().bnot(value) };
                term = Some(term.map_or(value, |term| self.builder.ins().band(term, value)));
            }
            result = term.map_or(result, |term| self.builder.ins().bor(result, term));
        }
        result
    }

    fn wide(&mut self, op: Alu, ty: Type, args: &[Operand]) -> Answer<Value> {
        let wanted = if ty.bytes() == 2 { types::I32 } else { types::I64 };
        let (a, b) = (self.operand(arg(args, 0)?, ty)?, self.operand(arg(args, 1)?, ty)?);
        let (a, b) = (self.fit(a, wanted, ty.is_signed()), self.fit(b, wanted, ty.is_signed()));
        let product = self.builder.ins().imul(a, b);
        if op != Alu::MadWide {
            return Ok(product);
        }
        let sum_ty = if ty.bytes() == 2 { Type::U32 } else { Type::U64 };
        let c = self.operand(arg(args, 2)?, sum_ty)?;
        Ok(self.builder.ins().iadd(product, c))
    }

    /// A shift by the width or more shifts everything out, where the host would shift by the rest.
    fn shift(&mut self, op: Alu, ty: Type, args: &[Operand]) -> Answer<Value> {
        let a = self.operand(arg(args, 0)?, ty)?;
        let host = int_type(ty)?;
        let width = u64::from(host.bits());
        let is_signed = op == Alu::Shr && ty.is_signed();
        if let Operand::Int(by) = arg(args, 1)? {
            let by = by & u64::from(u32::MAX);
            if by >= width && !is_signed {
                return Ok(self.int(host, 0));
            }
            let by = i64::try_from(by.min(width - 1)).unwrap_or(0);
            let ins = self.builder.ins();
            return Ok(match (op, is_signed) {
                (Alu::Shl, _) => ins.ishl_imm_u(a, by),
                (_, true) => ins.sshr_imm_u(a, by),
                (_, false) => ins.ushr_imm_u(a, by),
            });
        }
        let by = self.operand(arg(args, 1)?, Type::U32)?;
        let last = self.int(types::I32, width - 1);
        if is_signed {
            let by = self.builder.ins().umin(by, last);
            return Ok(self.builder.ins().sshr(a, by));
        }
        let shifted =
            if op == Alu::Shl { self.builder.ins().ishl(a, by) } else { self.builder.ins().ushr(a, by) };
        let zero = self.int(host, 0);
        let fits = self.builder.ins().icmp(IntCC::UnsignedLessThanOrEqual, by, last);
        Ok(self.builder.ins().select(fits, shifted, zero))
    }

    fn bits(&mut self, op: Alu, ty: Type, args: &[Operand]) -> Answer<Value> {
        let host = int_type(ty)?;
        Ok(match op {
            Alu::Funnel { left, clamps } => self.funnel(left, clamps, args)?,
            Alu::Permute => {
                let (a, b) =
                    (self.operand(arg(args, 0)?, Type::B32)?, self.operand(arg(args, 1)?, Type::B32)?);
                let selector = self.operand(arg(args, 2)?, Type::B32)?;
                let mode = self.int(types::I32, 0);
                self.help(Helper::Permute, &[a, b, selector, mode])
            }
            Alu::Dp4a { a_signed, b_signed } => {
                let (a, b) =
                    (self.operand(arg(args, 0)?, Type::B32)?, self.operand(arg(args, 1)?, Type::B32)?);
                let c = self.operand(arg(args, 2)?, Type::B32)?;
                let word = self.int(types::I32, u64::from(a_signed) | u64::from(b_signed) << 1);
                self.help(Helper::Dp4a, &[a, b, c, word])
            }
            Alu::BitExtract => {
                let a = self.operand(arg(args, 0)?, ty)?;
                let a = self.fit(a, types::I64, false);
                let (place, length) =
                    (self.operand(arg(args, 1)?, Type::U32)?, self.operand(arg(args, 2)?, Type::U32)?);
                let word = u64::from(ty.is_signed()) | u64::from(ty.bytes() == 8) << 1;
                let word = self.int(types::I32, word);
                let found = self.help(Helper::Extract, &[a, place, length, word]);
                self.fit(found, host, false)
            }
            _ => self.insert(ty, host, args)?,
        })
    }

    fn insert(&mut self, ty: Type, host: ir::Type, args: &[Operand]) -> Answer<Value> {
        let (a, b) = (self.operand(arg(args, 0)?, ty)?, self.operand(arg(args, 1)?, ty)?);
        let width = u64::from(host.bits());
        if let (Operand::Int(place), Operand::Int(length)) = (arg(args, 2)?, arg(args, 3)?) {
            let (place, length) = (place & 0xff, length & 0xff);
            if place >= width || length == 0 {
                return Ok(b);
            }
            let length = length.min(width - place);
            let mask = if length >= 64 { u64::MAX } else { (1 << length) - 1 } << place;
            let raised = self.builder.ins().ishl_imm_u(a, i64::try_from(place).unwrap_or(0));
            let (taken, left) = (self.int(host, mask), self.int(host, !mask));
            let taken = self.builder.ins().band(raised, taken);
            let left = self.builder.ins().band(b, left);
            return Ok(self.builder.ins().bor(taken, left));
        }
        let (a, b) = (self.fit(a, types::I64, false), self.fit(b, types::I64, false));
        let (place, length) =
            (self.operand(arg(args, 2)?, Type::U32)?, self.operand(arg(args, 3)?, Type::U32)?);
        let length = self.builder.ins().band_imm_u(length, 0xff);
        let mark = self.int(types::I32, if width == 32 { 1 << 31 } else { 0 });
        let length = self.builder.ins().bor(length, mark);
        let found = self.help(Helper::Insert, &[a, b, place, length]);
        Ok(self.fit(found, host, false))
    }

    /// 32 bits out of 64, of which `a` are the lower.
    fn funnel(&mut self, left: bool, clamps: bool, args: &[Operand]) -> Answer<Value> {
        let (a, b) = (self.operand(arg(args, 0)?, Type::B32)?, self.operand(arg(args, 1)?, Type::B32)?);
        let by = self.operand(arg(args, 2)?, Type::U32)?;
        let by = if clamps {
            let most = self.int(types::I32, 32);
            self.builder.ins().umin(by, most)
        } else {
            self.builder.ins().band_imm_u(by, 31)
        };
        let (low, high) = (self.fit(a, types::I64, false), self.fit(b, types::I64, false));
        let high = self.builder.ins().ishl_imm_u(high, 32);
        let both = self.builder.ins().bor(high, low);
        let by = self.fit(by, types::I64, false);
        let shifted = if left {
            let raised = self.builder.ins().ishl(both, by);
            self.builder.ins().ushr_imm_u(raised, 32)
        } else {
            self.builder.ins().ushr(both, by)
        };
        Ok(self.builder.ins().ireduce(types::I32, shifted))
    }

    fn with_carry(&mut self, op: Alu, ty: Type, args: &[Operand]) -> Answer<Value> {
        let (mut a, mut b) = (self.operand(arg(args, 0)?, ty)?, self.operand(arg(args, 1)?, ty)?);
        let (reads, writes, adds) = match op {
            Alu::AddCarry { reads, writes } => (reads, writes, true),
            Alu::SubCarry { reads, writes } => (reads, writes, false),
            Alu::MadLoCarry { reads, writes } | Alu::MadHiCarry { reads, writes } => {
                a = match op {
                    Alu::MadHiCarry { .. } => self.high(a, b, ty.is_signed()),
                    _ => self.builder.ins().imul(a, b),
                };
                b = self.operand(arg(args, 2)?, ty)?;
                (reads, writes, true)
            }
            _ => return Err(missing()),
        };
        let zero = self.int(types::I8, 0);
        let before = if reads { self.carry() } else { zero };
        let wide = self.fit(before, self.builder.func.dfg.value_type(a), false);
        let (value, after) = if adds {
            let sum = self.builder.ins().iadd(a, b);
            let first = self.builder.ins().icmp(IntCC::UnsignedLessThan, sum, a);
            let value = self.builder.ins().iadd(sum, wide);
            let second = self.builder.ins().icmp(IntCC::UnsignedLessThan, value, sum);
            (value, self.builder.ins().bor(first, second))
        } else {
            let difference = self.builder.ins().isub(a, b);
            let first = self.builder.ins().icmp(IntCC::UnsignedLessThan, a, b);
            let value = self.builder.ins().isub(difference, wide);
            let second = self.builder.ins().icmp(IntCC::UnsignedLessThan, difference, wide);
            (value, self.builder.ins().bor(first, second))
        };
        if writes {
            self.set_carry(after);
        }
        Ok(value)
    }

    /// An operand as a float that the host has; narrow ones as 32 bits.
    pub(crate) fn float(&mut self, operand: Operand, ty: Type, ftz: bool) -> Answer<Value> {
        let bits = self.operand(operand, ty)?;
        let value = self.widen(bits, ty);
        Ok(if ftz && ty == Type::F32 { self.flush(value) } else { value })
    }

    /// Bits of a float as a float that the host has.
    pub(crate) fn widen(&mut self, bits: Value, ty: Type) -> Value {
        match ty {
            Type::F64 => self.builder.ins().bitcast(types::F64, as_is(), bits),
            Type::F16 => {
                let bits = self.fit(bits, types::I32, false);
                self.help(Helper::WidenF16, &[bits])
            }
            Type::BF16 => {
                let bits = self.fit(bits, types::I32, false);
                let bits = self.builder.ins().ishl_imm_u(bits, 16);
                self.builder.ins().bitcast(types::F32, as_is(), bits)
            }
            _ => self.builder.ins().bitcast(types::F32, as_is(), bits),
        }
    }

    /// A host's float as the bits of a type: rounded to the nearest where that is narrow.
    pub(crate) fn narrow(&mut self, value: Value, ty: Type) -> Answer<Value> {
        let format = match ty {
            Type::F64 => return Ok(self.builder.ins().bitcast(types::I64, as_is(), value)),
            Type::F16 => Format::F16,
            Type::BF16 => Format::BF16,
            _ => return Ok(self.builder.ins().bitcast(types::I32, as_is(), value)),
        };
        let bits = self.round(value, format, Rounding::Nearest);
        Ok(self.builder.ins().ireduce(types::I16, bits))
    }

    /// A host's float rounded to a format, as 64 bits.
    pub(crate) fn round(&mut self, value: Value, format: Format, rounding: Rounding) -> Value {
        let value = match self.builder.func.dfg.value_type(value) {
            types::F64 => value,
            _ => self.builder.ins().fpromote(types::F64, value),
        };
        let word = self.int(types::I32, rounding_word(format, rounding));
        self.help(Helper::RoundF64, &[value, word])
    }

    /// A number below the normal ones becomes zero, with its sign.
    pub(crate) fn flush(&mut self, value: Value) -> Value {
        let bits = self.builder.ins().bitcast(types::I32, as_is(), value);
        let magnitude = self.builder.ins().band_imm_u(bits, 0x7fff_ffff);
        let is_small = self.builder.ins().icmp_imm_s(IntCC::UnsignedLessThan, magnitude, 0x0080_0000);
        let sign = self.int(types::I32, 1 << 31);
        let sign = self.builder.ins().band(bits, sign);
        let kept = self.builder.ins().select(is_small, sign, bits);
        self.builder.ins().bitcast(types::F32, as_is(), kept)
    }

    /// What is no number becomes the one that NVIDIA's processors give.
    pub(crate) fn canonical(&mut self, value: Value) -> Value {
        if self.builder.func.dfg.value_type(value) != types::F32 {
            return value;
        }
        let is_nan = self.builder.ins().fcmp(FloatCC::Unordered, value, value);
        let nan = self.builder.ins().f32const(f32::from_bits(0x7fff_ffff));
        self.builder.ins().select(is_nan, nan, value)
    }

    fn float_alu(&mut self, op: Alu, ty: Type, args: &[Operand]) -> Answer<Value> {
        let half = match ty {
            Type::F16x2 => Some(Type::F16),
            Type::BF16x2 => Some(Type::BF16),
            _ => None,
        };
        let mut whole = Vec::new();
        for operand in args {
            whole.push(self.operand(*operand, ty)?);
        }
        let Some(half) = half else {
            return self.float_of(op, ty, &whole);
        };
        let mut result = self.int(types::I32, 0);
        for shift in [0, 16] {
            let mut parts = Vec::new();
            for value in &whole {
                let part = self.builder.ins().ushr_imm_u(*value, shift);
                parts.push(self.builder.ins().ireduce(types::I16, part));
            }
            let part = self.float_of(op, half, &parts)?;
            let part = self.fit(part, types::I32, false);
            let part = self.builder.ins().ishl_imm_u(part, shift);
            result = self.builder.ins().bor(result, part);
        }
        Ok(result)
    }

    /// A calculation of single floats, all by their bits.
    fn float_of(&mut self, op: Alu, ty: Type, bits: &[Value]) -> Answer<Value> {
        let ftz = ftz_of(op) && ty == Type::F32;
        let mut values = Vec::new();
        for bits in bits {
            let value = self.widen(*bits, ty);
            values.push(if ftz { self.flush(value) } else { value });
        }
        let sign_only = matches!(op, Alu::FloatAbs { .. } | Alu::FloatNeg { .. } | Alu::CopySign);
        if sign_only {
            return self.sign(op, ty, bits, &values);
        }
        let first = values.first().copied().ok_or_else(missing)?;
        let second = values.get(1).copied().unwrap_or(first);
        let third = values.get(2).copied().unwrap_or(first);
        if let Alu::FloatFma(float) = op
            && ty.is_narrow_float()
        {
            return self.fma_narrow(float, ty, [first, second, third]);
        }
        let value = match op {
            Alu::FloatAdd(float) => self.rounded(float, ty, 0, [first, second, first])?,
            Alu::FloatSub(float) => {
                let negative = self.builder.ins().fneg(second);
                match float.rounding {
                    Rounding::Nearest => self.builder.ins().fsub(first, second),
                    _ => self.rounded(float, ty, 0, [first, negative, first])?,
                }
            }
            Alu::FloatMul(float) => self.rounded(float, ty, 1, [first, second, first])?,
            Alu::FloatFma(float) => self.rounded(float, ty, 2, [first, second, third])?,
            Alu::FloatDiv(float) => self.rounded(float, ty, 3, [first, second, first])?,
            Alu::Rcp(float) => {
                let one = self.float_const(1.0, ty);
                self.rounded(float, ty, 3, [one, first, first])?
            }
            Alu::Sqrt(float) => self.rounded(float, ty, 4, [first, first, first])?,
            Alu::Rsqrt { .. } => self.rsqrt(first, ty),
            Alu::FloatMin { propagates_nan, .. } => self.float_extreme(first, second, propagates_nan, true),
            Alu::FloatMax { propagates_nan, .. } => self.float_extreme(first, second, propagates_nan, false),
            Alu::Ex2 { .. } => self.by_helper(Helper::Ex2, first)?,
            Alu::Lg2 { .. } => self.by_helper(Helper::Lg2, first)?,
            Alu::Sin { .. } => self.by_helper(Helper::Sin, first)?,
            Alu::Cos { .. } => self.by_helper(Helper::Cos, first)?,
            Alu::Tanh => self.by_helper(Helper::Tanh, first)?,
            other => return Err(format!("calculates {other:?} of {ty:?}, which is not translated")),
        };
        let value = self.finish_float(op, value, ftz);
        self.narrow(value, ty)
    }

    /// What comes behind the calculation itself.
    fn finish_float(&mut self, op: Alu, value: Value, ftz: bool) -> Value {
        let mut value = value;
        let (Alu::FloatAdd(float) | Alu::FloatSub(float) | Alu::FloatMul(float) | Alu::FloatFma(float)) = op
        else {
            let value = self.canonical(value);
            return if ftz { self.flush(value) } else { value };
        };
        if float.saturates {
            value = self.saturate(value);
        } else if float.relu {
            value = self.relu(value);
        }
        value = self.canonical(value);
        if ftz { self.flush(value) } else { value }
    }

    /// Into 0 to 1; what is no number becomes 0.
    pub(crate) fn saturate(&mut self, value: Value) -> Value {
        let (zero, one) = match self.builder.func.dfg.value_type(value) {
            types::F64 => (self.builder.ins().f64const(0.0), self.builder.ins().f64const(1.0)),
            _ => (self.builder.ins().f32const(0.0), self.builder.ins().f32const(1.0)),
        };
        let is_more = self.builder.ins().fcmp(FloatCC::GreaterThan, value, zero);
        let value = self.builder.ins().select(is_more, value, zero);
        self.builder.ins().fmin(value, one)
    }

    /// What is negative becomes 0.
    pub(crate) fn relu(&mut self, value: Value) -> Value {
        let zero = match self.builder.func.dfg.value_type(value) {
            types::F64 => self.builder.ins().f64const(0.0),
            _ => self.builder.ins().f32const(0.0),
        };
        self.builder.ins().fmax(value, zero)
    }

    fn float_const(&mut self, value: f32, ty: Type) -> Value {
        if ty == Type::F64 {
            self.builder.ins().f64const(f64::from(value))
        } else {
            self.builder.ins().f32const(value)
        }
    }

    /// An addition (0), multiplication (1), both (2), division (3) or square root (4), rounded as asked.
    fn rounded(&mut self, float: Float, ty: Type, op: u64, [a, b, c]: [Value; 3]) -> Answer<Value> {
        if float.rounding == Rounding::Nearest {
            let ins = self.builder.ins();
            return Ok(match op {
                0 => ins.fadd(a, b),
                1 => ins.fmul(a, b),
                2 => ins.fma(a, b, c),
                3 => ins.fdiv(a, b),
                _ => ins.sqrt(a),
            });
        }
        if ty != Type::F32 {
            return Err(format!(
                "rounds {ty:?} {:?}, which is not translated (line {})",
                float.rounding, self.line
            ));
        }
        let word = rounding_word(Format::F32, float.rounding) & 0xff | op << 16;
        let word = self.int(types::I32, word);
        Ok(self.help(Helper::Directed, &[a, b, c, word]))
    }

    fn rsqrt(&mut self, value: Value, ty: Type) -> Value {
        let wide = if ty == Type::F64 { value } else { self.builder.ins().fpromote(types::F64, value) };
        let root = self.builder.ins().sqrt(wide);
        let one = self.builder.ins().f64const(1.0);
        let found = self.builder.ins().fdiv(one, root);
        if ty == Type::F64 { found } else { self.builder.ins().fdemote(types::F32, found) }
    }

    fn by_helper(&mut self, helper: Helper, value: Value) -> Answer<Value> {
        if self.builder.func.dfg.value_type(value) != types::F32 {
            return Err(format!("calculates {helper:?} of 64 bits, which is not translated"));
        }
        Ok(self.help(helper, &[value]))
    }

    fn fma_narrow(&mut self, float: Float, ty: Type, values: [Value; 3]) -> Answer<Value> {
        let format = if ty == Type::F16 { Format::F16 } else { Format::BF16 };
        let [a, b, c] = values.map(|value| self.builder.ins().fpromote(types::F64, value));
        let word = self.int(types::I32, rounding_word(format, float.rounding));
        let bits = self.help(Helper::FmaNarrow, &[a, b, c, word]);
        let bits = self.builder.ins().ireduce(types::I16, bits);
        if !float.saturates && !float.relu {
            return Ok(bits);
        }
        let value = self.widen(bits, ty);
        let value = if float.saturates { self.saturate(value) } else { self.relu(value) };
        self.narrow(value, ty)
    }

    /// The smaller or larger number; what is no number counts only where it is to be passed on.
    fn float_extreme(&mut self, a: Value, b: Value, propagates_nan: bool, is_least: bool) -> Value {
        let found = if is_least { self.builder.ins().fmin(a, b) } else { self.builder.ins().fmax(a, b) };
        if propagates_nan {
            return found;
        }
        let b_is_nan = self.builder.ins().fcmp(FloatCC::Unordered, b, b);
        let found = self.builder.ins().select(b_is_nan, a, found);
        let a_is_nan = self.builder.ins().fcmp(FloatCC::Unordered, a, a);
        self.builder.ins().select(a_is_nan, b, found)
    }

    /// Changes of the sign alone, which leave what is no number as it is.
    fn sign(&mut self, op: Alu, ty: Type, bits: &[Value], values: &[Value]) -> Answer<Value> {
        let mut first = bits.first().copied().ok_or_else(missing)?;
        let second = bits.get(1).copied().unwrap_or(first);
        if ftz_of(op)
            && ty == Type::F32
            && let Some(value) = values.first().copied()
        {
            first = self.builder.ins().bitcast(types::I32, as_is(), value);
        }
        let host = int_type(ty)?;
        let sign = self.int(host, 1 << (host.bits() - 1));
        Ok(match op {
            Alu::FloatAbs { .. } => self.builder.ins().band_not(first, sign),
            Alu::FloatNeg { .. } => self.builder.ins().bxor(first, sign),
            // `copysign d, a, b` has the sign of a and the magnitude of b.
            _ => {
                let magnitude = self.builder.ins().band_not(second, sign);
                let sign = self.builder.ins().band(first, sign);
                self.builder.ins().bor(sign, magnitude)
            }
        })
    }

    /// Whether a comparison holds, as 0 or 1.
    pub(crate) fn test(&mut self, test: Test, ty: Type, a: Operand, b: Operand, ftz: bool) -> Answer<Value> {
        if ty.is_float() {
            let condition = float_condition(test);
            let (a, b) = (self.float(a, ty, ftz)?, self.float(b, ty, ftz)?);
            return Ok(self.builder.ins().fcmp(condition, a, b));
        }
        let condition =
            int_condition(test, ty.is_signed()).ok_or("compares integers as if they were floats")?;
        let (a, b) = (self.operand(a, ty)?, self.operand(b, ty)?);
        Ok(self.builder.ins().icmp(condition, a, b))
    }

    pub(crate) fn combine(&mut self, value: Value, with: Option<(Logic, Operand)>) -> Answer<Value> {
        let Some((logic, operand)) = with else { return Ok(value) };
        let other = self.operand(operand, Type::Pred)?;
        let ins = self.builder.ins();
        Ok(match logic {
            Logic::And => ins.band(value, other),
            Logic::Or => ins.bor(value, other),
            Logic::Xor => ins.bxor(value, other),
        })
    }

    pub(crate) fn test_class(&mut self, class: Class, ty: Type, to: Reg, operand: Operand) -> Answer<()> {
        let bits = self.operand(operand, ty)?;
        let host = int_type(ty)?;
        let (infinity, least) = match ty {
            Type::F64 => (0x7ff0_0000_0000_0000, 0x0010_0000_0000_0000),
            _ => (0x7f80_0000, 0x0080_0000),
        };
        let sign = self.int(host, 1 << (host.bits() - 1));
        let magnitude = self.builder.ins().band_not(bits, sign);
        let (infinity, least) = (self.int(host, infinity), self.int(host, least));
        let mut compare = |condition, other| self.builder.ins().icmp(condition, magnitude, other);
        let value = match class {
            Class::Finite => compare(IntCC::UnsignedLessThan, infinity),
            Class::Infinite => compare(IntCC::Equal, infinity),
            Class::Number => compare(IntCC::UnsignedLessThanOrEqual, infinity),
            Class::NotANumber => compare(IntCC::UnsignedGreaterThan, infinity),
            Class::Normal => {
                let (low, high) = (
                    compare(IntCC::UnsignedGreaterThanOrEqual, least),
                    compare(IntCC::UnsignedLessThan, infinity),
                );
                self.builder.ins().band(low, high)
            }
            Class::Subnormal => {
                let small = compare(IntCC::UnsignedLessThan, least);
                let is_some = self.builder.ins().icmp_imm_s(IntCC::NotEqual, magnitude, 0);
                self.builder.ins().band(small, is_some)
            }
        };
        self.set(to, value, false);
        Ok(())
    }
}

const fn ftz_of(op: Alu) -> bool {
    match op {
        Alu::FloatAdd(float)
        | Alu::FloatSub(float)
        | Alu::FloatMul(float)
        | Alu::FloatFma(float)
        | Alu::FloatDiv(float)
        | Alu::Rcp(float)
        | Alu::Sqrt(float) => float.ftz,
        Alu::FloatMin { ftz, .. }
        | Alu::FloatMax { ftz, .. }
        | Alu::FloatAbs { ftz }
        | Alu::FloatNeg { ftz }
        | Alu::Rsqrt { ftz }
        | Alu::Ex2 { ftz }
        | Alu::Lg2 { ftz }
        | Alu::Sin { ftz }
        | Alu::Cos { ftz } => ftz,
        _ => false,
    }
}

const fn float_condition(test: Test) -> FloatCC {
    match test {
        Test::Eq => FloatCC::Equal,
        Test::Ne => FloatCC::OrderedNotEqual,
        Test::Lt | Test::Lo => FloatCC::LessThan,
        Test::Le | Test::Ls => FloatCC::LessThanOrEqual,
        Test::Gt | Test::Hi => FloatCC::GreaterThan,
        Test::Ge | Test::Hs => FloatCC::GreaterThanOrEqual,
        Test::Equ => FloatCC::UnorderedOrEqual,
        Test::Neu => FloatCC::NotEqual,
        Test::Ltu => FloatCC::UnorderedOrLessThan,
        Test::Leu => FloatCC::UnorderedOrLessThanOrEqual,
        Test::Gtu => FloatCC::UnorderedOrGreaterThan,
        Test::Geu => FloatCC::UnorderedOrGreaterThanOrEqual,
        Test::Num => FloatCC::Ordered,
        Test::Nan => FloatCC::Unordered,
    }
}

const fn int_condition(test: Test, is_signed: bool) -> Option<IntCC> {
    Some(match (test, is_signed) {
        (Test::Eq, _) => IntCC::Equal,
        (Test::Ne, _) => IntCC::NotEqual,
        (Test::Lt, true) => IntCC::SignedLessThan,
        (Test::Le, true) => IntCC::SignedLessThanOrEqual,
        (Test::Gt, true) => IntCC::SignedGreaterThan,
        (Test::Ge, true) => IntCC::SignedGreaterThanOrEqual,
        (Test::Lt | Test::Lo, _) => IntCC::UnsignedLessThan,
        (Test::Le | Test::Ls, _) => IntCC::UnsignedLessThanOrEqual,
        (Test::Gt | Test::Hi, _) => IntCC::UnsignedGreaterThan,
        (Test::Ge | Test::Hs, _) => IntCC::UnsignedGreaterThanOrEqual,
        _ => return None,
    })
}
