"""The cost of a function in Python: `op: python` beside a bare Arrow round trip, and a loss in Python beside the built-in one.

    make bench-functions                            needs no peer but pyarrow, which it fetches
    python3 benches/functions.py --format json      the same with PYTHONPATH=.pyarrow; after `make test` the program isn't optimised

Rows: a function gets 10,000 rows an iteration and returns one column. Its time is `busy_seconds` of its node: the median over the iterations after the first,
without a second call (`check: never`). The bare round trip sends the same columns over a pipe to a Python child, which returns one column of floats. Both are
measured in the same minute, before and after. Wanted: at most twice the round trip and 2 ms.

Loss: an update of some 64,000 tokens by `surrogate: { call: examples/losses.py:clip }` and by `surrogate: clip`, as two replays of one run that take turns.
The added share is of the metric `seconds`: the median over the updates after the first, which starts Python and checks the loss row by row. Wanted: at most 5%.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHILD = len(sys.argv) > 1 and sys.argv[1] == "child"
FLOW = os.environ.get("FLOW", str(ROOT / "target/release/flow"))
# The columns that a function gets beside the names, and the tasks of the 10,000 rows.
KINDS = {
    "three numbers": ["derived_a", "derived_b", "derived_c"],
    "400 letters": ["derived_a", "response"],
    "1,000 tokens": ["derived_a", "prompt_tokens"],
}
TASKS, SAMPLES, TOKENS = 1250, 8, 1000
# Updates of a replay after its first, by whose median its loss is measured.
UPDATES = 3
COLUMNS = {
    "derived_a": "hash(task || sample) % 1000 / 1000.0",
    "derived_b": "hash(sample || task) % 1000 / 1000.0",
    "derived_c": "hash(task || 'c') % 1000 / 1000.0",
    "response": "task || '" + "x" * 362 + "'",
    "prompt_tokens": f"[(x * 7 + sample) % 300 for x in {list(range(TOKENS))}]",
}
# An iteration learns from one row, so that the next one begins after it: then nothing else runs beside a function.
FUNCTIONS = """import flow_op
import pyarrow as pa


@flow_op.rows(ordered=True)
def first(rows):
    return rows.slice(0, 1)
"""
FUNCTION = """

@flow_op.columns(needs={needs}, adds={{"derived_x": pa.float32()}})
def f{number}(rows):
    return {{"derived_x": rows["derived_a"]}}
"""
ROWS = """
flow: rows
iterations: ITERATIONS
models: { actor: { new: tiny, layers: 1, width: 8, heads: 1, kv_heads: 1, context: 1100 } }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: TASKS } }
  rollout:
    op: rollout
    inputs: { tasks: tasks, weights: { after: update } }
    with: { agent: { model: actor, max_turns: 1 }, actor: expert, samples: SAMPLES }
  wide: { op: derive, inputs: rollout, with: { columns: COLUMNS } }
  whole: { op: python, inputs: wide, with: { call: functions.py:NAME, check: never } }
  grouped: { op: python, inputs: whole, with: { call: functions.py:NAME, by: [task], check: never } }
  first: { op: python, inputs: grouped, with: { call: functions.py:first, check: never } }
  update: { op: gpu-update, inputs: first, with: { model: actor, objective: sft } }
log: [whole, grouped, update]
"""
UPDATE = """
flow: update
iterations: ITERATIONS
models: { actor: { new: tiny, layers: 2, width: 192 } }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 3, batch: TASKS } }
  rollout:
    op: rollout
    inputs: { tasks: tasks, weights: { after: update } }
    with: { agent: { model: actor, max_turns: 1, decode: free, answer: [], max_tokens: 32 }, samples: 8 }
  credit: { op: derive, inputs: rollout, with: { columns: { advantage: "case when sample % 2 = 0 then 1 else -1 end" } } }
  update: { op: gpu-update, inputs: credit, with: { model: actor, lr: 1.0e-4 } }
