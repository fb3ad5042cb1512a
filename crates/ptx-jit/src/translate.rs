//! One function: its control flow, its registers, and what is neither calculation nor access.

use std::collections::BTreeMap;

use cranelift_codegen::Context as CodeContext;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::immediates::Imm64;
use cranelift_codegen::ir::{
    self, Block, FuncRef, InstBuilder, JumpTableData, MemFlagsData, Signature, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use cranelift_module::{FuncId, Module as _};
use fakegpu_ptx::{
    Address, Base, Body, Format, Function, Guard, Label, Op, Operand, Reg, Rounding, Space, Special, Type,
};

use crate::compile::{Answer, Unit};
use crate::context::{Status, at};
use crate::helpers::Helper;
use crate::run::FaultKind;

/// Translates a function into its declared place.
pub(crate) fn define(
    unit: &mut Unit<'_>,
    id: FuncId,
    signature: Signature,
    function: &Function,
    body: &Body,
) -> Answer<()> {
    let mut code = CodeContext::new();
    code.func.signature = signature;
    let mut frontend = FunctionBuilderContext::new();
    let config = unit.jit.target_config();
    let mut builder = FunctionBuilder::new(&mut code.func, &mut frontend);
    let mut translator = Translator::new(unit, &mut builder, function, body)?;
    translator.run()?;
    builder.seal_all_blocks();
    builder.finalize(config);
    let defined = unit.jit.define_function(id, &mut code);
    defined.map_err(|error| format!("could not be translated: {error:?}"))
}

/// A function being translated.
pub(crate) struct Translator<'t, 'f, 'a> {
    pub(crate) unit: &'t mut Unit<'a>,
    pub(crate) builder: &'t mut FunctionBuilder<'f>,
    pub(crate) function: &'t Function,
    pub(crate) body: &'t Body,
    registers: Vec<Variable>,
    carry: Variable,
    /// The block that begins at an instruction.
    blocks: BTreeMap<usize, Block>,
    pub(crate) context: Value,
    pub(crate) local: Value,
    /// The address of each result and each parameter.
    pub(crate) returns: Vec<Value>,
    pub(crate) params: Vec<Value>,
    helpers: BTreeMap<Helper, FuncRef>,
    /// Where a faulted thread leaves.
    pub(crate) faulted: Block,
    pub(crate) line: u32,
    /// Whether the block under construction has ended.
    has_ended: bool,
}

/// The type of the host's register for one of PTX.
fn container(ty: Type) -> Answer<ir::Type> {
    Ok(match (ty, ty.bytes()) {
        (Type::Pred, _) => types::I8,
        (_, 1 | 2) => types::I16,
        (_, 4) => types::I32,
        (_, 8) => types::I64,
        _ => return Err("uses registers of 128 bits".to_owned()),
    })
}

/// The type of the host's integers with the size of one of PTX.
pub(crate) fn int_type(ty: Type) -> Answer<ir::Type> {
    Ok(match ty.bytes() {
        1 => types::I8,
        2 => types::I16,
        4 => types::I32,
        8 => types::I64,
        _ => return Err("uses values of 128 bits".to_owned()),
    })
}

/// What is known to be mapped, and aligned or not.
pub(crate) fn plain() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// The same bits as another type.
pub(crate) fn as_is() -> MemFlagsData {
    MemFlagsData::new()
}

/// The same of what does not change while a thread runs.
fn constant() -> MemFlagsData {
    plain().with_readonly().with_can_move()
}

