//! NVIDIA's fat binaries and the PTX in them, read into a typed form that a translator can walk.
//!
//! Read [`FatBinary`] first (which piece of a program's binary is PTX), then [`Module`] (what a PTX text declares), then
//! [`Body`] (one kernel, instruction by instruction). A kernel that uses what is not translated here (shared memory,
//! barriers, exchanges within a warp) is [`Unsupported`] with its reason; its module is not.
//!
//! There are no files here, no pointers and no clock. Every byte is taken for hostile: what cannot be read is an error.
//!
//! ```
//! use fakegpu_ptx::{Module, Op};
//!
//! let text = ".version 8.0 .target sm_80 .address_size 64 .visible .entry nothing() { ret; }";
//! let module = Module::parse(text)?;
//! let kernel = module.function("nothing").ok_or("not there")?;
//! let body = module.body(kernel)?;
//! assert!(matches!(body.instructions[0].op, Op::Return));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Sources: PTX ISA 9.0; the layout of fat binaries as `cuobjdump` shows it.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod body;
mod error;
mod fatbin;
mod instruction;
mod lexer;
mod module;
mod operand;
mod round;
mod types;

pub use body::{
    Address, Alu, AtomicOp, Base, Body, Class, Float, Guard, Instruction, Label, Logic, Op, Operand, Order,
    Reg, Slot, Special,
};
pub use error::{Error, Result, Unsupported};
pub use fatbin::{FatBinary, HEADER_BYTES};
pub use module::{Function, Item, Module, Param, Variable};
pub use round::{Format, round};
pub use types::{Rounding, Space, Test, Type};
