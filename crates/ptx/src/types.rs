//! PTX's words for kinds of values, places and rounding.

/// The type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "PTX's names, without their dot")]
pub enum Type {
    Pred,
    B8,
    U8,
    S8,
    B16,
    U16,
    S16,
    F16,
    BF16,
    E4m3x2,
    E5m2x2,
    B32,
    U32,
    S32,
    F32,
    TF32,
    F16x2,
    BF16x2,
    B64,
    U64,
    S64,
    F64,
    B128,
}

impl Type {
    /// By its name in PTX.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Self::Pred,
            "b8" => Self::B8,
            "u8" => Self::U8,
            "s8" => Self::S8,
            "b16" => Self::B16,
            "u16" => Self::U16,
            "s16" => Self::S16,
            "f16" => Self::F16,
            "bf16" => Self::BF16,
            "e4m3x2" => Self::E4m3x2,
            "e5m2x2" => Self::E5m2x2,
            "b32" => Self::B32,
            "u32" => Self::U32,
            "s32" => Self::S32,
            "f32" => Self::F32,
            "tf32" => Self::TF32,
            "f16x2" => Self::F16x2,
            "bf16x2" => Self::BF16x2,
            "b64" => Self::B64,
            "u64" => Self::U64,
            "s64" => Self::S64,
            "f64" => Self::F64,
            "b128" => Self::B128,
            _ => return None,
        })
    }

    /// Its size; a predicate has one byte.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Pred | Self::B8 | Self::U8 | Self::S8 => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::BF16 | Self::E4m3x2 | Self::E5m2x2 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 | Self::TF32 | Self::F16x2 | Self::BF16x2 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
            Self::B128 => 16,
        }
    }

    /// Whether a wider register is filled with copies of its sign.
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// Whether it is a number with an exponent, single or packed.
    pub const fn is_float(self) -> bool {
        self.is_narrow_float()
            || matches!(
                self,
                Self::F32 | Self::TF32 | Self::F64 | Self::F16x2 | Self::BF16x2 | Self::E4m3x2 | Self::E5m2x2
            )
    }

    /// Whether it is a single float of 16 bits.
    pub const fn is_narrow_float(self) -> bool {
        matches!(self, Self::F16 | Self::BF16)
    }
}

/// Where an address points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "PTX's names, without their dot")]
pub enum Space {
    Generic,
    Global,
    Const,
    Local,
    Param,
    Shared,
}

/// How a result that cannot be represented is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest, ties to even (`.rn`).
    Nearest,
    /// Towards zero (`.rz`).
    Zero,
    /// Down (`.rm`).
    Down,
    /// Up (`.rp`).
    Up,
    /// To an integral value, ties to even (`.rni`).
    NearestInt,
    /// To an integral value, towards zero (`.rzi`).
    ZeroInt,
    /// To an integral value, down (`.rmi`).
    DownInt,
    /// To an integral value, up (`.rpi`).
    UpInt,
    /// To the nearest, ties away from zero (`.rna`).
    NearestAway,
}

impl Rounding {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "rn" => Self::Nearest,
            "rz" => Self::Zero,
            "rm" => Self::Down,
            "rp" => Self::Up,
            "rni" => Self::NearestInt,
            "rzi" => Self::ZeroInt,
            "rmi" => Self::DownInt,
            "rpi" => Self::UpInt,
            "rna" => Self::NearestAway,
            _ => return None,
        })
    }
}

/// A comparison. Those with `U` also hold where an operand is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "PTX's names")]
pub enum Test {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Lo,
    Ls,
    Hi,
    Hs,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

impl Test {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "eq" => Self::Eq,
            "ne" => Self::Ne,
            "lt" => Self::Lt,
            "le" => Self::Le,
            "gt" => Self::Gt,
            "ge" => Self::Ge,
            "lo" => Self::Lo,
            "ls" => Self::Ls,
            "hi" => Self::Hi,
            "hs" => Self::Hs,
            "equ" => Self::Equ,
            "neu" => Self::Neu,
            "ltu" => Self::Ltu,
            "leu" => Self::Leu,
            "gtu" => Self::Gtu,
            "geu" => Self::Geu,
            "num" => Self::Num,
            "nan" => Self::Nan,
            _ => return None,
        })
    }
}
