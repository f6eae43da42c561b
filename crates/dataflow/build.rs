//! Lets this package's tests find libduckdb, and the library that `flow-torch` has made.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=DUCKDB_LIB_DIR");
    for folder in ["DEP_FLOW_TORCH_FOLDER", "DUCKDB_LIB_DIR"].iter().filter_map(std::env::var_os) {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.to_string_lossy());
    }
}
