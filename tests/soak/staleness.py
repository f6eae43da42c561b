"""How much faster staleness 1 is than 0 where the environment takes as long as the update: `make staleness`.

    python3 tests/soak/staleness.py [PAIRS]

The environment is a program of its own (tests/programs/slow.py) that sleeps at each step. A first run without any sleep
says how long an update takes; then the sleep is chosen so that an iteration's steps take as long together, and runs with
staleness 0 and 1 take turns, PAIRS (3) times. All make the same number of iterations from the same seed.
"""

import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

from runs import ask, call, committed, load

PIPELINE = """
flow: staleness
iterations: ITERATIONS
seed: 2
models:
  actor: { new: tiny, layers: 3, width: 128 }
nodes:
  tasks:
    op: tasks
    with: { env: process, name: slow, command: [python3, tests/programs/slow.py, 'SLEEP'], processes: 4, seconds: 30, batch: 16 }
  rollout:
    op: rollout
    inputs: { tasks: tasks, weights: { after: update, staleness: STALENESS } }
    with: { agent: { model: actor, max_turns: 10 }, samples: 4 }
  group: { op: group, inputs: rollout, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3, epochs: 8, minibatch: 160, micro_batch: 32 } }
log: [rollout, advantage, update]
"""
ITERATIONS, TURNS, EPISODES, PROCESSES = 10, 10, 64, 4
WANTED = 1.8


def trained(home, name, staleness, sleep):
    """The run, and the seconds an iteration took, from the first commit to the last."""
    pipeline, run = home / f"{name}.yaml", home / name
    text = PIPELINE.replace("ITERATIONS", str(ITERATIONS)).replace("STALENESS", str(staleness)).replace("SLEEP", f"{sleep:.3f}")
    pipeline.write_text(text)
    start = time.monotonic()
    call("run", pipeline, "--out", run)
    whole = time.monotonic() - start
    return run, whole, statistics.mean(i["seconds"] for i in committed(run)[1:])


def seconds(run, node):
    """What the node took in the median iteration."""
    return ask(run, f"select median(value) as s from metrics where node = '{node}' and name = 'seconds'")[0]["s"]


def main():
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print(load())
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        run, _, _ = trained(home, "calibration", 0, 0)
        update, playing = seconds(run, "update"), seconds(run, "rollout")
        # Each process takes its share of the steps one after the other.
        in_turn = TURNS * math.ceil(EPISODES / PROCESSES)
        sleep = 1000 * update / in_turn
        print(f"an update takes {update:.2f} s, playing without a sleep {playing:.2f} s; {in_turn} steps in turn of {sleep:.2f} ms", flush=True)
        ratios, each = [], []
        for pair in range(pairs):
            found = {}
            for staleness in (0, 1):
                run, whole, found[staleness] = trained(home, f"{pair}-{staleness}", staleness, sleep)
                parts = f"update {seconds(run, 'update'):.2f} s, rollout {seconds(run, 'rollout'):.2f} s"
                print(f"pair {pair + 1}, staleness {staleness}: {found[staleness]:.2f} s an iteration ({parts}), {whole:.1f} s in all", flush=True)
            ratios.append(found[0] / found[1])
            each.append(found)
        median = statistics.median(ratios)
        print(f"staleness 1 is {median:.2f} times as fast ({min(ratios):.2f} to {max(ratios):.2f}), wanted {WANTED}")
        # The policy has to generate in either case: no overlap can save more than the environment's time.
        print(f"at most {(2 * update + playing) / (update + playing):.2f} if all of the sleep were hidden")


main()
