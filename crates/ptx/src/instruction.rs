//! Instructions: an opcode with its modifiers and its operands becomes an [`Op`].

use std::collections::BTreeMap;

use crate::body::{
    Address, Alu, AtomicOp, Base, Body, Class, Float, Guard, Instruction, Label, Logic, Op, Operand, Order,
    Reg,
};
use crate::error::{Error, Unsupported};
use crate::lexer::{Lexer, Token};
use crate::module::{Function, Module};
use crate::operand::{Names, Raw, Read, type_of};
use crate::types::{Rounding, Space, Test, Type};

/// Reads a function's body.
pub(crate) fn read(module: &Module, function: &Function, text: &str, line: u32) -> Read<Body> {
    let mut reader = Reader {
        module,
        names: Names::new(module, function),
        lexer: Lexer::new(text, line),
        body: Body::default(),
        labels: BTreeMap::new(),
        lists: BTreeMap::new(),
    };
    reader.run()?;
    Ok(reader.body)
}

struct Reader<'a> {
    module: &'a Module,
    names: Names<'a>,
    lexer: Lexer<'a>,
    body: Body,
    labels: BTreeMap<&'a str, Label>,
    /// Lists of labels, for `brx.idx`.
    lists: BTreeMap<&'a str, Vec<Label>>,
}

/// A label that was named and does not stand anywhere yet.
const NOWHERE: usize = usize::MAX;

impl<'a> Reader<'a> {
    fn run(&mut self) -> Read<()> {
        loop {
            match self.lexer.next()? {
                Token::End => break,
                Token::Sign(';') => {}
                Token::Sign('{') => self.names.open(),
                Token::Sign('}') if self.names.close() => {}
                Token::Sign('@') => self.guarded()?,
                Token::Word(word) if word.starts_with('.') => self.directive(word)?,
                Token::Word(word) => {
                    if self.lexer.take(':')? {
                        self.label_here(word)?;
                    } else {
                        self.instruction(word, None)?;
                    }
                }
                found => return Err(self.wrong(format_args!("{found:?} begins no instruction"))),
            }
        }
        match self.labels.iter().find(|(_, label)| self.body.labels.get(label.0) == Some(&NOWHERE)) {
            Some((name, _)) => Err(self.wrong(format_args!("the label `{name}` stands nowhere"))),
            None => Ok(()),
        }
    }

    fn wrong(&self, text: impl std::fmt::Display) -> Unsupported {
        Error::at(self.lexer.line, text).into()
    }

    fn guarded(&mut self) -> Read<()> {
        let is_negated = self.lexer.take('!')?;
        let name = self.lexer.word()?;
        let reg = self.names.reg(name).ok_or_else(|| self.wrong(format_args!("`{name}` is no predicate")))?;
        let word = self.lexer.word()?;
        self.instruction(word, Some(Guard { reg, is_negated }))
    }

    fn directive(&mut self, word: &str) -> Read<()> {
        match word {
            ".reg" => self.names.registers(&mut self.lexer, &mut self.body),
            ".local" | ".param" => self.names.slots(&mut self.lexer, &mut self.body),
            ".shared" => {
                let line = self.lexer.line;
                Err(Unsupported::new(format!("uses shared memory (`.shared` at line {line} of the PTX)")))
            }
            ".loc" | ".file" => {
                self.lexer.skip_line();
                Ok(())
            }
            ".pragma" => Ok(self.lexer.skip_past(';')?),
            word => Err(self.wrong(format_args!("`{word}` is not known inside a function"))),
        }
    }

    fn label(&mut self, name: &'a str) -> Label {
        let body = &mut self.body;
        *self.labels.entry(name).or_insert_with(|| {
            body.labels.push(NOWHERE);
            Label(body.labels.len() - 1)
        })
    }

