//! Prints how fast sums of two and eight sources run, per element type, and what vector instructions bring.
//!
//! `cargo run --release -p fakegpu-executor --example fold_speed`
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::hint::black_box;
use std::time::Instant;

use fakegpu_executor::kernels::fold_scalar;
use fakegpu_executor::{KernelError, Reduction, fold};
use fakegpu_units::{DataType, ReduceOp};

type Fold = fn(Reduction, &mut [u8], &[&[u8]]) -> Result<(), KernelError>;

/// What a rank folds per round: all sources of it stay in the second-level cache.
const SLICE_BYTES: usize = 32 << 10;
const REPEATS: u32 = 200;

fn main() -> Result<(), KernelError> {
    println!("GB of sources read per second, {} KiB a source", SLICE_BYTES >> 10);
    println!(
        "{:12} {:>4}  {:>8} {:>8} {:>6}  {:>8} {:>8} {:>6}",
        "type", "op", "2 simd", "2 scalar", "ratio", "8 simd", "8 scalar", "ratio"
    );
    for &data_type in DataType::ALL {
        for op in [ReduceOp::Sum, ReduceOp::Max] {
            print!("{:12} {:>4}", data_type.name(), op.name());
            for size in [2, 8] {
                let reduction = Reduction { data_type, op, size };
                let (simd, scalar) =
                    (gigabytes_per_second(fold, reduction)?, gigabytes_per_second(fold_scalar, reduction)?);
                print!("  {simd:8.1} {scalar:8.1} {:6.2}", simd / scalar);
            }
            println!();
        }
    }
    Ok(())
}

/// The best of several runs, since whatever disturbs one only slows it.
fn gigabytes_per_second(fold: Fold, reduction: Reduction) -> Result<f64, KernelError> {
    let source: Vec<u8> = (0..SLICE_BYTES).map(|at| [0x11, 0x3c][at % 2]).collect();
    let sources = vec![source; reduction.size as usize];
    let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let mut result = vec![0; SLICE_BYTES];
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..REPEATS {
            fold(reduction, black_box(&mut result), black_box(&sources))?;
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(REPEATS));
    }
    Ok((SLICE_BYTES * sources.len()) as f64 / best / 1e9)
}
