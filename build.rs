//! The program's version; lets it find libduckdb, and the library with which flow-torch loads libtorch.
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=DUCKDB_LIB_DIR");
    // A release says which commit it was built from.
    println!("cargo:rerun-if-env-changed=FLOW_COMMIT");
    let commit = std::env::var("FLOW_COMMIT").map_or_else(|_| String::new(), |commit| format!(" ({commit})"));
    println!("cargo:rustc-env=FLOW_VERSION={}{commit}", std::env::var("CARGO_PKG_VERSION").unwrap_or_default());
    let torch = std::env::var_os("DEP_FLOW_TORCH_FOLDER");
    let duckdb = std::env::var_os("DUCKDB_LIB_DIR");
    for folder in [torch, duckdb].into_iter().flatten() {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.to_string_lossy());
    }
}