    /// A label before the next instruction, or a list with a name.
    fn label_here(&mut self, name: &'a str) -> Read<()> {
        match self.lexer.peek()? {
            Token::Word(".branchtargets") => {
                self.lexer.next()?;
                let mut targets = Vec::new();
                loop {
                    let target = self.lexer.word()?;
                    targets.push(self.label(target));
                    if !self.lexer.take(',')? {
                        break;
                    }
                }
                self.lexer.expect(';')?;
                self.lists.insert(name, targets);
            }
            Token::Word(".callprototype" | ".calltargets") => self.lexer.skip_past(';')?,
            _ => {
                let label = self.label(name);
                let at = self.body.instructions.len();
                match self.body.labels.get_mut(label.0) {
                    Some(place) if *place == NOWHERE => *place = at,
                    _ => return Err(self.wrong(format_args!("the label `{name}` stands twice"))),
                }
            }
        }
        Ok(())
    }

    fn instruction(&mut self, word: &'a str, guard: Option<Guard>) -> Read<()> {
        let line = self.lexer.line;
        let code = Opcode::new(word, line);
        if let Some(reason) = foreign(&code) {
            return Err(Unsupported::new(format!("{reason} (`{word}` at line {line} of the PTX)")));
        }
        let raw = self.names.operands(&mut self.lexer)?;
        let mut operands = Operands { raw: raw.into_iter(), line };
        let op = self.op(code, &mut operands)?;
        self.body.instructions.push(Instruction { line, guard, op });
        Ok(())
    }

    fn op(&mut self, mut code: Opcode<'a>, args: &mut Operands<'a>) -> Read<Op> {
        let op = match code.base {
            "mov" => self.mov(&mut code, args)?,
            "ld" | "ldu" => load(&mut code, args)?,
            "st" => store(&mut code, args)?,
            "red" | "atom" => atomic(&mut code, args)?,
            "setp" => setp(&mut code, args)?,
            "set" => set(&mut code, args)?,
            "testp" => testp(&mut code, args)?,
            "cvt" => convert(&mut code, args)?,
            "cvta" => {
                // Every space is a part of the generic one, at the same addresses.
                code.flag("to");
                code.space();
                let ty = code.ty()?;
                Op::Move { ty, to: vec![Some(args.reg()?)], from: vec![args.value()?] }
            }
            "isspacep" => {
                let space = code.space();
                Op::IsSpace { space, to: args.reg()?, arg: args.value()? }
            }
            "activemask" => {
                code.ty()?;
                Op::ActiveMask { to: args.reg()? }
            }
            "membar" | "fence" => {
                code.rest.clear();
                Op::Fence
            }
            "prefetch" | "prefetchu" | "discard" | "applypriority" | "nanosleep" | "griddepcontrol"
            | "pmevent" | "brkpt" => {
                code.rest.clear();
                args.drain();
                Op::Nothing
            }
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" => self.flow(&mut code, args)?,
            _ => alu(&mut code, args)?,
        };
        code.finish()?;
        args.finish()?;
        Ok(op)
    }

    fn flow(&mut self, code: &mut Opcode<'a>, args: &mut Operands<'a>) -> Read<Op> {
        code.flag("uni");
        Ok(match code.base {
            "bra" => Op::Branch { target: self.label(args.name()?) },
            "brx" => {
                code.flag("idx");
                let index = args.value()?;
                let list = args.name()?;
                let targets = self.lists.get(list).cloned();
                let targets =
                    targets.ok_or_else(|| self.wrong(format_args!("`{list}` is no list of labels")))?;
                Op::Switch { index, targets }
            }
            "call" => self.call(args)?,
            "ret" => Op::Return,
            "exit" => Op::Exit,
            _ => Op::Trap,
        })
    }

    fn call(&self, args: &mut Operands<'a>) -> Read<Op> {
        let mut next = args.next()?;
        let mut returns = Vec::new();
        if let Raw::Group(group) = next {
            returns = self.call_slots(group)?;
            next = args.next()?;
        }
        let line = self.lexer.line;
        let Raw::Name(name) = next else {
            return Err(Unsupported::new(format!("calls through a pointer (line {line} of the PTX)")));
        };
        let passed = match args.raw.next() {
            Some(Raw::Group(group)) => self.call_slots(group)?,
            Some(other) => return Err(self.wrong(format_args!("{other:?} are no arguments"))),
            None => Vec::new(),
        };
        if name == "__assertfail" {
            return Ok(Op::AssertFail);
        }
        let function = self.module.function_names.get(name).copied();
        let function = function.ok_or_else(|| {
            Unsupported::new(format!(
                "calls `{name}` (line {line} of the PTX), which its module does not define"
            ))
        })?;
        Ok(Op::Call { function, returns, args: passed })
    }

