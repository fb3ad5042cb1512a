//! The tables as values: what coverage lists and tests read.

use crate::{driver_table, runtime_table};

/// A function of the runtime.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeRow {
    /// What the signature is called here; [`RuntimeTable`](crate::RuntimeTable) has a member of this name.
    pub name: &'static str,
    /// What it is about.
    pub section: &'static str,
    /// Its twin for per-thread default streams.
    pub twin: Option<&'static str>,
    /// Who exports it, and as what.
    pub exports: &'static [Export],
}

/// A function as one major version exports it.
#[derive(Clone, Copy, Debug)]
pub struct Export {
    /// The major version.
    pub major: u32,
    /// The symbol, where it is not the row's name.
    pub symbol: Option<&'static str>,
    /// Its twin, where it is not that of the row.
    pub twin: Option<&'static str>,
}

impl RuntimeRow {
    /// The symbol that `libcudart` of this major exports for it.
    pub fn symbol(&self, major: u32) -> Option<&'static str> {
        let export = self.exports.iter().find(|export| export.major == major)?;
        Some(export.symbol.unwrap_or(self.name))
    }
}

/// A function of the driver.
#[derive(Clone, Copy, Debug)]
pub struct DriverRow {
    /// The symbol.
    pub name: &'static str,
    /// Its twin for per-thread default streams.
    pub twin: Option<&'static str>,
    /// The name by which `cuGetProcAddress` is asked for it.
    pub asked: &'static str,
    /// The version of CUDA that brought this form of it.
    pub since: u32,
    /// What it is about.
    pub section: &'static str,
}

/// The option a macro's `$(...)?` expands to.
const fn optional(name: &[&'static str]) -> Option<&'static str> {
    match name {
        [name, ..] => Some(*name),
        [] => None,
    }
}

/// The first of what a macro's `$(...)?` and a default expand to.
const fn first(names: &[&'static str]) -> &'static str {
    match names {
        [name, ..] => name,
        [] => "",
    }
}

macro_rules! runtime_rows {
    ($( $section:ident { $(
        [$($major:tt $(as $symbol:ident $(/ $symbol_twin:ident)?)?),+]
        fn $name:ident $(/ $twin:ident)? ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
    )* } )*) => {
        /// Every function of the runtime, in the table's order.
        pub const RUNTIME_ROWS: &[RuntimeRow] = &[$($(RuntimeRow {
            name: stringify!($name),
            section: stringify!($section),
            twin: optional(&[$(stringify!($twin))?]),
            exports: &[$(Export {
                major: $major,
                symbol: optional(&[$(stringify!($symbol))?]),
                twin: optional(&[$($(stringify!($symbol_twin))?)?]),
            }),+],
        },)*)*];
    };
}
runtime_table!(runtime_rows);

macro_rules! driver_rows {
    ($( $section:ident { $(
        [$since:literal $(as $asked:ident)?]
        fn $name:ident $(/ $twin:ident)? ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
    )* } )*) => {
        /// Every function of the driver, in the table's order.
        pub const DRIVER_ROWS: &[DriverRow] = &[$($(DriverRow {
            name: stringify!($name),
            twin: optional(&[$(stringify!($twin))?]),
            asked: first(&[$(stringify!($asked),)? stringify!($name)]),
            since: $since,
            section: stringify!($section),
        },)*)*];
    };
}
driver_table!(driver_rows);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_stands_once_and_no_library_exports_a_symbol_twice() {
        let names: BTreeSet<_> = RUNTIME_ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), RUNTIME_ROWS.len());
        for major in [12, 13] {
            let symbols: Vec<_> = RUNTIME_ROWS.iter().filter_map(|row| row.symbol(major)).collect();
            let unique: BTreeSet<_> = symbols.iter().collect();
            assert_eq!((unique.len(), symbols.len() > 300), (symbols.len(), true), "CUDA {major}");
        }
        let names: BTreeSet<_> = DRIVER_ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), DRIVER_ROWS.len());
    }

    #[test]
    fn a_row_that_is_exported_under_another_name_says_so_for_its_twin_too() {
        for row in RUNTIME_ROWS {
            for export in row.exports {
                let renamed = (export.symbol.is_some(), export.twin.is_some());
                assert_eq!(renamed.0 && row.twin.is_some(), renamed.1, "{row:?}");
            }
        }
    }

    #[test]
    fn later_forms_of_a_driver_function_are_newer() {
        for row in DRIVER_ROWS {
            let version = |name: &str| name.rsplit_once("_v").map_or(1, |(_, v)| v.parse().unwrap_or(1));
            for other in DRIVER_ROWS.iter().filter(|other| other.asked == row.asked) {
                let (this, that): (u32, u32) = (version(row.name), version(other.name));
                assert!(this >= that || row.since <= other.since, "{row:?} {other:?}");
            }
        }
    }
}
