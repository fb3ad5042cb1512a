//! The table as values: what the header, the coverage table and the tests read.

use crate::nccl_table;

/// A function of the interface.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The exported symbol.
    pub name: &'static str,
    /// Its `pnccl` twin, which every function but one has.
    pub twin: Option<&'static str>,
    /// The release that brought it, major and minor.
    pub since: (u32, u32),
    /// What it is about.
    pub section: Section,
    /// What it does, in a sentence.
    pub doc: &'static str,
    /// Its arguments in order.
    pub params: &'static [Param],
    /// What it returns, as written in Rust.
    pub returns: &'static str,
}

/// An argument of a [`Row`].
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// Its type as written in Rust.
    pub ty: &'static str,
}

/// What a function is about; the header's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// The library itself.
    Library,
    /// Making, asking and ending communicators.
    Communicator,
    /// Buffers and windows.
    Memory,
    /// Reduction operators.
    Operator,
    /// Operations of a whole communicator.
    Collective,
    /// Operations of two ranks.
    PointToPoint,
    /// Several calls as one.
    Grouping,
    /// Runtime parameters.
    Parameter,
    /// The host side of what device code uses.
    Device,
}

impl Section {
    /// The section's heading.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Library => "Library",
            Self::Communicator => "Communicators",
            Self::Memory => "Memory",
            Self::Operator => "Reduction operators",
            Self::Collective => "Collectives",
            Self::PointToPoint => "Point to point and one-sided",
            Self::Grouping => "Groups",
            Self::Parameter => "Runtime parameters",
            Self::Device => "Device API, host side",
        }
    }
}

/// The option a macro's `$(...)?` expands to.
const fn optional(name: &[&'static str]) -> Option<&'static str> {
    match name {
        [name, ..] => Some(*name),
        [] => None,
    }
}

macro_rules! rows {
    ($( $(#[doc = $doc:literal])*
        [$major:literal, $minor:literal, $section:ident] fn $name:ident $(/ $twin:ident)?
        ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty; )*) => {
        /// Every function of NCCL 2.32.3, in the table's order.
        pub const ABI_ROWS: &[Row] = &[$(Row {
            name: stringify!($name),
            twin: optional(&[$(stringify!($twin))?]),
            since: ($major, $minor),
            section: Section::$section,
            doc: concat!($($doc),*),
            params: &[$(Param { name: stringify!($arg), ty: stringify!($ty) }),*],
            returns: stringify!($ret),
        }),*];
    };
}
nccl_table!(rows);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_stands_once_and_twins_follow_the_rule() {
        let names: BTreeSet<_> = ABI_ROWS.iter().map(|row| row.name).collect();
        assert_eq!((ABI_ROWS.len(), names.len()), (97, 97));
        let alone: Vec<_> = ABI_ROWS.iter().filter(|row| row.twin.is_none()).map(|row| row.name).collect();
        assert_eq!(alone, ["ncclResetDebugInitInternal"]);
        for row in ABI_ROWS {
            assert!(row.twin.is_none_or(|twin| twin.strip_prefix('p') == Some(row.name)), "{row:?}");
        }
    }

    #[test]
    fn sections_come_in_the_headers_order_and_rows_are_no_newer_than_the_library() {
        assert!(ABI_ROWS.is_sorted_by_key(|row| row.section));
        assert!(ABI_ROWS.iter().all(|row| row.since <= (2, 32) && !row.doc.is_empty()));
    }
}
