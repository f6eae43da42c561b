#!/usr/bin/env python3
"""A model that learns in a trainer of two processes (`train: { torchrun: 2 }`), from start to end, and what becomes of a run whose trainer fails.

    make train-parity

Needs FLOW_TRAIN_PYTHON, or what `make train-env` makes. A run elsewhere is held to the same run here; then a rank is killed at several moments, a
rank stops, flow itself is killed: each time the run ends with the cause in its error, what was committed is there, nothing is left over, and
`flow resume --ranks 1` ends it with the rows of the run that was never stopped.
"""
import json, os, pathlib, signal, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).parent.parent.parent
FLOW = str(pathlib.Path(os.environ.get("FLOW", ROOT / "target/release/flow")).absolute())
ITERATIONS = 6
PIPELINE = """flow: trainer
iterations: {iterations}
seed: 5
models:
  actor: {{ load: {base}, lora: {{ rank: 4, targets: [all-linear] }}{train} }}
nodes:
  tasks: {{ op: tasks, with: {{ env: minesweeper, size: 3, mines: 2, batch: 2 }} }}
  rollout: {{ op: rollout, inputs: {{ tasks: tasks, weights: {{ after: update }} }}, with: {{ agent: {{ model: actor, max_turns: 3, decode: constrained }}, samples: 4 }} }}
  group: {{ op: group, inputs: rollout, with: {{ by: [] }} }}
  advantage: {{ op: advantage, inputs: group, with: {{ of: step_return }} }}
  update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor, lr: 1.0e-3, eps: 1.0e-3, kl: 0.1 }} }}
log: [rollout, advantage, update]
keep: {{ every: 1 }}
"""


def flow(*arguments, **options):
    return subprocess.run([FLOW, *map(str, arguments)], capture_output=True, text=True, timeout=500, **options)


def query(run, sql):
    answer = flow("query", run, sql, "--format", "json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def ranks(of):
    """The processes of the trainer below `of`, by rank."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            environment = dict(line.split(b"=", 1) for line in (entry / "environ").read_bytes().split(b"\0") if b"=" in line)
        except (OSError, ValueError):
            continue
        if b"flow_train" in words and b"torch.distributed.run" not in words and int(environment.get(b"FLOW_TEST", b"0")) == of and b"RANK" in environment:
            found[int(environment[b"RANK"])] = int(entry.name)
    return found


class Run:
    count = 0

    def __init__(self, folder, pipeline, *arguments):
        Run.count += 1
        self.mark = os.getpid() * 100 + Run.count
        self.log = open(folder / f"log-{Run.count}", "w+")
        command = [FLOW, *map(str, pipeline), *arguments]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env={**os.environ, "FLOW_TEST": str(self.mark)})

    def until(self, there, seconds=240):
        end = time.time() + seconds
        while not there():
            assert time.time() < end and self.process.poll() is None, self.said()
            time.sleep(0.005)

    def said(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text()

    def ended(self, seconds):
        """How long it took to end."""
        begun = time.time()
        self.process.wait(seconds)
        took = time.time() - begun
        end = time.time() + 20
        while ranks(self.mark):
            assert time.time() < end, f"processes are left: {ranks(self.mark)}"
            time.sleep(0.1)
        return took


PLAYED = "select iteration, task, sample, turn, action, weights, reward from rollout order by all"


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        base = ROOT / "tests/golden/models/llama-tied"

        def written(name, train, iterations=ITERATIONS):
            path = folder / f"{name}.yaml"
            path.write_text(PIPELINE.format(base=base, train=f", train: {train}" if train else "", iterations=iterations))
            return path

        elsewhere = written("elsewhere", "{ torchrun: 2, timeout: 120 }")
        checked = flow("check", elsewhere)
        assert checked.returncode == 0 and "L2, learning elsewhere" in checked.stdout, checked.stdout + checked.stderr
        for name, pipeline in [("here", written("here", "")), ("two", elsewhere)]:
            begun = time.time()
            done = flow("run", pipeline, "--out", folder / name)
            assert done.returncode == 0, done.stderr
            print(f"{name}: {time.time() - begun:.1f} s")
        here, two = folder / "here", folder / "two"
        assert query(here, PLAYED) == query(two, PLAYED), "what is played is the same"
        measured = "select node, name, iteration, value from metrics where name in ('loss', 'grad_norm', 'kl', 'logprob_gap') order by all"
        worst = max(abs(a["value"] - b["value"]) for a, b in zip(query(here, measured), query(two, measured)))
        assert worst < 1e-5, worst
        print(f"the figures of its updates differ by at most {worst:.1e}")
        level = json.loads((two / "manifest.json").read_text())
        assert '"L2' in json.dumps(level), "the manifest has the promise"
        assert "L2, learning elsewhere" in flow("show", two).stdout

        def committed(run):
            return query(run, "select coalesce(max(iteration) + 1, 0) as n from update")[0]["n"]

        def resumed(run, *arguments):
            before = committed(run)
            done = flow("resume", run, *arguments)
            assert done.returncode == 0, done.stderr
            assert query(run, PLAYED) == query(two, PLAYED), "the rows of the run that was never stopped"
            return before

        # Killed at several moments: while it learns, and while it saves.
        saving = lambda run, version: any((run / f"weights/{version}").glob(".actor.unfinished*"))
        moments = {
            "in an update": lambda run: committed(run) >= 1 if (run / "manifest.json").exists() else False,
            "while version 2 is saved": lambda run: saving(run, 2),
            "while version 3 is saved": lambda run: saving(run, 3),
        }
        for number, (moment, there) in enumerate(moments.items()):
            # A save takes some milliseconds, which a busy machine may pass over.
            for attempt in range(5):
                rank, run = number % 2, folder / f"killed-{number}-{attempt}"
                own = Run(folder, ["run", elsewhere, "--out", run])
                own.until(lambda: len(ranks(own.mark)) == 2)
                victim = ranks(own.mark)[rank]
                while not there(run) and own.process.poll() is None:
                    pass
                if own.process.poll() is None:
                    break
            os.kill(victim, signal.SIGKILL)
            took = own.ended(60)
            assert own.process.returncode not in (0, -9), "it ends with an error"
            said = own.said()
            assert "its trainer failed" in said and "SIGKILL" in said, said
            left = [line.strip() for line in said.splitlines() if "its trainer failed" in line]
            before = resumed(run, "--ranks", "1")
            print(f"rank {rank} killed {moment}: ended in {took:.1f} s with {before} iterations committed; resumed on one rank with the same rows\n  {left[0]}")

        run = folder / "silent"
        own = Run(folder, ["run", written("silent", "{ torchrun: 2, timeout: 30 }"), "--out", run])
        own.until(lambda: (run / "manifest.json").exists() and committed(run) >= 1 and len(ranks(own.mark)) == 2)
        os.kill(ranks(own.mark)[1], signal.SIGSTOP)
        took = own.ended(90)
        assert "did not answer" in own.said(), own.said()
        before = resumed(run)
        print(f"rank 1 stopped: ended after {took:.1f} s (timeout 30) with {before} iterations committed; resumed")

        run = folder / "flow-killed"
        own = Run(folder, ["run", elsewhere, "--out", run])
        own.until(lambda: (run / "manifest.json").exists() and committed(run) >= 2)
        own.process.kill()
        begun = time.time()
        own.ended(10)
        print(f"flow killed: the trainer was gone {time.time() - begun:.1f} s later; {resumed(run)} iterations were committed")


if __name__ == "__main__":
    main()