    fn call_slots(&self, group: Vec<Raw<'a>>) -> Read<Vec<usize>> {
        let slot = |raw| match raw {
            Raw::Value(Operand::Address(Address { base: Base::Slot(slot), offset: 0 })) => Ok(slot),
            other => Err(self.wrong(format_args!("{other:?} is not passed to a function by `.param`"))),
        };
        group.into_iter().map(slot).collect()
    }

    fn mov(&self, code: &mut Opcode<'a>, args: &mut Operands<'a>) -> Read<Op> {
        let ty = code.ty()?;
        let to = args.results()?;
        let from = match args.next()? {
            Raw::Vector(parts) => {
                let value = |raw| match raw {
                    Raw::Value(value) => Ok(value),
                    other => Err(self.wrong(format_args!("{other:?} is no value"))),
                };
                parts.into_iter().map(value).collect::<Read<Vec<_>>>()?
            }
            Raw::Value(value) => vec![value],
            Raw::Name(name) => {
                let line = self.lexer.line;
                let reason = format!(
                    "takes the address of `{name}` (line {line} of the PTX), which is not translated"
                );
                return Err(Unsupported::new(reason));
            }
            other => return Err(self.wrong(format_args!("{other:?} is no value"))),
        };
        if to.len() > 1 && from.len() > 1 {
            return Err(self.wrong("a move from several registers to several"));
        }
        let of_reg = |operand: &Operand| match operand {
            Operand::Reg(reg) => type_of(&self.body, *reg).bytes(),
            _ => 1,
        };
        let (many, whole) = (to.len().max(from.len()), ty.bytes());
        let fits = |part: u32| many == 1 || u64::from(part) * many as u64 <= u64::from(whole.max(1));
        if !from.iter().all(|operand| from.len() == 1 || fits(of_reg(operand))) {
            return Err(self.wrong("a move of more bits than its type has"));
        }
        Ok(Op::Move { ty, to, from })
    }
}

/// An opcode, its modifiers being taken one after the other.
struct Opcode<'a> {
    word: &'a str,
    base: &'a str,
    rest: Vec<&'a str>,
    line: u32,
}

impl<'a> Opcode<'a> {
    fn new(word: &'a str, line: u32) -> Self {
        let mut parts = word.split('.');
        let base = parts.next().unwrap_or_default();
        Self { word, base, rest: parts.collect(), line }
    }

    /// Whether a modifier is there; it is taken.
    fn flag(&mut self, name: &str) -> bool {
        match self.rest.iter().position(|part| *part == name) {
            Some(at) => {
                self.rest.remove(at);
                true
            }
            None => false,
        }
    }

    fn find<T>(&mut self, meaning: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (at, found) = self.rest.iter().enumerate().find_map(|(at, part)| Some((at, meaning(part)?)))?;
        self.rest.remove(at);
        Some(found)
    }

    /// The next type.
    fn ty(&mut self) -> Read<Type> {
        let line = self.line;
        let word = self.word;
        let missing = || Error::at(line, format_args!("`{word}` names no type that is known"));
        Ok(self.find(Type::from_name).ok_or_else(missing)?)
    }

    fn rounding(&mut self) -> Option<Rounding> {
        self.find(Rounding::from_name)
    }

    fn space(&mut self) -> Space {
        let space = self.find(|part| {
            Some(match part.split("::").next().unwrap_or_default() {
                "global" => Space::Global,
                "const" => Space::Const,
                "local" => Space::Local,
                "param" => Space::Param,
                "shared" => Space::Shared,
                _ => return None,
            })
        });
        space.unwrap_or(Space::Generic)
    }

    /// Modifiers that say how an access is cached or seen.
    fn order(&mut self) -> Order {
        let is_strong = ["volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"];
        let found = is_strong.iter().filter(|name| self.flag(name)).count();
        let is_strong = found > 0;
        self.rest.retain(|part| {
            !matches!(
                *part,
                "weak"
                    | "cta"
                    | "cluster"
                    | "gpu"
                    | "sys"
                    | "ca"
                    | "cg"
                    | "cs"
                    | "lu"
                    | "cv"
                    | "wb"
                    | "wt"
                    | "nc"
                    | "unified"
            ) && !part.starts_with("L1::")
                && !part.starts_with("L2::")
        });
        if is_strong { Order::Strong } else { Order::Weak }
    }

