//! `fakegpu setup torch`: the smallest PyTorch that runs here, in a virtual environment: the wheel without the GPU
//! libraries it asks for, and stand-ins for those.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use fakegpu_stubs::{Import, Imports, Kind, Stub, Symbol};

use crate::arguments::SetupArguments;
use crate::{find, say};

/// What torch's distributed parts import, beside torch itself.
const PACKAGES: &[&str] = &[
    "typing_extensions",
    "sympy",
    "mpmath",
    "numpy",
    "filelock",
    "fsspec",
    "jinja2",
    "markupsafe",
    "networkx",
];

/// Libraries of ours, which a run puts before all others.
const OURS: &[&str] = &["libcuda.so.1", "libcudart.so.12", "libcudart.so.13", "libnccl.so.2"];

/// What the names of functions begin with, where they are imported without a version, and whose they are.
const PREFIXES: &[(&str, &str)] = &[("cuFile", "libcufile"), ("cusparseLt", "libcusparseLt")];

/// Libraries whose functions are called on the way without being needed: they refuse in silence.
const QUIET: &[&str] = &["libcupti", "libnvrtc", "libnvshmem"];

/// The code of a refusal: not a success in any of the libraries.
const REFUSED: i32 = 1;

/// Sets torch up as the flags say.
pub(crate) fn setup(arguments: &SetupArguments) -> Result<u8> {
    if std::env::consts::ARCH != "x86_64" {
        bail!(
            "stand-ins for GPU libraries can be written for x86-64 only, and this machine is {}",
            std::env::consts::ARCH
        );
    }
    let venv = match (&arguments.venv, std::env::var_os("VIRTUAL_ENV")) {
        (Some(venv), _) => std::path::absolute(venv)?,
        (None, Some(active)) => PathBuf::from(active),
        (None, None) => {
            bail!("say where: `fakegpu setup torch --venv DIR` makes a virtual environment there")
        }
    };
    let python = venv.join("bin/python");
    if !python.is_file() {
        let base = find::program(arguments.python.as_deref().unwrap_or_else(|| OsStr::new("python3")))?;
        say::out(&format!("making a virtual environment in {}\n", venv.display()));
        run(Command::new(base).args(["-m", "venv"]).arg(&venv))?;
    }
    install(&python, &arguments.version)?;
    let torch = torch_folder(&python)?;
    let imports = imports(&torch)?;
    say::out(&format!("{}\n", write_stubs(&torch, &imports)?));
    link_ours(&torch, &imports)?;
    build_native(&python);
    say::out(&format!("ready: fakegpu run --ranks-per-node 2 -- {} train.py\n", python.display()));
    Ok(0)
}

/// Installs what is missing. pip says itself what it downloads.
fn install(python: &Path, version: &str) -> Result<()> {
    let has = |module: &str| {
        let test =
            format!("import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)");
        Command::new(python).args(["-c", &test]).status().is_ok_and(|status| status.success())
    };
    let mut wanted: Vec<OsString> = Vec::new();
    if !has("torch") {
        wanted.push(format!("torch{version}").into());
    }
    wanted.extend(PACKAGES.iter().filter(|package| !has(package)).map(OsString::from));
    if wanted.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = wanted.iter().map(|name| name.display().to_string()).collect();
    say::out(&format!("installing {}\n", names.join(" ")));
    // Without dependencies: they are gigabytes of GPU libraries.
    run(Command::new(python).args(["-m", "pip", "install", "--quiet", "--no-deps"]).args(&wanted))
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let status = command.status().with_context(|| format!("cannot run `{name}`"))?;
    if !status.success() {
        bail!("`{name}` failed with {status}; its own words are above");
    }
    Ok(())
}

