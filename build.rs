//! Lets the program find libduckdb, and the library with which flow-torch loads libtorch.
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=DUCKDB_LIB_DIR");
    let torch = std::env::var_os("DEP_FLOW_TORCH_FOLDER");
    let duckdb = std::env::var_os("DUCKDB_LIB_DIR");
    for folder in [torch, duckdb].into_iter().flatten() {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.to_string_lossy());
    }
}