impl<'t, 'f, 'a> Translator<'t, 'f, 'a> {
    fn new(
        unit: &'t mut Unit<'a>,
        builder: &'t mut FunctionBuilder<'f>,
        function: &'t Function,
        body: &'t Body,
    ) -> Answer<Self> {
        let first = builder.create_block();
        builder.append_block_params_for_function_params(first);
        builder.switch_to_block(first);
        let faulted = builder.create_block();
        builder.set_cold_block(faulted);
        let handed = builder.block_params(first).to_vec();
        let context = handed.first().copied().ok_or("has no context")?;
        let mut registers = Vec::new();
        for ty in &body.registers {
            registers.push(builder.declare_var(container(*ty)?));
        }
        let carry = builder.declare_var(types::I8);
        let mut blocks = BTreeMap::new();
        for place in &body.labels {
            blocks.entry(*place).or_insert_with(|| builder.create_block());
        }
        let local = match handed.get(1) {
            Some(local) => *local,
            None => builder.ins().load(types::I64, constant(), context, at::LOCAL),
        };
        let (returns, params) = if function.is_entry {
            let params = builder.ins().load(types::I64, constant(), context, at::PARAMS);
            let offset = |param: &fakegpu_ptx::Param| i64::try_from(param.offset).unwrap_or(0);
            let each = function.params.iter().map(|param| builder.ins().iadd_imm_s(params, offset(param)));
            (Vec::new(), each.collect())
        } else {
            let rest = handed.get(2..).unwrap_or_default();
            let (returns, params) = rest.split_at(function.returns.len().min(rest.len()));
            (returns.to_vec(), params.to_vec())
        };
        let helpers = BTreeMap::new();
        let (line, has_ended) = (0, false);
        Ok(Self {
            unit,
            builder,
            function,
            body,
            registers,
            carry,
            blocks,
            context,
            local,
            returns,
            params,
            helpers,
            faulted,
            line,
            has_ended,
        })
    }

    fn run(&mut self) -> Answer<()> {
        for (place, instruction) in self.body.instructions.iter().enumerate() {
            self.begin(place);
            if self.has_ended {
                // Behind a jump, and no label: nothing comes here.
                continue;
            }
            self.line = instruction.line;
            match instruction.guard {
                None => self.op(&instruction.op)?,
                Some(guard) => self.guarded(guard, &instruction.op)?,
            }
        }
        self.begin(self.body.instructions.len());
        if !self.has_ended {
            self.leave(Status::RETURNED);
        }
        self.builder.switch_to_block(self.faulted);
        self.leave(Status::FAULTED);
        Ok(())
    }

    /// Goes on in the block that begins here, if one does.
    fn begin(&mut self, place: usize) {
        let Some(block) = self.blocks.get(&place).copied() else { return };
        if !self.has_ended {
            self.builder.ins().jump(block, &[]);
        }
        self.builder.switch_to_block(block);
        self.has_ended = false;
    }

    fn leave(&mut self, status: u32) {
        let status = self.int(types::I32, u64::from(status));
        self.builder.ins().return_(&[status]);
        self.has_ended = true;
    }

    fn block_of(&self, label: Label) -> Answer<Block> {
        let place = self.body.labels.get(label.0).and_then(|place| self.blocks.get(place));
        place.copied().ok_or_else(|| "jumps to nowhere".to_owned())
    }

    fn guarded(&mut self, guard: Guard, op: &Op) -> Answer<()> {
        let holds = self.reg(guard.reg);
        let (inside, after) = match op {
            Op::Branch { target } => (self.block_of(*target)?, self.builder.create_block()),
            _ => (self.builder.create_block(), self.builder.create_block()),
        };
        let (yes, no) = if guard.is_negated { (after, inside) } else { (inside, after) };
        self.builder.ins().brif(holds, yes, &[], no, &[]);
        if !matches!(op, Op::Branch { .. }) {
            self.builder.switch_to_block(inside);
            self.op(op)?;
            if !self.has_ended {
                self.builder.ins().jump(after, &[]);
            }
        }
        self.builder.switch_to_block(after);
        self.has_ended = false;
        Ok(())
    }

