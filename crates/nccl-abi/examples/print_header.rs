//! Prints `nccl.h`: `cargo run -p fakegpu-nccl-abi --example print_header > cpp/include/nccl.h`.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

fn main() {
    print!("{}", fakegpu_nccl_abi::header::generate());
}
