#!/usr/bin/env python3
"""`flow test --invariance` of every pipeline that learns: invariance.py [NAME...]. Models that a run must make first are made by
one iteration of that run; pipelines that need a published model, a server or an environment of the field are left out by name.
A table goes to standard output; the exit code says whether every update was the same in every way."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMALLER = ["nodes.tasks.with.batch=3", "nodes.own.with.batch=3", "nodes.rollout.with.samples=4", "nodes.evaluate.with.every=1000"]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("names", nargs="*", help="pipelines of the folder pipelines, without .yaml; all unless given")
    arguments.add_argument("--program", default=str(ROOT / "target/release/flow"))
    options = arguments.parse_args()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / ".pyarrow")}
    with tempfile.TemporaryDirectory(prefix="flow-invariance-") as folder:
        here = Path(folder)
        for name in ("pipelines", "datasets", "examples"):
            shutil.copytree(ROOT / name, here / name, ignore=shutil.ignore_patterns("__pycache__"))

        def flow(*words: str) -> subprocess.CompletedProcess:
            return subprocess.run([options.program, *words], cwd=here, env=environment, text=True, capture_output=True, timeout=3600)

        for start in sorted((here / "pipelines").glob("warmstart-*.yaml")):
            made = flow("run", str(start), "--set", "iterations=1", "--out", f"runs/{start.stem}")
            if made.returncode:
                sys.exit(f"{start.stem} can't be made: {made.stderr}")
        good, largest = True, {}
        for file in sorted((here / "pipelines").glob("*.yaml")):
            if options.names and file.stem not in options.names or file.stem.startswith("warmstart-"):
                continue
            checked = flow("check", str(file))
            if checked.returncode:
                print(f"{file.stem:40} left out: {checked.stderr.strip().splitlines()[0].removeprefix('error: ')}", flush=True)
                continue
            # Fewer tasks and episodes are enough for a difference.
            small = [word for value in SMALLER for word in ("--set", value) if not flow("check", str(file), "--set", value).returncode]
            began = time.monotonic()
            done = flow("test", "--invariance", str(file), "--format", "json", *small)
            if "no update had a gradient" in done.stderr:
                done = flow("test", "--invariance", str(file), "--format", "json", *small[-2:])
            cases = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
            if not cases:
                why = [line for line in done.stderr.splitlines() if line.startswith("error: ")] or done.stderr.strip().splitlines()[-1:]
                print(f"{file.stem:40} left out: {why[0].removeprefix('error: ')}", flush=True)
                continue
            wrong = [case for case in cases if case.get("same") is False or case.get("error")]
            good &= not wrong
            silent = ", without a gradient" if "no update had a gradient" in done.stderr else ""
            ran = [case for case in cases if case.get("largest") is not None]
            worst = max(ran, key=lambda case: case["largest"])
            for case in ran:
                largest[case["case"]] = max(largest.get(case["case"], 0.0), case["largest"])
            print(f"{file.stem:40} {len(ran)} ways, at most {worst['largest']:.1e} ({worst['case']}), {time.monotonic() - began:.0f} s{silent}", flush=True)
            for case in wrong:
                print(f"{'':40} {case['case']}: {case.get('error') or case['place']} {case.get('largest', '')}", flush=True)
        for case, most in largest.items():
            print(f"{case:48} {most:.1e}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
