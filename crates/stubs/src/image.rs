//! The shared library as a file: headers, symbols, hash, versions, code, sentences, flags.

use object::Endianness;
use object::elf;
use object::write::StringId;
use object::write::elf::{FileHeader, ProgramHeader, SectionHeader, Sym, Verdef, Writer};

use crate::Stub;
use crate::code::{FUNCTION_BYTES, Place, function};

/// Why no stub can be written.
#[derive(Debug, thiserror::Error)]
pub enum StubError {
    /// The file could not be put together.
    #[error("`{soname}` cannot be written: {why}")]
    Write {
        /// The library.
        soname: String,
        /// What the writer says.
        why: String,
    },
}

const PAGE: u64 = 4096;

/// The version that symbols have: 1 is the library itself.
const SYMBOL_VERSION: u16 = 2;

/// The library's bytes: x86-64, for Linux.
///
/// # Errors
/// Where the library is larger than the format allows.
pub fn write(stub: &Stub) -> Result<Vec<u8>, StubError> {
    put_together(stub)
        .map_err(|error| StubError::Write { soname: stub.soname.clone(), why: error.to_string() })
}

/// What a function says.
fn sentence(stub: &Stub, name: &str) -> String {
    format!("fakegpu: {name} of {} is not supported: there is no GPU, and no GPU library\n", stub.soname)
}

/// Where everything lies; a file's offsets are its addresses.
struct Layout {
    dynsym: u64,
    dynstr: u64,
    hash: u64,
    versym: u64,
    verdef: u64,
    texts: u64,
    code: u64,
    /// The start of what is written.
    dynamic: u64,
    /// The end of what is mapped from the file; the flags follow in memory.
    end: u64,
    /// The end of what is only read.
    read_only_end: u64,
}

const PROGRAM_HEADERS: u32 = 5;

fn write_program_headers(writer: &mut Writer<'_>, layout: &Layout, functions: u64) {
    writer.write_align_program_headers();
    let code_bytes = functions * FUNCTION_BYTES as u64;
    let dynamic_bytes = layout.end - layout.dynamic;
    let mut put = |kind, flags, at: u64, in_file: u64, in_memory: u64, align| {
        writer.write_program_header(&ProgramHeader {
            p_type: kind,
            p_flags: flags,
            p_offset: at,
            p_vaddr: at,
            p_paddr: at,
            p_filesz: in_file,
            p_memsz: in_memory,
            p_align: align,
        });
    };
    put(elf::PT_LOAD, elf::PF_R, 0, layout.read_only_end, layout.read_only_end, PAGE);
    put(elf::PT_LOAD, elf::PF_R | elf::PF_X, layout.code, code_bytes, code_bytes, PAGE);
    put(elf::PT_LOAD, elf::PF_R | elf::PF_W, layout.dynamic, dynamic_bytes, dynamic_bytes + functions, PAGE);
    put(elf::PT_DYNAMIC, elf::PF_R | elf::PF_W, layout.dynamic, dynamic_bytes, dynamic_bytes, 8);
    // Without it the loader makes the process's stack executable.
    put(elf::PT_GNU_STACK, elf::PF_R | elf::PF_W, 0, 0, 0, 16);
}

