//! The built libraries from outside, as the loader and a program see them.

mod exports;
mod laid_out;
mod processes;
mod runtime;
mod streams;
