//! The tables: every function of the runtime and of the driver, once.

mod driver;
mod runtime;
