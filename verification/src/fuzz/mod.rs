//! Random programs of several ranks, right and wrong, and a naive model that says what must come of them.
//!
//! A seed makes a right program ([`generate`]): splits, groups, collectives and transfers in all types. One
//! change on one rank makes it wrong ([`mutate`]). [`Forecast`] matches the calls by their order alone and says
//! how far each rank can come; [`Program::pieces`] says which bytes it has then. The model knows nothing of the
//! library: no line is shared, and everything is written in the plainest way there is. The `fuzz-player` plays
//! one rank of such programs on the real library and compares.

mod data;
mod element;
mod generate;
mod matching;
mod mutate;
mod program;
mod random;

pub use data::{Memory, Piece};
pub use element::DataType;
pub use generate::{RANKS_MAX, generate};
pub use matching::{At, Forecast, Met, Place, Received};
pub use mutate::mutate;
pub use program::{Kind, Op, Program, ReduceOp, Step};
pub use random::Random;
