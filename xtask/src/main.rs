//! The workspace's one door: `cargo xtask build|demo|test|matrix|wheel|tidy|codegen`.
//!
//! What a shell script would do stands here, so that it is typed, tested and the same on every machine. Nothing
//! the product needs at run time may live in this crate.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program for people")]
#![expect(clippy::print_stderr, reason = "a program for people")]

mod acceptance;
mod artefacts;
mod codegen;
mod conformance;
mod demo;
mod flake;
mod matrix;
mod readme;
mod shell;
mod test;
mod tidy;
mod torch;
mod wheel;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Builds, shows and checks FakeGPU.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build the release artefacts and lay them out under target/fakegpu/{bin,lib,include}
    Build,
    /// Build everything and run the main job: 8 ranks on 2 virtual nodes, every collective, checked
    Demo,
    /// Check and test everything; ends with a one-line total
    Test {
        /// Only these stages, by name
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
    },
    /// Run the cells of matrix/*.yaml
    Matrix {
        /// Only cells whose name contains this
        #[arg(long)]
        filter: Option<String>,
        /// Print the cells, run nothing
        #[arg(long)]
        list: bool,
    },
    /// Build the Python wheel under target/wheel, and try it in a fresh virtual environment
    Wheel,
    /// Check what a compiler does not: layers, docs, lints, words, acceptance rows
    Tidy,
    /// Write the generated files: nccl.h, the report's schema, the README's tables
    Codegen {
        /// Only check that they are up to date
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Build => artefacts::build().map(|layout| println!("laid out {}", layout.root.display())),
        Task::Demo => demo::run(),
        Task::Test { only } => test::run(&only),
        Task::Matrix { filter, list } => matrix::run(filter.as_deref(), list),
        Task::Wheel => wheel::run().map(|wheel| println!("built {}", wheel.display())),
        Task::Tidy => tidy::run(),
        Task::Codegen { check } => codegen::run(check),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
