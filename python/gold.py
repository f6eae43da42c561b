"""ScienceWorld's gold paths through `flow run`: some tasks of the test split of each of the thirty kinds. docs/environments-played.md gets
the number of kinds in which all reach 100, and the scores of the others.

    flow env install scienceworld
    python3 python/gold.py [MANY]      tasks of each kind, one unless given
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLOW = Path(os.environ.get("FLOW", ROOT / "target" / "release" / "flow"))
PIPELINE = ROOT / "papers" / "scienceworld" / "gold.yaml"
PAGE = ROOT / "docs" / "environments-played.md"
START, END = "<!-- gold: begin -->", "<!-- gold: end -->"
# A task is called process-NAME-test-KIND/VARIATION-sSEED.
PLAYED = "select split_part(regexp_replace(task, '^process-[^-]*-test-', ''), '/', 1) as kind, task, count(*) as turns, arg_max(score, turn) as score from rollout group by all order by all"
LOST = "select * from errors order by task"


def query(run, sql):
    output = subprocess.run([FLOW, "query", run, sql, "--format", "json"], capture_output=True, text=True, check=True, cwd=ROOT)
    return json.loads(output.stdout)


def package():
    python = ROOT / ".flow" / "env" / "scienceworld" / "bin" / "python"
    code = "import importlib.metadata; print(importlib.metadata.version('scienceworld'))"
    return "scienceworld " + subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def table(run):
    """The scores of a run's episodes, as lines of the page, and the rows of `errors`."""
    episodes, lost = query(run, PLAYED), query(run, LOST)
    kinds = {}
    for episode in episodes:
        kinds.setdefault(episode["kind"], []).append(episode)
    full = sum({round(row["score"]) for row in some} == {100} for some in kinds.values())
    lines = [f"`{package()}`: in {full} of {len(kinds)} kinds all gold paths that were played reach 100; {len(lost)} episodes failed."]
    for kind, some in kinds.items():
        scores = [round(row["score"]) for row in some]
        if set(scores) != {100}:
            lines += ["", f"`{kind}` scores {', '.join(map(str, scores))}."]
    return lines, lost


def main():
    many = int(sys.argv[1]) if sys.argv[1:] else 1
    settings = ["--set", f"nodes.tasks.with.world=most={many}", "--set", f"nodes.tasks.with.batch={30 * many}"]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        # All episodes follow each other in one JVM before the first row leaves the rollout.
        subprocess.run([FLOW, "run", PIPELINE, "--stall", "7200", *settings, "--out", run], check=True, cwd=ROOT)
        lines, lost = table(run)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text[: text.index(START) + len(START)] + "\n" + "\n".join(lines) + "\n" + text[text.index(END):], encoding="utf-8")
    print(lines[0], *lost, sep="\n")


if __name__ == "__main__":
    main()
