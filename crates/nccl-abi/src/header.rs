//! Writes `nccl.h` from the tables, so that C programs build without NVIDIA's header and without CUDA.
//!
//! C99 and C++11. Where `<cuda_runtime.h>` can be found it is included; otherwise streams and events are
//! declared as the CUDA headers declare them, which C11 and C++ allow to be repeated.

use std::fmt::Write as _;

use crate::describe::{Field, Layout, Named};
use crate::rows::{ABI_ROWS, Param, Row, Section};
use crate::types::{ENUMS, LAYOUTS};
use crate::{VERSION, VERSION_CODE};

/// Longest line of a declaration before it is broken, in characters.
const LINE_CHARS_MAX: usize = 110;

/// The text of `cpp/include/nccl.h`.
pub fn generate() -> String {
    let mut text = String::from(OPENING);
    let (major, minor, patch) = VERSION;
    define(&mut text, "NCCL_MAJOR", &major.to_string(), "");
    define(&mut text, "NCCL_MINOR", &minor.to_string(), "");
    define(&mut text, "NCCL_PATCH", &patch.to_string(), "");
    define(&mut text, "NCCL_SUFFIX", "\"\"", "");
    define(&mut text, "NCCL_VERSION_CODE", &VERSION_CODE.to_string(), "");
    text.push_str(VERSION_MACRO);
    for (name, value, doc) in CONSTANTS {
        define(&mut text, name, value, doc);
    }
    text.push_str(LANGUAGE_OPEN);
    text.push_str(HANDLES);
    for (name, values, doc) in ENUMS {
        enumeration(&mut text, name, values, doc);
    }
    for layout in LAYOUTS {
        structure(&mut text, layout);
        if let Some(initializer) = initializer(layout) {
            text.push_str(&initializer);
        }
    }
    functions(&mut text);
    text.push_str(CLOSING);
    text
}

/// A type written in Rust, as C writes it around `name`.
fn declaration(ty: &str, name: &str) -> String {
    if let Some((element, count)) = ty
        .strip_prefix('[')
        .and_then(|array| array.strip_suffix(']'))
        .and_then(|array| array.split_once("; "))
    {
        return format!("{} {name}[{count}]", c_type(element));
    }
    let ty = c_type(ty);
    let gap = if ty.ends_with('*') || name.is_empty() { "" } else { " " };
    format!("{ty}{gap}{name}")
}

/// A scalar or pointer type written in Rust, as C writes it.
fn c_type(ty: &str) -> String {
    // `stringify!` writes `*mut T` or `* mut T`, as it pleases.
    if let Some(target) = ty.strip_prefix('*').map(str::trim_start) {
        if let Some(target) = target.strip_prefix("mut ") {
            return pointer_to(&c_type(target));
        }
        if let Some(target) = target.strip_prefix("const ") {
            return pointer_to(&format!("const {}", c_type(target)));
        }
    }
    match ty {
        "()" | "c_void" => "void",
        "c_int" => "int",
        "c_uint" => "unsigned int",
        "c_char" => "char",
        "c_bool" => "bool",
        "usize" => "size_t",
        "f32" => "float",
        "i8" => "int8_t",
        "i16" => "int16_t",
        "i32" => "int32_t",
        "i64" => "int64_t",
        "u8" => "uint8_t",
        "u16" => "uint16_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        named => named,
    }
    .to_owned()
}

fn pointer_to(target: &str) -> String {
    let gap = if target.ends_with('*') { "" } else { " " };
    format!("{target}{gap}*")
}

fn define(text: &mut String, name: &str, value: &str, doc: &str) {
    comment(text, "", doc);
    line(text, format_args!("#define {name} {value}"));
}

fn enumeration(text: &mut String, name: &str, values: &[Named], doc: &str) {
    text.push('\n');
    comment(text, "", doc);
    text.push_str("typedef enum {\n");
    for named in values {
        let value = match named.value {
            i32::MIN => "INT_MIN".to_owned(),
            i32::MAX => "INT_MAX".to_owned(),
            value => value.to_string(),
        };
        let comma = if named.name == values[values.len() - 1].name { "" } else { "," };
        line(text, format_args!("  {} = {value}{comma} /* {} */", named.name, named.doc.trim()));
    }
    line(text, format_args!("}} {name};"));
}

fn structure(text: &mut String, layout: &Layout) {
    text.push('\n');
    comment(text, "", layout.doc);
    line(text, format_args!("typedef struct {} {{", layout.tag));
    for field in layout.fields {
        let member = member(field).unwrap_or_else(|| declaration(field.ty, field.name));
        line(text, format_args!("  {member}; /* {} */", field.doc.trim()));
    }
    line(text, format_args!("}} {};", layout.name));
}