    /// How many elements, where it is an access of several.
    fn vector(&mut self) -> usize {
        let sizes = [("v2", 2), ("v4", 4), ("v8", 8)];
        sizes.into_iter().find_map(|(name, size)| self.flag(name).then_some(size)).unwrap_or(1)
    }

    fn float(&mut self) -> Float {
        let rounding = self.rounding().unwrap_or(Rounding::Nearest);
        let ftz = self.flag("ftz");
        Float { rounding, ftz, saturates: self.flag("sat"), relu: self.flag("relu") }
    }

    fn unsupported(&self) -> Unsupported {
        let Self { word, line, .. } = self;
        Unsupported::new(format!(
            "uses the instruction `{word}` (line {line} of the PTX), which is not translated"
        ))
    }

    /// Every modifier was understood.
    fn finish(&self) -> Read<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.unsupported()) }
    }
}

/// Operands, taken one after the other.
struct Operands<'a> {
    raw: std::vec::IntoIter<Raw<'a>>,
    line: u32,
}

impl<'a> Operands<'a> {
    fn wrong(&self, text: impl std::fmt::Display) -> Unsupported {
        Error::at(self.line, text).into()
    }

    fn next(&mut self) -> Read<Raw<'a>> {
        let line = self.line;
        Ok(self.raw.next().ok_or_else(|| Error::at(line, "an operand is missing"))?)
    }

    fn value(&mut self) -> Read<Operand> {
        match self.next()? {
            Raw::Value(value) => Ok(value),
            other => Err(self.wrong(format_args!("{other:?} is no value"))),
        }
    }

    fn values(&mut self, count: usize) -> Read<Vec<Operand>> {
        (0..count).map(|_| self.value()).collect()
    }

    fn reg(&mut self) -> Read<Reg> {
        match self.next()? {
            Raw::Value(Operand::Reg(reg)) => Ok(reg),
            other => Err(self.wrong(format_args!("{other:?} is no register"))),
        }
    }

    fn name(&mut self) -> Read<&'a str> {
        match self.next()? {
            Raw::Name(name) => Ok(name),
            other => Err(self.wrong(format_args!("{other:?} is no name"))),
        }
    }

    fn memory(&mut self) -> Read<Address> {
        match self.next()? {
            Raw::Memory(address) => Ok(address),
            other => Err(self.wrong(format_args!("{other:?} is no address"))),
        }
    }

    /// A register, or several in braces, some of which nobody wants.
    fn results(&mut self) -> Read<Vec<Option<Reg>>> {
        let one = |raw: Raw<'a>, line| match raw {
            Raw::Value(Operand::Reg(reg)) => Ok(Some(reg)),
            Raw::Sink => Ok(None),
            other => Err(Error::at(line, format_args!("{other:?} is no register")).into()),
        };
        let line = self.line;
        match self.next()? {
            Raw::Vector(parts) => parts.into_iter().map(|part| one(part, line)).collect(),
            other => Ok(vec![one(other, line)?]),
        }
    }

    fn drain(&mut self) {
        self.raw.by_ref().for_each(drop);
    }

    fn finish(&self) -> Read<()> {
        match self.raw.as_slice() {
            [] => Ok(()),
            [first, ..] => Err(self.wrong(format_args!("{first:?} is an operand too many"))),
        }
    }
}

