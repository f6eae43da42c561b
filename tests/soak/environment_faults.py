"""A run whose environment fails in one step of a hundred, in each way that a real environment fails: `make environment-faults`.

    python3 tests/soak/environment_faults.py [KIND...]

A JVM that is killed, a JVM that is stopped, a browser that is stopped (tests/programs/faulty_environments.py), and a server of OpenEnv's that
answers with an error (python/tests/openenv_server.py). What fails, fails in both tries: the run must complete, and the episodes with a
row in `errors` must be those in which a step failed, at that turn, and no others.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runs import ENV, FLOW, ask, load

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))
from environments import environment  # noqa: E402

PIPELINE = """
flow: environment-faults
iterations: ITERATIONS
seed: 4
models:
  actor: { new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1, tokens: words, context: 1024 }
nodes:
  tasks:
    op: tasks
    with: { env: process, name: faulty, command: COMMAND, split: train, processes: 2, seconds: SECONDS, batch: 32, pass: [NOTES, ONE_IN, PYTHONPATH] }
  rollout:
    op: rollout
    inputs: { tasks: tasks, weights: { after: update } }
    with: { agent: { model: actor, max_turns: 12 }, samples: 1, tries: 2, max_failed: 0.9 }
  group: { op: group, inputs: rollout, with: { by: [iteration] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [rollout, update]
"""
# The virtual environment, what it serves, how long an answer may take.
FAULTY = "tests/programs/faulty_environments.py"
KINDS = {
    "JVM killed": ("textworld-express", f"{FAULTY}:Dies", 20),
    "JVM stopped": ("textworld-express", f"{FAULTY}:Freezes", 20),
    "browser stopped": ("miniwob", f"{FAULTY}:Hangs", 20),
    "server answers with an error": ("openenv", "openenv:http://127.0.0.1:PORT", 20),
}
# Gathering words would play, and so fail.
WORDS = "python/flow_env/adapters/words/textworld-express.txt"
ITERATIONS, BATCH = int(os.environ.get("ITERATIONS", "8")), 32


def python(name):
    """The Python of an adapter's virtual environment, made where it is missing."""
    return str(environment(name))


def served(port):
    """OpenEnv's server, once it answers."""
    server = subprocess.Popen([python("openenv-server"), ROOT / "python/tests/openenv_server.py", str(port)],
                              env={**os.environ, "FAULTS": "100", "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, text=True)
    for _ in range(600):
        if server.poll() is not None:
            raise SystemExit("OpenEnv's server didn't start")
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return server
        time.sleep(0.5)
    raise SystemExit("OpenEnv's server doesn't answer")


def played(kind, home):
    """Plays a run; gives what is wrong with it."""
    name, spec, seconds = KINDS[kind]
    notes, pipeline, run, server = home / "notes", home / "pipeline.yaml", home / "run", None
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    if "PORT" in spec:
        server = served(port)
    command = json.dumps([python(name), "-m", "flow_env", "serve", spec.replace("PORT", str(port)), "--words", WORDS])
    pipeline.write_text(PIPELINE.replace("ITERATIONS", str(ITERATIONS)).replace("COMMAND", command).replace("SECONDS", str(seconds)))
    began = time.monotonic()
    done = subprocess.run([FLOW, "run", pipeline, "--out", run], capture_output=True, text=True, cwd=ROOT,
                          env={**ENV, "NOTES": str(notes), "ONE_IN": "100", "PYTHONPATH": str(ROOT / "python")})
    took = time.monotonic() - began
    if server is not None:
        server.terminate()
        failing = {line.removeprefix("failed ").strip() for line in server.stdout if line.startswith("failed ")}
        server.wait()
    if done.returncode:
        return [f"{kind}: the run did not complete\n{done.stdout[-2000:]}{done.stderr[-3000:]}"]
    if server is None:
        failing = set(notes.read_text(encoding="utf-8").splitlines()) if notes.exists() else set()
    rows = ask(run, "select iteration, task, sample, turn, cause from errors order by all")
    # A task is called process-faulty-SPLIT-TASK-sSEED.
    found = {f"{row['task'].removeprefix('process-faulty-').rpartition('-s')[0]} {row['turn']}" for row in rows}
    turns = ask(run, "select count(*) as n from rollout")[0]["n"]
    whole = ask(run, "select count(*) as n from (select distinct iteration, task, sample from rollout)")[0]["n"]
    both = ask(run, "select count(*) as n from errors join rollout using (iteration, task, sample)")[0]["n"]
    causes = {row["cause"] for row in rows}
    print(f"{kind}: the run completed in {took:.0f} s; {turns:,} turns of {whole} episodes in the log, {len(rows)} of {ITERATIONS * BATCH} "
          f"episodes are rows in `errors` ({', '.join(sorted(causes))}); {len(failing)} steps were made to fail", flush=True)
    wrong = []
    if found != failing:
        wrong.append(f"{kind}: in `errors` but not made to fail: {sorted(found - failing)[:5]}; the other way round: {sorted(failing - found)[:5]}")
    if len(rows) + whole != ITERATIONS * BATCH or both:
        wrong.append(f"{kind}: {ITERATIONS * BATCH - len(rows) - whole} episodes are neither whole nor in `errors`, {both} are in both")
    if not rows:
        wrong.append(f"{kind}: nothing failed")
    return wrong


def main():
    print(load(), flush=True)
    wrong = []
    for kind in sys.argv[1:] or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            wrong += played(kind, Path(folder))
    print("\n".join(wrong) or "each failure is a row, and nothing else is lost")
    sys.exit(bool(wrong))


main()
