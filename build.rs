//! Links libtorch and libduckdb so that the binary finds them again, and so that a CUDA libtorch
//! put first by `LD_LIBRARY_PATH` brings its GPU half in (nothing refers to it by symbol).
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=DUCKDB_LIB_DIR");
    let torch = std::env::var_os("DEP_TCH_LIBTORCH_LIB");
    let duckdb = std::env::var_os("DUCKDB_LIB_DIR");
    for folder in [torch, duckdb].into_iter().flatten() {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.to_string_lossy());
    }
    println!("cargo:rustc-link-arg=-Wl,--no-as-needed");
    println!("cargo:rustc-link-arg=-ltorch");
    println!("cargo:rustc-link-arg=-Wl,--as-needed");
}