/// What an instruction does that no translation of single threads can.
fn foreign(code: &Opcode<'_>) -> Option<&'static str> {
    let has = |name: &str| code.rest.iter().any(|part| part.split("::").next() == Some(name));
    Some(match code.base {
        "bar" | "barrier" | "mbarrier" if has("warp") => "waits for the other threads of its warp",
        "bar" | "barrier" | "mbarrier" => "waits for the other threads of its block",
        "shfl" | "vote" | "match" | "redux" | "elect" => "exchanges values within its warp",
        "tex" | "tld4" | "txq" | "suld" | "sust" | "sured" | "suq" => "reads textures or surfaces",
        "wmma" | "mma" | "wgmma" | "ldmatrix" | "stmatrix" | "movmatrix" | "tcgen05" => "uses tensor cores",
        "cp" | "multimem" => "copies in the background",
        "mapa" | "getctarank" => "belongs to a cluster of blocks",
        "alloca" | "stacksave" | "stackrestore" => "allocates on its stack",
        "ld" | "st" | "atom" | "red" | "cvta" if has("shared") => "uses shared memory",
        _ => return None,
    })
}

fn load(code: &mut Opcode<'_>, args: &mut Operands<'_>) -> Read<Op> {
    let has_hint = code.rest.contains(&"L2::cache_hint");
    let (order, space, count) = (code.order(), code.space(), code.vector());
    let ty = code.ty()?;
    let to = args.results()?;
    if to.len() != count {
        return Err(args.wrong(format_args!("{} registers for {count} elements", to.len())));
    }
    let address = args.memory()?;
    if has_hint {
        args.value()?;
    }
    Ok(Op::Load { space, ty, to, address, order })
}

fn store(code: &mut Opcode<'_>, args: &mut Operands<'_>) -> Read<Op> {
    let has_hint = code.rest.contains(&"L2::cache_hint");
    let (order, space, count) = (code.order(), code.space(), code.vector());
    let ty = code.ty()?;
    let address = args.memory()?;
    let from: Vec<Operand> = match args.next()? {
        Raw::Value(value) => vec![value],
        Raw::Vector(parts) => {
            let value = |raw| match raw {
                Raw::Value(value) => Ok(value),
                other => Err(args.wrong(format_args!("{other:?} is no value"))),
            };
            parts.into_iter().map(value).collect::<Read<_>>()?
        }
        other => return Err(args.wrong(format_args!("{other:?} is no value"))),
    };
    if from.len() != count {
        return Err(args.wrong(format_args!("{} values for {count} elements", from.len())));
    }
    if has_hint {
        args.value()?;
    }
    Ok(Op::Store { space, ty, from, address, order })
}

fn atomic(code: &mut Opcode<'_>, args: &mut Operands<'_>) -> Read<Op> {
    let has_hint = code.rest.contains(&"L2::cache_hint");
    code.order();
    code.flag("noftz");
    let space = code.space();
    let op = code.find(|part| {
        Some(match part {
            "add" => AtomicOp::Add,
            "min" => AtomicOp::Min,
            "max" => AtomicOp::Max,
            "and" => AtomicOp::And,
            "or" => AtomicOp::Or,
            "xor" => AtomicOp::Xor,
            "exch" => AtomicOp::Exchange,
            "cas" => AtomicOp::CompareExchange,
            "inc" => AtomicOp::Inc,
            "dec" => AtomicOp::Dec,
            _ => return None,
        })
    });
    let op = op.ok_or_else(|| code.unsupported())?;
    if code.vector() != 1 {
        return Err(code.unsupported());
    }
    let ty = code.ty()?;
    let to = if code.base == "atom" { args.results()?.first().copied().flatten() } else { None };
    let address = args.memory()?;
    let count = if op == AtomicOp::CompareExchange { 2 } else { 1 };
    let values = args.values(count)?;
    if has_hint {
        args.value()?;
    }
    let fits = match ty {
        Type::F16 | Type::BF16 | Type::F16x2 | Type::BF16x2 | Type::F32 | Type::F64 => op == AtomicOp::Add,
        Type::B16 | Type::U16 => matches!(op, AtomicOp::CompareExchange | AtomicOp::Exchange),
        ty => matches!(ty.bytes(), 4 | 8),
    };
    if !fits {
        return Err(code.unsupported());
    }
    Ok(Op::Atomic { op, space, ty, to, address, args: values })
}

fn logic(code: &mut Opcode<'_>) -> Option<Logic> {
    code.find(|part| {
        Some(match part {
            "and" => Logic::And,
            "or" => Logic::Or,
            "xor" => Logic::Xor,
            _ => return None,
        })
    })
}

fn comparison(code: &mut Opcode<'_>) -> Read<(Test, Option<Logic>, bool)> {
    let test = code.find(Test::from_name);
    let test = test.ok_or_else(|| code.unsupported())?;
    Ok((test, logic(code), code.flag("ftz")))
}

fn setp(code: &mut Opcode<'_>, args: &mut Operands<'_>) -> Read<Op> {
    let (test, logic, ftz) = comparison(code)?;
    let ty = code.ty()?;
    if matches!(ty, Type::F16x2 | Type::BF16x2) {
        return Err(code.unsupported());
    }
    let (to, opposite) = match args.next()? {
        Raw::Value(Operand::Reg(reg)) => (Some(reg), None),
        Raw::Pair(to, opposite) => (to, opposite),
        Raw::Sink => (None, None),
        other => return Err(args.wrong(format_args!("{other:?} is no predicate"))),
    };
    let operands = [args.value()?, args.value()?];
    let combine = logic.map(|logic| Ok::<_, Unsupported>((logic, args.value()?))).transpose()?;
    Ok(Op::Compare { test, ty, to, opposite, args: operands, combine, ftz })
}

fn set(code: &mut Opcode<'_>, args: &mut Operands<'_>) -> Read<Op> {
    let (test, logic, ftz) = comparison(code)?;
    let (to_ty, ty) = (code.ty()?, code.ty()?);
    if ty.is_float() && !matches!(ty, Type::F32 | Type::F64 | Type::F16 | Type::BF16) || to_ty.bytes() == 8 {
        return Err(code.unsupported());
    }
    let to = args.reg()?;
    let operands = [args.value()?, args.value()?];
    let combine = logic.map(|logic| Ok::<_, Unsupported>((logic, args.value()?))).transpose()?;
    Ok(Op::Set { test, to_ty, ty, to, args: operands, combine, ftz })
}

fn testp(code: &mut Opcode<'_>, args: &mut Operands<'_>) -> Read<Op> {
    let class = code.find(|part| {
        Some(match part {
            "finite" => Class::Finite,
            "infinite" => Class::Infinite,
            "number" => Class::Number,
            "notanumber" => Class::NotANumber,
            "normal" => Class::Normal,
            "subnormal" => Class::Subnormal,
            _ => return None,
        })
    });
    let class = class.ok_or_else(|| code.unsupported())?;
    let ty = code.ty()?;
    if !matches!(ty, Type::F32 | Type::F64) {
        return Err(code.unsupported());
    }
    Ok(Op::TestClass { class, ty, to: args.reg()?, arg: args.value()? })
}

fn convert(code: &mut Opcode<'_>, args: &mut Operands<'_>) -> Read<Op> {
    let rounding = code.rounding();
    let ftz = code.flag("ftz");
    let saturates = code.flag("sat");
    let is_finite = code.flag("satfinite");
    let relu = code.flag("relu");
    let (to_ty, from_ty) = (code.ty()?, code.ty()?);
    let is_packed = matches!(to_ty, Type::F16x2 | Type::BF16x2 | Type::E4m3x2 | Type::E5m2x2);
    let count = if is_packed && matches!(from_ty, Type::F32) { 2 } else { 1 };
    let fits = match (to_ty, from_ty) {
        (Type::F16x2 | Type::BF16x2, Type::F32) => true,
        (Type::E4m3x2 | Type::E5m2x2, Type::F32 | Type::F16x2) => is_finite,
        (Type::F16x2, Type::E4m3x2 | Type::E5m2x2) => true,
        (Type::TF32, Type::F32) => {
            matches!(rounding, Some(Rounding::Nearest | Rounding::NearestAway | Rounding::Zero))
        }
        (to, from) => {
            let plain = |ty| {
                !matches!(
                    ty,
                    Type::F16x2
                        | Type::BF16x2
                        | Type::E4m3x2
                        | Type::E5m2x2
                        | Type::TF32
                        | Type::Pred
                        | Type::B128
                )
            };
            plain(to) && plain(from) && !is_finite && (to.is_float() || !relu)
        }
    };
    if !fits {
        return Err(code.unsupported());
    }
    let to = args.reg()?;
    Ok(Op::Convert { to_ty, from_ty, to, args: args.values(count)?, rounding, saturates, ftz, relu })
}

/// A calculation of registers alone.
fn alu(code: &mut Opcode<'_>, args: &mut Operands<'_>) -> Read<Op> {
    let (op, count) = alu_op(code)?;
    let ty = code.ty()?;
    if matches!(op, Alu::SelectBySign) {
        // The sign's type; `.f32` compares with zero, which minus zero equals.
        let by = code.ty()?;
        if by != Type::S32 {
            return Err(code.unsupported());
        }
    }
    if matches!(op, Alu::Dp4a { .. }) {
        code.ty()?;
    }
    let op = match op {
        Alu::Lop3(_) => {
            let (to, mut values) = (args.reg()?, args.values(4)?);
            let Some(Operand::Int(table)) = values.pop() else { return Err(code.unsupported()) };
            let table = u8::try_from(table & 0xff).unwrap_or(0);
            return Ok(Op::Alu { op: Alu::Lop3(table), ty, to, args: values });
        }
        op => as_float(op, ty, code)?,
    };
    Ok(Op::Alu { op, ty, to: args.reg()?, args: args.values(count)? })
}

/// The calculation that an opcode means for whole numbers, and how many operands it has.
fn alu_op(code: &mut Opcode<'_>) -> Read<(Alu, usize)> {
    let has_carry = |code: &mut Opcode<'_>| code.flag("cc");
    let hi = |code: &mut Opcode<'_>| {
        let high = code.flag("hi");
        code.flag("lo");
        high
    };
    let base = code.base;
    Ok(match base {
        "add" if has_carry(code) => (Alu::AddCarry { reads: false, writes: true }, 2),
        "addc" => (Alu::AddCarry { reads: true, writes: has_carry(code) }, 2),
        "sub" if has_carry(code) => (Alu::SubCarry { reads: false, writes: true }, 2),
        "subc" => (Alu::SubCarry { reads: true, writes: has_carry(code) }, 2),
        "mad" if has_carry(code) => match hi(code) {
            true => (Alu::MadHiCarry { reads: false, writes: true }, 3),
            false => (Alu::MadLoCarry { reads: false, writes: true }, 3),
        },
        "madc" => {
            let (writes, high) = (has_carry(code), hi(code));
            match high {
                true => (Alu::MadHiCarry { reads: true, writes }, 3),
                false => (Alu::MadLoCarry { reads: true, writes }, 3),
            }
        }
        "add" => (Alu::Add { saturates: code.flag("sat") }, 2),
        "sub" => (Alu::Sub { saturates: code.flag("sat") }, 2),
        "mul" if code.flag("wide") => (Alu::MulWide, 2),
        "mul" => (if hi(code) { Alu::MulHi } else { Alu::MulLo }, 2),
        "mad" if code.flag("wide") => (Alu::MadWide, 3),
        "mad" => (if hi(code) { Alu::MadHi { saturates: code.flag("sat") } } else { Alu::MadLo }, 3),
        "mul24" => (Alu::Mul24 { high: hi(code) }, 2),
        "mad24" => (Alu::Mad24 { high: hi(code) }, 3),
        "fma" => (Alu::MadLo, 3),
        "sad" => (Alu::Sad, 3),
        "div" => (Alu::Div, 2),
        "rem" => (Alu::Rem, 2),
        "min" => (Alu::Min, 2),
        "max" => (Alu::Max, 2),
        "abs" => (Alu::Abs, 1),
        "neg" => (Alu::Neg, 1),
        "and" => (Alu::And, 2),
        "or" => (Alu::Or, 2),
        "xor" => (Alu::Xor, 2),
        "not" => (Alu::Not, 1),
        "cnot" => (Alu::Cnot, 1),
        "shl" => (Alu::Shl, 2),
        "shr" => (Alu::Shr, 2),
        "shf" => {
            let left = code.flag("l");
            code.flag("r");
            let clamps = code.flag("clamp");
            code.flag("wrap");
            (Alu::Funnel { left, clamps }, 3)
        }
        "bfi" => (Alu::BitInsert, 4),
        "bfe" => (Alu::BitExtract, 3),
        "bfind" => (Alu::FindHigh { shift_amount: code.flag("shiftamt") }, 1),
        "brev" => (Alu::BitReverse, 1),
        "clz" => (Alu::LeadingZeros, 1),
        "popc" => (Alu::PopCount, 1),
        "prmt" => (Alu::Permute, 3),
        "lop3" => (Alu::Lop3(0), 3),
        "selp" => (Alu::Select, 3),
        "slct" => (Alu::SelectBySign, 3),
        "dp4a" => {
            let signed: Vec<bool> = code.rest.iter().map(|part| part.starts_with('s')).collect();
            let at = |place: usize| signed.get(place).copied().unwrap_or(false);
            (Alu::Dp4a { a_signed: at(0), b_signed: at(1) }, 3)
        }
        _ => return float_only(code),
    })
}

