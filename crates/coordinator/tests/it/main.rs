//! The coordinator under simulation: whole clusters from seeds, and the sentences people read.

mod sentences;
mod simulation;
mod text;
