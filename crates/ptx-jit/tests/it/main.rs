//! Kernels written by hand, run over memory of the test's own.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod execution;
mod expressions;
mod hostile;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fakegpu_ptx::Module;
use fakegpu_ptx_jit::{Fault, Kernel, Launch, Memory, Pool};

/// Memory that a test lends to its kernels.
pub(crate) struct Lent(pub(crate) Vec<Range<u64>>);

impl Memory for Lent {
    fn find(&self, address: u64) -> Option<Range<u64>> {
        self.0.iter().find(|range| range.contains(&address)).cloned()
    }

    fn describe(&self, _address: u64) -> String {
        "was never lent".to_owned()
    }
}

/// A kernel's text with what every text begins with.
pub(crate) fn kernel_text(params: usize, body: &str) -> String {
    let params: Vec<String> = (0..params).map(|at| format!(".param .u64 p{at}")).collect();
    let registers = ".reg .pred %p<32>; .reg .b16 %h<32>; .reg .b32 %r<64>; .reg .b64 %d<64>;";
    format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k({})\n{{\n{registers}\n{body}\n}}\n",
        params.join(", ")
    )
}

pub(crate) fn compile(text: &str) -> Result<Arc<Kernel>, String> {
    let module = Module::parse(text).map_err(|error| error.to_string())?;
    Kernel::compile(&module, "k").map(Arc::new)
}

/// Runs a kernel whose parameters are 64 bits each.
pub(crate) fn run(
    kernel: &Arc<Kernel>,
    (grid, block): ([u32; 3], [u32; 3]),
    params: &[u64],
    memory: Vec<Range<u64>>,
) -> Result<(), Fault> {
    let launch = Launch {
        grid,
        block,
        shared_bytes: 0,
        params: params.iter().flat_map(|param| param.to_le_bytes()).collect(),
        variables: Vec::new(),
        multiprocessors: 4,
        memory: Arc::new(Lent(memory)),
    };
    let job = Pool::default().start(Arc::clone(kernel), launch);
    loop {
        if let Some(answer) = job.poll() {
            return answer;
        }
        job.wait(Duration::from_secs(1));
    }
}

/// A slice's addresses.
pub(crate) fn span<T>(slice: &mut [T]) -> Range<u64> {
    let start = slice.as_mut_ptr().expose_provenance() as u64;
    start..start + size_of_val(slice) as u64
}

/// Runs instructions over three words and gives what they leave in `%d0`. The words are in `%d1`, `%d2` and `%d3`, and
/// their lower halves in `%r1`, `%r2` and `%r3`, and those of these in `%h1`, `%h2` and `%h3`.
pub(crate) fn evaluate(instructions: &str, words: [u64; 3]) -> u64 {
    let body = format!(
        "ld.param.u64 %d10, [p0];
         ld.global.u64 %d1, [%d10]; ld.global.u64 %d2, [%d10+8]; ld.global.u64 %d3, [%d10+16];
         cvt.u32.u64 %r1, %d1; cvt.u32.u64 %r2, %d2; cvt.u32.u64 %r3, %d3;
         cvt.u16.u64 %h1, %d1; cvt.u16.u64 %h2, %d2; cvt.u16.u64 %h3, %d3;
         mov.u64 %d0, 0; mov.u32 %r0, 0; mov.u16 %h0, 0;
         {instructions}
         st.global.u64 [%d10+24], %d0; ret;"
    );
    let kernel = compile(&kernel_text(1, &body)).unwrap();
    let mut memory = [words[0], words[1], words[2], 0x5555];
    let range = span(&mut memory);
    run(&kernel, ([1; 3], [1; 3]), &[range.start], vec![range]).unwrap();
    std::hint::black_box(&mut memory)[3]
}

/// The same of a result of 32 bits in `%r0`.
pub(crate) fn evaluate32(instructions: &str, words: [u32; 3]) -> u32 {
    let wide = evaluate(&format!("{instructions} cvt.u64.u32 %d0, %r0;"), words.map(u64::from));
    u32::try_from(wide).unwrap()
}