fn put_together(stub: &Stub) -> object::write::Result<Vec<u8>> {
    let mut file = Vec::new();
    let mut writer = Writer::new(Endianness::Little, true, &mut file);
    let texts: Vec<String> = stub.symbols.iter().map(|symbol| sentence(stub, &symbol.name)).collect();
    let names: Vec<StringId> =
        stub.symbols.iter().map(|symbol| writer.add_dynamic_string(symbol.name.as_bytes())).collect();
    let soname = writer.add_dynamic_string(stub.soname.as_bytes());
    let version = stub.version.as_ref().map(|version| writer.add_dynamic_string(version.as_bytes()));
    let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
    let buckets = (count / 2).max(1);

    // Everything is given its place.
    writer.reserve_null_section_index();
    let text_name = writer.add_section_name(b".text");
    let text_section = writer.reserve_section_index();
    writer.reserve_dynsym_section_index();
    writer.reserve_dynstr_section_index();
    writer.reserve_hash_section_index();
    if version.is_some() {
        writer.reserve_gnu_versym_section_index();
        writer.reserve_gnu_verdef_section_index();
    }
    writer.reserve_dynamic_section_index();
    writer.reserve_shstrtab_section_index();
    writer.reserve_file_header();
    writer.reserve_program_headers(PROGRAM_HEADERS);
    for _ in &names {
        writer.reserve_dynamic_symbol_index();
    }
    let dynsym = writer.reserve_dynsym();
    let dynstr = writer.reserve_dynstr()?;
    let hash = writer.reserve_hash(buckets, count + 1);
    let (versym, verdef) = match version {
        Some(_) => (writer.reserve_gnu_versym(), writer.reserve_gnu_verdef(2, 2)),
        None => (0, 0),
    };
    let texts_bytes: usize = texts.iter().map(|text| text.len() + 1).sum();
    let texts_at = writer.reserve(texts_bytes as u64, 1);
    let read_only_end = writer.reserved_len();
    let code = writer.reserve((names.len() * FUNCTION_BYTES) as u64, PAGE);
    let entries = if version.is_some() { 10 } else { 7 };
    let dynamic_page = writer.reserve(0, PAGE);
    let dynamic = writer.reserve_dynamic(entries);
    debug_assert_eq!(dynamic_page, dynamic, "a page's start is aligned for it");
    let end = writer.reserved_len();
    let layout =
        Layout { dynsym, dynstr, hash, versym, verdef, texts: texts_at, read_only_end, code, dynamic, end };
    writer.reserve_shstrtab()?;
    writer.reserve_section_headers();

    // And written, in the same order.
    writer.write_file_header(&FileHeader {
        os_abi: elf::ELFOSABI_NONE,
        abi_version: 0,
        e_type: elf::ET_DYN,
        e_machine: elf::EM_X86_64,
        e_entry: 0,
        e_flags: elf::FileFlags(0),
    })?;
    write_program_headers(&mut writer, &layout, names.len() as u64);
    writer.write_null_dynamic_symbol();
    for (at, name) in names.iter().enumerate() {
        writer.write_dynamic_symbol(&Sym {
            section: Some(text_section.0),
            st_name: writer.dynamic_string_offset(Some(*name)),
            st_info: elf::SymbolInfo::new(elf::STB_GLOBAL, elf::STT_FUNC),
            st_other: elf::SymbolOther(0),
            st_shndx: elf::SymbolSection(0),
            st_value: code + (at * FUNCTION_BYTES) as u64,
            st_size: FUNCTION_BYTES as u64,
        });
    }
    writer.write_dynstr();
    writer.write_hash(buckets, count + 1, |index| {
        let symbol = stub.symbols.get(usize::try_from(index.checked_sub(1)?).ok()?)?;
        Some(elf::hash(symbol.name.as_bytes()))
    });
    if let (Some(id), Some(version)) = (version, &stub.version) {
        writer.write_null_gnu_versym();
        for _ in &names {
            writer.write_gnu_versym(elf::VersymIndex(SYMBOL_VERSION));
        }
        writer.write_align_gnu_verdef();
        let mut define = |flags, index, (id, name): (StringId, &str)| {
            let name_at = writer.dynamic_string_offset(Some(id));
            writer.write_gnu_verdef(&Verdef {
                version: 1,
                flags,
                index: elf::VersionIndex(index),
                aux_count: 1,
                name: name_at,
                hash: elf::hash(name.as_bytes()),
            });
        };
        define(elf::VER_FLG_BASE, 1, (soname, &stub.soname));
        define(elf::VersionFlags(0), SYMBOL_VERSION, (id, version));
    }
    let mut text_places = Vec::with_capacity(texts.len());
    writer.pad_until(layout.texts);
    for text in &texts {
        text_places.push(writer.offset());
        writer.write(text.as_bytes());
        writer.write(&[0]);
    }
    writer.pad_until(layout.code);
    for (at, (symbol, text)) in stub.symbols.iter().zip(&text_places).enumerate() {
        let length = u32::try_from(texts[at].len()).unwrap_or(0);
        let place = Place {
            at: layout.code + (at * FUNCTION_BYTES) as u64,
            flag: layout.end + at as u64,
            text: *text,
            length,
        };
        writer.write(&function(symbol.kind, place));
    }
    writer.pad_until(layout.dynamic);
    writer.write_align_dynamic();
    writer.write_dynamic_string(elf::DT_SONAME, soname)?;
    writer.write_dynamic(elf::DT_HASH, layout.hash)?;
    writer.write_dynamic(elf::DT_STRTAB, layout.dynstr)?;
    writer.write_dynamic(elf::DT_STRSZ, u64::from(writer.dynstr_len()))?;
    writer.write_dynamic(elf::DT_SYMTAB, layout.dynsym)?;
    writer.write_dynamic(elf::DT_SYMENT, 24)?;
    if version.is_some() {
        writer.write_dynamic(elf::DT_VERSYM, layout.versym)?;
        writer.write_dynamic(elf::DT_VERDEF, layout.verdef)?;
        writer.write_dynamic(elf::DT_VERDEFNUM, 2)?;
    }
    writer.write_dynamic(elf::DT_NULL, 0)?;
    writer.write_shstrtab();
    writer.write_null_section_header();
    writer.write_section_header(&SectionHeader {
        sh_name: writer.section_name_offset(Some(text_name)),
        sh_type: elf::SHT_PROGBITS,
        sh_flags: elf::SHF_ALLOC | elf::SHF_EXECINSTR,
        sh_addr: layout.code,
        sh_offset: layout.code,
        sh_size: (names.len() * FUNCTION_BYTES) as u64,
        sh_link: 0,
        sh_info: 0,
        sh_addralign: 16,
        sh_entsize: 0,
    });
    writer.write_dynsym_section_header(layout.dynsym, 1);
    writer.write_dynstr_section_header(layout.dynstr);
    writer.write_hash_section_header(layout.hash);
    writer.write_gnu_versym_section_header(layout.versym);
    writer.write_gnu_verdef_section_header(layout.verdef);
    writer.write_dynamic_section_header(layout.dynamic);
    writer.write_shstrtab_section_header();
    Ok(file)
}

