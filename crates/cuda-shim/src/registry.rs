//! What programs register when they are loaded: their device code, their kernels and their variables, by the addresses
//! that stand for each on the host. Nothing is copied: a program has tens of thousands of names, and they stay where they
//! are until it takes them back. Modules that are loaded later are registered in the same way, with names of their own.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::modules::{self, Code};

/// What is registered of all programs and libraries of the process.
#[derive(Debug)]
struct Registry {
    /// By the address of the host's function, or by the number that a module's function was given.
    kernels: BTreeMap<usize, Kernel>,
    /// By the address of the host's variable.
    variables: BTreeMap<usize, Variable>,
    /// By their handles.
    binaries: BTreeMap<usize, Binary>,
    /// Handles given out so far.
    handles: usize,
}

/// One kernel.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    name: Name,
    binary: usize,
}

/// One variable of a program's.
#[derive(Clone, Copy, Debug)]
struct Variable {
    name: Name,
    binary: usize,
    bytes: usize,
    /// Whether the host's variable is a pointer, which is to be told where the memory is.
    is_managed: bool,
}

/// Device code that was registered together.
#[derive(Debug)]
struct Binary {
    image: Address,
    /// What was made of it, when it was first needed.
    code: OnceLock<Result<Arc<Code>, String>>,
    /// Names that are not the program's.
    names: BTreeMap<CString, usize>,
}

/// A C string of the program's.
#[derive(Clone, Copy, Debug)]
struct Name(*const c_char);

// SAFETY: the string is constant, and there until its binary is unregistered, by when it is forgotten here.
unsafe impl Send for Name {}
// SAFETY: as above.
unsafe impl Sync for Name {}

/// The address of a binary of the program's; NULL where there is none.
#[derive(Clone, Copy, Debug)]
struct Address(*const c_void);

// SAFETY: the bytes are constant, and there until the binary is unregistered, by when they are forgotten here.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

static REGISTRY: RwLock<Registry> = RwLock::new(Registry {
    kernels: BTreeMap::new(),
    variables: BTreeMap::new(),
    binaries: BTreeMap::new(),
    handles: 0,
});

fn registry() -> RwLockReadGuard<'static, Registry> {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner)
}

fn registry_mut() -> RwLockWriteGuard<'static, Registry> {
    REGISTRY.write().unwrap_or_else(PoisonError::into_inner)
}

/// Handles are told from NULL, each other and every address of the process, and are never followed.
const HANDLE_BASE: usize = 0x0f00_0000_0000_0000;
const HANDLE_STEP: usize = 16;

impl Registry {
    const fn handle(&mut self) -> usize {
        self.handles += 1;
        HANDLE_BASE + self.handles * HANDLE_STEP
    }

    fn insert(&mut self, image: *const c_void, code: OnceLock<Result<Arc<Code>, String>>) -> usize {
        let handle = self.handle();
        self.binaries.insert(handle, Binary { image: Address(image), code, names: BTreeMap::new() });
        handle
    }

    fn code(&self, binary: usize) -> Result<Arc<Code>, String> {
        let binary = self.binaries.get(&binary).ok_or_else(|| "its module was unloaded".to_owned())?;
        // SAFETY: the program registered it as a fat binary of its own, and it cannot be unregistered while the lock is
        // held.
        binary.code.get_or_init(|| unsafe { modules::read(binary.image.0) }.map(Arc::new)).clone()
    }
}

/// A new binary's handle. It is read when a kernel of it is launched, or a variable used.
///
/// # Safety
/// `image` is NULL or what compilers register: a fat binary's wrapper that is there until it is unregistered.
pub(crate) unsafe fn register_binary(image: *const c_void) -> usize {
    registry_mut().insert(image, OnceLock::new())
}

/// A module's handle, whose code was read.
pub(crate) fn register_code(code: Code) -> usize {
    registry_mut().insert(std::ptr::null(), OnceLock::from(Ok(Arc::new(code))))
}

/// Forgets a binary, its kernels and its variables. Whether it was there.
pub(crate) fn unregister_binary(binary: usize) -> bool {
    let mut registry = registry_mut();
    registry.kernels.retain(|_, kernel| kernel.binary != binary);
    registry.variables.retain(|_, variable| variable.binary != binary);
    registry.binaries.remove(&binary).is_some()
}