log: [rollout, update]
"""


def flow(*arguments):
    answer = subprocess.run([FLOW, *map(str, arguments)], capture_output=True, text=True, cwd=ROOT)
    if answer.returncode:
        raise SystemExit(answer.stderr)
    return answer.stdout


def ask(run, sql):
    return json.loads(flow("query", run, sql, "--format", "json"))


def send(pipe, columns):
    """Columns as a stream of Arrow, after its length."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema) as writer:
        writer.write_batch(columns)
    body = sink.getvalue()
    left = memoryview(len(body).to_bytes(8, "little")), memoryview(body).cast("B")
    for part in left:
        while part:
            part = part[os.write(pipe, part) :]


def receive(pipe):
    """The next columns; None at the end."""
    def fill(view):
        while view and (count := os.readv(pipe, [view])):
            view = view[count:]
        return not view

    length = bytearray(8)
    if not fill(memoryview(length)):
        return None
    body = pa.allocate_buffer(int.from_bytes(length, "little"))
    fill(memoryview(body).cast("B"))
    return pa.ipc.open_stream(body).read_all()


def child():
    while (rows := receive(0)) is not None:
        send(1, pa.RecordBatch.from_arrays([rows["derived_a"].combine_chunks()], names=["derived_x"]))


class Bare:
    """A child that returns one column of those that it gets."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, __file__, "child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        for pipe in (self.process.stdin, self.process.stdout):
            fcntl.fcntl(pipe, 1031, 1 << 20)  # F_SETPIPE_SZ: as many bytes as flow's pipes hold

    def seconds(self, columns):
        start = time.perf_counter()
        send(self.process.stdin.fileno(), columns)
        receive(self.process.stdout.fileno())
        return time.perf_counter() - start

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def columns_of(needs):
    """The columns of a node's rows, made as its pipeline makes them."""
    count = TASKS * SAMPLES
    numbers = {"iteration": pa.array([1] * count, pa.uint64()), "sample": pa.array([i % SAMPLES for i in range(count)], pa.uint32())}
    numbers |= {name: pa.array([0] * count, pa.uint32()) for name in ("attempt", "turn")}
    names = numbers | {"task": [f"minesweeper-4x4-m2-s{10**18 + i // SAMPLES}" for i in range(count)], "phase": ["play"] * count}
    made = {name: pa.array([i % 1000 / 1000 for i in range(count)], pa.float32()) for name in ("derived_a", "derived_b", "derived_c")}
    made["response"] = [f"{i:032d}" * 12 + "0" * 16 for i in range(count)]
    if "prompt_tokens" in needs:
        made["prompt_tokens"] = pa.array([[(x * 7 + i) % 300 for x in range(TOKENS)] for i in range(count)], pa.list_(pa.uint32()))
    return pa.RecordBatch.from_pydict({**names, **{name: made[name] for name in needs}})


def millis(seconds):
    """Median, least and most in milliseconds."""
    return [1e3 * one for one in (statistics.median(seconds), min(seconds), max(seconds))]


def of_rows(folder, iterations):
    """For each kind of columns: seconds of the function's node, with and without groups, and of the bare round trip."""
    found = []
    (folder / "functions.py").write_text(FUNCTIONS + "".join(FUNCTION.format(number=i, needs=needs) for i, needs in enumerate(KINDS.values())))
    for i, (kind, needs) in enumerate(KINDS.items()):
        text = ROWS.replace("ITERATIONS", str(1 + iterations)).replace("TASKS", str(TASKS)).replace("SAMPLES", str(SAMPLES))
        text = text.replace("COLUMNS", json.dumps({name: COLUMNS[name] for name in needs})).replace("NAME", f"f{i}")
        file, out = folder / f"rows-{i}.yaml", folder / f"rows-{i}"
        file.write_text(text)
        bare, columns = Bare(), columns_of(needs)
        before = [bare.seconds(columns) for _ in range(4 + iterations)][4:]
        flow("run", file, "--workers", "1", "--out", out)
        after = [bare.seconds(columns) for _ in range(iterations)]
        bare.end()
        sql = "select node, value from metrics where name = 'busy_seconds' and node in ('whole', 'grouped') and iteration > 0"
        busy = {node: [row["value"] for row in ask(out, sql) if row["node"] == node] for node in ("whole", "grouped")}
        [count] = ask(out, "select count(*) as rows from whole where iteration > 0")
        assert count["rows"] == iterations * TASKS * SAMPLES, count
        trips = before + after
        for node, name in [("whole", kind), ("grouped", f"{kind}, {TASKS:,} groups")]:
            own, trip = statistics.median(busy[node]), statistics.median(trips)
            wanted = own / (2 * trip + 0.002) if node == "whole" else None
            found.append({"case": name, "bytes": columns.nbytes, "function_ms": millis(busy[node]), "bare_ms": millis(trips), "ratio": own / trip, "of_wanted": wanted})
        shutil.rmtree(out)
    return found


