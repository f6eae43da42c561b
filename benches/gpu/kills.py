#!/usr/bin/env python3
"""E: kills the server, the trainer's rank and flow itself in the middle of a run whose servers and trainer flow started, and looks whether anything is lost.

    python benches/gpu/kills.py --pipeline pipelines/agents/gpu-calculator.yaml
    python benches/gpu/kills.py --shape tiny                                     # CPUs: to see that it works

flow is killed last and resumed. Fails if the run doesn't end with every iteration, an iteration has other numbers of rows than its tasks ask for, or a process is left.
"""
import argparse, os, pathlib, signal, subprocess, sys, tempfile, time

import halves


def processes():
    """The parent and the words of each process of this machine."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            found[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]), (entry / "cmdline").read_text().split("\0")
        except (OSError, ValueError):
            continue
    return found


def below(pid):
    """The processes that `pid` has started, and theirs, by number, with their words."""
    every, known, before = processes(), {pid}, 0
    while len(known) > before:
        before = len(known)
        known |= {child for child, (parent, _) in every.items() if parent in known}
    return {child: every[child][1] for child in known - {pid} if child in every}


def started(out, iterations, *words):
    command = [halves.FLOW, *words, "--device", "cuda" if halves.GPU else "cpu"]
    return subprocess.Popen(command, cwd=halves.ROOT, stdout=subprocess.DEVNULL, stderr=open(out.with_suffix(".err"), "a"))


def saved(out, version, run):
    """Waits until the run has saved it."""
    while not (out / "weights" / str(version)).exists():
        if run.poll() is not None:
            sys.exit(f"the run ended with {run.returncode} before version {version}:\n{out.with_suffix('.err').read_text()[-3000:]}")
        time.sleep(0.1)


def kill(run, name, which):
    """Kills the first process of the run of which that is so, and gives all that it has."""
    own = below(run.pid)
    pid = next((pid for pid, words in sorted(own.items()) if which(words)), None) or sys.exit(f"there is no {name}: {own}")
    os.kill(pid, signal.SIGKILL)
    print(f"{name} ({pid}) was killed", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pipeline")
    parser.add_argument("--shape", default="tiny")
    parser.add_argument("--iterations", type=int, default=10)
    a = parser.parse_args()
    home = pathlib.Path(tempfile.mkdtemp())
    out, path = home / "run", a.pipeline
    if not path:
        values = dict(NAME="kills", ITERATIONS=a.iterations, MODEL=halves.model(home, a.shape, 4096), SERVERS="{ start: 1, memory: 0.4, length: 1024 }", PARALLEL=8, BATCH=2, TOKENS=16)
        path = halves.pipeline(home / "kills.yaml", "{ torchrun: 1 }", **values)
    begun = time.monotonic()
    run = started(out, a.iterations, "run", path, "--out", out, "--set", f"iterations={a.iterations}")
    saved(out, 2, run)
    kill(run, "the server", lambda words: "vllm.entrypoints.cli.main" in words)
    saved(out, 4, run)
    kill(run, "the trainer's rank", lambda words: "flow_train" in words and "torch.distributed.run" not in words)
    saved(out, 6, run)
    left = below(run.pid)
    run.kill()
    run.wait()
    print("flow was killed", flush=True)
    end = time.monotonic() + 60
    while (alive := [pid for pid in left if pid in processes()]) and time.monotonic() < end:
        time.sleep(0.5)
    if alive:
        sys.exit(f"a minute later these are left: {[left[pid] for pid in alive]}")
    again = started(out, a.iterations, "resume", out)
    if again.wait():
        sys.exit(f"`flow resume` ended with {again.returncode}:\n{out.with_suffix('.err').read_text()[-3000:]}")
    rows = halves.ask(out, "select iteration, count(distinct (task, sample)) as episodes from rollout group by all order by all")
    updates = halves.ask(out, "select count(distinct iteration) as n from metrics where node = 'update' and name = 'loss'")[0]["n"]
    if len(rows) != a.iterations or updates != a.iterations or len({row["episodes"] for row in rows}) != 1:
        sys.exit(f"something is lost: {rows}, {updates} updates")
    print(f"nothing is lost: {a.iterations} iterations of {rows[0]['episodes']} episodes in {time.monotonic() - begun:.0f} s, through three kills", flush=True)


if __name__ == "__main__":
    main()
