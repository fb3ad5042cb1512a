//! Where the product's files are.

use std::path::{Path, PathBuf};

/// The laid out files.
#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// `$LAYOUT_DIR`, or `target/fakegpu` of this repository.
    ///
    /// # Panics
    /// Where nothing is laid out there.
    pub fn find() -> Self {
        let home = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fakegpu");
        let root = std::env::var_os("LAYOUT_DIR").map_or_else(home, PathBuf::from);
        let layout = Self { root };
        let found = layout.coordinator().is_file() && layout.client("collectives").is_file();
        assert!(
            found,
            "nothing is laid out in {}: run `cargo xtask test --only build` first",
            layout.root.display()
        );
        layout
    }

    /// The folder of it all.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The daemon.
    pub fn coordinator(&self) -> PathBuf {
        self.root.join("bin/fakegpu-coordinator")
    }

    /// The launcher.
    pub fn fakegpu(&self) -> PathBuf {
        self.root.join("bin/fakegpu")
    }

    /// The folder of `libnccl.so.2`.
    pub fn lib(&self) -> PathBuf {
        self.root.join("lib")
    }

    /// A compiled client.
    pub fn client(&self, name: &str) -> PathBuf {
        self.root.join("clients").join(name)
    }
}
