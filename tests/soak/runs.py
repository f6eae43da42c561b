"""What the scripts that measure whole runs share: the binary, how it is started, and the digest of what a run made.

FLOW names another binary than target/release/flow.
"""

import hashlib
import json
import os
import socket
import subprocess
from pathlib import Path

FLOW = Path(os.environ.get("FLOW", "target/release/flow")).resolve()
# One libtorch thread: a process of its own core's worth.
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": ENV}


def load():
    """How busy the machine was, for the line that is printed first."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def call(*arguments):
    """Runs the binary to its end, and says what it said where it fails."""
    done = subprocess.run([FLOW, *map(str, arguments)], capture_output=True, text=True, env=ENV)
    if done.returncode != 0:
        raise SystemExit(f"flow {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done.stdout


def ask(run, sql):
    """The rows of a query, as objects."""
    return json.loads(call("query", run, sql, "--format", "json"))


def digest(run):
    """Of every committed row, the newest weights and the optimiser's moments."""
    sql = "select * from trajectories order by iteration, task, sample, turn"
    newest = max((run / "weights").iterdir(), key=lambda v: int(v.name))
    files = [newest / "actor" / name for name in ("model.safetensors", "optimizer.safetensors")]
    rows = call("query", run, sql, "--format", "json").encode()
    return hashlib.sha256(rows + b"".join(f.read_bytes() for f in files)).hexdigest()


def hosts(path, processes):
    """Writes a hosts file of ports on loopback that are free at this moment."""
    held = [socket.socket() for _ in range(processes)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    path.write_text("".join(f"127.0.0.1:{one.getsockname()[1]}\n" for one in held))
    for one in held:
        one.close()
    return path
