//! What programs register when they are loaded: their kernels, by the address of the function that stands for each on the
//! host. Names are not copied: a program has tens of thousands, and they stay where they are until it takes them back.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// What is registered of all programs and libraries of the process.
#[derive(Debug)]
struct Registry {
    /// By the address of the host's function.
    kernels: BTreeMap<usize, Kernel>,
    /// Binaries that were registered so far.
    binaries: usize,
}

/// One kernel.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    name: Name,
    binary: usize,
}

/// A C string of the program's.
#[derive(Clone, Copy, Debug)]
struct Name(*const c_char);

// SAFETY: the string is constant, and there until its binary is unregistered, by when it is forgotten here.
unsafe impl Send for Name {}
// SAFETY: as above.
unsafe impl Sync for Name {}

static REGISTRY: RwLock<Registry> = RwLock::new(Registry { kernels: BTreeMap::new(), binaries: 0 });

fn registry() -> RwLockReadGuard<'static, Registry> {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner)
}

/// Handles of binaries are told from NULL and each other, and are never followed.
const HANDLE_STEP: usize = 16;

/// A new binary's handle.
pub(crate) fn register_binary() -> *mut *mut c_void {
    let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    registry.binaries += 1;
    std::ptr::without_provenance_mut(registry.binaries * HANDLE_STEP)
}

/// Forgets a binary's kernels.
pub(crate) fn unregister_binary(handle: *mut *mut c_void) {
    let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    let binary = handle.addr();
    registry.kernels.retain(|_, kernel| kernel.binary != binary);
}

/// Notes a kernel.
///
/// # Safety
/// `name` is a C string that is there until the binary is unregistered.
pub(crate) unsafe fn register_kernel(handle: *mut *mut c_void, function: *const c_void, name: *const c_char) {
    if name.is_null() {
        return;
    }
    let kernel = Kernel { name: Name(name), binary: handle.addr() };
    let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    registry.kernels.insert(function.addr(), kernel);
}

/// Whether a host's function stands for a kernel.
pub(crate) fn is_kernel(function: *const c_void) -> bool {
    registry().kernels.contains_key(&function.addr())
}

/// The name of the kernel that a host's function stands for.
pub(crate) fn kernel(function: *const c_void) -> Option<String> {
    let registry = registry();
    let kernel = registry.kernels.get(&function.addr())?;
    // SAFETY: a C string as long as it is registered, and it cannot be unregistered while the lock is held.
    let name = unsafe { CStr::from_ptr(kernel.name.0) };
    Some(name.to_string_lossy().into_owned())
}

/// The same, where the program has it.
pub(crate) fn name_address(function: *const c_void) -> Option<*const c_char> {
    registry().kernels.get(&function.addr()).map(|kernel| kernel.name.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_known_until_its_binary_is_taken_back() {
        let binary = register_binary();
        let function: *const c_void = std::ptr::without_provenance(0x1000);
        // SAFETY: a literal.
        unsafe { register_kernel(binary, function, c"_Z3addPf".as_ptr()) };
        assert_eq!(kernel(function).as_deref(), Some("_Z3addPf"));
        assert!(!binary.is_null() && binary != register_binary());
        unregister_binary(binary);
        assert!(!is_kernel(function) && kernel(function).is_none());
    }
}
