//! Where a panic ends: unwinding into a C caller would take the process with it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fakegpu_nccl_abi::types::ncclResult_t;
use fakegpu_nccl_abi::{Answer, Backend};

/// Runs `body` on the backend; a panic in it, or in the choice of the backend, is answered as
/// `ncclInternalError` and told to the backend.
pub(crate) fn fenced<T: Answer>(
    backend: impl Fn() -> &'static dyn Backend,
    call: &'static str,
    body: impl FnOnce(&'static dyn Backend) -> T,
) -> T {
    // Asserted: what the panic left half done is the backend's own, and it is told.
    catch_unwind(AssertUnwindSafe(|| body(backend()))).unwrap_or_else(|payload| {
        let told = AssertUnwindSafe(|| backend().panicked(call, message(&*payload)));
        // A backend that cannot even be told has nothing more to say; the code says enough.
        drop(catch_unwind(told));
        T::refused(ncclResult_t::ncclInternalError)
    })
}

/// What `panic!` was given.
fn message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("panicked without a message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fakegpu_nccl_abi::types::ncclTeam_t;
    use std::sync::{Mutex, PoisonError};

    #[derive(Default)]
    struct Told(Mutex<String>);
    impl Backend for Told {
        fn unsupported(&self, _: &'static str) -> ncclResult_t {
            ncclResult_t::ncclInvalidUsage
        }
        fn panicked(&self, call: &'static str, message: &str) {
            *self.0.lock().unwrap() = format!("{call}: {message}");
            panic!("and again");
        }
    }

    #[test]
    fn a_panic_becomes_an_answer_and_the_backend_is_told_even_if_it_panics_too() {
        let told: &'static Told = Box::leak(Box::default());
        let code: ncclResult_t = fenced(|| told, "ncclAllReduce", |_| panic!("index {} of 3", 7));
        let team: ncclTeam_t = fenced(|| told, "ncclTeamLsa", |_| panic!("plain"));
        assert_eq!((code, team.nRanks), (ncclResult_t::ncclInternalError, 0));
        let last = told.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(*last, "ncclTeamLsa: plain");
    }
}