    fn op(&mut self, op: &Op) -> Answer<()> {
        match op {
            Op::Nothing => {}
            Op::Move { ty, to, from } => self.move_bits(*ty, to, from)?,
            Op::Load { space, ty, to, address, order } => self.load(*space, *ty, to, *address, *order)?,
            Op::Store { space, ty, from, address, order } => {
                self.store(*space, *ty, from, *address, *order)?
            }
            Op::Atomic { op, space, ty, to, address, args } => {
                self.atomic(*op, *space, *ty, *to, *address, args)?;
            }
            Op::Alu { op, ty, to, args } => self.alu(*op, *ty, *to, args)?,
            Op::Compare { test, ty, to, opposite, args, combine, ftz } => {
                let [a, b] = args;
                let plain = self.test(*test, *ty, *a, *b, *ftz)?;
                let not = self.builder.ins().bxor_imm_u(plain, 1);
                for (to, value) in [(to, plain), (opposite, not)] {
                    let Some(to) = to else { continue };
                    let value = self.combine(value, *combine)?;
                    self.set(*to, value, false);
                }
            }
            Op::Set { test, to_ty, ty, to, args, combine, ftz } => {
                let [a, b] = args;
                let holds = self.test(*test, *ty, *a, *b, *ftz)?;
                let holds = self.combine(holds, *combine)?;
                let ones =
                    if *to_ty == Type::F32 { u64::from(1.0_f32.to_bits()) } else { u64::from(u32::MAX) };
                let (yes, no) = (self.int(types::I32, ones), self.int(types::I32, 0));
                let value = self.builder.ins().select(holds, yes, no);
                self.set(*to, value, false);
            }
            Op::TestClass { class, ty, to, arg } => self.test_class(*class, *ty, *to, *arg)?,
            Op::Convert { .. } => self.convert(op)?,
            Op::Fence => {
                self.builder.ins().fence();
            }
            Op::IsSpace { space, to, arg } => self.is_space(*space, *to, *arg)?,
            Op::ActiveMask { to } => {
                let mask = self.special(Special::LanemaskEq);
                self.set(*to, mask, false);
            }
            Op::Branch { target } => {
                let block = self.block_of(*target)?;
                self.builder.ins().jump(block, &[]);
                self.has_ended = true;
            }
            Op::Switch { index, targets } => self.switch(*index, targets)?,
            Op::Call { function, returns, args } => self.call(*function, returns, args)?,
            Op::Return => self.leave(Status::RETURNED),
            Op::Exit => self.leave(Status::EXITED),
            Op::Trap => self.fault(FaultKind::Trap),
            Op::AssertFail => self.fault(FaultKind::Assert),
        }
        Ok(())
    }

    fn fault(&mut self, kind: FaultKind) {
        let kind = self.int(types::I32, u64::from(kind.number()));
        let line = self.int(types::I32, u64::from(self.line));
        self.help(Helper::Fault, &[self.context, kind, line]);
        self.builder.ins().jump(self.faulted, &[]);
        self.has_ended = true;
    }

    fn switch(&mut self, index: Operand, targets: &[Label]) -> Answer<()> {
        let index = self.operand(index, Type::U32)?;
        let mut calls = Vec::new();
        for target in targets {
            let block = self.block_of(*target)?;
            calls.push(self.builder.func.dfg.block_call(block, &[]));
        }
        // An index without a target is undefined; a thread that has one ends.
        let beyond = self.builder.create_block();
        let default = self.builder.func.dfg.block_call(beyond, &[]);
        let table = self.builder.create_jump_table(JumpTableData::new(default, &calls));
        self.builder.ins().br_table(index, table);
        self.builder.switch_to_block(beyond);
        self.fault(FaultKind::Trap);
        Ok(())
    }

