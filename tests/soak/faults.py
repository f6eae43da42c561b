"""A run whose environment fails in one turn of a hundred: `make faults`.

    python3 tests/soak/faults.py [ITERATIONS]

tests/programs/flaky.py dies, hangs, and answers garbage in several ways, by a hash of the task and the turn, and notes each time
it does. Once its failures last: both tries of an episode fail in the same turn, the episode must be a row of `errors` with
that turn and a cause, and no row of `rollout`. Once they pass: the second try succeeds, and the run must have the
digest of one without failures.
"""

import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from runs import ENV, FLOW, ask, digest, load

PIPELINE = """
flow: faults
iterations: ITERATIONS
seed: 4
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks:
    op: tasks
    with: { env: process, name: flaky, command: [python3, tests/programs/flaky.py, ARGUMENTS], processes: 2, seconds: 2, batch: 64 }
  rollout:
    op: rollout
    inputs: { tasks: tasks, weights: { after: update } }
    with: { agent: { model: actor, max_turns: 6 }, samples: 2, tries: TRIES, max_failed: 0.5 }
  group: { op: group, inputs: rollout, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [rollout, update]
"""
TASKS, SAMPLES = 64, 2


def trained(home, name, iterations, arguments, tries):
    pipeline, run = home / f"{name}.yaml", home / name
    text = PIPELINE.replace("ITERATIONS", str(iterations)).replace("ARGUMENTS", arguments).replace("TRIES", str(tries))
    pipeline.write_text(text)
    start = time.monotonic()
    done = subprocess.run([FLOW, "run", pipeline, "--out", run], env=ENV, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{name} did not complete\n{done.stdout}{done.stderr}")
    return run, time.monotonic() - start


def one(run, sql):
    return list(ask(run, sql)[0].values())[0]


def noted(path):
    """The turns that the program noted as failing, and how often; a reset counts as the first turn, as in `errors`."""
    lines = (line.split() for line in path.read_text().splitlines())
    return Counter((task, max(int(count) - 1, 0)) for task, count in lines)


def main():
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    print(load())
    with tempfile.TemporaryDirectory() as folder:
        home, wrong = Path(folder), []
        smooth, seconds = trained(home, "smooth", iterations, "'0', '-'", 2)
        print(f"without failures: {one(smooth, 'select count(*) as n from rollout')} turns, {seconds:.1f} s", flush=True)

        lasting, seconds = trained(home, "lasting", iterations, f"'10', {home / 'lasting-notes'}", 2)
        notes = noted(home / "lasting-notes")
        turns, episodes = one(lasting, "select count(*) as n from rollout"), iterations * TASKS * SAMPLES
        rows = one(lasting, "select count(*) as n from errors")
        whole = one(lasting, "select count(*) as n from (select distinct iteration, task, sample from rollout)")
        causes = ask(lasting, "select cause, count(*) as n from errors group by cause order by cause")
        causes = ", ".join(f"{c['cause']} {c['n']}" for c in causes)
        found = {(r["task"], r["turn"]) for r in ask(lasting, "select distinct task, turn from errors")}
        print(f"failures that last: the run completed in {seconds:.1f} s; {turns} turns of {whole} episodes are in the log,")
        print(f"  the program failed {sum(notes.values())} times, in {len(notes)} turns of {len({t for t, _ in notes})} tasks;")
        print(f"  {rows} of {episodes} episodes are rows in `errors`: {causes}", flush=True)
        if found != set(notes):
            wrong.append(f"the turns in `errors` are not those that failed: {sorted(found ^ set(notes))[:5]}")
        if rows + whole != episodes:
            wrong.append(f"{episodes - rows - whole} episodes are neither whole nor in `errors`")
        if one(lasting, "select count(*) as n from errors join rollout using (iteration, task, sample)") != 0:
            wrong.append("some episodes are in both")

        # An episode may have several turns that fail, once each.
        passing, seconds = trained(home, "passing", iterations, f"'10', {home / 'passing-notes'}, once", 8)
        notes = noted(home / "passing-notes")
        retried = one(passing, "select sum(value)::int as n from metrics where name = 'retried'")
        rows = one(passing, "select count(*) as n from errors")
        same = digest(passing) == digest(smooth)
        turns = one(passing, "select count(*) as n from rollout")
        print(f"failures that pass: the run completed in {seconds:.1f} s; {turns} turns, the program failed {sum(notes.values())} times,")
        print(f"  {retried} tries were made again, {rows} rows in `errors`; the digest is {'that' if same else 'NOT that'} of the run without failures")
        if not same or rows:
            wrong.append("failures that pass leave a trace")
    print("\n".join(wrong) or "each failure is a row, and nothing else is lost")
    sys.exit(bool(wrong))


main()