fn float_only(code: &mut Opcode<'_>) -> Read<(Alu, usize)> {
    let plain = |code: &mut Opcode<'_>| {
        code.flag("approx");
        code.flag("full");
        code.float()
    };
    Ok(match code.base {
        "rcp" => (Alu::Rcp(plain(code)), 1),
        "sqrt" => (Alu::Sqrt(plain(code)), 1),
        "rsqrt" => (Alu::Rsqrt { ftz: plain(code).ftz }, 1),
        "ex2" => (Alu::Ex2 { ftz: plain(code).ftz }, 1),
        "lg2" => (Alu::Lg2 { ftz: plain(code).ftz }, 1),
        "sin" => (Alu::Sin { ftz: plain(code).ftz }, 1),
        "cos" => (Alu::Cos { ftz: plain(code).ftz }, 1),
        "tanh" => {
            plain(code);
            (Alu::Tanh, 1)
        }
        "copysign" => (Alu::CopySign, 2),
        _ => return Err(code.unsupported()),
    })
}

/// The same calculation for floats, where the type is one.
fn as_float(op: Alu, ty: Type, code: &mut Opcode<'_>) -> Read<Alu> {
    let known = matches!(ty, Type::F32 | Type::F64 | Type::F16 | Type::BF16 | Type::F16x2 | Type::BF16x2);
    let is_bits = matches!(op, Alu::Select | Alu::SelectBySign);
    let only_float = matches!(
        op,
        Alu::Rcp(_)
            | Alu::Sqrt(_)
            | Alu::Rsqrt { .. }
            | Alu::Ex2 { .. }
            | Alu::Lg2 { .. }
            | Alu::Sin { .. }
            | Alu::Cos { .. }
            | Alu::Tanh
            | Alu::CopySign
    );
    if is_bits {
        return if ty == Type::Pred || ty.bytes() > 8 { Err(code.unsupported()) } else { Ok(op) };
    }
    if !known {
        let logical = matches!(op, Alu::And | Alu::Or | Alu::Xor | Alu::Not);
        let fits = !only_float && !ty.is_float() && (ty != Type::Pred || logical) && ty.bytes() <= 8;
        return if fits { Ok(op) } else { Err(code.unsupported()) };
    }
    if only_float {
        let exotic = matches!(ty, Type::F16x2 | Type::BF16x2) || (ty.is_narrow_float() && !is_half_math(op));
        return if exotic { Err(code.unsupported()) } else { Ok(op) };
    }
    code.flag("approx");
    code.flag("full");
    let nan = code.flag("NaN");
    let mut float = code.float();
    let ftz = float.ftz;
    Ok(match op {
        Alu::Add { saturates } => {
            float.saturates |= saturates;
            Alu::FloatAdd(float)
        }
        Alu::Sub { saturates } => {
            float.saturates |= saturates;
            Alu::FloatSub(float)
        }
        Alu::MulLo => Alu::FloatMul(float),
        Alu::MadLo => Alu::FloatFma(float),
        Alu::Div if matches!(ty, Type::F32 | Type::F64) => Alu::FloatDiv(float),
        Alu::Min => Alu::FloatMin { propagates_nan: nan, ftz },
        Alu::Max => Alu::FloatMax { propagates_nan: nan, ftz },
        Alu::Abs => Alu::FloatAbs { ftz },
        Alu::Neg => Alu::FloatNeg { ftz },
        _ => return Err(code.unsupported()),
    })
}

const fn is_half_math(op: Alu) -> bool {
    matches!(op, Alu::Ex2 { .. } | Alu::Tanh)
}
