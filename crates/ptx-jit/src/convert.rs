//! Conversions between types.

use cranelift_codegen::ir::{self, InstBuilder, Value, types};
use fakegpu_ptx::{Format, Op, Operand, Rounding, Type};

use crate::compile::Answer;
use crate::helpers::{FORMATS, Helper, rounding_word};
use crate::translate::{Translator, as_is, int_type};

/// How a conversion is carried out.
#[derive(Clone, Copy)]
struct How {
    to: Type,
    from: Type,
    rounding: Option<Rounding>,
    saturates: bool,
    ftz: bool,
    relu: bool,
}

impl Translator<'_, '_, '_> {
    pub(crate) fn convert(&mut self, op: &Op) -> Answer<()> {
        let Op::Convert { to_ty, from_ty, to, args, rounding, saturates, ftz, relu } = op else {
            return Ok(());
        };
        let how = How {
            to: *to_ty,
            from: *from_ty,
            rounding: *rounding,
            saturates: *saturates,
            ftz: *ftz,
            relu: *relu,
        };
        let value = match (args.as_slice(), to_ty, from_ty) {
            ([high, low], _, _) => self.pack(how, *high, *low)?,
            ([arg], Type::F16x2, Type::E4m3x2 | Type::E5m2x2) => self.unpack_fp8(how, *arg)?,
            ([arg], Type::E4m3x2 | Type::E5m2x2, _) => self.pack_halves(how, *arg)?,
            ([arg], ..) => self.single(how, *arg)?,
            _ => return Err("has a conversion without an operand".to_owned()),
        };
        self.set(*to, value, to_ty.is_signed());
        Ok(())
    }

    fn single(&mut self, how: How, arg: Operand) -> Answer<Value> {
        match (how.from.is_float(), how.to.is_float()) {
            (false, false) => self.int_to_int(how, arg),
            (false, true) => self.int_to_float(how, arg),
            (true, false) => self.float_to_int(how, arg),
            (true, true) => self.float_to_float(how, arg),
        }
    }

    fn int_to_int(&mut self, how: How, arg: Operand) -> Answer<Value> {
        let value = self.operand(arg, how.from)?;
        let wanted = int_type(how.to)?;
        if !how.saturates {
            return Ok(self.fit(value, wanted, how.from.is_signed()));
        }
        let bits = wanted.bits();
        let value = self.fit(value, types::I64, how.from.is_signed());
        // A 64-bit unsigned number beyond the signed ones is more than anything that it could become but itself.
        let value = match (how.from, how.to) {
            (Type::U64, Type::U64) | (Type::S64, Type::S64) => return Ok(value),
            (Type::U64, _) => {
                let most = self.int(types::I64, i64::MAX.unsigned_abs());
                self.builder.ins().umin(value, most)
            }
            _ => value,
        };
        let (least, most) = match (how.to.is_signed(), bits) {
            (true, 64) => (i64::MIN, i64::MAX),
            (false, 64) => (0, i64::MAX),
            (true, _) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            (false, _) => (0, (1 << bits) - 1),
        };
        let value = self.clamp(value, least, most);
        Ok(self.fit(value, wanted, false))
    }

    fn int_to_float(&mut self, how: How, arg: Operand) -> Answer<Value> {
        let is_signed = how.from.is_signed();
        let value = self.operand(arg, how.from)?;
        let rounding = how.rounding.unwrap_or(Rounding::Nearest);
        let is_simple = matches!(how.to, Type::F32 | Type::F64) && rounding == Rounding::Nearest;
        if is_simple {
            let work = if how.from.bytes() == 8 { types::I64 } else { types::I32 };
            let value = self.fit(value, work, is_signed);
            let host = if how.to == Type::F64 { types::F64 } else { types::F32 };
            let ins = self.builder.ins();
            let value =
                if is_signed { ins.fcvt_from_sint(host, value) } else { ins.fcvt_from_uint(host, value) };
            let value = if how.saturates { self.saturate(value) } else { value };
            return self.narrow(value, how.to);
        }
        let wide = self.fit(value, types::I64, is_signed);
        let word = match how.to {
            // 7 stands for 64 bits.
            Type::F64 => 7 << 8 | rounding_word(Format::F16, rounding) & 0xff,
            to => rounding_word(format_of(to), rounding),
        };
        let word = self.int(types::I32, word | u64::from(is_signed) << 16);
        let bits = self.help(Helper::RoundInt, &[wide, word]);
        let bits = self.fit(bits, int_type(how.to)?, false);
        if !how.saturates {
            return Ok(bits);
        }
        let value = self.widen(bits, how.to);
        let value = self.saturate(value);
        self.narrow(value, how.to)
    }

    /// Beyond what the integer can hold, the nearest that it can; 0 for what is no number.
    fn float_to_int(&mut self, how: How, arg: Operand) -> Answer<Value> {
        let value = self.float(arg, how.from, how.ftz)?;
        let value = self.integral(value, how.rounding.unwrap_or(Rounding::ZeroInt));
        let wanted = int_type(how.to)?;
        let work = if wanted.bits() < 32 { types::I32 } else { wanted };
        if how.to.is_signed() {
            let found = self.builder.ins().fcvt_to_sint_sat(work, value);
            return Ok(self.clamp_signed(found, wanted));
        }
        let found = self.builder.ins().fcvt_to_uint_sat(work, value);
        if wanted.bits() == work.bits() {
            return Ok(found);
        }
        let most = self.int(work, (1 << wanted.bits()) - 1);
        let found = self.builder.ins().umin(found, most);
        Ok(self.fit(found, wanted, false))
    }

    fn clamp_signed(&mut self, value: Value, wanted: ir::Type) -> Value {
        if wanted.bits() >= 32 {
            return value;
        }
        let half = 1_i64 << (wanted.bits() - 1);
        let value = self.clamp(value, -half, half - 1);
        self.fit(value, wanted, true)
    }

    fn integral(&mut self, value: Value, rounding: Rounding) -> Value {
        let ins = self.builder.ins();
        match rounding {
            Rounding::NearestInt => ins.nearest(value),
            Rounding::ZeroInt => ins.trunc(value),
            Rounding::DownInt => ins.floor(value),
            Rounding::UpInt => ins.ceil(value),
            _ => value,
        }
    }

    fn float_to_float(&mut self, how: How, arg: Operand) -> Answer<Value> {
        let value = self.float(arg, how.from, how.ftz)?;
        let rounding = how.rounding.unwrap_or(Rounding::Nearest);
        let mut value = self.integral(value, rounding);
        if how.saturates {
            value = self.saturate(value);
        } else if how.relu {
            value = self.relu(value);
        }
        let is_integral = matches!(
            rounding,
            Rounding::NearestInt | Rounding::ZeroInt | Rounding::DownInt | Rounding::UpInt
        );
        let toward = if is_integral { Rounding::Nearest } else { rounding };
        match (how.from, how.to) {
            (Type::F64, Type::F64) => self.narrow(value, Type::F64),
            (_, Type::F64) => {
                let value = self.builder.ins().fpromote(types::F64, value);
                self.narrow(value, Type::F64)
            }
            (Type::F64, Type::F32) if toward == Rounding::Nearest => {
                let value = self.builder.ins().fdemote(types::F32, value);
                self.finish_f32(value, how.ftz)
            }
            (Type::F64, Type::F32) => {
                let bits = self.round(value, Format::F32, toward);
                let bits = self.builder.ins().ireduce(types::I32, bits);
                let value = self.builder.ins().bitcast(types::F32, as_is(), bits);
                self.finish_f32(value, how.ftz)
            }
            (_, Type::F32) => self.finish_f32(value, how.ftz),
            (_, Type::TF32) => {
                let bits = self.round(value, Format::TF32, toward);
                let bits = self.builder.ins().ishl_imm_u(bits, 13);
                Ok(self.builder.ins().ireduce(types::I32, bits))
            }
            (_, to) => {
                let bits = self.round(value, format_of(to), toward);
                Ok(self.builder.ins().ireduce(types::I16, bits))
            }
        }
    }

    fn finish_f32(&mut self, value: Value, ftz: bool) -> Answer<Value> {
        let value = self.canonical(value);
        let value = if ftz { self.flush(value) } else { value };
        self.narrow(value, Type::F32)
    }

    /// Two floats into the halves of a register.
    fn pack(&mut self, how: How, high: Operand, low: Operand) -> Answer<Value> {
        let format = format_of(how.to);
        let width = 1 + format.exponent_bits + format.fraction_bits;
        let mut bits = [self.context; 2];
        for (slot, operand) in bits.iter_mut().zip([high, low]) {
            let mut value = self.float(operand, Type::F32, how.ftz)?;
            if how.relu {
                value = self.relu(value);
            }
            *slot = self.round(value, format, how.rounding.unwrap_or(Rounding::Nearest));
        }
        let [high, low] = bits;
        let high = self.builder.ins().ishl_imm_u(high, i64::from(width));
        let both = self.builder.ins().bor(high, low);
        Ok(self.fit(both, int_type(how.to)?, false))
    }

    /// Two halves of 16 bits into two of 8.
    fn pack_halves(&mut self, how: How, arg: Operand) -> Answer<Value> {
        let both = self.operand(arg, Type::B32)?;
        let mut result = self.int(types::I64, 0);
        for place in [0, 1] {
            let half = self.builder.ins().ushr_imm_u(both, place * 16);
            let half = self.builder.ins().band_imm_u(half, 0xffff);
            let mut value = self.help(Helper::WidenF16, &[half]);
            if how.relu {
                value = self.relu(value);
            }
            let bits = self.round(value, format_of(how.to), Rounding::Nearest);
            let bits = self.builder.ins().ishl_imm_u(bits, place * 8);
            result = self.builder.ins().bor(result, bits);
        }
        Ok(self.builder.ins().ireduce(types::I16, result))
    }

    fn unpack_fp8(&mut self, how: How, arg: Operand) -> Answer<Value> {
        let both = self.operand(arg, how.from)?;
        let both = self.fit(both, types::I32, false);
        let number = FORMATS.iter().position(|format| *format == format_of(how.from)).unwrap_or(0);
        let number = self.int(types::I32, number as u64);
        let mut result = self.int(types::I64, 0);
        for place in [0, 1] {
            let byte = self.builder.ins().ushr_imm_u(both, place * 8);
            let mut value = self.help(Helper::WidenFp8, &[byte, number]);
            if how.relu {
                value = self.relu(value);
            }
            let bits = self.round(value, Format::F16, Rounding::Nearest);
            let bits = self.builder.ins().ishl_imm_u(bits, place * 16);
            result = self.builder.ins().bor(result, bits);
        }
        Ok(self.builder.ins().ireduce(types::I32, result))
    }
}

const fn format_of(ty: Type) -> Format {
    match ty {
        Type::F16 | Type::F16x2 => Format::F16,
        Type::BF16 | Type::BF16x2 => Format::BF16,
        Type::TF32 => Format::TF32,
        Type::E4m3x2 => Format::E4M3,
        Type::E5m2x2 => Format::E5M2,
        _ => Format::F32,
    }
}
