"""Kills a run at random instants, resumes it, and compares what it ends with: `make survive`.

    python3 tests/soak/survive.py [KILLS]

A small run of 150 iterations, of which two blocks are put together while it goes on, is made once without a break. Then KILLS more (50) are killed with SIGKILL, and a fifth as many
are stopped with SIGINT, each at a random instant between the making of its folder and its end, and resumed. All must end
with the same rows and the same weights and moments, bit for bit.
"""

import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runs import FLOW, QUIET, ask, digest

PIPELINE = """
flow: survive
iterations: 150
seed: 11
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 2 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update, staleness: 1 } }, with: { agent: { model: actor, max_turns: 5 }, samples: 2 } }
  group: { op: group, inputs: rollout, with: { by: [task, state, visitation_depth] } }
  advantage: { op: advantage, inputs: group, with: { of: step_return, gamma: 0.95 } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [rollout, group, advantage, update]
"""


def there(run):
    """Waits for the run's manifest, and says when it came."""
    while not (run / "manifest.json").exists():
        time.sleep(0.001)
    return time.monotonic()


def committed(run):
    return ask(run, "select count(distinct iteration) as n from metrics")[0]["n"]


def main():
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    draws = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        pipeline = home / "survive.yaml"
        pipeline.write_text(PIPELINE)
        start = time.monotonic()
        child = subprocess.Popen([FLOW, "run", pipeline, "--out", home / "whole"], **QUIET)
        begun = there(home / "whole") - start
        assert child.wait() == 0
        seconds = time.monotonic() - start
        whole = digest(home / "whole")
        print(f"an unbroken run takes {seconds:.1f} s; digest {whole[:16]}", flush=True)
        for sent, times in [(signal.SIGKILL, kills), (signal.SIGINT, kills // 5)]:
            same, after = 0, []
            for i in range(times):
                run = home / f"{sent.name}-{i}"
                child = subprocess.Popen([FLOW, "run", pipeline, "--out", run], **QUIET)
                there(run)
                time.sleep(draws.uniform(0, seconds - begun))
                child.send_signal(sent)
                child.wait()
                after.append(committed(run))
                subprocess.run([FLOW, "resume", run], check=True, **QUIET)
                same += digest(run) == whole
                shutil.rmtree(run)
                if (i + 1) % 50 == 0:
                    print(f"{sent.name}: {same} of {i + 1} so far", flush=True)
            spread = f"{min(after)} to {max(after)} iterations were committed at the time, {statistics.median(after):.0f} in the median"
            print(f"{sent.name}: {same} of {times} end with the digest of the unbroken run ({spread})", flush=True)
            if same < times:
                sys.exit(1)


main()
