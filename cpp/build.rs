//! Writes the list of things to ask about, from the tables themselves, and compiles the probe with it.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, error, fs};

use fakegpu_nccl_abi::ABI_ROWS;
use fakegpu_nccl_abi::types::{ENUMS, LAYOUTS};

fn main() -> Result<(), Box<dyn error::Error>> {
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("probe_table.inc"), questions()?)?;
    cxx_build::bridge("src/lib.rs")
        .file("src/probe.cc")
        .include("include")
        .include(&out)
        .std("c++17")
        .warnings_into_errors(true)
        .try_compile("fakegpu_cpp_probe")?;
    for path in ["build.rs", "src/lib.rs", "src/probe.cc", "src/probe.h", "include/nccl.h"] {
        println!("cargo::rerun-if-changed={path}");
    }
    Ok(())
}

/// One macro call per question; `probe.cc` says what each macro asks.
fn questions() -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    for layout in LAYOUTS {
        writeln!(text, "STRUCT({})", layout.name)?;
        for field in layout.fields {
            writeln!(text, "FIELD({}, {})", layout.name, field.name)?;
        }
    }
    for (name, values, _) in ENUMS {
        writeln!(text, "STRUCT({name})")?;
        for named in *values {
            writeln!(text, "VALUE({})", named.name)?;
        }
    }
    for row in ABI_ROWS {
        if let Some(twin) = row.twin {
            writeln!(text, "TWINS({}, {twin})", row.name)?;
        }
        writeln!(text, "PARAMETERS({})", row.name)?;
    }
    Ok(text)
}