    fn call(&mut self, at: usize, returns: &[usize], args: &[usize]) -> Answer<()> {
        let module = self.unit.module;
        let (Some(callee), Some(id)) = (module.functions.get(at), self.unit.functions.get(&at).copied())
        else {
            return Err("calls nothing".to_owned());
        };
        let is_short = |(slot, param): (&usize, &fakegpu_ptx::Param)| {
            self.body.slots.get(*slot).is_none_or(|slot| slot.bytes < param.bytes)
        };
        let counts = (returns.len(), args.len()) == (callee.returns.len(), callee.params.len());
        if !counts || returns.iter().zip(&callee.returns).chain(args.iter().zip(&callee.params)).any(is_short)
        {
            return Err(format!("calls `{}` with other arguments than it has", callee.name));
        }
        let frame = i64::try_from(self.body.frame_bytes).unwrap_or(0);
        let mut passed = vec![self.context, self.builder.ins().iadd_imm_s(self.local, frame)];
        for slot in returns.iter().chain(args) {
            let offset = self.body.slots.get(*slot).map_or(0, |slot| slot.offset);
            passed.push(self.builder.ins().iadd_imm_s(self.local, i64::try_from(offset).unwrap_or(0)));
        }
        let callee = self.unit.jit.declare_func_in_func(id, self.builder.func);
        let called = self.builder.ins().call(callee, &passed);
        let status = self.builder.inst_results(called).first().copied().ok_or("calls nothing")?;
        // Whether it faulted or the whole thread has ended, the caller ends, too.
        let (ended, after) = (self.builder.create_block(), self.builder.create_block());
        self.builder.set_cold_block(ended);
        self.builder.ins().brif(status, ended, &[], after, &[]);
        self.builder.switch_to_block(ended);
        self.builder.ins().return_(&[status]);
        self.builder.switch_to_block(after);
        Ok(())
    }

    fn move_bits(&mut self, ty: Type, to: &[Option<Reg>], from: &[Operand]) -> Answer<()> {
        match (to, from) {
            ([to], [from]) => {
                let value = self.operand(*from, ty)?;
                if let Some(to) = to {
                    self.set(*to, value, false);
                }
            }
            ([to], parts) => {
                let whole = int_type(ty)?;
                let bits = whole.bits() / u32::try_from(parts.len()).unwrap_or(1);
                let mut value = self.int(whole, 0);
                for (place, part) in (0_u32..).zip(parts) {
                    let part = self.operand(*part, part_type(bits)?)?;
                    let part = self.builder.ins().uextend(whole, part);
                    let part = self.builder.ins().ishl_imm_u(part, i64::from(place * bits));
                    value = self.builder.ins().bor(value, part);
                }
                if let Some(to) = to {
                    self.set(*to, value, false);
                }
            }
            (parts, [from]) => {
                let value = self.operand(*from, ty)?;
                let whole = int_type(ty)?;
                let bits = whole.bits() / u32::try_from(parts.len()).unwrap_or(1);
                let part_ty = int_type(part_type(bits)?)?;
                for (place, to) in (0_u32..).zip(parts) {
                    let Some(to) = to else { continue };
                    let part = self.builder.ins().ushr_imm_u(value, i64::from(place * bits));
                    let part = self.builder.ins().ireduce(part_ty, part);
                    self.set(*to, part, false);
                }
            }
            _ => return Err("moves several registers to several".to_owned()),
        }
        Ok(())
    }

    /// A constant, of which only the bits of its type count.
    pub(crate) fn int(&mut self, ty: ir::Type, value: u64) -> Value {
        let mask = if ty.bits() >= 64 { u64::MAX } else { (1 << ty.bits()) - 1 };
        self.builder.ins().iconst(ty, Imm64::new((value & mask).cast_signed()))
    }

    pub(crate) fn reg(&mut self, reg: Reg) -> Value {
        match self.registers.get(reg.0) {
            Some(variable) => self.builder.use_var(*variable),
            None => self.int(types::I32, 0),
        }
    }

