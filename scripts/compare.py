"""GRPO and GiGPO from one warm start, equal numbers of trajectories, three seeds each: a table of means and deviations.

    python3 scripts/compare.py [--set PATH=VALUE ...]

The warm start is runs/warmstart-sokoban (made if missing). A run that has finished is not run again; what is passed here is
passed to every GRPO and GiGPO run, so begin with an empty runs/compare when it changes.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

FLOW = "target/release/flow"
HOME = Path("runs/compare")


def flow(pipeline, out, *extra):
    """Trains into `out`, once, and answers with the summary's object."""
    result = out.with_suffix(".json")
    if not result.exists():
        command = [FLOW, "run", f"pipelines/{pipeline}.yaml", "--out", str(out), "--format", "json", *extra]
        print("$", " ".join(command), flush=True)
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        result.write_text(answer)
    return json.loads(result.read_text())


def trajectories(run):
    """How many trajectories the run learnt from."""
    sql = "select count(*) as n from (select distinct iteration, task, sample from rollout)"
    answer = subprocess.run([FLOW, "query", str(run), sql, "--format", "json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(answer)[0]["n"]


def main():
    HOME.mkdir(parents=True, exist_ok=True)
    if not Path("runs/warmstart-sokoban/weights").exists():
        flow("warmstart-sokoban", Path("runs/warmstart-sokoban"))
    print("| method | trajectories | before | after: mean (deviation) | seeds 1, 2, 3 |\n| --- | ---: | ---: | ---: | --- |")
    for method in ["grpo", "gigpo"]:
        runs = [HOME / f"{method}-{seed}" for seed in (1, 2, 3)]
        ends = [flow(f"{method}-sokoban", run, "--set", f"seed={seed}", *sys.argv[1:]) for seed, run in zip((1, 2, 3), runs)]
        after = [100 * end["success_after"] for end in ends]
        before = 100 * statistics.mean(end["success_before"] for end in ends)
        each = ", ".join(f"{x:.1f}" for x in after)
        print(f"| {method} | {trajectories(runs[0])} | {before:.1f}% | {statistics.mean(after):.1f}% ({statistics.stdev(after):.1f}) | {each} |", flush=True)


main()
