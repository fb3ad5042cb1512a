//! Gives the library the driver's name and keeps it loaded.

fn main() {
    // Programs ask the loader for this name, whatever the file is called; so preloading any path works too.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // Threads and thread-local destructors outlive a dlclose.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
