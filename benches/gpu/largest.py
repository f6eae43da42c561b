#!/usr/bin/env python3
"""D: the largest shape and the longest answers for which GRPO by an adapter fits on this machine with both halves: a vLLM that flow starts, and flow_train.

    python benches/gpu/largest.py --shapes 14b,7b,3b --seconds 600
    python benches/gpu/largest.py --shapes tiny --length 64 --context 256 --most 1024     # CPUs: to see that it works

A try is one iteration of four answers of that length and an update on them. Of the shapes, largest first, the first with room for answers of `--length` tokens is taken;
the length then doubles until a try fails. Weights are random, 2 bytes each on disk. `--sleep` has the server sleep while the model learns; `--train` is `train:`.
"""
import argparse, pathlib, shutil, tempfile, time

import halves

# Of a row these are the prompt's, at most.
PROMPT = 400


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shapes", default="14b,7b,3b,1.5b")
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--most", type=int, default=1 << 17)
    parser.add_argument("--context", type=int, default=1 << 17)
    parser.add_argument("--memory", type=float, default=0.4)
    parser.add_argument("--sleep", action="store_true")
    parser.add_argument("--train", default="{ torchrun: 1 }")
    parser.add_argument("--seconds", type=float, default=600, help="no try begins after that")
    parser.add_argument("--folder", default=tempfile.mkdtemp())
    a = parser.parse_args()
    end, shapes = time.monotonic() + a.seconds, a.shapes.split(",")
    if unknown := [shape for shape in shapes if shape not in halves.shapes()]:
        parser.error(f"no shape {unknown[0]}: there are {', '.join(halves.shapes())}")
    for shape in shapes:
        folder, length, longest = halves.model(a.folder, shape, a.context), a.length, None
        while length <= a.most and time.monotonic() < end and fits(a, shape, folder, length):
            longest, length = length, 2 * length
        if longest:
            return print(f"the largest: {shape}, answers of {longest} tokens" + (" (the time is over)" if time.monotonic() >= end else ""), flush=True)
        shutil.rmtree(folder)
    raise SystemExit("none of these shapes fits")


def fits(a, shape, folder, length):
    home = pathlib.Path(tempfile.mkdtemp(dir=a.folder))
    servers = f"{{ start: 1, memory: {a.memory}, length: {length + PROMPT}{', sleep: true' if a.sleep else ''} }}"
    values = dict(NAME="largest", ITERATIONS=1, MODEL=folder, SERVERS=servers, PARALLEL=4, BATCH=1, TOKENS=length)
    begun = time.monotonic()
    done = halves.run("run", halves.pipeline(home / "largest.yaml", a.train, **values), "--out", home / "run")
    seconds = time.monotonic() - begun
    if done.returncode:
        lines = done.stderr.splitlines() or ["it said nothing"]
        why = next((line for word in ("out of memory", "greater than", "memory", "error") for line in lines if word in line.lower()), lines[-1])
        print(f"{shape}, {length} tokens: no, after {seconds:.0f} s: {why.strip()[:300]}", flush=True)
        return False
    figures = halves.figures(home / "run")
    peak = figures.get(("update", "peak_bytes", 0))
    memory = f", the trainer's most {peak / 1e9:.1f} GB" if peak else ""
    print(f"{shape}, {length} tokens: yes, rollout {figures['rollout', 'seconds', 0]:.1f} s, update {figures['update', 'seconds', 0]:.1f} s{memory}, {seconds:.0f} s in all", flush=True)
    return True


if __name__ == "__main__":
    main()
