//! Accesses: each is checked against the range that its place found last, and asks for it where it lies outside.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AtomicRmwOp, InstBuilder, Value, types};
use fakegpu_ptx::{Address, AtomicOp, Base, Operand, Order, Reg, Space, Type};

use crate::compile::Answer;
use crate::context::at;
use crate::helpers::Helper;
use crate::run::Access;
use crate::translate::{Translator, int_type, plain};

impl Translator<'_, '_, '_> {
    pub(crate) fn load(
        &mut self,
        space: Space,
        ty: Type,
        to: &[Option<Reg>],
        address: Address,
        order: Order,
    ) -> Answer<()> {
        let element = int_type(ty)?;
        let at = self.place(space, address, ty.bytes(), to.len(), Access::Read)?;
        for (number, to) in (0_u32..).zip(to) {
            let offset = i32::try_from(number * ty.bytes()).unwrap_or(0);
            let value = match order {
                Order::Weak => self.builder.ins().load(element, plain(), at, offset),
                Order::Strong => {
                    let at = self.builder.ins().iadd_imm_s(at, i64::from(offset));
                    self.builder.ins().atomic_load(element, plain(), at)
                }
            };
            if let Some(to) = to {
                self.set(*to, value, ty.is_signed());
            }
        }
        Ok(())
    }

    pub(crate) fn store(
        &mut self,
        space: Space,
        ty: Type,
        from: &[Operand],
        address: Address,
        order: Order,
    ) -> Answer<()> {
        let at = self.place(space, address, ty.bytes(), from.len(), Access::Write)?;
        for (number, from) in (0_u32..).zip(from) {
            let value = self.operand(*from, ty)?;
            let offset = i32::try_from(number * ty.bytes()).unwrap_or(0);
            match order {
                Order::Weak => {
                    self.builder.ins().store(plain(), value, at, offset);
                }
                Order::Strong => {
                    let at = self.builder.ins().iadd_imm_s(at, i64::from(offset));
                    self.builder.ins().atomic_store(plain(), value, at);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn atomic(
        &mut self,
        op: AtomicOp,
        space: Space,
        ty: Type,
        to: Option<Reg>,
        address: Address,
        args: &[Operand],
    ) -> Answer<()> {
        let element = int_type(ty)?;
        let at = self.place(space, address, ty.bytes(), 1, Access::Write)?;
        let mut values = Vec::new();
        for arg in args {
            values.push(self.operand(*arg, ty)?);
        }
        let [value, ..] = values.as_slice() else {
            return Err("has an atomic access without a value".to_owned());
        };
        let value = *value;
        let simple = match op {
            AtomicOp::Add if ty.is_float() => None,
            AtomicOp::Add => Some(AtomicRmwOp::Add),
            AtomicOp::Min if ty.is_signed() => Some(AtomicRmwOp::Smin),
            AtomicOp::Max if ty.is_signed() => Some(AtomicRmwOp::Smax),
            AtomicOp::Min => Some(AtomicRmwOp::Umin),
            AtomicOp::Max => Some(AtomicRmwOp::Umax),
            AtomicOp::And => Some(AtomicRmwOp::And),
            AtomicOp::Or => Some(AtomicRmwOp::Or),
            AtomicOp::Xor => Some(AtomicRmwOp::Xor),
            AtomicOp::Exchange => Some(AtomicRmwOp::Xchg),
            AtomicOp::CompareExchange | AtomicOp::Inc | AtomicOp::Dec => None,
        };
        let old = match (simple, op) {
            (Some(simple), _) => self.builder.ins().atomic_rmw(element, plain(), simple, at, value),
            (None, AtomicOp::CompareExchange) => {
                let new = values.get(1).copied().unwrap_or(value);
                self.builder.ins().atomic_cas(plain(), at, value, new)
            }
            (None, AtomicOp::Add) => {
                let helper = match ty {
                    Type::F32 => Helper::AtomicAddF32,
                    Type::F64 => Helper::AtomicAddF64,
                    Type::F16 => Helper::AtomicAddF16,
                    Type::BF16 => Helper::AtomicAddBf16,
                    Type::F16x2 => Helper::AtomicAddF16x2,
                    _ => Helper::AtomicAddBf16x2,
                };
                let wide = self.fit(value, types::I64, false);
                self.help(helper, &[at, wide])
            }
            (None, op) => {
                let wide = self.fit(value, types::I64, false);
                let helper = if op == AtomicOp::Inc { Helper::AtomicInc } else { Helper::AtomicDec };
                self.help(helper, &[at, wide])
            }
        };
        if let Some(to) = to {
            let old = self.fit(old, element, false);
            self.set(to, old, ty.is_signed());
        }
        Ok(())
    }

    /// The address of `count` elements that may be touched from here on; the thread ends where they may not.
    fn place(
        &mut self,
        space: Space,
        address: Address,
        bytes: u32,
        count: usize,
        access: Access,
    ) -> Answer<Value> {
        let total = u64::from(bytes) * count as u64;
        let at = self.address(address)?;
        if self.is_inside(address, total)? {
            return Ok(at);
        }
        // What a thread has for itself is not another's, whatever the compiler says of the space.
        let _ = space;
        self.check(at, total, access)?;
        Ok(at)
    }

    /// Whether it is known now that the bytes lie in what the address names.
    fn is_inside(&self, address: Address, bytes: u64) -> Answer<bool> {
        let has = match address.base {
            Base::Zero | Base::Reg(_) => return Ok(false),
            Base::Variable(place) => {
                let variable = self.unit.module.variables.get(place);
                let aligned = address.offset.unsigned_abs().is_multiple_of(bytes)
                    && variable.is_some_and(|variable| variable.align.is_multiple_of(bytes));
                let inside =
                    variable.is_some_and(|variable| is_within(address.offset, bytes, variable.bytes));
                return Ok(aligned && inside);
            }
            Base::Param(place) => self.function.params.get(place).map(|param| param.bytes),
            Base::Return(place) => self.function.returns.get(place).map(|param| param.bytes),
            Base::Slot(place) => self.body.slots.get(place).map(|slot| slot.bytes),
        };
        if has.is_some_and(|has| is_within(address.offset, bytes, has)) {
            return Ok(true);
        }
        Err(format!(
            "touches {bytes} bytes at place {} of a parameter or a local variable that has {} (line {} of the PTX)",
            address.offset,
            has.unwrap_or(0),
            self.line
        ))
    }

    /// Ends the thread unless `bytes` at an address may be touched and are aligned.
    fn check(&mut self, address: Value, bytes: u64, access: Access) -> Answer<()> {
        let place = self.unit.places;
        self.unit.places += 1;
        let offset = i32::try_from(place * 16).map_err(|_| "has too many accesses".to_owned())?;
        let window = at::WINDOWS.checked_add(offset).ok_or("has too many accesses")?;
        let base = self.builder.ins().load(types::I64, plain(), self.context, window);
        let elements = self.builder.ins().load(types::I64, plain(), self.context, window + 8);
        let offset = self.builder.ins().isub(address, base);
        // Rotated, bits that no aligned address has become the highest.
        let shift = bytes.trailing_zeros();
        let number = match shift {
            0 => offset,
            shift => self.builder.ins().rotr_imm_u(offset, i64::from(shift)),
        };
        let is_known = self.builder.ins().icmp(IntCC::UnsignedLessThan, number, elements);
        let (ask, after) = (self.builder.create_block(), self.builder.create_block());
        self.builder.set_cold_block(ask);
        self.builder.ins().brif(is_known, after, &[], ask, &[]);
        self.builder.switch_to_block(ask);
        let place = self.int(types::I32, place as u64);
        let what = self.int(types::I32, u64::from(access.word(shift)));
        let line = self.int(types::I32, u64::from(self.line));
        let refused = self.help(Helper::Find, &[self.context, place, what, line, address]);
        self.builder.ins().brif(refused, self.faulted, &[], after, &[]);
        self.builder.switch_to_block(after);
        Ok(())
    }
}

fn is_within(offset: i64, bytes: u64, has: u64) -> bool {
    u64::try_from(offset).is_ok_and(|offset| offset.saturating_add(bytes) <= has)
}
