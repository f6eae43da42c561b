//! libtorch is loaded when `flow` first computes with it, and not before. To load it takes a quarter of a second and more
//! (it registers its operators), which `flow --help`, `flow query` and `flow view` shouldn't pay; and they work where there
//! is no PyTorch at all.
//!
//! tch calls some 2,800 C functions that torch-sys defines in C++ over libtorch. This package's build makes a library of
//! those C++ files, `libflow_torch.so`, and puts a stand-in of each function into the program. The first call of any of
//! them loads the library, and from then on a call costs one more jump.

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{c_char, c_void, CStr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::OnceLock;

/// The library: it lies in the program's search path or in LD_LIBRARY_PATH.
const LIBRARY: &str = "libflow_torch.so";
/// The names of its functions, each ended by a zero.
const NAMES: &[&str] = &include!(concat!(env!("OUT_DIR"), "/names.rs"));

std::arch::global_asm!(include_str!(concat!(env!("OUT_DIR"), "/stand_ins.s")));

extern "C" {
    /// Where each stand-in jumps to, in the order of [`NAMES`].
    static flow_torch_table: [AtomicPtr<c_void>; NAMES.len()];
    /// The version of libtorch that the library is compiled for.
    fn flow_torch_release() -> *const c_char;
}

/// Loads libtorch, once; later calls answer at once what the first found.
///
/// # Errors
/// What the dynamic linker says where the library or libtorch isn't found; another release of libtorch than the library's.
pub fn load() -> Result<&'static Libtorch, &'static str> {
    static LOADED: OnceLock<Result<Libtorch, String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        fill().map_err(|why| why.to_string())?;
        let libtorch = Libtorch::of_this_process();
        match &libtorch.version {
            Some(version) if release(version) != release(compiled_for()) => {
                Err(format!("it is {version}, and {LIBRARY} is compiled for {}", compiled_for()))
            }
            _ => Ok(libtorch),
        }
    });
    loaded.as_ref().map_err(String::as_str)
}

/// The libtorch that was loaded.
#[derive(Debug)]
pub struct Libtorch {
    /// Its version, where its folder says it.
    pub version: Option<String>,
    /// The folder that it was loaded from.
    pub folder: Option<PathBuf>,
    /// Whether it knows CUDA.
    pub cuda: bool,
}

impl Libtorch {
    /// Looks for it among the files that this process has mapped.
    fn of_this_process() -> Libtorch {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let library = maps.lines().find_map(|line| line.find('/').map(|at| &line[at..]).filter(|path| path.ends_with("/libtorch_cpu.so")));
        let folder = library.and_then(|path| Some(PathBuf::from(path).parent()?.to_path_buf()));
        // A folder of libtorch says its version in one file, the Python package in another.
        let sibling = |name: &str| std::fs::read_to_string(folder.as_ref()?.parent()?.join(name)).ok();
        let package = || sibling("version.py").and_then(|text| Some(text.split_once("__version__ = '")?.1.split('\'').next()?.to_owned()));
        let version = sibling("build-version").map(|text| text.trim().to_owned()).or_else(package);
        Libtorch { version, folder, cuda: maps.contains("libtorch_cuda") }
    }
}

/// The version of libtorch that the library which was loaded is compiled for.
pub fn compiled_for() -> &'static str {
    // SAFETY: the function answers with a text that lies in the library, which stays loaded.
    unsafe { CStr::from_ptr(flow_torch_release()) }.to_str().unwrap_or_default()
}

/// Within a release of libtorch its classes stay as they are: `2.11` of `2.11.0+cpu`.
fn release(version: &str) -> &str {
    version.match_indices('.').nth(1).map_or(version, |(at, _)| &version[..at])
}

/// Points each stand-in at its function.
fn fill() -> Result<(), libloading::Error> {
    // SAFETY: the library is this package's own, and libtorch's constructors ask nothing of their caller. Symbols are
    // shared, as if the program were linked to it: libtorch loads further libraries that look for them.
    let library = unsafe { Library::open(Some(LIBRARY), RTLD_NOW | RTLD_GLOBAL)? };
    for (place, name) in unsafe { &flow_torch_table }.iter().zip(NAMES) {
        // SAFETY: the name ends with a zero; the address is only kept, and called by its type in torch-sys.
        let function = unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes())? };
        place.store(function.as_raw_ptr(), Ordering::Release);
    }
    // Threads of libtorch run until the process ends.
    std::mem::forget(library);
    Ok(())
}

/// What a stand-in calls before its function is known.
#[no_mangle]
extern "C" fn flow_torch_load_or_end() {
    if let Err(why) = load() {
        eprintln!("flow: libtorch can't be loaded: {why}");
        std::process::exit(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" {
        fn ats_float(value: f64) -> *mut c_void;
        fn ats_to_float(scalar: *mut c_void) -> f64;
        fn ats_to_int(scalar: *mut c_void) -> i64;
        fn ats_free(scalar: *mut c_void);
    }

    /// The first call keeps its argument, which lies in a register of its own, while the library is loaded; a scalar of
    /// libtorch comes back as it went in.
    #[test]
    fn the_first_call_loads_libtorch_and_keeps_its_arguments() {
        // SAFETY: torch-sys's own signatures; the scalar is freed once.
        let (whole, cut) = unsafe {
            let scalar = ats_float(2.75);
            let read = (ats_to_float(scalar), ats_to_int(scalar));
            ats_free(scalar);
            read
        };
        assert_eq!((whole, cut), (2.75, 2));
        let libtorch = load().unwrap();
        assert_eq!(release(libtorch.version.as_ref().unwrap()), release(compiled_for()));
        assert_eq!((release("2.11.0+cpu"), release("2.13"), release("")), ("2.11", "2.13", ""));
        assert!(libtorch.folder.as_ref().unwrap().join("libtorch.so").exists());
        // SAFETY: the table is only read.
        let table = unsafe { &flow_torch_table };
        let mut places = table.iter().map(|place| place.load(Ordering::Acquire)).collect::<Vec<_>>();
        places.sort_unstable();
        places.dedup();
        assert!(NAMES.len() > 2_000 && places.len() == NAMES.len(), "each stand-in has a function of its own");
    }
}
