"""What memories and notes are worth: trains short runs, audits their memory by `flow audit --memory`, and writes memory.md.

`python3 papers/audit/memory.py` makes all of it and can be interrupted: finished runs and audits aren't repeated.
`FLOW` is the program that trains and `FLOW_AUDIT` the one that audits, `flow` unless given. `--minutes N` starts no
further step after N minutes, `--page` only writes the page.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import memory_page

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "memory.json"
RUNS = "runs/audit-memory"
SEEDS = [1, 2, 3]
EPISODES, PLAYS = 60, 16
# The audited episodes: of how many tasks, the return as logged, the return played again with the logged memory, and the
# standard error of the difference.
RESTORED = """
select count(distinct task) as tasks, avg(r) as logged, avg(worth) as played, stddev(r - worth) / sqrt(count(*)) as error
from audit join (select iteration, task, sample, attempt, sum(reward) r from {table} where phase = 'play' group by all)
using (iteration, task, sample, attempt) where role = 'policy'
"""

# Of each method: its pipeline and how it is shortened; its warm start, and how that is.
METHODS = {
    "MineSweeper with notes": {
        "pipeline": "pipelines/memory-minesweeper.yaml",
        "set": ["keep={every: 5}"],
        "iterations": 60,
        "entry": "the expert's note on the same board",
        "audit": ["--node", "rollout"],
    },
    "EMPO2": {
        "pipeline": "papers/empo2/empo2.yaml",
        "set": ["keep={every: 1}"],
        "iterations": 24,
        "entry": "the policy's tip on the same board",
        "start": {"pipeline": "papers/empo2/warmstart.yaml", "iterations": 160, "set": []},
    },
    "SLEA-RL": {
        "pipeline": "papers/slea-rl/slea-rl.yaml",
        "set": ["keep={every: 4}"],
        "iterations": 24,
        "entry": "an action of an earlier episode in an equal state, of any board",
        "start": {"pipeline": "papers/slea-rl/warmstart.yaml", "iterations": 160, "set": []},
    },
    "LaMer": {
        "pipeline": "papers/lamer/lamer.yaml",
        "set": ["keep={every: 1}"],
        "iterations": 4,
        "entry": "the policy's reflections on its earlier attempts",
        "table": "trial",
        "start": {
            "pipeline": "papers/lamer/warmstart.yaml",
            "iterations": 45,
            "set": ["nodes.shown.with.batch=48", "nodes.own.with.batch=48"],
        },
    },
}


def call(program, *arguments):
    """Runs flow in the repository; its standard output, or the message of its failure."""
    done = subprocess.run([program, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"it ended with {done.returncode}")
    return done.stdout


def trained(plan, out, *sets):
    """The folder of a run with all its iterations; continues one that was interrupted."""
    if (ROOT / out / "manifest.json").exists():
        call(FLOW, "resume", out)
        return
    chosen = [f"iterations={plan['iterations']}", *plan["set"], *sets]
    call(FLOW, "run", plan["pipeline"], "--out", out, *[word for one in chosen for word in ("--set", one)])


def step(method, seed):
    """Trains and audits one seed of a method: an entry of the results."""
    plan, folder = METHODS[method], f"{RUNS}/{method.lower().replace(' ', '-')}"
    sets = [f"seed={seed}"]
    began = time.monotonic()
    try:
        if "start" in plan:
            trained(plan["start"], f"{folder}-start")
            sets.append(f"models.actor.load={folder}-start")
        trained(plan, f"{folder}-{seed}", *sets)
        asked = ["--memory", "--turns", str(EPISODES), "--plays", str(PLAYS), "--format", "json", *plan.get("audit", [])]
        audit = json.loads(call(FLOW_AUDIT, "audit", f"{folder}-{seed}", *asked))
        for way in ("without", "another", "emptied"):
            # Notes in a loop have no way without one of them.
            audit["worth"].setdefault(way, {"worth": None, "episodes": 0, "helped": 0, "harmed": 0})
        query = RESTORED.format(table=plan.get("table", "rollout"))
        restored = json.loads(call(FLOW, "query", f"{folder}-{seed}", query, "--format", "json"))[0]
        found = {"restored": restored, "audit": audit}
    except RuntimeError as error:
        found = {"failed": str(error)}
    return {"method": method, "seed": seed, "seconds": round(time.monotonic() - began), **found}


def main():
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--minutes", type=float, default=float("inf"))
    asked.add_argument("--page", action="store_true")
    asked = asked.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    until = time.monotonic() + 60 * asked.minutes
    done = {(one["method"], one["seed"]) for one in results if "restored" in one}
    for seed, method in [(seed, method) for seed in SEEDS for method in METHODS]:
        if asked.page or time.monotonic() > until or (method, seed) in done:
            continue
        one = step(method, seed)
        before = [old for old in results if (old["method"], old["seed"]) == (method, seed)]
        one["seconds"] += sum(old["seconds"] for old in before)
        results = [old for old in results if old not in before] + [one]
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        print(f"{method}, seed {seed}: {one['seconds']} s", flush=True)
    (HERE / "memory.md").write_text(memory_page.page(results, sys.modules[__name__]))


FLOW = os.environ.get("FLOW", "flow")
FLOW_AUDIT = os.environ.get("FLOW_AUDIT", FLOW)

if __name__ == "__main__":
    main()