/// Members whose type C declares in place, or that name their own struct.
fn member(field: &Field) -> Option<String> {
    Some(match field.ty {
        "ncclConfigExtKey" => "struct { int vendorId; int optionId; } key".to_owned(),
        "ncclConfigExtValue" => "union { int i; const char *s; void *raw; } val".to_owned(),
        "*mut ncclConfigExt_t" if field.name == "next" => "struct ncclConfigExt *next".to_owned(),
        _ => return None,
    })
}

/// The macro that sets a versioned struct up, with everything unset.
fn initializer(layout: &Layout) -> Option<String> {
    let (name, magic) = match layout.name {
        "ncclConfig_t" => ("NCCL_CONFIG_INITIALIZER", "NCCL_API_MAGIC"),
        "ncclCollConfig_t" => ("NCCL_COLLCONFIG_INITIALIZER", "NCCL_API_MAGIC"),
        "ncclSimInfo_t" => ("NCCL_SIM_INFO_INITIALIZER", "0x74685283"),
        "ncclEncryptionConfig_t" => ("NCCL_ENCRYPTION_CONFIG_INITIALIZER", "NCCL_API_MAGIC"),
        "ncclCommProperties_t" => ("NCCL_COMM_PROPERTIES_INITIALIZER", "NCCL_API_MAGIC"),
        _ => return None,
    };
    let mut text = format!("#define {name} {{ \\\n");
    let shown = if layout.name == "ncclCommProperties_t" { 3 } else { layout.fields.len() };
    for field in &layout.fields[..shown] {
        let value = match field.name {
            "size" => format!("sizeof({})", layout.name),
            "magic" => magic.to_owned(),
            "version" => "NCCL_VERSION_CODE".to_owned(),
            "forceAlgSelection" => "1".to_owned(),
            "userProfilerTag" => "0".to_owned(),
            "mode" => "NCCL_ENCRYPTION_MODE_NONE".to_owned(),
            "estimatedTime" => "NCCL_UNDEF_FLOAT".to_owned(),
            _ if field.ty == "c_int" => "NCCL_CONFIG_UNDEF_INT".to_owned(),
            _ => "NCCL_CONFIG_UNDEF_PTR".to_owned(),
        };
        line(&mut text, format_args!("  {value}, /* {} */ \\", field.name));
    }
    text.push_str("}\n");
    Some(text)
}

fn functions(text: &mut String) {
    let mut section = None;
    for row in ABI_ROWS {
        if section != Some(row.section) {
            section = Some(row.section);
            line(text, format_args!("\n/* ---- {} ---- */", row.section.title()));
            if row.section == Section::Device {
                text.push_str(DEVICE_TYPES);
            }
        }
        text.push('\n');
        let (major, minor) = row.since;
        comment(text, "", &format!("{} Since {major}.{minor}.", row.doc.trim().replace('`', "")));
        prototype(text, row, row.name);
        if let Some(twin) = row.twin {
            prototype(text, row, twin);
        }
    }
}

fn prototype(text: &mut String, row: &Row, name: &str) {
    let head = format!("{}(", declaration(row.returns, name));
    let params: Vec<String> = row.params.iter().map(|Param { name, ty }| declaration(ty, name)).collect();
    let params = if params.is_empty() { vec!["void".to_owned()] } else { params };
    let mut current = head;
    for (at, param) in params.iter().enumerate() {
        let end = if at + 1 == params.len() { ");" } else { "," };
        let gap = if at == 0 { "" } else { " " };
        if current.len() + gap.len() + param.len() + end.len() > LINE_CHARS_MAX {
            line(text, format_args!("{current}"));
            current = format!("    {param}{end}");
        } else {
            current = format!("{current}{gap}{param}{end}");
        }
    }
    line(text, format_args!("{current}"));
}

