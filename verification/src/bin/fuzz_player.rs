//! Plays one rank of random programs on the real library, and compares with the model.
//!
//! `fuzz-player LIBRARY RANK FIRST COUNT right|wrong TAG` prints one line of JSON for each seed. Ranks of one job
//! are given the same numbers; a coordinator must be configured, and the tag is what keeps jobs apart.
//! `fuzz-player --show SEED right|wrong` prints a program, and how far the model says its ranks can come.

#[path = "fuzz_player/buffers.rs"]
mod buffers;
#[path = "fuzz_player/nccl.rs"]
mod nccl;
#[path = "fuzz_player/play.rs"]
mod play;

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use fakegpu_verification::fuzz::{Forecast, Program, generate, mutate};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--show", seed, mode] => show(&program(number(seed)?, mode)?),
        [library, rank, first, count, mode, tag] => {
            let nccl = nccl::Nccl::load(Path::new(library))?;
            let rank = usize::try_from(number(rank)?)?;
            let first = number(first)?;
            for seed in first..first + number(count)? {
                let program = program(seed, mode)?;
                if rank < program.ranks() {
                    say(&play::play(&nccl, &program, rank, tag).to_string())?;
                }
            }
            Ok(())
        }
        _ => bail!(
            "fuzz-player LIBRARY RANK FIRST COUNT right|wrong TAG, or fuzz-player --show SEED right|wrong"
        ),
    }
}

fn number(text: &str) -> Result<u64> {
    text.parse().with_context(|| format!("`{text}` is no number"))
}

fn program(seed: u64, mode: &str) -> Result<Program> {
    match mode {
        "right" => Ok(generate(seed)),
        "wrong" => Ok(mutate(seed)),
        _ => bail!("`{mode}` is neither `right` nor `wrong`"),
    }
}

fn show(program: &Program) -> Result<()> {
    let forecast = Forecast::of(program);
    let reach: Vec<String> =
        (0..program.ranks()).map(|rank| format!("rank {rank}: {}", forecast.reach(rank))).collect();
    say(&format!("{program}steps that can end: {}", reach.join(", ")))
}

fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}
