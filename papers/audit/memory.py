"""What memories and notes are worth: trains short runs, audits their memory by `flow audit --memory`, and writes memory.md.

`python3 papers/audit/memory.py` makes all of it and can be interrupted: finished runs and audits aren't repeated.
`FLOW` is the program that trains and `FLOW_AUDIT` the one that audits, `flow` unless given. `--minutes N` starts no
further step after N minutes, `--page` only writes the page.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "memory.json"
RUNS = "runs/audit-memory"
SEEDS = [1, 2, 3]
EPISODES, PLAYS = 60, 16
# Student's t for 95% and two degrees of freedom.
T = 4.303
WAYS = [("without", "an entry"), ("another", "its content"), ("emptied", "the whole memory")]

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
        counted = call(FLOW, "query", f"{folder}-{seed}", "select count(distinct task) as tasks from audit", "--format", "json")
        found = {"tasks": json.loads(counted)[0]["tasks"], "audit": audit}
    except RuntimeError as error:
        found = {"failed": str(error)}
    return {"method": method, "seed": seed, "seconds": round(time.monotonic() - began), **found}


def shown(worth, digits=2):
    if worth is None:
        return "nothing to compare"
    return f"{worth['value']:+.{digits}f} ({worth['low']:+.{digits}f} to {worth['high']:+.{digits}f})"


def over_seeds(worths):
    """The mean over three seeds, with its interval by Student's t."""
    values = [worth["value"] for worth in worths]
    mean, half = statistics.mean(values), T * statistics.stdev(values) / len(values) ** 0.5
    return {"value": mean, "low": mean - half, "high": mean + half}


def verdict(audits):
    """Of one method: in how many seeds the interval of each part of the memory is above 0, and below."""
    each = []
    for way, name in WAYS:
        worths = [worth for worth in (audit["worth"][way]["worth"] for audit in audits) if worth is not None]
        if worths:
            helps, harms = sum(worth["low"] > 0 for worth in worths), sum(worth["high"] < 0 for worth in worths)
            each.append(f"{name} helps in {helps} and harms in {harms} of {len(worths)}")
    return "; ".join(each)


def declaration():
    rows = []
    for method, plan in METHODS.items():
        start, changed = plan.get("start"), [one for one in plan["set"]]
        warm = f"{start['iterations']} iterations" + "".join(f", `{one}`" for one in start["set"]) if start else "none"
        settings = ", ".join(f"`{one}`" for one in changed)
        rows.append(f"| [{method}](../../{plan['pipeline']}) | {plan['entry']} | {warm} | {plan['iterations']} iterations, {settings} |")
    return "\n".join(
        [
            "| method | an entry is | warm start | run |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
            "Question: do the contents of an agent's memory, or of its notes, raise the return of the episode that reads them?",
            "",
            f"`flow audit --memory` draws {EPISODES} episodes of a run whose first prompt held entries or notes. It plays each",
            f"{PLAYS} times in each way: the logged memory, without one entry, with another text in its place, and with nothing.",
            "For notes in a loop there is no single entry to leave out.",
            "",
            f"Seeds: {', '.join(map(str, SEEDS))}, the third only if time allows. A seed has its own training run. All seeds of a",
            "method begin with the same warm start; without a warm start each seed has its own initial weights.",
            "",
            "\"The content helps\" is refuted for a seed if the interval of its content contains 0. The control is the text of",
            "another task, under the same key. All seeds count, and no comparison is chosen afterwards.",
        ]
    )