def of_a_loss(folder, pairs, tasks):
    """The share that a loss in Python adds to an update's seconds, pair by pair."""
    file, run = folder / "update.yaml", folder / "update"
    file.write_text(UPDATE.replace("TASKS", str(tasks)).replace("ITERATIONS", str(1 + UPDATES)))
    flow("run", file, "--out", run)
    sql = "select sum(len(prompt_tokens)) as prompts, sum(len(response_tokens)) as responses from rollout where iteration = 1"
    [tokens] = ask(run, sql)
    call = f"{{ call: {ROOT}/examples/losses.py:clip }}"

    def seconds(surrogate):
        out = folder / "replay"
        flow("replay", run, "--set", f"nodes.update.with.surrogate={surrogate}", "--out", out)
        [row] = ask(out, "select median(value) as seconds from metrics where node = 'update' and name = 'seconds' and iteration > 0")
        shutil.rmtree(out)
        return row["seconds"]

    both = []
    for i in range(pairs):  # each goes first in every other pair
        order = ["clip", call] if i % 2 == 0 else [call, "clip"]
        both.append({surrogate: seconds(surrogate) for surrogate in order})
    added = [pair[call] / pair["clip"] - 1 for pair in both]
    found = {"tokens": tokens["prompts"] + tokens["responses"], "response_tokens": tokens["responses"], "pairs": pairs}
    found |= {name: statistics.median(pair[surrogate] for pair in both) for name, surrogate in [("built_in_s", "clip"), ("function_s", call)]}
    return found | {"added": statistics.median(added), "range": [min(added), max(added)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=9, help="iterations after the first, of which the median is taken")
    parser.add_argument("--pairs", type=int, default=5, help="updates by either loss")
    parser.add_argument("--tasks", type=int, default=158, help="an update's tasks, of eight responses each")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = of_rows(Path(folder), given.iterations)
        loss = of_a_loss(Path(folder), given.pairs, given.tasks)
    if given.format == "json":
        print(json.dumps({"bench": "functions", "rows": rows, "loss": loss}))
        return
    print(f"{'10,000 rows of':28} {'MB':>6} {'function, ms':>22} {'bare, ms':>22} {'ratio':>6} {'of wanted':>9}")
    for row in rows:
        times = ["{:.1f} ({:.1f} to {:.1f})".format(*row[name]) for name in ("function_ms", "bare_ms")]
        wanted = "" if row["of_wanted"] is None else f"{row['of_wanted']:.2f}"
        print(f"{row['case']:28} {row['bytes'] / 1e6:6.1f} {times[0]:>22} {times[1]:>22} {row['ratio']:6.2f} {wanted:>9}")
    print(f"\nA loss in Python, {loss['tokens']:,} tokens an update, {loss['response_tokens']:,} of them of responses; {loss['pairs']} pairs")
    least, most = loss["range"]
    print(f"built in {loss['built_in_s']:.2f} s, in Python {loss['function_s']:.2f} s: {loss['added']:+.1%} ({least:+.1%} to {most:+.1%}); wanted at most +5%")


if __name__ == "__main__":
    import fcntl

    import pyarrow as pa

    child() if CHILD else main()