/// The package's folder, found without importing it: its libraries may be missing still.
fn torch_folder(python: &Path) -> Result<PathBuf> {
    let code =
        "import importlib.util; print(importlib.util.find_spec('torch').submodule_search_locations[0])";
    let output = Command::new(python).args(["-c", code]).output().context("asking Python for torch")?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || text.is_empty() {
        bail!("{} has no torch: {}", python.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(PathBuf::from(text))
}

/// All that torch's libraries import.
pub(crate) fn imports(torch: &Path) -> Result<Imports> {
    let mut imports = Imports::default();
    let mut libraries = files(&torch.join("lib"))?;
    libraries.extend(files(torch)?);
    for path in libraries.iter().filter(|path| path.extension() == Some(OsStr::new("so"))) {
        let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        imports.add(&bytes).with_context(|| format!("the library {}", path.display()))?;
    }
    Ok(imports)
}

/// The functions of CUDA and NCCL that torch's libraries need and ours do not have.
pub(crate) fn missing(torch: &Path) -> Result<Vec<String>> {
    let imports = imports(torch)?;
    let library = find::library()?;
    let mut ours = Imports::default();
    for path in find::companions(&library).iter().chain([&library]) {
        let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        ours.add(&bytes).with_context(|| format!("the library {}", path.display()))?;
    }
    Ok(absent(&imports, &ours))
}

/// Functions that ours are to define: the runtime's by their version's library, the driver's and NCCL's by their names.
fn absent(imports: &Imports, ours: &Imports) -> Vec<String> {
    let is_of_driver = |name: &str| {
        let rest = name.strip_prefix("cu").and_then(|rest| rest.chars().next());
        rest.is_some_and(|first| first.is_ascii_uppercase())
            && !PREFIXES.iter().any(|(prefix, _)| name.starts_with(prefix))
    };
    let is_wanted = |import: &&Import| match &import.version {
        Some((_, library)) => library.starts_with("libcudart."),
        None => import.name.starts_with("nccl") || is_of_driver(&import.name),
    };
    let wanted = imports.symbols.iter().filter(is_wanted).map(|import| &import.name);
    wanted.filter(|name| !ours.defined.contains(*name) && !imports.defined.contains(*name)).cloned().collect()
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("the folder {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    Ok(paths)
}

/// Writes stand-ins beside torch's own libraries, where its loader looks last: genuine ones come first.
fn write_stubs(torch: &Path, imports: &Imports) -> Result<String> {
    let folder = torch.join("lib");
    let is_gpu_library = |library: &str| {
        (library.starts_with("libcu") || library.starts_with("libnv")) && !OURS.contains(&library)
    };
    let (mut count, mut functions) = (0, 0);
    for (library, (version, names)) in imports.by_library(is_gpu_library, PREFIXES) {
        let path = folder.join(&library);
        if is_installed(torch, &library) && !path.exists() {
            continue;
        }
        let told = !QUIET.iter().any(|quiet| library.starts_with(quiet));
        // A version is asked after out of curiosity.
        let told = |name: &str| told && !name.ends_with("GetVersion");
        let symbols: Vec<Symbol> =
            names.into_iter().map(|name| Symbol { kind: kind(&name, told(&name)), name }).collect();
        functions += symbols.len();
        count += 1;
        let bytes = fakegpu_stubs::write(&Stub { soname: library.clone(), version, symbols })?;
        let draft = folder.join(format!(".{library}.{}", std::process::id()));
        fs::write(&draft, bytes).with_context(|| format!("writing {}", draft.display()))?;
        fs::rename(&draft, &path).with_context(|| format!("placing {}", path.display()))?;
    }
    Ok(format!("{count} GPU libraries stood in for, with {functions} functions, in {}", folder.display()))
}

/// Puts links to our libraries beside torch's, and to our package beside torch, so that a plain `python` finds them too.
/// A run puts the same ones first. Links, since what they lead to is built anew; setting up again renews them.
fn link_ours(torch: &Path, imports: &Imports) -> Result<()> {
    let library = find::library()?;
    for name in OURS {
        // The runtime looks for the driver beside itself.
        let wanted = imports.needed.contains(*name) || *name == "libcuda.so.1";
        let at = torch.join("lib").join(name);
        let is_link = fs::symlink_metadata(&at).is_ok_and(|metadata| metadata.is_symlink());
        if !wanted || is_installed(torch, name) || (at.exists() && !is_link) {
            continue;
        }
        if is_link {
            fs::remove_file(&at).with_context(|| format!("renewing {}", at.display()))?;
        }
        symlink(library.with_file_name(name), &at).with_context(|| format!("linking {}", at.display()))?;
    }
    let package = library.parent().and_then(Path::parent).map(|layout| layout.join("python"));
    if let (Some(package), Some(site)) = (package, torch.parent()) {
        let at = site.join("fakegpu.pth");
        fs::write(&at, format!("{}\n", package.display()))
            .with_context(|| format!("writing {}", at.display()))?;
    }
    Ok(())
}

/// Whether one of the vendor's packages brings it.
fn is_installed(torch: &Path, library: &str) -> bool {
    let Some(vendor) = torch.parent().map(|site| site.join("nvidia")) else { return false };
    let packages = fs::read_dir(vendor).into_iter().flatten().filter_map(Result::ok);
    packages.map(|package| package.path().join("lib").join(library)).any(|path| path.exists())
}

/// Functions that give a text give one here too; nobody checks it for NULL.
fn kind(name: &str, told: bool) -> Kind {
    let gives_text = ["ErrorString", "StatusString", "StatusName", "ErrorName", "GetLastErrorString"];
    if gives_text.iter().any(|end| name.ends_with(end)) && !name.starts_with("cupti") {
        Kind::Text
    } else {
        Kind::Refuses { code: REFUSED, told }
    }
}

/// The quick way of running operations wants a compiler; without it they take the way through Python.
fn build_native(python: &Path) {
    let built = (|| -> Result<String> {
        let library = find::library()?;
        let lib = library.parent().context("the library's folder")?;
        let package = lib.parent().context("the installation's folder")?.join("python");
        let mut command = Command::new(python);
        command.args(["-c", "from fakegpu import native; print(native.build())"]);
        command.env("LD_LIBRARY_PATH", lib).env("PYTHONPATH", package);
        command.env("LD_PRELOAD", find::preloads(&library));
        let output = command.output()?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let reason = text.lines().rev().find(|line| !line.trim().is_empty());
            bail!("{}", reason.unwrap_or("it says nothing"));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    })();
    match built {
        Ok(path) => say::out(&format!("operations built natively: {path}\n")),
        Err(error) => say::err(&format!(
            "fakegpu: operations run through Python, at some 20 us each; with a C++ compiler they take 2: {error:#}\n"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_our_libraries_are_to_have_is_missed() {
        let import = |name: &str, library: Option<&str>| Import {
            name: name.to_owned(),
            version: library.map(|library| ("v".to_owned(), library.to_owned())),
        };
        let symbols = [
            import("cudaNew", Some("libcudart.so.13")),
            import("cudaMalloc", Some("libcudart.so.13")),
            import("cublasSgemm_v2", Some("libcublas.so.13")),
            import("cuNew", None),
            import("cuFileRead", None),
            import("cudnnNew", None),
            import("ncclNew", None),
            import("ncclOfItsOwn", None),
        ];
        let defined = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let torch =
            Imports { symbols: symbols.into(), defined: defined(&["ncclOfItsOwn"]), ..Imports::default() };
        let ours = Imports { defined: defined(&["cudaMalloc"]), ..Imports::default() };
        assert_eq!(absent(&torch, &ours), ["cuNew", "cudaNew", "ncclNew"]);
    }

    #[test]
    fn functions_that_give_texts_never_give_numbers() {
        assert_eq!(kind("cudnnGetErrorString", true), Kind::Text);
        assert_eq!(kind("cublasGetStatusString", false), Kind::Text);
        assert_eq!(kind("cublasSgemm_v2", true), Kind::Refuses { code: REFUSED, told: true });
        // It writes the text where its second argument says, and answers with a code.
        assert_eq!(kind("cuptiGetResultString", false), Kind::Refuses { code: REFUSED, told: false });
    }
}