def page(results):
    out = ["# What is an entry of a memory worth?", "", "Made by `python3 papers/audit/memory.py` from [memory.json](memory.json).", ""]
    audited = {}
    for one in results:
        if "audit" in one:
            audited.setdefault(one["method"], []).append(one)
    out += ["## Return gained from a memory", ""]
    if not audited:
        out += ["Not measured yet: this page is the declaration, written before the runs.", ""]
    else:
        out += [
            "Return lost when a part of the memory is taken away, so a positive number is a gain from that part. Brackets:",
            "95% intervals, by a bootstrap over tasks for a seed, by Student's t over three seeds for a mean.",
            "",
            "| method | seed | episodes | tasks | " + " | ".join(name for _, name in WAYS) + " |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
        for method in METHODS:
            ones = audited.get(method, [])
            for one in ones:
                audit = one["audit"]
                cells = [shown(audit["worth"][way]["worth"]) for way, _ in WAYS]
                out.append(f"| {method} | {one['seed']} | {audit['episodes']} | {one['tasks']} | " + " | ".join(cells) + " |")
            if len(ones) == 3:
                each = {way: [one["audit"]["worth"][way]["worth"] for one in ones] for way, _ in WAYS}
                cells = [shown(over_seeds(worths)) if all(worths) else "-" for worths in each.values()]
                out.append(f"| {method} | mean | {sum(one['audit']['episodes'] for one in ones)} | | " + " | ".join(cells) + " |")
        out += ["", "\"Nothing to compare\": notes in a loop have no single entry.", ""]
        out += ["## Verdicts", "", "Seeds whose interval doesn't contain 0:", ""]
        out += [f"- **{method}**: {verdict([one['audit'] for one in ones])}." for method, ones in audited.items()]
        out += ["", "## Single episodes", ""]
        out += [
            "Episodes with a significant gain / with a significant loss, at the level of 5%. By chance alone one expects 2.5% of",
            "the episodes each way.",
            "",
            "| method | seed | " + " | ".join(name for _, name in WAYS) + " | by chance |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
        ]
        for method, ones in audited.items():
            for one in ones:
                worth = one["audit"]["worth"]
                cells = [f"{worth[way]['helped']} / {worth[way]['harmed']} of {worth[way]['episodes']}" for way, _ in WAYS]
                chance = 0.025 * one["audit"]["episodes"]
                out.append(f"| {method} | {one['seed']} | " + " | ".join(cells) + f" | {chance:.1f} / {chance:.1f} |")
        out.append("")
    left = [f"- {one['method']}, seed {one['seed']}: `{' '.join(one['failed'].split())}`" for one in results if "failed" in one]
    left += [
        f"- {one['method']}, seed {one['seed']}: {count} episodes were not restored: {why}"
        for one in results
        for why, count in one.get("audit", {}).get("refused", {}).items()
    ]
    done = {(one["method"], one["seed"]) for one in results}
    late = [f"{method}, seed {seed}" for seed in SEEDS for method in METHODS if (method, seed) not in done] if results else []
    if left or late:
        out += ["## Left out", "", *left, *([f"- Not run, for want of time: {'; '.join(late)}."] if late else []), ""]
    out += ["## Declaration", "", declaration(), ""]
    out += [
        "## What it doesn't measure",
        "",
        "- What an entry is worth to later training: weights are those of the iteration that played the episode.",
        "- Entries that only later turns retrieve. An episode is drawn by its first prompt.",
        "- Policies at the papers' scale: these have 0.1 to 0.6 million weights.",
        "- Runs of the papers' length, and starts trained to the end: the declaration says how both were shortened.",
        "- Other warm starts. Intervals of a seed cover its tasks alone.",
        "- Few tasks: a bootstrap's intervals are too narrow with sixteen tasks, and more so with five.",
        "- The kind of an entry: of SLEA-RL, a strategy may get the text of a warning, and a warning that of a strategy.",
        "- The policy's own draws of tokens are new in each way, so their noise is in every difference.",
        "",
        "```sh",
        "python3 papers/audit/memory.py",
        "```",
        "",
    ]
    if results:
        out += [f"It took {sum(one['seconds'] for one in results) / 60:.0f} minutes of one thread on a busy machine.", ""]
    (HERE / "memory.md").write_text("\n".join(out))


def main():
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--minutes", type=float, default=float("inf"))
    asked.add_argument("--page", action="store_true")
    asked = asked.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    until = time.monotonic() + 60 * asked.minutes
    done = {(one["method"], one["seed"]) for one in results if "tasks" in one}
    for seed, method in [(seed, method) for seed in SEEDS for method in METHODS]:
        if asked.page or time.monotonic() > until or (method, seed) in done:
            continue
        one = step(method, seed)
        before = [old for old in results if (old["method"], old["seed"]) == (method, seed)]
        one["seconds"] += sum(old["seconds"] for old in before)
        results = [old for old in results if old not in before] + [one]
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        print(f"{method}, seed {seed}: {one['seconds']} s", flush=True)
    page(results)


FLOW = os.environ.get("FLOW", "flow")
FLOW_AUDIT = os.environ.get("FLOW_AUDIT", FLOW)

if __name__ == "__main__":
    main()
