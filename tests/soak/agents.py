"""Agent programs whose sub-agents overlap by chance: the same rows and weights on 1, 2 and 4 workers, and after kills and resumes.
Needs `flow env install program`. Usage: python3 tests/soak/agents.py [KILLS]"""
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLOW = ROOT / "target/release/flow"
KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 6
YAML = """
flow: team
iterations: 4
seed: 5
models:
  actor: { new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: program, command: [python3, %s], tasks: %s, name: team, batch: 4, parallel: true } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 8, max_tokens: 4 }, samples: 4 } }
  group: { op: group, inputs: rollout, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-2 } }
log: [rollout, advantage, update]
"""


def digest(run):
    """Of all rows, in the order of their names, and of the last weights."""
    sql = "select * from trajectories order by iteration, task, sample, attempt, turn, phase"
    rows = subprocess.run([FLOW, "query", run, sql, "--format", "json"], cwd=ROOT, check=True, capture_output=True).stdout
    count = len(json.loads(rows))
    weights = sorted((run / "weights").glob("*/actor/*.safetensors"))
    newest = max(int(file.parts[-3]) for file in weights)
    data = b"".join(file.read_bytes() for file in weights if file.parts[-3] == str(newest))
    return count, hashlib.sha256(rows + data).hexdigest()[:16]


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "tasks.jsonl").write_text("".join(json.dumps({"id": word, "word": word}) + "\n" for word in ("east", "west", "north", "south")))
        pipeline = folder / "team.yaml"
        pipeline.write_text(YAML % (json.dumps(str(ROOT / "tests/programs/team.py")), json.dumps(str(folder / "tasks.jsonl"))))
        found = {}
        for workers in ("1", "2", "4", "1"):
            out = folder / f"run-{len(found)}"
            subprocess.run([FLOW, "run", pipeline, "--workers", workers, "--out", out], cwd=ROOT, check=True, capture_output=True)
            found[f"{workers} workers, run {len(found)}"] = digest(out)
        out, kills, begun = folder / "killed", 0, time.time()
        said = open(folder / "said", "w+")
        process = subprocess.Popen([FLOW, "run", pipeline, "--out", out], cwd=ROOT, stdout=said, stderr=said)
        while process.poll() is None:
            time.sleep(random.uniform(1, 8))
            # Before its manifest there is no run to resume.
            if kills < KILLS and (out / "manifest.json").exists() and process.poll() is None:
                process.kill()
                process.wait()
                kills += 1
                process = subprocess.Popen([FLOW, "resume", out], cwd=ROOT, stdout=said, stderr=said)
            assert time.time() - begun < 1200, "it never ends"
        said.seek(0)
        assert process.returncode == 0, f"resume ended with {process.returncode}: {said.read()[-1000:]}"
        found[f"killed {kills} times"] = digest(out)
        for name, (rows, sum_) in found.items():
            print(f"{name:24} {rows} rows  {sum_}")
        left = subprocess.run(["pgrep", "-fc", str(ROOT / "tests/programs/team.py")], capture_output=True, text=True).stdout.strip()
        print(f"programs left behind: {left}")
        assert len(set(found.values())) == 1 and left == "0"


main()
