//! Device code: read from what programs register or load, its kernels translated when they are first launched, its
//! variables given memory when they are first needed.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use fakegpu_cuda::{Ordinal, World};
use fakegpu_cuda_abi::types::cudaError_t;
use fakegpu_ptx::{FatBinary, HEADER_BYTES, Module, Space, Variable};
use fakegpu_ptx_jit::Kernel;

use crate::failure::{Failure, Result};

/// A kernel that was translated, or why it was not.
type Translated = Arc<OnceLock<std::result::Result<Arc<Kernel>, String>>>;

/// A module's PTX and what was made of it.
#[derive(Debug)]
pub(crate) struct Code {
    module: Module,
    kernels: Mutex<BTreeMap<String, Translated>>,
    variables: Mutex<Variables>,
}

/// Addresses of variables, in the module's order; 0 for those that have no memory.
#[derive(Debug, Default)]
struct Variables {
    devices: BTreeMap<Ordinal, Arc<[usize]>>,
    /// Managed variables are on all devices at once.
    managed: BTreeMap<usize, usize>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Code {
    fn new(text: &str) -> std::result::Result<Self, String> {
        let module = Module::parse(text).map_err(|error| error.to_string())?;
        Ok(Self { module, kernels: Mutex::default(), variables: Mutex::default() })
    }

    /// Whether there is a kernel of this name.
    pub(crate) fn has_kernel(&self, name: &str) -> bool {
        self.module.function(name).is_some_and(|function| function.is_entry)
    }

    /// The names of its kernels.
    pub(crate) fn kernels(&self) -> Vec<String> {
        let entries = self.module.functions.iter().filter(|function| function.is_entry);
        entries.map(|function| function.name.clone()).collect()
    }

    /// A kernel, translated.
    ///
    /// # Errors
    /// Why it cannot be, as a sentence.
    pub(crate) fn kernel(&self, name: &str) -> std::result::Result<Arc<Kernel>, String> {
        let cell = Arc::clone(locked(&self.kernels).entry(name.to_owned()).or_default());
        // Outside the lock, so that others are not held up by a kernel that takes long.
        cell.get_or_init(|| {
            Kernel::compile(&self.module, name).map(Arc::new).map_err(|reason| format!("it {reason}"))
        })
        .clone()
    }

    /// The addresses of its variables on a device.
    pub(crate) fn addresses(&self, world: &World, device: Ordinal) -> Result<Arc<[usize]>> {
        let mut variables = locked(&self.variables);
        if let Some(known) = variables.devices.get(&device) {
            return Ok(Arc::clone(known));
        }
        let made = self.place(world, device, &mut variables.managed)?;
        variables.devices.insert(device, Arc::clone(&made));
        Ok(made)
    }

    fn place(
        &self,
        world: &World,
        device: Ordinal,
        managed: &mut BTreeMap<usize, usize>,
    ) -> Result<Arc<[usize]>> {
        let mut addresses = Vec::with_capacity(self.module.variables.len());
        let mut fresh = Vec::new();
        for (at, variable) in self.module.variables.iter().enumerate() {
            let is_ours = !variable.is_external && variable.space != Space::Shared;
            let address = match managed.get(&at) {
                _ if !is_ours => 0,
                Some(known) => *known,
                None => {
                    let bytes = usize::try_from(variable.bytes).unwrap_or(usize::MAX);
                    let address = world.variable(device, variable.is_managed, bytes)?;
                    if variable.is_managed {
                        managed.insert(at, address);
                    }
                    fresh.push(at);
                    address
                }
            };
            addresses.push(address);
        }
        for at in fresh {
            if let (Some(variable), Some(address)) = (self.module.variables.get(at), addresses.get(at)) {
                world.write_variable(*address, &self.contents(variable, &addresses))?;
            }
        }
        Ok(addresses.into())
    }

    /// What a variable holds first, the addresses of others filled in.
    fn contents(&self, variable: &Variable, addresses: &[usize]) -> Vec<u8> {
        let mut contents = variable.contents.clone();
        for pointer in &variable.pointers {
            let address = self.module.variable(&pointer.name).and_then(|at| addresses.get(at)).copied();
            let value = (address.unwrap_or(0) as u64).wrapping_add_signed(pointer.addend);
            if let Some(place) = contents.get_mut(pointer.at..pointer.at.saturating_add(8)) {
                place.copy_from_slice(&value.to_le_bytes());
            }
        }
        contents
    }

    /// A variable's address on a device, and its size.
    pub(crate) fn variable(&self, world: &World, device: Ordinal, name: &str) -> Result<(usize, usize)> {
        let at = self.module.variable(name);
        let found = at.and_then(|at| Some((at, self.module.variables.get(at)?)));
        let Some((at, variable)) = found else {
            let text = format!("the module has no variable `{name}`");
            return Err(Failure::new(cudaError_t::cudaErrorSymbolNotFound, text));
        };
        let address = self.addresses(world, device)?.get(at).copied().filter(|address| *address != 0);
        let Some(address) = address else {
            return Err(Failure::unsupported(format!("`{name}` has no memory in its module")));
        };
        Ok((address, usize::try_from(variable.bytes).unwrap_or(usize::MAX)))
    }
}

/// What compilers register for a binary.
#[repr(C)]
#[derive(Clone, Copy)]
struct Wrapper {
    magic: u32,
    version: u32,
    data: *const c_void,
}

const WRAPPER_MAGIC: u32 = 0x4662_43b1;
const FATBIN_MAGIC: u32 = 0xba55_ed50;
const ELF_MAGIC: u32 = u32::from_le_bytes(*b"\x7fELF");

/// Reads device code: a fat binary, its wrapper, or PTX.
///
/// # Safety
/// `image` is NULL, or a wrapper, a fat binary, a cubin or a C string, as CUDA demands of it.
///
/// # Errors
/// Why it cannot be read, as a sentence.
pub(crate) unsafe fn read(image: *const c_void) -> std::result::Result<Code, String> {
    if image.is_null() {
        return Err("it was registered without device code".to_owned());
    }
    // SAFETY: whatever it is, it has four bytes, or it is a string that ends before; see below.
    let magic = unsafe { first_word(image.cast()) };
    match magic {
        WRAPPER_MAGIC => {
            // SAFETY: this function's contract; the magic number is that of a wrapper. It may lie anywhere.
            let wrapper = unsafe { image.cast::<Wrapper>().read_unaligned() };
            // SAFETY: what a wrapper points to is a fat binary.
            unsafe { read_fat(wrapper.data) }
        }
        // SAFETY: as above.
        FATBIN_MAGIC => unsafe { read_fat(image) },
        ELF_MAGIC => Err("it is a cubin, which is SASS alone; build with -gencode \
                          arch=compute_80,code=compute_80 and load the PTX"
            .to_owned()),
        _ => {
            // SAFETY: nothing else is left by this function's contract.
            let text = unsafe { CStr::from_ptr(image.cast()) };
            let text = text.to_str().map_err(|_| "it is neither PTX nor a fat binary".to_owned())?;
            Code::new(text)
        }
    }
}

/// The first four bytes, or what stands before the end of a shorter string.
///
/// # Safety
/// As for [`read`].
unsafe fn first_word(image: *const u8) -> u32 {
    let mut word = [0; 4];
    for (place, byte) in word.iter_mut().enumerate() {
        // SAFETY: the bytes before it were not 0, so this one is a string's, or a binary's, which is longer.
        *byte = unsafe { image.wrapping_add(place).read() };
        if *byte == 0 {
            break;
        }
    }
    u32::from_le_bytes(word)
}

/// # Safety
/// `data` is NULL or a fat binary.
unsafe fn read_fat(data: *const c_void) -> std::result::Result<Code, String> {
    if data.is_null() {
        return Err("its wrapper holds no fat binary".to_owned());
    }
    // SAFETY: a fat binary has a header, by this function's contract.
    let header = unsafe { data.cast::<[u8; HEADER_BYTES]>().read() };
    let bytes = FatBinary::bytes(&header).map_err(|error| error.to_string())?;
    // SAFETY: a fat binary is as long as its header says; it is constant, and not longer than there are addresses.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes) };
    let text = FatBinary::parse(bytes).and_then(|fat| fat.ptx()).map_err(|error| error.to_string())?;
    Code::new(&text)
}

/// Reads device code for `cuModuleLoadData` and its kin.
///
/// # Safety
/// As for [`read`].
pub(crate) unsafe fn load(image: *const c_void) -> Result<usize> {
    if image.is_null() {
        return Err(Failure::invalid("the image is NULL"));
    }
    // SAFETY: this function's contract.
    let code = unsafe { read(image) }.map_err(|reason| {
        let code = if reason.contains("SASS") {
            cudaError_t::cudaErrorNoKernelImageForDevice
        } else {
            cudaError_t::cudaErrorInvalidKernelImage
        };
        Failure::new(code, format!("the module cannot be loaded: {reason}"))
    })?;
    Ok(crate::registry::register_code(code))
}

/// Reads device code from a file.
///
/// # Safety
/// `path` is NULL or a C string.
pub(crate) unsafe fn load_file(path: *const c_char) -> Result<usize> {
    if path.is_null() {
        return Err(Failure::invalid("the name of the file is NULL"));
    }
    // SAFETY: not NULL, so a C string.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy().into_owned();
    let mut bytes = std::fs::read(&path).map_err(|error| {
        Failure::new(cudaError_t::cudaErrorFileNotFound, format!("the module {path} cannot be read: {error}"))
    })?;
    // PTX ends as a string does, and a fat binary that claims more than its file has must not be followed.
    bytes.resize(bytes.len() + HEADER_BYTES, 0);
    let claimed = bytes.first_chunk::<HEADER_BYTES>().and_then(|header| FatBinary::bytes(header).ok());
    if claimed.is_some_and(|claimed| claimed > bytes.len()) {
        let text = format!("the module {path} is shorter than its header says");
        return Err(Failure::new(cudaError_t::cudaErrorInvalidKernelImage, text));
    }
    // SAFETY: the vector's own bytes, which end in zeros and are as many as a fat binary among them claims.
    unsafe { load(bytes.as_ptr().cast()) }
}

/// Lets a module go.
pub(crate) fn unload(world: &World, module: *mut c_void, what: &'static str) -> Result {
    // What runs has its code by itself; what is queued, too. Only the names go.
    world.check()?;
    match crate::registry::unregister_binary(module.addr()) {
        true => Ok(()),
        false => Err(Failure::handle(what, module.addr() as u64)),
    }
}

/// The number of a function of a module.
///
/// # Safety
/// `name` is NULL or a C string.
pub(crate) unsafe fn function(module: *mut c_void, name: *const c_char, what: &'static str) -> Result<usize> {
    if name.is_null() {
        return Err(Failure::invalid("the name of the function is NULL"));
    }
    // SAFETY: not NULL, so a C string.
    let name = unsafe { CStr::from_ptr(name) };
    let code = code(module, what)?;
    let shown = name.to_string_lossy();
    if !code.has_kernel(&shown) {
        let text = format!("the {what} has no kernel `{shown}`");
        return Err(Failure::new(cudaError_t::cudaErrorSymbolNotFound, text));
    }
    crate::registry::function_of(module.addr(), name)
        .ok_or_else(|| Failure::handle(what, module.addr() as u64))
}

/// The code of a module.
pub(crate) fn code(module: *mut c_void, what: &'static str) -> Result<Arc<Code>> {
    crate::registry::code(module.addr()).map_err(|_| Failure::handle(what, module.addr() as u64))
}

/// The address and the size of a variable of a module.
///
/// # Safety
/// `name` is NULL or a C string.
pub(crate) unsafe fn global(
    world: &World,
    device: Ordinal,
    module: *mut c_void,
    name: *const c_char,
    what: &'static str,
) -> Result<(usize, usize)> {
    if name.is_null() {
        return Err(Failure::invalid("the name of the variable is NULL"));
    }
    // SAFETY: not NULL, so a C string.
    let name = unsafe { CStr::from_ptr(name) };
    code(module, what)?.variable(world, device, &name.to_string_lossy())
}
