//! Servers that flow starts and that give their memory to updates: they sleep while a model learns, and are awake for
//! whatever else is asked of them.

use crate::common::*;
use crate::serve::{learns, start, Heard, Machine, PLAYED};
use crate::server::Server;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Stands in for vLLM: it passes on all that it is sent.
const PROXY: &str = r#"
import os, socket, sys, threading
assert "--enable-sleep-mode" in sys.argv and os.environ["VLLM_SERVER_DEV_MODE"] == "1"
def passes(source, to):
    try:
        while data := source.recv(1 << 16):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        pass
server = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
while True:
    client, (host, port) = server.accept()[0], os.environ["UPSTREAM"].split(":")
    upstream = socket.create_connection((host, int(port)))
    for pair in ((client, upstream), (upstream, client)):
        threading.Thread(target=passes, args=pair, daemon=True).start()
"#;

/// A Python that has such a vLLM.
fn python(folder: &Path) -> PathBuf {
    let (package, about) = (folder.join("site/vllm/entrypoints/cli"), folder.join("site/vllm-9.9.dist-info"));
    std::fs::create_dir_all(&package).unwrap();
    std::fs::create_dir_all(&about).unwrap();
    for name in ["vllm", "vllm/entrypoints", "vllm/entrypoints/cli"] {
        std::fs::write(folder.join("site").join(name).join("__init__.py"), "").unwrap();
    }
    std::fs::write(package.join("main.py"), PROXY).unwrap();
    std::fs::write(about.join("METADATA"), "Metadata-Version: 2.1\nName: vllm\nVersion: 9.9\n").unwrap();
    let path = folder.join("python");
    let site = folder.join("site");
    std::fs::write(&path, format!("#!/bin/sh\nPYTHONPATH={}:$PYTHONPATH exec python3 \"$@\"\n", site.display())).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Runs it with servers that flow starts, which are `server`.
fn sleeps(folder: &Path, name: &str, yaml: &str, server: &Server) -> PathBuf {
    let out = folder.join(name);
    let upstream = server.url.trim_start_matches("http://").trim_end_matches("/v1");
    let mut command = flow();
    command.env("FLOW_VLLM_PYTHON", python(folder)).env("UPSTREAM", upstream);
    done(command.arg("run").arg(pipeline(folder, yaml)).arg("--out").arg(&out).args(["--device", "cpu"]));
    out
}

const SERVE: &str = ", serve: { vllm: { start: 1, sleep: true }, tries: 2, timeout: 60 }";

/// It sleeps in each update and is woken by what is asked next, adapters among it; one that doesn't wake up at once is
/// asked again. The rows are those of a model that this process computes.
#[test]
fn a_server_sleeps_while_the_model_learns() {
    let folder = tempfile::tempdir().unwrap();
    for (name, late, staleness) in [("awake", 0, ""), ("late", 2, ""), ("stale", 0, ", staleness: 1")] {
        let yaml = |serve: &str| learns(serve, "constrained").replace("{ after: update }", &format!("{{ after: update{staleness} }}"));
        let machine = Machine::late(late);
        let run = sleeps(folder.path(), name, &yaml(SERVE), &start(&machine));
        let here = trained(folder.path(), &format!("{name}-here"), &yaml(""), &[]);
        assert_eq!(ask(&run, PLAYED), ask(&here, PLAYED), "{name}");
        let heard = machine.heard();
        assert!(!heard.iter().any(|heard| matches!(heard, Heard::Disturbed(_))), "{name}: {heard:?}");
        let count = |wanted: Heard| heard.iter().filter(|heard| **heard == wanted).count();
        assert_eq!(count(Heard::Slept), 3, "{name}: once in each update");
        assert!((2..=3).contains(&count(Heard::Woken)), "{name}: {heard:?}");
        let first = heard.iter().position(|heard| *heard == Heard::Slept).unwrap();
        assert!(first > 2 && heard[first + 1] == Heard::Woken, "{name}: {heard:?}");
    }
}
