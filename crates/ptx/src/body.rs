//! A function's body, instruction by instruction, with names resolved.

use crate::types::{Rounding, Space, Test, Type};

/// A register, by its place in [`Body::registers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(pub usize);

/// A label, by its place in [`Body::labels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub usize);

/// A variable of a function's own frame: local memory, or the arguments of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its place in the frame.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
}

/// What a function does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// The type of each register.
    pub registers: Vec<Type>,
    /// The variables of its frame.
    pub slots: Vec<Slot>,
    /// Bytes of its frame, a multiple of 16.
    pub frame_bytes: u64,
    /// Before which instruction each label stands.
    pub labels: Vec<usize>,
    /// The instructions.
    pub instructions: Vec<Instruction>,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// The line of the PTX.
    pub line: u32,
    /// The predicate under which it is executed.
    pub guard: Option<Guard>,
    /// What it does.
    pub op: Op,
}

/// A predicate that an instruction stands under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The predicate.
    pub reg: Reg,
    /// Whether it must not hold.
    pub is_negated: bool,
}

/// What an address is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Zero.
    Zero,
    /// A register.
    Reg(Reg),
    /// A variable of the module.
    Variable(usize),
    /// A parameter of the function.
    Param(usize),
    /// A result of the function.
    Return(usize),
    /// A variable of the function's frame.
    Slot(usize),
}

/// An address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// What it is counted from.
    pub base: Base,
    /// Bytes from there.
    pub offset: i64,
}

/// What an instruction reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// The opposite of a predicate.
    Not(Reg),
    /// An integer.
    Int(u64),
    /// A float of 32 bits, by its bits.
    F32(u32),
    /// A float of 64 bits.
    F64(f64),
    /// The address of something.
    Address(Address),
    /// What the machine tells of the thread.
    Special(Special),
}

/// What the machine tells of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "PTX's names; the number is the dimension")]
pub enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    NwarpId,
    SmId,
    NsmId,
    GridId,
    LanemaskEq,
    LanemaskLt,
    LanemaskLe,
    LanemaskGt,
    LanemaskGe,
    Clock,
    Clock64,
    GlobalTimer,
    DynamicSharedBytes,
    Zero,
}

/// How an access is ordered among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Not at all.
    Weak,
    /// It happens, once, and before or after the thread's other accesses as its scope says.
    Strong,
}

/// How two predicates are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "PTX's names")]
pub enum Logic {
    And,
    Or,
    Xor,
}

/// A calculation of registers alone.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "PTX's names")]
pub enum Alu {
    Add {
        saturates: bool,
    },
    Sub {
        saturates: bool,
    },
    MulLo,
    MulHi,
    MulWide,
    MadLo,
    MadHi {
        saturates: bool,
    },
    MadWide,
    /// Additions with the carry flag: whether it is read, and whether it is written.
    AddCarry {
        reads: bool,
        writes: bool,
    },
    SubCarry {
        reads: bool,
        writes: bool,
    },
    MadLoCarry {
        reads: bool,
        writes: bool,
    },
    MadHiCarry {
        reads: bool,
        writes: bool,
    },
    Mul24 {
        high: bool,
    },
    Mad24 {
        high: bool,
    },
    Sad,
    Div,
    Rem,
    Min,
    Max,
    Abs,
    Neg,
    And,
    Or,
    Xor,
    Not,
    Cnot,
    Shl,
    Shr,
    /// A funnel shift, to the left or the right, by 32 at most (`.clamp`) or modulo 32 (`.wrap`).
    Funnel {
        left: bool,
        clamps: bool,
    },
    BitInsert,
    BitExtract,
    BitReverse,
    LeadingZeros,
    PopCount,
    FindHigh {
        shift_amount: bool,
    },
    Permute,
    /// Any function of three bits.
    Lop3(u8),
    Select,
    SelectBySign,
    Dp4a {
        a_signed: bool,
        b_signed: bool,
    },
    FloatAdd(Float),
    FloatSub(Float),
    FloatMul(Float),
    FloatFma(Float),
    FloatDiv(Float),
    FloatMin {
        propagates_nan: bool,
        ftz: bool,
    },
    FloatMax {
        propagates_nan: bool,
        ftz: bool,
    },
    FloatAbs {
        ftz: bool,
    },
    FloatNeg {
        ftz: bool,
    },
    Rcp(Float),
    Sqrt(Float),
    Rsqrt {
        ftz: bool,
    },
    Ex2 {
        ftz: bool,
    },
    Lg2 {
        ftz: bool,
    },
    Sin {
        ftz: bool,
    },
    Cos {
        ftz: bool,
    },
    Tanh,
    CopySign,
}

/// How a float is calculated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Float {
    /// How it is rounded.
    pub rounding: Rounding,
    /// Whether numbers below the normal ones count as zero.
    pub ftz: bool,
    /// Whether it is brought into 0 to 1.
    pub saturates: bool,
    /// Whether what is negative becomes zero.
    pub relu: bool,
}

/// What an atomic access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "PTX's names")]
pub enum AtomicOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareExchange,
    Inc,
    Dec,
}

/// A property that `testp` asks a float for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "PTX's names")]
pub enum Class {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// What an instruction does.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "named after PTX's operands")]
pub enum Op {
    /// Nothing that can be seen here: a hint.
    Nothing,
    /// Bits from somewhere: several to one are packed, one to several unpacked. Results may be wanted by nobody.
    Move {
        ty: Type,
        to: Vec<Option<Reg>>,
        from: Vec<Operand>,
    },
    Load {
        space: Space,
        ty: Type,
        to: Vec<Option<Reg>>,
        address: Address,
        order: Order,
    },
    Store {
        space: Space,
        ty: Type,
        from: Vec<Operand>,
        address: Address,
        order: Order,
    },
    Alu {
        op: Alu,
        ty: Type,
        to: Reg,
        args: Vec<Operand>,
    },
    /// A comparison into a predicate, and its opposite into a second.
    Compare {
        test: Test,
        ty: Type,
        to: Option<Reg>,
        opposite: Option<Reg>,
        args: [Operand; 2],
        combine: Option<(Logic, Operand)>,
        ftz: bool,
    },
    /// A comparison into all ones or 1.0, or zero.
    Set {
        test: Test,
        to_ty: Type,
        ty: Type,
        to: Reg,
        args: [Operand; 2],
        combine: Option<(Logic, Operand)>,
        ftz: bool,
    },
    TestClass {
        class: Class,
        ty: Type,
        to: Reg,
        arg: Operand,
    },
    /// A conversion; of two arguments, the first becomes the high half.
    Convert {
        to_ty: Type,
        from_ty: Type,
        to: Reg,
        args: Vec<Operand>,
        rounding: Option<Rounding>,
        saturates: bool,
        ftz: bool,
        relu: bool,
    },
    Atomic {
        op: AtomicOp,
        space: Space,
        ty: Type,
        to: Option<Reg>,
        address: Address,
        args: Vec<Operand>,
    },
    Fence,
    IsSpace {
        space: Space,
        to: Reg,
        arg: Operand,
    },
    /// The mask of the threads that run together: the thread's own bit.
    ActiveMask {
        to: Reg,
    },
    Branch {
        target: Label,
    },
    Switch {
        index: Operand,
        targets: Vec<Label>,
    },
    /// A call of a function by its place in the module.
    Call {
        function: usize,
        returns: Vec<usize>,
        args: Vec<usize>,
    },
    /// The end of a failed `assert`.
    AssertFail,
    Return,
    Exit,
    Trap,
}
