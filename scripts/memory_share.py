"""What a memory adds to the time of a rollout: python3 scripts/memory_share.py [--repeats N] [--encoder FOLDER] [--model YAML]

One pipeline, played in three ways: the memory is kept and nobody asks it; every turn of every episode asks it and is told nothing of what it
finds, so that episodes and prompts are the same ones, token by token; every turn is told up to 200 tokens. The first two differ by what
finding costs, the last two by what longer prompts cost. Runs take turns; medians of seconds by the runs' own metrics, and of processor seconds.
The encoder is the folder of a sentence encoder (flow model fetch minilm); hashed words without it.
"""

import argparse
import json
import resource
import statistics
import subprocess
import tempfile
from pathlib import Path

FLOW = "target/release/flow"
PIPELINE = """
flow: memory-share
iterations: 20
seed: 1
models:
  actor: {actor}
{model}
nodes:
  tasks: {{ op: tasks, with: {{ env: minesweeper, size: 6, mines: 3, batch: 16, variations: 16 }} }}
  rollout:
    op: rollout
    inputs: {{ tasks: tasks, memory: {{ after: memory }} }}
    with: {{ agent: {{ model: actor, max_turns: 12, context: [{{ memory: memory, chance: {chance}, above: 0.5, most: 10, tokens: {tokens} }}] }}, samples: 8 }}
  reflect: {{ op: reflect, inputs: rollout, with: {{ agent: {{ model: actor, prompt: "{{{{ last }}}}\\nReflect:", answer: [], max_tokens: 16 }}, on: always }} }}
  memory: {{ op: memory-update, inputs: reflect, with: {{ capacity: 1000{points} }} }}
log: [rollout, reflect, memory]
"""
WAYS = {"kept, not asked": (0, 0), "asked, told nothing": (1, 0), "asked and told": (1, 200)}


def play(folder, way, encoder, actor):
    chance, tokens = WAYS[way]
    names = {"model": "", "points": ""}
    if encoder:
        names = {"model": f"  minilm: {{ encode: {encoder} }}", "points": ", points: encoder, encoder: minilm"}
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE.format(chance=chance, tokens=tokens, actor=actor, **names))
    out = folder / "run"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([FLOW, "run", file, "--threads", "1", "--out", out, "--format", "json"], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = sum(getattr(after, name) - getattr(before, name) for name in ["ru_utime", "ru_stime"])
    query = """select sum(value) filter (where node = 'rollout' and name = 'seconds') as rollout,
        sum(value) filter (where node = 'memory' and name = 'busy_seconds') as upkeep,
        (select count(*) from rollout) as turns, (select sum(len(prompt_tokens)) from rollout) as tokens,
        (select sum(len(retrieved)) from rollout) as told, (select bit_xor(hash(task, sample, turn, iteration, action)) from rollout) as actions,
        (select sum(change) from memory) as entries from metrics"""
    answer = subprocess.run([FLOW, "query", out, query, "--format", "json"], check=True, capture_output=True, text=True).stdout
    found = json.loads(answer)[0]
    subprocess.run(["rm", "-r", out], check=True)
    return {**found, "processor": processor}


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("--repeats", type=int, default=5)
    asked.add_argument("--encoder", type=lambda folder: str(Path(folder).resolve()))
    asked.add_argument("--model", default="{ new: tiny, layers: 2, width: 64 }", help="the policy, as a pipeline names it")
    asked = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = {way: [] for way in WAYS}
        for _ in range(asked.repeats):
            for way in WAYS:
                made[way].append(play(Path(folder), way, asked.encoder, asked.model))
    median = {way: {key: statistics.median(float(run[key]) for run in runs) for key in ["rollout", "upkeep", "processor"]} for way, runs in made.items()}
    first = {way: runs[0] for way, runs in made.items()}
    plain, found, told = WAYS
    assert first[plain]["actions"] == first[found]["actions"], "the same episodes"
    assert first[plain]["tokens"] == first[found]["tokens"], "the same prompts"
    assert first[told]["told"] > 0, "something is there to be told"
    for way in WAYS:
        m, f = median[way], first[way]
        print(f"{way}: rollout {m['rollout']:.2f} s, upkeep {m['upkeep']:.2f} s, processor {m['processor']:.2f} s; "
              f"{f['turns']} turns, {f['tokens']} prompt tokens, {f['told']} told, {f['entries']} entries at the end")
    base = median[plain]["rollout"]
    more = lambda way, than, key: median[way][key] - median[than][key]
    print(f"finding adds {100 * more(found, plain, 'rollout') / base:.1f}% to the rollout, upkeep {100 * median[plain]['upkeep'] / base:.1f}%, "
          f"longer prompts {100 * more(told, found, 'rollout') / base:.1f}%; finding adds "
          f"{100 * more(found, plain, 'processor') / median[plain]['processor']:.1f}% to the processor seconds of the whole run")


main()
