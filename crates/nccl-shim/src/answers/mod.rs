//! The answers to all functions but collectives, by section; each function is named as in C and takes the same
//! arguments, behind the edge that it speaks for.
#![expect(non_snake_case, reason = "functions carry the names of the C functions they answer")]
#![expect(clippy::too_many_arguments, reason = "NCCL's signatures")]

mod communicators;
mod derived;
mod groups;
mod library;
mod memory;
mod operators;
mod parameters;
mod point_to_point;

pub(crate) use communicators::*;
pub(crate) use derived::*;
pub(crate) use groups::*;
pub(crate) use library::*;
pub(crate) use memory::*;
pub(crate) use operators::*;
pub(crate) use parameters::*;
pub(crate) use point_to_point::*;
