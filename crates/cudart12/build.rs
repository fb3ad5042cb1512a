//! Gives the library CUDA's name, its symbols CUDA's version, and keeps it loaded.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcudart.so.12");
    // GNU ld gives every symbol the version that is named as the library; rustc's own lld would not.
    println!("cargo::rustc-cdylib-link-arg=-fuse-ld=bfd");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--default-symver");
    // The tables of the driver hold addresses of programs that are linked to this library.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
