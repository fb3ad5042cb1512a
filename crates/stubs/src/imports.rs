//! What libraries import, and of which library.

use std::collections::{BTreeMap, BTreeSet};

use object::Endianness;
use object::elf;
use object::read::elf::{Dyn, ElfFile64, FileHeader, Sym};

/// Why a library's imports cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It is no shared library of this machine's kind.
    #[error("it cannot be read as a 64-bit ELF library: {0}")]
    Format(#[from] object::read::Error),
}

/// A symbol that is imported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// Its name.
    pub name: String,
    /// The version it is imported with, and the library that has to define that.
    pub version: Option<(String, String)>,
}

/// What a set of libraries imports, together.
#[derive(Clone, Debug, Default)]
pub struct Imports {
    /// The symbols that must be there when a library is loaded.
    pub symbols: BTreeSet<Import>,
    /// The libraries that are asked for.
    pub needed: BTreeSet<String>,
    /// The symbols that the set itself defines.
    pub defined: BTreeSet<String>,
}

impl Imports {
    /// Adds a library's.
    ///
    /// # Errors
    /// Where the bytes are no library.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), ImportError> {
        let endian = Endianness::Little;
        let file = ElfFile64::<Endianness>::parse(bytes)?;
        let sections = file.elf_header().sections(endian, bytes)?;
        let symbols = sections.symbols(endian, bytes, elf::SHT_DYNSYM)?;
        let versions = sections.versions(endian, bytes)?;
        let owners = owners(&sections, endian, bytes)?;
        for (index, symbol) in symbols.enumerate() {
            let name = String::from_utf8_lossy(symbol.name(endian, symbols.strings())?).into_owned();
            if name.is_empty() {
                continue;
            }
            if !symbol.is_undefined(endian) {
                self.defined.insert(name);
                continue;
            }
            // A weak one may stay undefined.
            if symbol.st_bind() != elf::STB_GLOBAL {
                continue;
            }
            let version = match &versions {
                Some(versions) => versions.version(versions.version_index(endian, index).into())?,
                None => None,
            };
            let version = version.map(|version| String::from_utf8_lossy(version.name()).into_owned());
            let version = version.and_then(|version| Some((version.clone(), owners.get(&version)?.clone())));
            self.symbols.insert(Import { name, version });
        }
        self.needed.extend(needed(&sections, endian, bytes)?);
        Ok(())
    }

    /// The symbols of libraries that `is_wanted`, by the library: by the version they are imported with, or else by what
    /// their name begins with. The version that belongs to them comes along. A library that is asked for without any of its
    /// symbols has none.
    pub fn by_library(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        prefixes: &[(&str, &str)],
    ) -> BTreeMap<String, (Option<String>, BTreeSet<String>)> {
        // The loader asks for a library also where nothing is imported from it.
        let needed = self.needed.iter().filter(|library| is_wanted(library));
        let mut found: BTreeMap<String, (Option<String>, BTreeSet<String>)> =
            needed.map(|library| (library.clone(), Default::default())).collect();
        for import in &self.symbols {
            let (library, version) = match &import.version {
                Some((version, library)) => (library.clone(), Some(version.clone())),
                None => match self.owner_by_name(&import.name, prefixes) {
                    Some(library) => (library, None),
                    None => continue,
                },
            };
            if is_wanted(&library) {
                let entry = found.entry(library).or_default();
                entry.0 = entry.0.take().or(version);
                entry.1.insert(import.name.clone());
            }
        }
        found
    }

    /// The needed library that a name belongs to, by what both begin with.
    fn owner_by_name(&self, name: &str, prefixes: &[(&str, &str)]) -> Option<String> {
        if self.defined.contains(name) {
            return None;
        }
        let (_, stem) = prefixes.iter().find(|(prefix, _)| name.starts_with(prefix))?;
        self.needed.iter().find(|library| library.starts_with(&format!("{stem}.so"))).cloned()
    }
}

type Sections<'a> = object::read::elf::SectionTable<'a, elf::FileHeader64<Endianness>>;

/// The libraries that have to define each version.
fn owners(
    sections: &Sections<'_>,
    endian: Endianness,
    bytes: &[u8],
) -> Result<BTreeMap<String, String>, ImportError> {
    let mut owners = BTreeMap::new();
    let Some((mut needs, link)) = sections.gnu_verneed(endian, bytes)? else { return Ok(owners) };
    let strings = sections.strings(endian, bytes, link)?;
    while let Some((need, mut versions)) = needs.next()? {
        let text = |read: &[u8]| String::from_utf8_lossy(read).into_owned();
        let library = text(need.file(endian, strings)?);
        while let Some(version) = versions.next()? {
            owners.insert(text(version.name(endian, strings)?), library.clone());
        }
    }
    Ok(owners)
}

fn needed(sections: &Sections<'_>, endian: Endianness, bytes: &[u8]) -> Result<Vec<String>, ImportError> {
    let Some((entries, link)) = sections.dynamic(endian, bytes)? else { return Ok(Vec::new()) };
    let strings = sections.strings(endian, bytes, link)?;
    let mut needed = Vec::new();
    for entry in entries {
        if entry.tag(endian) == elf::DT_NEEDED {
            needed.push(String::from_utf8_lossy(entry.string(endian, strings)?).into_owned());
        }
    }
    Ok(needed)
}