/// Notes a kernel.
///
/// # Safety
/// `name` is NULL or a C string that is there until the binary is unregistered.
pub(crate) unsafe fn register_kernel(binary: usize, function: *const c_void, name: *const c_char) {
    if !name.is_null() {
        registry_mut().kernels.insert(function.addr(), Kernel { name: Name(name), binary });
    }
}

/// Notes a variable.
///
/// # Safety
/// `name` is NULL or a C string that is there until the binary is unregistered; `variable` likewise points to a pointer
/// if it is managed.
pub(crate) unsafe fn register_variable(
    binary: usize,
    variable: *const c_void,
    name: *const c_char,
    bytes: usize,
    is_managed: bool,
) {
    if !name.is_null() {
        let noted = Variable { name: Name(name), binary, bytes, is_managed };
        registry_mut().variables.insert(variable.addr(), noted);
    }
}

/// The number of a module's function: the same each time. `None` where there is no such module.
pub(crate) fn function_of(binary: usize, name: &CStr) -> Option<usize> {
    let mut registry = registry_mut();
    if let Some(known) = registry.binaries.get(&binary)?.names.get(name) {
        return Some(*known);
    }
    let number = registry.handle();
    let name = name.to_owned();
    // The string's bytes stay where they are as long as the binary has them.
    let at = Name(name.as_ptr());
    registry.binaries.get_mut(&binary)?.names.insert(name, number);
    registry.kernels.insert(number, Kernel { name: at, binary });
    Some(number)
}

/// The code of a binary.
///
/// # Errors
/// Why it has none, as a sentence.
pub(crate) fn code(binary: usize) -> Result<Arc<Code>, String> {
    registry().code(binary)
}

/// The binary of a kernel.
pub(crate) fn binary_of(function: usize) -> Option<usize> {
    registry().kernels.get(&function).map(|kernel| kernel.binary)
}

/// A variable, by the address of the host's.
#[derive(Clone, Debug)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) bytes: usize,
    pub(crate) binary: usize,
}

/// What a host's variable stands for.
pub(crate) fn symbol(variable: *const c_void) -> Option<Symbol> {
    let registry = registry();
    let found = registry.variables.get(&variable.addr())?;
    // SAFETY: a C string as long as it is registered, and it cannot be unregistered while the lock is held.
    let name = unsafe { CStr::from_ptr(found.name.0) };
    let name = name.to_string_lossy().into_owned();
    Some(Symbol { name, bytes: found.bytes, binary: found.binary })
}

/// The managed variables of a binary: where the host's pointer to each is, and its name.
pub(crate) fn managed(binary: usize) -> Vec<(usize, String)> {
    let registry = registry();
    let managed = registry.variables.iter().filter(|(_, found)| found.binary == binary && found.is_managed);
    let shown = managed.map(|(at, found)| {
        // SAFETY: as in `symbol`.
        let name = unsafe { CStr::from_ptr(found.name.0) };
        (*at, name.to_string_lossy().into_owned())
    });
    shown.collect()
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
        // SAFETY: no binary.
        let binary = unsafe { register_binary(std::ptr::null()) };
        let function: *const c_void = std::ptr::without_provenance(0x1000);
        // SAFETY: a literal.
        unsafe { register_kernel(binary, function, c"_Z3addPf".as_ptr()) };
        assert_eq!(kernel(function).as_deref(), Some("_Z3addPf"));
        assert!(code(binary).unwrap_err().contains("registered without"));
        // SAFETY: no binary.
        assert!(binary != 0 && binary != unsafe { register_binary(std::ptr::null()) });
        assert!(unregister_binary(binary));
        assert!(!is_kernel(function) && kernel(function).is_none() && !unregister_binary(binary));
    }

    #[test]
    fn a_module_gives_each_function_one_number() {
        // SAFETY: no binary.
        let binary = unsafe { register_binary(std::ptr::null()) };
        let first = function_of(binary, c"first").unwrap();
        let second = function_of(binary, c"second").unwrap();
        assert_eq!(function_of(binary, c"first"), Some(first));
        assert_ne!(first, second);
        assert_eq!(kernel(std::ptr::without_provenance(second)).as_deref(), Some("second"));
        assert_eq!(binary_of(first), Some(binary));
        unregister_binary(binary);
        assert_eq!(function_of(binary, c"first"), None);
    }
}
