//! Runtime parameters.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use fakegpu_nccl_abi::types::*;
use fakegpu_simulate::{Fault, ParameterId};

use crate::edge::{Edge, put};

thread_local! {
    /// The text that was given out last in this thread.
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Pointers to the names of all parameters, for C to walk; never freed.
#[derive(Debug)]
struct Names {
    pointers: Vec<*const c_char>,
    _texts: Vec<CString>,
}

// SAFETY: the texts are never changed after they were made, and live as long as the pointers to them.
unsafe impl Send for Names {}
// SAFETY: as above.
unsafe impl Sync for Names {}

static NAMES: OnceLock<Names> = OnceLock::new();

/// What a parameter is shown as: its number, from 1, so that it is never NULL.
fn shown(id: ParameterId) -> ncclParamHandle_t {
    std::ptr::without_provenance_mut((id.0 + 1) * 8)
}

fn parameter(shown: ncclParamHandle_t) -> Result<ParameterId, Fault> {
    let number = shown.addr();
    match (number / 8).checked_sub(1) {
        Some(id) if number.is_multiple_of(8) => Ok(ParameterId(id)),
        _ => Err(Fault::argument("the parameter's handle was not made by ncclParamBind")),
    }
}

/// # Safety
/// `key` is NULL or a C string.
unsafe fn bound(edge: &Edge, key: *const c_char) -> Result<ParameterId, Fault> {
    if key.is_null() {
        return Err(Fault::argument("the parameter's key is NULL"));
    }
    // SAFETY: not NULL, so a C string by this function's contract.
    let key = unsafe { CStr::from_ptr(key) };
    edge.runtime().parameter(&key.to_string_lossy())
}

/// A text that is good until this thread asks for another.
fn keep(text: &str) -> *const c_char {
    let text = CString::new(text).unwrap_or_default();
    TEXT.try_with(|kept| {
        *kept.borrow_mut() = text;
        kept.borrow().as_ptr()
    })
    .unwrap_or_else(|_| c"".as_ptr())
}

/// # Safety
/// `out` is NULL or writable.
unsafe fn number<T: TryFrom<i128>>(edge: &Edge, h: ncclParamHandle_t, out: *mut T) -> Result<(), Fault> {
    let value = edge.runtime().parameter_number::<T>(parameter(h)?)?;
    // SAFETY: handed on unchanged.
    unsafe { put(out, value, "the value's address") }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclParamBind(
    edge: &Edge,
    out: *mut ncclParamHandle_t,
    key: *const c_char,
) -> Result<(), Fault> {
    // SAFETY: handed on unchanged.
    let id = unsafe { bound(edge, key) }?;
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(out, shown(id), "the handle's address") }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclParamGetI8(edge: &Edge, h: ncclParamHandle_t, out: *mut i8) -> Result<(), Fault> {
    // SAFETY: handed on unchanged.
    unsafe { number(edge, h, out) }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclParamGetI16(edge: &Edge, h: ncclParamHandle_t, out: *mut i16) -> Result<(), Fault> {
    // SAFETY: handed on unchanged.
    unsafe { number(edge, h, out) }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclParamGetI32(edge: &Edge, h: ncclParamHandle_t, out: *mut i32) -> Result<(), Fault> {
    // SAFETY: handed on unchanged.
    unsafe { number(edge, h, out) }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclParamGetI64(edge: &Edge, h: ncclParamHandle_t, out: *mut i64) -> Result<(), Fault> {
    // SAFETY: handed on unchanged.
    unsafe { number(edge, h, out) }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclParamGetU8(edge: &Edge, h: ncclParamHandle_t, out: *mut u8) -> Result<(), Fault> {
    // SAFETY: handed on unchanged.
    unsafe { number(edge, h, out) }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclParamGetU16(edge: &Edge, h: ncclParamHandle_t, out: *mut u16) -> Result<(), Fault> {
    // SAFETY: handed on unchanged.
    unsafe { number(edge, h, out) }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclParamGetU32(edge: &Edge, h: ncclParamHandle_t, out: *mut u32) -> Result<(), Fault> {
    // SAFETY: handed on unchanged.
    unsafe { number(edge, h, out) }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclParamGetU64(edge: &Edge, h: ncclParamHandle_t, out: *mut u64) -> Result<(), Fault> {
    // SAFETY: handed on unchanged.
    unsafe { number(edge, h, out) }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclParamGetStr(
    edge: &Edge,
    h: ncclParamHandle_t,
    out: *mut *const c_char,
) -> Result<(), Fault> {
    let text = edge.runtime().parameter_text(parameter(h)?)?;
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(out, keep(text), "the text's address") }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclParamGet(
    edge: &Edge,
    h: ncclParamHandle_t,
    out: *mut c_void,
    max_len: c_int,
    len: *mut c_int,
) -> Result<(), Fault> {
    let text = edge.runtime().parameter_text(parameter(h)?)?;
    let room = usize::try_from(max_len).unwrap_or(0);
    if out.is_null() || room < text.len() {
        return Err(Fault::argument(format!(
            "ncclParamGet: the value has {} bytes, and there is room for {}",
            text.len(),
            if out.is_null() { 0 } else { room }
        )));
    }
    // SAFETY: `out` has room for `max_len` bytes as the C function requires, which are enough.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), out.cast::<u8>(), text.len()) };
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(len, c_int::try_from(text.len()).unwrap_or(c_int::MAX), "the length's address") }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclParamGetParameter(
    edge: &Edge,
    key: *const c_char,
    value: *mut *const c_char,
    value_len: *mut c_int,
) -> Result<(), Fault> {
    // SAFETY: handed on unchanged.
    let id = unsafe { bound(edge, key) }?;
    let text = edge.runtime().parameter_text(id)?;
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(value, keep(text), "the value's address") }?;
    // SAFETY: as above.
    unsafe { put(value_len, c_int::try_from(text.len()).unwrap_or(c_int::MAX), "the length's address") }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclParamGetAllParameterKeys(
    edge: &Edge,
    table: *mut *mut *const c_char,
    table_len: *mut c_int,
) -> Result<(), Fault> {
    let names = NAMES.get_or_init(|| {
        let texts: Vec<CString> =
            edge.runtime().parameter_names().filter_map(|name| CString::new(name).ok()).collect();
        Names { pointers: texts.iter().map(|text| text.as_ptr()).collect(), _texts: texts }
    });
    // SAFETY: NULL or writable, as the C function requires; C may walk the table, and is not to write to it.
    unsafe { put(table, names.pointers.as_ptr().cast_mut(), "the table's address") }?;
    let count = c_int::try_from(names.pointers.len()).unwrap_or(c_int::MAX);
    // SAFETY: as above.
    unsafe { put(table_len, count, "the table's length's address") }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclParamDumpAll(edge: &Edge) {
    edge.runtime().dump_parameters();
}