#[cfg(test)]
mod tests {
    use object::read::elf::{ElfFile64, FileHeader as _};
    use object::{Object, ObjectSymbol};

    use super::*;
    use crate::{Kind, Symbol};

    fn stub(version: Option<&str>) -> Stub {
        let symbol = |name: &str, kind| Symbol { name: name.to_owned(), kind };
        Stub {
            soname: "libgpu.so.1".to_owned(),
            version: version.map(ToOwned::to_owned),
            symbols: vec![
                symbol("gpuMultiply", Kind::Refuses { code: 15, told: true }),
                symbol("gpuQuiet", Kind::Refuses { code: -2, told: false }),
                symbol("gpuGetErrorString", Kind::Text),
            ],
        }
    }

    #[test]
    fn a_reader_finds_the_symbols_and_their_version() {
        let bytes = write(&stub(Some("GPU_1"))).unwrap();
        let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
        let names: Vec<_> = file.dynamic_symbols().filter_map(|symbol| symbol.name().ok()).collect();
        assert_eq!(names, ["gpuMultiply", "gpuQuiet", "gpuGetErrorString"]);
        let header = file.elf_header();
        let sections = header.sections(Endianness::Little, &*bytes).unwrap();
        let versions = sections.versions(Endianness::Little, &*bytes).unwrap().unwrap();
        let of_first = versions.version_index(Endianness::Little, object::SymbolIndex(1));
        assert_eq!(versions.version(of_first.into()).unwrap().unwrap().name(), b"GPU_1");
    }
}
