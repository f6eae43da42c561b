//! Compiles torch-sys's C++ files, which are C functions over libtorch's classes, to the library `libflow_torch.so`, and
//! writes a stand-in of each of these functions. torch-sys links the C++ files and libtorch into the program by itself
//! unless its feature `doc-only` leaves them out, as Cargo.toml of flow asks.

use std::error::Error;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The library that the program loads.
const LIBRARY: &str = "libflow_torch.so";
/// The releases of libtorch 2 that the C++ files and `gone.h` were compiled for.
const MINORS: RangeInclusive<u32> = 11..=15;
/// From this one on they are compiled as C++20, which the headers of 2.15 ask for.
const CPP20: u32 = 14;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=more.cpp");
    println!("cargo:rerun-if-changed=gone.h");
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let (libtorch, minor) = libtorch()?;
    let library = out.join(LIBRARY);
    compile(&sources()?, &libtorch, minor, &library)?;
    let functions = functions(&library)?;
    let stand_ins = match env::var("CARGO_CFG_TARGET_ARCH")?.as_str() {
        "x86_64" => on_x86_64(&functions),
        "aarch64" => on_aarch64(&functions),
        other => return Err(format!("flow has no stand-ins of libtorch's functions for {other}").into()),
    };
    fs::write(out.join("stand_ins.s"), stand_ins)?;
    let names = functions.iter().map(|name| format!("{:?}", format!("{name}\0"))).collect::<Vec<_>>().join(", ");
    fs::write(out.join("names.rs"), format!("[{names}]"))?;
    println!("cargo:folder={}", out.display());
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", out.display()); // for this package's own tests
    Ok(())
}

/// The folder of libtorch, which holds `include` and `lib`, and its release: 11 for 2.11.
fn libtorch() -> Result<(PathBuf, u32), Box<dyn Error>> {
    let folder = PathBuf::from(env::var_os("LIBTORCH").ok_or("LIBTORCH doesn't say where libtorch lies: build with `make build`")?);
    let header = folder.join("include/torch/headeronly/version.h");
    let text = fs::read_to_string(&header).map_err(|why| format!("{}: {why}", header.display()))?;
    let part =
        |name: &str| text.lines().find_map(|line| line.strip_prefix("#define TORCH_VERSION_")?.strip_prefix(name)?.trim().parse().ok());
    let (major, minor): (u32, u32) = part("MAJOR").zip(part("MINOR")).ok_or_else(|| format!("{} names no version", header.display()))?;
    match major == 2 && MINORS.contains(&minor) {
        true => Ok((folder, minor)),
        false => Err(format!(
            "{} is libtorch {major}.{minor}, and flow is written for 2.{} to 2.{}",
            folder.display(),
            MINORS.start(),
            MINORS.end()
        )
        .into()),
    }
}

/// The folder with torch-sys's C++ files, which Cargo names.
fn sources() -> Result<PathBuf, Box<dyn Error>> {
    let mut cargo = Command::new(env::var("CARGO")?);
    // Packages of other platforms were never fetched, and aren't now.
    let output = cargo.args(["metadata", "--format-version=1", "--locked", "--filter-platform"]).arg(env::var("TARGET")?).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("`cargo metadata` names no packages")?;
    let manifest = packages.iter().find(|package| package["name"] == "torch-sys").and_then(|package| package["manifest_path"].as_str());
    Ok(Path::new(manifest.ok_or("`cargo metadata` doesn't name torch-sys")?).with_file_name("libtch"))
}