    /// Writes a register; one that is wider is filled with zeros or copies of the sign.
    pub(crate) fn set(&mut self, reg: Reg, value: Value, is_signed: bool) {
        let (Some(variable), Some(ty)) = (self.registers.get(reg.0).copied(), self.body.registers.get(reg.0))
        else {
            return;
        };
        let wanted = container(*ty).unwrap_or(types::I32);
        let value = self.fit(value, wanted, is_signed);
        self.builder.def_var(variable, value);
    }

    /// An integer with another number of bits.
    pub(crate) fn fit(&mut self, value: Value, wanted: ir::Type, is_signed: bool) -> Value {
        let has = self.builder.func.dfg.value_type(value);
        if wanted.bits() < has.bits() {
            self.builder.ins().ireduce(wanted, value)
        } else if wanted.bits() == has.bits() {
            value
        } else if is_signed {
            self.builder.ins().sextend(wanted, value)
        } else {
            self.builder.ins().uextend(wanted, value)
        }
    }

    pub(crate) fn carry(&mut self) -> Value {
        self.builder.use_var(self.carry)
    }

    pub(crate) fn set_carry(&mut self, value: Value) {
        self.builder.def_var(self.carry, value);
    }

    /// An operand's bits, as many as its type has.
    pub(crate) fn operand(&mut self, operand: Operand, ty: Type) -> Answer<Value> {
        let wanted = int_type(ty)?;
        Ok(match operand {
            Operand::Reg(reg) => {
                let value = self.reg(reg);
                self.fit(value, wanted, false)
            }
            Operand::Not(reg) => {
                let value = self.reg(reg);
                self.builder.ins().bxor_imm_u(value, 1)
            }
            Operand::Int(value) => {
                let bits = if ty == Type::F32 || ty == Type::F64 { float_of_int(value, ty) } else { value };
                self.int(wanted, bits)
            }
            Operand::F32(bits) => {
                let value = f64::from(f32::from_bits(bits));
                let bits = if ty == Type::F64 { value.to_bits() } else { u64::from(bits) };
                self.int(wanted, bits)
            }
            Operand::F64(value) => self.int(wanted, float_bits(value, ty)),
            Operand::Address(address) => {
                let value = self.address(address)?;
                self.fit(value, wanted, false)
            }
            Operand::Special(special) => {
                let value = self.special(special);
                self.fit(value, wanted, false)
            }
        })
    }

    /// Where an address points, unchecked.
    pub(crate) fn address(&mut self, address: Address) -> Answer<Value> {
        let base = match address.base {
            Base::Zero => self.int(types::I64, 0),
            Base::Reg(reg) => {
                let value = self.reg(reg);
                self.fit(value, types::I64, false)
            }
            Base::Variable(place) => {
                let table = self.builder.ins().load(types::I64, constant(), self.context, at::VARIABLES);
                let offset = i32::try_from(place * 8).map_err(|_| "has too many variables".to_owned())?;
                self.builder.ins().load(types::I64, constant(), table, offset)
            }
            Base::Param(place) => self.params.get(place).copied().ok_or("has no such parameter")?,
            Base::Return(place) => self.returns.get(place).copied().ok_or("has no such result")?,
            Base::Slot(place) => {
                let offset = self.body.slots.get(place).map_or(0, |slot| slot.offset);
                self.builder.ins().iadd_imm_s(self.local, i64::try_from(offset).unwrap_or(0))
            }
        };
        Ok(if address.offset == 0 { base } else { self.builder.ins().iadd_imm_s(base, address.offset) })
    }

