//! Where a run goes that is given no folder.

use std::path::PathBuf;

/// The first of runs/name, runs/name-2, ... that isn't there.
pub fn free(name: &str) -> PathBuf {
    let path = |n: u32| PathBuf::from("runs").join(if n == 1 { name.to_owned() } else { format!("{name}-{n}") });
    (1..).map(path).find(|p| !p.exists()).unwrap_or_else(|| path(1))
}