/// Compiles the C++ files of `sources` into `library`, which brings libtorch's half for GPUs in where there is one
/// (nothing refers to it by symbol).
fn compile(sources: &Path, libtorch: &Path, minor: u32, library: &Path) -> Result<(), Box<dyn Error>> {
    let include = libtorch.join("include");
    let mut build = cc::Build::new();
    build.cpp(true).pic(true).warnings(false).std(if minor < CPP20 { "c++17" } else { "c++20" });
    // Each function hands its arguments on: nothing to optimise, which would take twice as long.
    build.opt_level(0);
    build.define("_GLIBCXX_USE_CXX11_ABI", "1").define("GLOG_USE_GLOG_EXPORT", None);
    build.includes([sources, &include, &include.join("torch/csrc/api/include")]);
    build.flag("-include").flag(env::current_dir()?.join("gone.h"));
    build.files(["torch_api.cpp", "torch_api_generated.cpp"].map(|file| sources.join(file))).file("more.cpp");
    let objects = build.try_compile_intermediates()?;
    let lib = libtorch.join("lib");
    let mut link = build.try_get_compiler()?.to_command();
    link.arg("-shared").arg("-o").arg(library).args(objects).arg("-L").arg(&lib).arg(format!("-Wl,-rpath,{}", lib.display()));
    let linked = link.args(["-Wl,--no-undefined", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10"]).status()?;
    linked.success().then_some(()).ok_or_else(|| format!("the linker ended with {linked}: {link:?}").into())
}

/// The C functions of `library`; names of C++ begin with `_Z`.
fn functions(library: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let listed = Command::new(env::var_os("NM").unwrap_or("nm".into())).args(["-D", "--defined-only"]).arg(library).output()?;
    if !listed.status.success() {
        return Err(String::from_utf8_lossy(&listed.stderr).into());
    }
    let text = String::from_utf8(listed.stdout)?;
    let names = text.lines().filter_map(|line| line.split_once(" T ")).map(|(_, name)| name.to_owned());
    Ok(names.filter(|name| !name.starts_with('_')).collect())
}

/// A stand-in of each function, for x86-64. It jumps to where its place in a table points: at first to
/// `flow_torch_first`, which keeps the arguments, has the table filled, and jumps on.
fn on_x86_64(functions: &[String]) -> String {
    let mut text = String::from(".section .text.flow_torch, \"ax\", @progbits\n");
    for (place, name) in functions.iter().enumerate() {
        text +=
            &format!(".globl {name}\n.type {name}, @function\n{name}:\nmov r11d, {place}\njmp [rip + flow_torch_table + {}]\n", 8 * place);
    }
    text += "flow_torch_first:\npush rbp\nmov rbp, rsp\n";
    let kept = ["rdi", "rsi", "rdx", "rcx", "r8", "r9", "rax", "r11"];
    kept.iter().for_each(|register| text += &format!("push {register}\n"));
    text += "sub rsp, 128\n";
    (0..8).for_each(|n| text += &format!("movups [rsp + {}], xmm{n}\n", 16 * n));
    text += "call flow_torch_load_or_end\n";
    (0..8).for_each(|n| text += &format!("movups xmm{n}, [rsp + {}]\n", 16 * n));
    text += "add rsp, 128\n";
    kept.iter().rev().for_each(|register| text += &format!("pop {register}\n"));
    text += "pop rbp\nlea r10, [rip + flow_torch_table]\njmp [r10 + 8 * r11]\n";
    text + &table(functions.len())
}

/// The same for 64-bit Arm.
fn on_aarch64(functions: &[String]) -> String {
    let to_table = "adrp x16, flow_torch_table\nadd x16, x16, :lo12:flow_torch_table\n";
    let mut text = String::from(".section .text.flow_torch, \"ax\", @progbits\n.p2align 2\n");
    for (place, name) in functions.iter().enumerate() {
        text +=
            &format!(".globl {name}\n.type {name}, @function\n{name}:\nmov w17, #{place}\n{to_table}ldr x16, [x16, x17, lsl #3]\nbr x16\n");
    }
    text += "flow_torch_first:\nstp x29, x30, [sp, #-224]!\nmov x29, sp\n";
    let kept = |each: &str| {
        let whole = (0..4).map(|n| format!("{each} x{}, x{}, [sp, #{}]\n", 2 * n, 2 * n + 1, 16 + 16 * n));
        let last = [format!("{each} x8, x17, [sp, #80]\n")];
        let vectors = (0..4).map(|n| format!("{each} q{}, q{}, [sp, #{}]\n", 2 * n, 2 * n + 1, 96 + 32 * n));
        whole.chain(last).chain(vectors).collect::<String>()
    };
    text += &kept("stp");
    text += "bl flow_torch_load_or_end\n";
    text += &kept("ldp");
    text += &format!("ldp x29, x30, [sp], #224\n{to_table}ldr x16, [x16, x17, lsl #3]\nbr x16\n");
    text + &table(functions.len())
}

/// Where each stand-in jumps to.
fn table(length: usize) -> String {
    let places = ".quad flow_torch_first\n".repeat(length);
    format!(".section .data.flow_torch, \"aw\", @progbits\n.p2align 3\n.globl flow_torch_table\nflow_torch_table:\n{places}.text\n")
}