fn comment(text: &mut String, indent: &str, doc: &str) {
    if !doc.is_empty() {
        line(text, format_args!("{indent}/* {} */", doc.trim()));
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // A `String` takes whatever is written.
    writeln!(text, "{arguments}").expect("writing to a string");
}

const OPENING: &str = r#"/*
 * FakeGPU's nccl.h: the C interface of NCCL 2.32.3, for programs built without CUDA.
 *
 * Generated from the table in crates/nccl-abi; do not edit. `cargo xtask codegen` writes it.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CUDA's own declarations where they can be had; otherwise the same two types. */
#if defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#define FAKEGPU_HAS_CUDA_RUNTIME 1
#endif
#endif
#if !defined(FAKEGPU_HAS_CUDA_RUNTIME) && !defined(__CUDA_RUNTIME_H__) && !defined(__DRIVER_TYPES_H__)
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
#endif

"#;

const VERSION_MACRO: &str = "\
/* The code of any version; 2.8 and older counted in thousands. */
#define NCCL_VERSION(major, minor, patch) \\
  (((major) <= 2 && (minor) <= 8) ? (major) * 1000 + (minor) * 100 + (patch) \\
                                  : (major) * 10000 + (minor) * 100 + (patch))

";

const CONSTANTS: &[(&str, &str, &str)] = &[
    ("NCCL_UNIQUE_ID_BYTES", "128", "Bytes of a ncclUniqueId."),
    ("NCCL_COMM_NULL", "NULL", "No communicator."),
    ("NCCL_API_MAGIC", "0xcafebeef", "Shows that an initializer ran."),
    ("NCCL_CONFIG_UNDEF_INT", "INT_MIN", "A setting left alone."),
    ("NCCL_CONFIG_UNDEF_PTR", "NULL", ""),
    ("NCCL_UNDEF_FLOAT", "-1.0f", ""),
    ("NCCL_SPLIT_NOCOLOR", "-1", "ncclCommSplit: join no child."),
    ("NCCL_SHRINK_DEFAULT", "0x00", "ncclCommShrink flags: the parent stays usable, or is aborted first."),
    ("NCCL_SHRINK_ABORT", "0x01", ""),
    ("NCCL_REVOKE_DEFAULT", "0x00", "ncclCommRevoke: the only flags there are."),
    ("NCCL_SUSPEND_MEM", "0x01", "ncclCommSuspend: give device memory back."),
    ("NCCL_WIN_DEFAULT", "0x00", "ncclCommWindowRegister flags."),
    ("NCCL_WIN_COLL_SYMMETRIC", "0x01", ""),
    ("NCCL_WIN_STRICT_ORDERING", "0x02", ""),
    ("NCCL_WIN_GIN_ONLY", "0x04", ""),
    ("NCCL_WIN_CFT_COUNTED", "0x08", ""),
    ("NCCL_WIN_REQUIRED_ALIGNMENT", "4096", "Alignment of a window's buffer, in bytes."),
    ("NCCL_CTA_POLICY_DEFAULT", "0x00", "Thread-block policies."),
    ("NCCL_CTA_POLICY_EFFICIENCY", "0x01", ""),
    ("NCCL_CTA_POLICY_ZERO", "0x02", ""),
];

const LANGUAGE_OPEN: &str = "
#ifdef __cplusplus
extern \"C\" {
#endif
";

const HANDLES: &str = "
/* What callers hold and only the library looks into. */
typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct ncclParamHandle *ncclParamHandle_t;
";

const DEVICE_TYPES: &str = "
typedef uint32_t ncclCftLeId_t;
typedef struct ncclDevComm ncclDevComm_t;
typedef struct ncclDevCommRequirements ncclDevCommRequirements_t;
typedef struct ncclDevResourceRequirements ncclDevResourceRequirements_t;
typedef struct ncclLsaBarrierHandle ncclLsaBarrierHandle_t;
typedef struct ncclGinBarrierHandle ncclGinBarrierHandle_t;
typedef struct ncclGinOutboxHandle ncclGinOutboxHandle_t;
typedef struct ncclGinInboxA2AHandle ncclGinInboxA2AHandle_t;
typedef struct ncclLLA2AHandle ncclLLA2AHandle_t;
";

const CLOSING: &str = "
#ifdef __cplusplus
}
#endif

#endif /* NCCL_H_ */
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_header_is_the_generated_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cpp/include/nccl.h");
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == generate(), "{path} is stale: run `cargo xtask codegen`");
    }

    #[track_caller]
    fn check(ty: &str, name: &str, expected: &str) {
        assert_eq!(declaration(ty, name), expected);
    }

    #[test]
    fn types_are_written_as_c_writes_them() {
        check("*const c_void", "sendbuff", "const void *sendbuff");
        check("* mut * mut * const c_char", "table", "const char ***table");
        check("[c_bool; 64]", "ginSupport", "bool ginSupport[64]");
        check("usize", "count", "size_t count");
        check("()", "ncclParamDumpAll", "void ncclParamDumpAll");
    }

    #[test]
    fn a_long_prototype_is_broken_between_arguments() {
        assert!(
            generate()
                .lines()
                .all(|line| line.starts_with("/*") || line.chars().count() <= LINE_CHARS_MAX + 30)
        );
        assert!(generate().contains("\nncclResult_t pncclGroupStart(void);\n"));
    }
}
