"""Kills one of two processes of a run at random instants, and times how long the other takes to end: `make killed`.

    python3 tests/soak/killed.py [KILLS]

KILLS runs (20), the first and the second process killed in turns, with SIGKILL, up to three seconds after the first file of the
log was begun. The other must end by itself within 5 seconds, with an error that names the one that is gone, and what was
committed must be readable.
"""

import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runs import ENV, FLOW, ask, hosts, load

PIPELINE = """
flow: killed
iterations: 100000
seed: 11
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 6 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update, staleness: 1 } }, with: { agent: { model: actor, max_turns: 5 }, samples: 4 } }
  group: { op: group, inputs: rollout, with: { by: [task, state, visitation_depth] } }
  advantage: { op: advantage, inputs: group, with: { of: step_return, gamma: 0.95 } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [rollout, group, advantage, update]
"""
WITHIN = 5.0
PATIENCE = 60.0


def started(command, said):
    """A process whose messages go into the file `said`."""
    with open(said, "w") as messages:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=messages, env=ENV)


def ended(child, within):
    """How long it takes to end, or None."""
    start = time.monotonic()
    while child.poll() is None:
        if time.monotonic() - start > within:
            return None
        time.sleep(0.005)
    return time.monotonic() - start


def main():
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    draws = random.Random(5)
    print(load())
    took, wrong = {0: [], 1: []}, 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        pipeline = home / "killed.yaml"
        pipeline.write_text(PIPELINE)
        for i in range(kills):
            victim, run = i % 2, home / f"run-{i}"
            command = [FLOW, "run", pipeline, "--out", run, "--hosts", hosts(home / "hosts", 2), "--process"]
            both = [started([*command, str(p)], home / f"{i}-{p}") for p in (0, 1)]
            end = time.monotonic() + PATIENCE
            while not (run / "log").is_dir() or not any((run / "log").iterdir()):
                if time.monotonic() > end or both[0].poll() is not None:
                    both[1].kill()
                    raise SystemExit(f"run {i} does not begin: {(home / f'{i}-0').read_text()}")
                time.sleep(0.001)
            time.sleep(draws.uniform(0, 3))
            both[victim].kill()
            seconds = ended(both[1 - victim], PATIENCE)
            both[victim].wait()
            said = (home / f"{i}-{1 - victim}").read_text()
            committed = ask(run, "select count(distinct iteration) as n from rollout")[0]["n"]
            fine = seconds is not None and seconds <= WITHIN and both[1 - victim].returncode != 0 and f"process {victim} is gone" in said
            wrong += not fine
            if seconds is None:
                both[1 - victim].kill()
            took[victim].append(seconds if seconds is not None else PATIENCE)
            verdict = "" if fine else f"  WRONG: {said.strip()[-300:]}"
            print(f"process {victim} killed, {committed} iterations committed: the other ended after {took[victim][-1]:.3f} s{verdict}", flush=True)
    for victim, name in ((0, "first"), (1, "second")):
        times = took[victim]
        print(f"{name} process killed {len(times)} times: median {statistics.median(times):.3f} s, most {max(times):.3f} s")
    print(f"{kills - wrong} of {kills} ended within {WITHIN:.0f} s and said who is gone")
    sys.exit(wrong > 0)


main()