    pub(crate) fn special(&mut self, special: Special) -> Value {
        let side = |at: i32, dimension: u8| at + 4 * i32::from(dimension);
        let offset = match special {
            Special::Tid(3) | Special::Ctaid(3) | Special::GridId | Special::Zero => {
                return self.int(types::I32, 0);
            }
            Special::Ntid(3) | Special::Nctaid(3) => return self.int(types::I32, 1),
            Special::Clock | Special::Clock64 | Special::GlobalTimer => {
                return self.help(Helper::Clock, &[]);
            }
            Special::LanemaskEq
            | Special::LanemaskLt
            | Special::LanemaskLe
            | Special::LanemaskGt
            | Special::LanemaskGe => return self.lane_mask(special),
            Special::Tid(dimension) => side(at::TID, dimension),
            Special::Ntid(dimension) => side(at::NTID, dimension),
            Special::Ctaid(dimension) => side(at::CTAID, dimension),
            Special::Nctaid(dimension) => side(at::NCTAID, dimension),
            Special::LaneId => at::LANE,
            Special::WarpId => at::WARP,
            Special::NwarpId => at::WARPS,
            Special::SmId => at::MULTIPROCESSOR,
            Special::NsmId => at::MULTIPROCESSORS,
            Special::DynamicSharedBytes => at::SHARED_BYTES,
        };
        self.builder.ins().load(types::I32, constant(), self.context, offset)
    }

    fn lane_mask(&mut self, special: Special) -> Value {
        let lane = self.special(Special::LaneId);
        let one = self.int(types::I32, 1);
        let own = self.builder.ins().ishl(one, lane);
        let below = self.builder.ins().iadd_imm_s(own, -1);
        let through = self.builder.ins().bor(own, below);
        match special {
            Special::LanemaskEq => own,
            Special::LanemaskLt => below,
            Special::LanemaskLe => through,
            Special::LanemaskGt => self.builder.ins().bnot(through),
            _ => self.builder.ins().bnot(below),
        }
    }

    fn is_space(&mut self, space: Space, to: Reg, arg: Operand) -> Answer<()> {
        let address = self.operand(arg, Type::U64)?;
        let base = self.builder.ins().load(types::I64, constant(), self.context, at::LOCAL);
        let local = self.builder.ins().isub(address, base);
        // What is not a thread's own is the device's.
        let is_local = self.builder.ins().icmp_imm_s(IntCC::UnsignedLessThan, local, LOCAL_SPAN);
        let value = match space {
            Space::Local => is_local,
            Space::Global | Space::Generic => self.builder.ins().bxor_imm_u(is_local, 1),
            Space::Const | Space::Param | Space::Shared => self.int(types::I8, 0),
        };
        self.set(to, value, false);
        Ok(())
    }

    /// Calls a function of Rust's; its result, where it has one.
    pub(crate) fn help(&mut self, helper: Helper, args: &[Value]) -> Value {
        let known = self.helpers.get(&helper).copied();
        let function = match known {
            Some(function) => function,
            None => {
                let function = helper.declare(self.unit, self.builder.func);
                self.helpers.insert(helper, function);
                function
            }
        };
        let called = self.builder.ins().call(function, args);
        let result = self.builder.inst_results(called).first().copied();
        result.unwrap_or(self.context)
    }
}

/// A thread's local memory has no more bytes than this.
const LOCAL_SPAN: i64 = 1 << 20;

/// Bits without a meaning, as many as these.
fn part_type(bits: u32) -> Answer<Type> {
    Ok(match bits {
        8 => Type::B8,
        16 => Type::B16,
        32 => Type::B32,
        _ => return Err(format!("moves parts of {bits} bits")),
    })
}

/// An integer where a float is meant: its value, as PTX has it for zero at least.
fn float_of_int(value: u64, ty: Type) -> u64 {
    #[expect(clippy::cast_precision_loss, reason = "what the text asks for")]
    let value = value.cast_signed() as f64;
    float_bits(value, ty)
}

/// A number's bits in a type.
fn float_bits(value: f64, ty: Type) -> u64 {
    let format = match ty {
        Type::F32 => Format::F32,
        Type::F16 => Format::F16,
        Type::BF16 => Format::BF16,
        _ => return value.to_bits(),
    };
    fakegpu_ptx::round(value, format, Rounding::Nearest)
}
