"""One digest, however a run is spread: `make digests`.

A small run (every kind of credit, minibatches, a KL term) is made on 1, 2 and 4 workers, and by 2 processes of 1 and of 2
workers and 3 of 1, each with staleness 0 and 1. Then one of them is replayed on other numbers of workers. Runs of one
staleness must all have the same digest: of every row, the last weights and the optimiser's moments.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runs import ENV, FLOW, QUIET, ask, call, digest, hosts, load

PIPELINE = """
flow: digests
iterations: 8
seed: 3
models:
  actor: { new: tiny, layers: 2, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: sokoban, size: 6, boxes: 1, batch: 7 } }
  rollout:
    op: rollout
    inputs: { tasks: tasks, weights: { after: update, staleness: STALENESS } }
    with: { agent: { model: actor, max_turns: 8 }, samples: 4 }
  episodes: { op: group, inputs: rollout, with: { by: [task] } }
  episode_advantage: { op: advantage, inputs: episodes, with: { of: episode_return } }
  states: { op: group, inputs: rollout, with: { by: [task, state, visitation_depth] } }
  step_advantage: { op: advantage, inputs: states, with: { of: step_return, gamma: 0.95 } }
  alike: { op: group, inputs: rollout, with: { by: [visitation_depth], similar: { at_least: 0.97 } } }
  alike_advantage: { op: advantage, inputs: alike, with: { of: step_return, gamma: 0.95 } }
  advantage: { op: combine, inputs: { episode: episode_advantage, step: step_advantage, alike: alike_advantage } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3, kl: 0.05, epochs: 2, minibatch: 48 } }
log: [rollout, states, alike, advantage, update]
"""
# Processes and the workers of each.
LAYOUTS = [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (3, 1)]
# Which layout's run is replayed, and on how many workers.
REPLAYS = [((1, 1), 1), ((1, 1), 2), ((1, 1), 4), ((2, 2), 3)]


def trained(home, pipeline, processes, workers):
    """The run of this layout."""
    run = home / f"{pipeline.stem}-{processes}-{workers}"
    command = [FLOW, "run", pipeline, "--out", run, "--workers", str(workers)]
    if processes > 1:
        command += ["--hosts", hosts(home / "hosts", processes)]
    extra = lambda p: ["--process", str(p)] if processes > 1 else []
    others = [subprocess.Popen([*command, *extra(p)], **QUIET) for p in range(1, processes)]
    first = subprocess.run([*command, *extra(0)], capture_output=True, text=True, env=ENV)
    if first.returncode != 0 or any(other.wait() != 0 for other in others):
        raise SystemExit(f"{run.name} failed\n{first.stdout}{first.stderr}")
    return run


def main():
    print(load())
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for staleness in (0, 1):
            pipeline = home / f"staleness-{staleness}.yaml"
            pipeline.write_text(PIPELINE.replace("STALENESS", str(staleness)))
            runs, wanted = {}, None
            for processes, workers in LAYOUTS:
                start = time.monotonic()
                run = runs[processes, workers] = trained(home, pipeline, processes, workers)
                seconds, found = time.monotonic() - start, digest(run)
                wanted = wanted or found
                different += found != wanted
                rows = ask(run, "select count(*) as n from rollout")[0]["n"]
                print(f"staleness {staleness}, {processes} x {workers}: {found[:16]}, {rows} rows, {seconds:.1f} s", flush=True)
            for layout, workers in REPLAYS:
                run = home / f"replay-{staleness}-{layout[0]}-{layout[1]}-{workers}"
                call("replay", runs[layout], "--out", run, "--workers", workers)
                found = digest(run)
                different += found != wanted
                print(f"staleness {staleness}, {layout[0]} x {layout[1]} replayed on {workers}: {found[:16]}", flush=True)
    print("all the same at each staleness" if different == 0 else f"{different} differ")
    sys.exit(different > 0)


main()
