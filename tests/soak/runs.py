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


def committed(run):
    """The committed iterations as the log tells them: those of segments, then those of the journal."""
    head = json.loads((run / "manifest.json").read_text())
    files = [run / segment["details"]["path"] for segment in head["segments"]]
    first = head["segments"][-1]["last"] // 64 + 1 if head["segments"] else 0
    own = sorted((run / "journal").glob(f"{head['generation']}-{'[0-9]' * 20}.jsonl"))
    files += [path for path in own if int(path.stem.split("-")[1]) >= first]
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def inline(run):
    """The manifest of a short run as one object, as it was before there was a journal; flow still reads it."""
    head = json.loads((run / "manifest.json").read_text())
    assert not head["segments"]
    kept = {key: value for key, value in head.items() if key not in ("sum", "generation", "chain", "end", "segments")}
    return {**kept, "committed": [{key: value for key, value in line.items() if key != "chain"} for line in committed(run)]}


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
