//! Which environment variables a program gets: variables that describe the machine, and variables that the pipeline
//! names. Any other could be a secret, such as the key to a service, which is nothing to a game.

use std::ffi::OsString;

/// Variables that every program gets, besides all that begin with `LC_`. docs/protocol.md lists them.
const INHERITED: [&str; 26] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "JAVA_HOME",
    "NODE_PATH",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
];

/// By these the clients of Docker and Podman find their daemons and settings; no key is among them.
const CLIENTS: &str =
    "DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG CONTAINER_HOST CONTAINERS_CONF CONTAINERS_STORAGE_CONF DBUS_SESSION_BUS_ADDRESS";

/// The variables of this process that a program gets whose settings name those in `pass`.
pub(super) fn inherited(pass: &[String]) -> impl Iterator<Item = (OsString, OsString)> + '_ {
    std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(|name| known(name) || pass.iter().any(|passed| passed == name)))
}

fn known(name: &str) -> bool {
    INHERITED.contains(&name) || CLIENTS.split(' ').any(|client| client == name) || name.starts_with("LC_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_declared_stays_here() {
        let names = |pass: &[&str]| {
            let pass: Vec<String> = pass.iter().map(|passed| passed.to_string()).collect();
            inherited(&pass).filter_map(|(name, _)| name.into_string().ok()).collect::<Vec<_>>()
        };
        assert!(names(&[]).contains(&"PATH".to_string()));
        // Cargo sets this for its tests.
        assert!(!names(&[]).contains(&"CARGO_PKG_NAME".to_string()));
        assert!(names(&["CARGO_PKG_NAME"]).contains(&"CARGO_PKG_NAME".to_string()));
        assert!(known("LC_ALL") && known("DOCKER_HOST") && !known("DOCKER_AUTH_CONFIG") && !known("AWS_SECRET_ACCESS_KEY"));
    }

    #[test]
    fn the_documentation_lists_them() {
        let path = crate::tests::root().join("docs/protocol.md");
        let text = std::fs::read_to_string(path).unwrap();
        let missing: Vec<_> = INHERITED.iter().filter(|name| !text.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
