//! Which backend answers. The whole seam: [`backend`] is called for every function of the library.

use std::sync::OnceLock;

use fakegpu_nccl_abi::Backend;
use fakegpu_simulate::Runtime;

use crate::edge::Edge;
use crate::exit;
use crate::log;
use crate::spawn::PosixSpawn;
use crate::streams::CudaStreams;

/// The backend of this process; made at the first call, never when the library is loaded.
pub(crate) fn backend() -> &'static dyn Backend {
    edge()
}

static EDGE: OnceLock<Edge> = OnceLock::new();

pub(crate) fn edge() -> &'static Edge {
    EDGE.get_or_init(|| {
        let runtime = Runtime::new(variables(), Box::new(PosixSpawn)).on_streams(Box::new(CudaStreams));
        log::start(runtime.log_level());
        exit::at_exit(|| {
            if let Some(edge) = EDGE.get() {
                edge.runtime().goodbye();
            }
        });
        Edge::new(runtime)
    })
}

/// Beside NCCL's functions: the calling thread's next all-reduce is a barrier to its program, and reports count it so.
#[unsafe(no_mangle)]
extern "C" fn fakegpu_mark_barrier() {
    edge().runtime().mark_barrier();
}

/// The process's environment, as far as it is text.
pub(crate) fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}
