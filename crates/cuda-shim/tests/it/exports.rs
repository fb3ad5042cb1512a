//! What the libraries export, and under which name they are loaded.

use std::collections::BTreeSet;
use std::fs;

use fakegpu_cuda_abi::{DRIVER_ROWS, RUNTIME_ROWS};
use object::elf::{DT_SONAME, FileHeader64};
use object::read::elf::{Dyn as _, ElfFile};
use object::{Endianness, Object as _, ObjectSymbol as _};

use crate::laid_out::folder;

fn read(name: &str) -> Vec<u8> {
    fs::read(folder().join(name)).expect("the library can be read")
}

fn elf(data: &[u8]) -> ElfFile<'_, FileHeader64<Endianness>> {
    ElfFile::parse(data).expect("an ELF file")
}

fn exported(data: &[u8]) -> BTreeSet<String> {
    elf(data)
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.is_global())
        .map(|symbol| symbol.name().expect("a name").to_owned())
        .collect()
}

/// The names of a runtime's functions and their twins.
fn symbols(major: u32) -> BTreeSet<String> {
    let mut symbols = BTreeSet::new();
    for row in RUNTIME_ROWS {
        let Some(export) = row.exports.iter().find(|export| export.major == major) else { continue };
        symbols.insert(export.symbol.unwrap_or(row.name).to_owned());
        symbols.extend(export.twin.or(row.twin).map(str::to_owned));
    }
    symbols
}

#[test]
fn the_driver_exports_its_table_and_what_our_libraries_look_for() {
    let ours = [
        "fakegpu_cuda_runtime",
        "fakegpu_cuda_streams",
        "fakegpu_cuda_drain",
        "fakegpu_cuda_drain_current",
        "fakegpu_cuda_drain_stream",
        "fakegpu_cuda_is_idle",
    ];
    let expected: BTreeSet<String> = DRIVER_ROWS
        .iter()
        .flat_map(|row| [Some(row.name), row.twin])
        .flatten()
        .chain(ours)
        .map(str::to_owned)
        .collect();
    assert_eq!(exported(&read("libcuda.so.1")), expected);
}

#[test]
fn each_runtime_exports_its_rows_and_nothing_else() {
    for major in [12, 13] {
        let mut found = exported(&read(&format!("libcudart.so.{major}")));
        // The symbol by which a version is defined is one, too.
        found.remove(&format!("libcudart.so.{major}"));
        assert_eq!(found, symbols(major), "CUDA {major}");
    }
}

#[test]
fn a_runtimes_symbols_carry_its_version_as_programs_ask_for_it() {
    for major in [12, 13] {
        let data = read(&format!("libcudart.so.{major}"));
        let elf = elf(&data);
        let sections = elf.elf_section_table();
        let versions = sections.versions(elf.endian(), &*data).expect("valid").expect("versions");
        let symbol =
            elf.dynamic_symbols().find(|symbol| symbol.name() == Ok("cudaMalloc")).expect("cudaMalloc");
        let index = versions.version_index(elf.endian(), symbol.index());
        let version = versions.version(index.into()).expect("a version of the file").expect("a version");
        assert_eq!(version.name(), format!("libcudart.so.{major}").as_bytes());
    }
}

#[test]
fn their_names_for_the_loader_are_nvidias() {
    for name in ["libcuda.so.1", "libcudart.so.12", "libcudart.so.13"] {
        let data = read(name);
        let elf = elf(&data);
        let sections = elf.elf_section_table();
        let (entries, strings) =
            sections.dynamic(elf.endian(), &*data).expect("valid").expect("a dynamic section");
        let strings = sections.strings(elf.endian(), &*data, strings).expect("its strings");
        let soname = entries.iter().find(|entry| entry.tag(elf.endian()) == DT_SONAME).expect("a SONAME");
        assert_eq!(soname.string(elf.endian(), strings), Ok(name.as_bytes()));
    }
}
