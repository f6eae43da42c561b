"""Hostile commands and files: `make hostile`. None may make flow panic, hang, swallow memory, or fail without saying why.

    python3 tests/soak/hostile.py [--only TEXT] [--sample N] [--seed N] [--jobs N] [--keep FOLDER]

Pipelines, settings, command lines, runs' folders, Parquet files, weights, models, panels and programs, each broken in many ways, each
under a limit of time and of memory. What is judged of each: how it ended, how long it took, how much memory it held, whether the exit
code is the one that is wanted where there is one, whether a failure says something, in words and not in dumps, and whether control
characters from a file reach the terminal. What went wrong is listed with the command; the exit code is 1 if anything did.
"""

import argparse
import concurrent.futures
import errno
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from runs import ENV, FLOW, inline, load

ROOT = Path(__file__).resolve().parents[2]
# Python's packages of `make test-python`: without gguf no GGUF file is read, and each fails for that.
ENV = {**ENV, "PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in (".pyarrow", ".gguf"))}
GGUF = "it can't be read as GGUF, or is cut off|the architecture `.*` isn't supported"
# A program has a minute to say hello.
SECONDS, BYTES = 90, 2 << 30
PANEL = ROOT / "datasets/minesweeper-4x4-m2-d64920f25f41.json"
MODELS = ROOT / "tests/golden/models"

SMALL = """flow: small
iterations: 2
seed: 5
models:
  actor: { new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 2 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 3 }, samples: 2 } }
  reward: { op: reward, inputs: rollout, with: { format: 0.5 } }
  group: { op: group, inputs: reward, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [rollout, group, advantage, update]
"""
LOOPED = """flow: looped
iterations: 1
models:
  actor: { new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1 }
  critic: { new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1, head: value }
nodes:
  tasks: { op: tasks, with: { env: sokoban, size: 6, boxes: 1, batch: 2 } }
  trial:
    loop: { attempts: 2 }
    nodes:
      rollout:
        op: rollout
        inputs: { tasks: tasks, weights: { after: update }, memory: { after: reflect } }
        with: { agent: { model: actor, max_turns: 3 }, samples: 2 }
      reflect: { op: reflect, inputs: rollout, with: { agent: { model: actor, answer: [], max_tokens: 5 } } }
    output: [rollout, reflect]
  value: { op: value, inputs: { rows: trial, weights: { after: learn } }, with: { model: critic } }
  group: { op: group, inputs: value, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: gae } }
  steps: { op: group, inputs: value, with: { by: [task, state] } }
  step_advantage: { op: advantage, inputs: steps, with: { of: step_return } }
  all: { op: combine, inputs: { first: advantage, second: step_advantage } }
  update: { op: gpu-update, inputs: all, with: { model: actor } }
  learn: { op: gpu-update, inputs: advantage, with: { model: critic, objective: value } }
  evaluate: { op: evaluate, inputs: { weights: { after: update } }, with: { agent: { model: actor, max_turns: 2 }, panel: PANEL } }
log: [trial, advantage, update, evaluate]
""".replace("PANEL", str(PANEL))
PROGRAM = """flow: program
iterations: 1
models:
  actor: { new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1, tokens: bytes, context: 4096 }
nodes:
  tasks: { op: tasks, with: { env: process, name: odd, command: COMMAND, seconds: 2, batch: 2 } }
  rollout: { op: rollout, inputs: { tasks: tasks }, with: { agent: { model: actor, max_turns: 2, max_tokens: 2 }, samples: 1, max_failed: 1.0 } }
log: [rollout]
"""
# Answers as the protocol wants it, but for what `change` does to an answer.
SERVER = """
import json, os, sys, time
def change(kind, answer): return answer
CHANGE
for line in sys.stdin:
    asks = json.loads(line)
    for ask in asks if isinstance(asks, list) else [asks]:
        kind = ask["request"]
        if kind == "hello": answer = {"protocol": 2, "splits": {"train": 8}, "words": ["a"], "abilities": ["actions"]}
        elif kind == "close": answer = {"episode": ask["episode"], "closed": True}
        else: answer = {"episode": ask["episode"], "observation": "a", "actions": ["go", "stay"]}
        if kind == "step": answer.update(reward=0.5, done=False)
        answer = change(kind, answer)
        if answer is not None: print(answer if isinstance(answer, str) else json.dumps(answer), flush=True)
"""


class Case:
    """A command, and what must come of it: `code` is an exit code, "fails", or None where either will do; `message` is an expression for stderr."""

    def __init__(self, kind, name, arguments, code=None, message=None):
        self.kind, self.name, self.arguments, self.code, self.message = kind, name, [str(a) for a in arguments], code, message


def memory(pid):
    try:
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) << 10
    except (OSError, TypeError):
        return 0


def play(case, home):
    """Runs the command; answers with what is wrong with how it went, and what it said."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        limit = lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        files = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
        try:
            child = subprocess.Popen([FLOW, *case.arguments], **files, env=ENV, cwd=home, preexec_fn=limit, start_new_session=True)
        except OSError as error:
            # Too long for the system: flow never saw it.
            return ["never begun"] if error.errno != errno.E2BIG else [], str(error)
        most, found = 0, []
        while child.poll() is None:
            most = max(most, memory(child.pid))
            if time.monotonic() - start > SECONDS:
                found.append("hang")
            if most > BYTES:
                found.append("memory")
            if out.seek(0, 2) > 64 << 20:
                found.append("flood")
            if found:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            time.sleep(0.01)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read(4 << 20).decode(errors="replace"))
    said, code = texts[1], child.returncode
    if found:
        return found, said
    if code < 0:
        found.append(f"signal {-code}")
    if "panicked at" in said or "RUST_BACKTRACE" in said or code == 101:
        found.append("panic")
    if code > 0 and len(said.strip()) < 12:
        found.append("no message")
    if code > 0 and not found and not re.search(r"^(error|usage|tip)", said, re.M | re.I) and not texts[0].strip():
        found.append("no message")
    if re.search(r"Os \{|Some\(|Err\(|None\)|frame #|C\+\+|unwrap|\bRefCell\b|0x[0-9a-f]{8}", said):
        found.append("dump")
    if "internal error" in said.lower() or "INTERNAL" in said:
        found.append("internal error")
    if len(said) > 100_000 or any(len(line) > 6_000 for line in said.splitlines()):
        found.append("long message")
    if any(re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", t.replace("\r", "")) for t in texts):
        found.append("control characters")
    if code not in (0, 1, 2) and not found:
        found.append(f"exit code {code}")
    if case.code == "fails" and code == 0:
        found.append("succeeds")
    if case.code == 0 and code != 0:
        found.append("fails")
    if case.message and not re.search(case.message, said):
        found.append("another message")
    return found, said


class Hostile:
    """Makes the cases, each with files of its own below `home`."""

    def __init__(self, home, seed):
        self.home, self.random, self.count, self.cases = home, random.Random(seed), 0, []

    def add(self, kind, name, *arguments, code=None, message=None):
        self.cases.append(Case(kind, name, arguments, code, message))

    def file(self, content, end="yaml"):
        self.count += 1
        path = self.home / f"f{self.count}.{end}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))
        return path

    def out(self):
        self.count += 1
        return self.home / f"o{self.count}"

    def copy(self, folder):
        to = self.out()
        shutil.copytree(folder, to)
        return to

    def devices(self):
        """Things that are no files, which a reader may read for ever."""
        fifo, loop, folder = self.out(), self.out(), self.out()
        os.mkfifo(fifo)
        loop.symlink_to(loop)
        folder.mkdir()
        return {"fifo": fifo, "zeros": "/dev/zero", "nothing": "/dev/null", "random": "/dev/urandom", "loop": loop, "folder": folder,
                "absent": self.home / "absent", "long": "x" * 5000, "socket": "/dev/stdin"}

    # Pipelines as text.
    def texts(self):
        odd = {
            "empty": "", "blank": " \n\n\t\n", "comment": "# nothing", "nul": "flow: a\0b", "bytes": bytes(range(256)), "bom": b"\xef\xbb\xbf" + SMALL.encode(),
            "utf-16": SMALL.encode("utf-16"), "surrogate": b"flow: \xed\xa0\x80", "tabs": SMALL.replace("  ", "\t"), "crlf": SMALL.replace("\n", "\r\n"),
            "cr": SMALL.replace("\n", "\r"), "twice": SMALL + SMALL, "documents": SMALL + "---\n" + SMALL, "list": "- a\n- b", "number": "7", "text": "flow",
            "alias": "a: &a [*a]", "alias in": SMALL.replace("[task]", "&x [*x]"), "merge": "flow: x\n<<: {iterations: 1}\n<<: [1, 2]\n", "tag": "flow: !!python/object:os.system x",
            "tag binary": "flow: !!binary aGVsbG8=", "tag set": "nodes: !!set {a, b}", "complex key": "? [a, b]\n: c\n", "null key": "~: 1\nflow: x", "number key": "1: 2\n2: 3",
            "directive": "%YAML 3.9\n---\nflow: x", "unclosed": "flow: 'x", "unclosed list": "log: [a, b", "wrong dedent": "nodes:\n    a: 1\n  b: 2\n",
            "open brackets": "[" * 250_000, "open braces": "{a: " * 60_000, "deep lists": "[" * 900 + "]" * 900, "deep": "a: " + "{a: " * 120 + "1" + "}" * 120,
            "deep indents": "".join(" " * i + "a:\n" for i in range(2000)), "dashes": "- " * 50_000, "long line": "flow: " + "x" * 3_000_000, "many keys": "".join(f"k{i}: 1\n" for i in range(50_000)),
            "many nodes": SMALL.replace("log:", "".join(f"  n{i}: {{ op: group, inputs: rollout, with: {{ by: [task] }} }}\n" for i in range(3000)) + "log:"),
            "laughs": "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefghi", "bcdefghij")),
            "cycle": SMALL.replace("inputs: rollout,", "inputs: advantage,"), "itself": SMALL.replace("inputs: rollout,", "inputs: reward,"),
            "escape codes": SMALL.replace("flow: small", 'flow: "\\e[31m\\x07\\x9b"'), "escape node": SMALL.replace("group:", '"\\e]0;x\\a":'), "escape op": SMALL.replace("op: reward", 'op: "\\e[2J\\u0085"'),
            "path name": SMALL.replace("flow: small", "flow: ../../x"), "dot name": SMALL.replace("flow: small", "flow: .."), "slash name": SMALL.replace("flow: small", "flow: /etc/x"),
            "long name": SMALL.replace("flow: small", "flow: " + "n" * 300), "no name": SMALL.replace("flow: small", "flow: ''"), "emoji": SMALL.replace("flow: small", "flow: 😀"),
            "reserved": SMALL.replace("reward:", "metrics:"), "reserved errors": SMALL.replace("reward:", "errors:"), "case twins": SMALL.replace("reward:", "Rollout:"), "sql node": SMALL.replace("reward:", "'a\"; drop table x; --':"),
            "log itself": SMALL.replace("log: [", "log: [log, "), "log twice": SMALL.replace("log: [", "log: [rollout, "), "log nothing": SMALL.replace("log: [rollout, group, advantage, update]", "log: []"),
            "no nodes": re.sub(r"nodes:.*log:", "nodes: {}\nlog:", SMALL, flags=re.S), "no models": SMALL.replace("actor: {", "other: {"), "loop in loop": LOOPED.replace("op: reflect", "loop: { attempts: 2 }"),
            "endless loop": LOOPED.replace("attempts: 2", "attempts: 4000000000"), "empty loop": re.sub(r"    nodes:\n.*    output", "    nodes: {}\n    output", LOOPED, flags=re.S),
            "staleness": SMALL.replace("{ after: update }", "{ after: update, staleness: 18446744073709551615 }"), "stale": SMALL.replace("{ after: update }", "{ after: update, staleness: -1 }"),
            "staleness 1e6": SMALL.replace("{ after: update }", "{ after: update, staleness: 1000000 }"),
        }
        for key in ("iterations", "seed"):
            for value in ("-1", "0", "1e400", ".nan", "18446744073709551616", "0x10", "1.5", "'2'", "[]", "{}", "~", "true", "2024-01-01", "1_000", "99999999999999999999999"):
                odd[f"{key} {value}"] = re.sub(rf"^{key}: \d+", f"{key}: {value}", SMALL, flags=re.M)
        for name, text in odd.items():
            path = self.file(text)
            self.add("text", f"check {name}", "check", path, code="fails" if name.startswith(("empty", "blank", "comment", "nul", "bytes", "open", "unclosed", "list", "laughs", "cycle")) else None)
            if self.random.random() < 0.4:
                self.add("text", f"graph {name}", "graph", path)
                self.add("text", f"test {name}", "test", path)
                self.add("text", f"run {name}", "run", path, "--out", self.out(), "--dry-run")
        for name, cut in ((f"cut {n}", SMALL[: len(SMALL) * n // 40]) for n in range(1, 40)):
            self.add("text", name, "check", self.file(cut))
        letters = "[]{}:,-#&*!|>'\"%@`\\\n\t \0\x1bé"
        for n in range(60):
            text = list(SMALL if n % 2 else LOOPED)
            for _ in range(self.random.randrange(1, 6)):
                text[self.random.randrange(len(text))] = self.random.choice(letters)
            self.add("text", f"changed {n}", "check", self.file("".join(text)))

    # Settings of every operator and of models, as the schema knows them.
    def settings(self):
        definitions = json.loads((ROOT / "schemas/flow.schema.json").read_text())["$defs"]
        values = [-1, 0, 1e30, 1e-30, 2**32, 2**63 - 1, 2**64, 1e308, "", "x", [], {}, None, True, False, "\x1b[31m", [[]], [""], ["task", "task"]]
        places = {"tasks": "nodes.tasks", "rollout": "nodes.trial.nodes.rollout", "reflect": "nodes.trial.nodes.reflect", "value": "nodes.value", "group": "nodes.group", "advantage": "nodes.advantage",
                  "gpu-update": "nodes.update", "evaluate": "nodes.evaluate", "combine": "nodes.all"}
        looped = self.file(LOOPED)
        small = self.file(SMALL)
        for op in ("tasks", "rollout", "reflect", "reward", "value", "group", "advantage", "combine", "gpu-update", "evaluate"):
            path, place = (small, "nodes.reward") if op == "reward" else (looped, places[op])
            for key in definitions[f"with.{op}"].get("properties", {"anything": {}}):
                for value in values:
                    if self.random.random() > 0.35:
                        continue
                    setting = f"{place}.with.{key}={json.dumps(value)}"
                    self.add("settings", f"check {setting}", "check", path, "--set", setting)
                    if self.random.random() < 0.35:
                        self.add("settings", f"run {setting}", "run", path, "--set", setting, "--out", self.out(), "--threads", 1)
        for key in definitions["model.NewModel"]["properties"]:
            for value in values:
                setting = f"models.actor.{key}={json.dumps(value)}"
                self.add("settings", f"check {setting}", "check", small, "--set", setting)
                if self.random.random() < 0.5:
                    self.add("settings", f"run {setting}", "run", small, "--set", setting, "--out", self.out(), "--dry-run")
        for env, keys in {"minesweeper": ("size", "mines"), "sokoban": ("size", "boxes", "moves"), "process": ("command", "name", "seconds", "processes", "split", "pass")}.items():
            for key in keys:
                for value in (-1, 0, 1, 2, 3, 9, 17, 64, 1000, 2**31, 2**63, "", "a b", [], [""], ["/"], ["/dev/null"], ["true"], ["false"], ["cat"], ["yes"], 0.0, 1e-9, 1e300, None):
                    with_ = {"env": env, "batch": 2, **({"name": "x", "command": ["true"]} if env == "process" else {}), key: value}
                    text = SMALL.replace("{ env: minesweeper, size: 4, mines: 2, batch: 2 }", json.dumps(with_))
                    self.add("settings", f"check {with_}", "check", self.file(text))
                    if self.random.random() < 0.3:
                        self.add("settings", f"run {with_}", "run", self.file(text), "--out", self.out())

    # Command lines.
    def commands(self, run):
        small = self.file(SMALL)
        for verb in ("run", "resume", "replay", "diff", "eval", "study", "panel", "check", "test", "graph", "model", "query", "report", "export", "show", "tap", "new"):
            self.add("command", f"{verb} alone", verb, code="fails")
            self.add("command", f"{verb} odd flag", verb, "--\x1b[31m", code="fails")
            self.add("command", f"{verb} empty", verb, "", code="fails")
        self.add("command", "no such verb", "\x1b]0;title\a", code="fails")
        for flag in ("workers", "threads", "process", "stall", "out", "hosts", "seeds", "set", "format"):
            for value in ("", "0", "-1", "1e9", "18446744073709551616", "x", "\x1b[1m", ".", "/", "/dev/null", "/proc/self/mem", "nan", "inf", "1,1", "1,,2"):
                self.add("command", f"run --{flag}={value}", "run", small, "--dry-run" if flag != "seeds" else "--threads=1", f"--{flag}={value}")
        for set_ in ("", "=", "a", "a=", "=1", "..=1", "nodes=1", "nodes..with=1", "nodes.rollout=", "nodes.rollout.with={", "nodes.rollout.with.samples=[1", "flow=\x1b[31m", "nodes." + "a." * 3000 + "b=1", "log[0]=x", "log.0=x",
                     "log.99999999999999=x", "log.-1=x", "models.actor=null", "nodes.x.op=rollout", "seed=" + "9" * 5000, "flow=" + "[" * 5000, "flow=*a", "flow=!!x", "flow=&a b", "nodes.tasks.with.batch=1: 2"):
            self.add("command", f"set {set_[:60]}", "check", small, "--set", set_)
        for hosts in ("", "\n\n", "a", "a:b", ":", "127.0.0.1:99999", "127.0.0.1:-1", "[::1]:0", "127.0.0.1:1\n127.0.0.1:1", "\x1b[31m:1", "x" * 100_000 + ":1", "127.0.0.1:0\n" * 2000):
            self.add("command", f"hosts {hosts[:30]!r}", "run", small, "--hosts", self.file(hosts, "txt"), "--dry-run")
        for name, sql in {
            "empty": "", "semicolon": ";", "two": "select 1; select 2", "drop": "drop table rollout", "copy": "copy rollout to 'x'", "attach": "attach 'x'", "pragma": "pragma version", "file": "from '/etc/passwd'",
            "csv": "from read_csv('/etc/passwd')", "text": "from read_text('/etc/passwd')", "glob": "from glob('/*')", "install": "install httpfs", "load": "load httpfs", "set": "set memory_limit='1TB'", "call": "call pragma_version()",
            "unclosed": "select 'a", "deep": "select " + "(" * 20_000 + "1" + ")" * 20_000, "deeper": "select " + "(" * 400 + "1" + ")" * 400, "minus": "select " + "- " * 5000 + "1", "wide": "select " + ",".join(["1"] * 5000),
            "escape": "select chr(27) || '[31m' || chr(7) || chr(155)", "nul": "select chr(0)", "many": "from range(3000000)", "cross": "select count(*) from range(1000000) a, range(100000) b where a.range = -b.range - 1",
            "unknown": "select * from nowhere", "column": "select nothing from rollout", "division": "select 1/0", "cast": "select 'x'::int", "huge text": "select repeat('x', 300000000)", "nested": "select [[[[1]]]], {'a': {'b': [1]}}, map {'a': 1}",
            "types": "select null, true, 1::hugeint, 1.5::decimal(38,10), now(), interval 1 day, uuid(), 'a'::blob, time '10:00', date '0001-01-01', 'nan'::float, '-inf'::float", "long": "select 1 -- " + "x" * 500_000,
            "unicode": "select '\u202e\u200b\ufeff'", "explain": "explain analyze select 1", "recursive": "with recursive a(x) as (select 1 union all select x + 1 from a where x < 100000) select max(x) from a",
        }.items():
            for format in ("table", "csv", "json"):
                if format == "table" or name not in ("escape", "many", "huge text", "nul", "unicode"):
                    self.add("command", f"query {name} {format}", "query", run, sql, "--format", format)
        for where in ("", "1 = ", "true; drop table x", "(select 1)", "x' or 1", "reward > 'a'", "task = chr(27)"):
            self.add("command", f"tap {where}", "tap", run, "rollout", "--where", where)
        for node in ("", "nothing", "../x", "\x1b[31m", 'a"b', "trajectories", "metrics", "errors"):
            self.add("command", f"tap {node!r}", "tap", run, node)
            self.add("command", f"show {node!r}", "show", run, "--node", node)
            self.add("command", f"eval {node!r}", "eval", run, "--panel", PANEL, "--node", node)
        for flags in (("--task", ""), ("--task", "\x1b"), ("--sample", "4294967295"), ("--iteration", "18446744073709551615"), ("--attempt", "-1"), ("--best", "--worst")):
            self.add("command", f"show {flags}", "show", run, *flags)
        for flags in (("--samples", "0"), ("--samples", "10001"), ("--attempts", "101"), ("--attempts", "0"), ("--temperature", "nan"), ("--temperature", "-1"), ("--temperature", "1e308"), ("--temperature", "inf"), ("--max-turns", "0"),
                      ("--max-turns", "4294967295"), ("--seed", "-1"), ("--seed", "18446744073709551615"), ("--set", "x"), ("--set", "log=[]"), ("--set", "models={}"), ("--out", "/"), ("--out", "/dev/null/x")):
            self.add("command", f"eval {flags}", "eval", run, "--panel", PANEL, *flags)
        for words in (("",), ("chess",), ("sokoban", "size=0"), ("sokoban", "size=1000"), ("sokoban", "boxes=-1"), ("sokoban", "size"), ("sokoban", "=1"), ("sokoban", "size=6", "size=7"), ("minesweeper", "mines=99"), ("minesweeper", "size=2", "mines=3"),
                      ("minesweeper", "--count", "0"), ("minesweeper", "size=2", "mines=1", "--count", "1000"), ("minesweeper", "--count", "-1"), ("minesweeper", "--count", "99999999999"), ("minesweeper", "--label", "../x"), ("minesweeper", "--label", "\x1b[31m"),
                      ("minesweeper", "--label", ""), ("minesweeper", "--out", "/dev/null"), ("process", "name=x"), ("process", "name=x", "command=[true]"), ("process", "name=x", "command=nothing")):
            self.add("command", f"panel {words}", "panel", *words, *([] if "--out" in words else ["--out", self.home / "panels"]), *([] if "--count" in words else ["--count", "3"]))
        for words in (("model", "show", "/"), ("model", "show", "/dev/zero"), ("model", "show", run), ("model", "fetch", "../../x"), ("model", "fetch", ""), ("new", "/"), ("new", run), ("new", "/dev/null/x.yaml"), ("new", self.home / "a b'c.yaml"),
                      ("new", self.home / "\x1b[31m.yaml"), ("completion", "csh"), ("completion", ""), ("ops", "nothing"), ("ops", "\x1b[31m"), ("schema", "x"), ("top", run), ("top", "/"), ("env", "nothing"), ("env", "install", "../x"),
                      ("export", run), ("export", "--tensorboard", "/dev/null/x", run), ("export", "--tensorboard", run / "manifest.json", run), ("report", run, run), ("report", run, "--out", "/"), ("report", run, "--out", "/dev/full"), ("report", "/", run),
                      ("diff", run, run), ("diff", run, "/"), ("diff", run, run, "--top", "99999999"), ("diff", run, run, "--node", "\x1b"), ("resume", run, "--iterations", "0"), ("resume", run, "--iterations", "18446744073709551615", "--stall", "x"),
                      ("replay", run, "--with", small, "--set", "iterations=99"), ("replay", run, "--with", "/dev/null"), ("replay", run, "--set", "nodes={}")):
            self.add("command", " ".join(map(str, words))[:80], *words)

    # Folders of runs whose manifest says what no run writes.
    def manifests(self, run):
        text = json.dumps(inline(run))
        verbs = {
            "query": lambda r: ("query", r, "select count(*) from rollout"), "show": lambda r: ("show", r), "tap": lambda r: ("tap", r, "rollout"), "top": lambda r: ("top", r), "report": lambda r: ("report", r),
            "diff": lambda r: ("diff", r, run), "eval": lambda r: ("eval", r, "--panel", PANEL, "--max-turns", 1), "resume": lambda r: ("resume", r, "--iterations", 3), "replay": lambda r: ("replay", r, "--out", self.out()),
            "export": lambda r: ("export", "--tensorboard", self.out(), r), "load": lambda r: ("check", self.file(SMALL.replace("{ new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1 }", f"{{ load: {r} }}"))),
        }

        def edit(change):
            value = json.loads(text)
            change(value)
            return json.dumps(value)

        def first(m):
            return m["committed"][0]

        odd = {"empty": "", "null": "null", "list": "[]", "object": "{}", "zeros": "\0" * 1000, "deep": "[" * 100_000, "open": '{"format":1,' * 5000, "twice": text + text, "text": '"x"', "number": "1e999"}
        odd |= {f"cut {n}": text[: len(text) * n // 12] for n in range(1, 12)}
        odd |= {f"{k}={json.dumps(v)[:40]}": edit(lambda m: m.update({k: v})) for k, values in {
            "format": (0, -1, 99, "1", None, 2**64), "status": ("odd", None, {"failed": "\x1b[31m" * 99}, 7), "iterations": (0, -1, 2**64 - 1, 2**64, "x"), "seed": (-1, 1.5, None), "committed": (None, {}, [None], [[]], 7),
            "nodes": ([], None, [{}], [{"id": "../x", "op": "rollout"}], [{"id": 'a" b', "op": "x"}] * 3, [{"id": "x" * 100_000, "op": "\x1b[31m"}], [{"id": "metrics", "op": "x"}]), "name": ("\x1b[2J", "", "x" * 100_000, None),
            "start": ([{}], None, [{"node": "", "model": "actor", "version": 0, "path": "../../x", "files": []}], [{"node": "", "model": "actor", "version": 7, "path": "weights/7/actor", "files": []}]),
            "keep": (None, {"last": 0}, {"every": 0}), "delay": (2**64 - 1, -1), "replays": ({}, {"run": "/", "nodes": {}}, {"run": "", "nodes": {"rollout": "rollout"}})}.items() for v in values}
        for name, change in {
            "iteration 2^63": lambda m: first(m).update(iteration=2**63), "iteration -1": lambda m: first(m).update(iteration=-1), "iteration 2^64-1": lambda m: m["committed"][-1].update(iteration=2**64 - 1), "no parts": lambda m: first(m).update(parts=[]),
            "part rows": lambda m: first(m)["parts"][0].update(rows=2**60), "part rows 0": lambda m: first(m)["parts"][0].update(rows=0), "part bytes": lambda m: first(m)["parts"][0].update(bytes=2**60), "part sum": lambda m: first(m)["parts"][0].update(sum=1),
            "part path": lambda m: first(m)["parts"][0].update(path="/etc/passwd"), "part up": lambda m: first(m)["parts"][0].update(path="../../x"), "part empty": lambda m: first(m)["parts"][0].update(path=""), "part folder": lambda m: first(m)["parts"][0].update(path="log"),
            "part quote": lambda m: first(m)["parts"][0].update(path="log/it's.parquet"), "part glob": lambda m: first(m)["parts"][0].update(path="log/*/*/*.parquet"), "part escape": lambda m: first(m)["parts"][0].update(path="log/\x1b[31m"), "part node": lambda m: first(m)["parts"][0].update(node="nothing"),
            "part twice": lambda m: first(m)["parts"].append(first(m)["parts"][0]), "part swapped": lambda m: first(m)["parts"][0].update(path=first(m)["parts"][1]["path"]), "worker": lambda m: first(m)["parts"][0].update(worker=2**64 - 1),
            "metrics text": lambda m: first(m).update(metrics={"rollout": {"success": "x"}}), "metrics odd": lambda m: first(m).update(metrics={"\x1b[31m": {"\x07": 1e308, "b": None}}), "metrics many": lambda m: first(m).update(metrics={f"n{i}": {"x": 1.0} for i in range(20_000)}),
            "seconds": lambda m: first(m).update(seconds=-1e308), "weights version": lambda m: first(m)["weights"][0].update(version=2**64 - 1), "weights path": lambda m: m["committed"][-1]["weights"][0].update(path="weights/0/actor"),
            "weights up": lambda m: first(m)["weights"][0].update(path="../../../x"), "weights model": lambda m: m["committed"][-1]["weights"][0].update(model="\x1b[31m"), "weights files": lambda m: m["committed"][-1]["weights"][0].update(files=[{"name": "../../pipeline.yaml", "bytes": 1, "sum": 1}]),
            "weights gone": lambda m: m["committed"][-1].update(weights=[]), "order": lambda m: m["committed"].reverse(), "twice committed": lambda m: m["committed"].append(first(m)),
        }.items():
            odd[name] = edit(change)
        for n in range(30):
            raw = bytearray((run / "manifest.json").read_bytes() if n % 2 else text.encode())
            raw[self.random.randrange(len(raw))] ^= 1 << self.random.randrange(8)
            odd[f"flipped {n}"] = bytes(raw)
        for name, content in odd.items():
            for verb in self.random.sample(sorted(verbs), 4):
                folder = self.copy(run)
                (folder / "manifest.json").write_bytes(content if isinstance(content, bytes) else content.encode())
                self.add("manifest", f"{verb} {name}", *verbs[verb](folder))
        for verb, command in verbs.items():
            for name, device in self.devices().items():
                if name in ("absent", "long", "socket"):
                    continue
                for file in ("manifest.json", "pipeline.yaml"):
                    folder = self.copy(run)
                    (folder / file).unlink()
                    (folder / file).symlink_to(device)
                    self.add("manifest", f"{verb} {file} is {name}", *command(folder))

    # Files of rows, with and without their sums.
    def parquet(self, run):
        paths = sorted((run / "log").rglob("*.parquet"))
        for n in range(90):
            folder = self.copy(run)
            path = folder / self.random.choice(paths).relative_to(run)
            raw = bytearray(path.read_bytes())
            how = n % 6
            if how == 0:
                raw = raw[: self.random.randrange(len(raw))]
            elif how == 1:
                raw += b"x"
            elif how == 2:
                raw[-8:-4] = self.random.randrange(2**32).to_bytes(4, "little")
            elif how == 3:
                raw = bytearray(self.random.randbytes(len(raw)))
            else:
                span = range(4, len(raw)) if how == 4 else range(max(4, len(raw) - 3000), len(raw))
                for _ in range(self.random.randrange(1, 20)):
                    raw[self.random.choice(span)] = self.random.randrange(256)
            path.write_bytes(raw)
            manifest = inline(folder)
            known = bool(n % 2)
            for part in (p for i in manifest["committed"] for p in i["parts"]):
                if folder / part["path"] == path:
                    part["bytes"] = len(raw)
                    if not known:
                        part.pop("sum", None)
            (folder / "manifest.json").write_text(json.dumps(manifest))
            node = path.relative_to(folder).parts[1]
            verb = self.random.choice([("query", folder, f'select * from "{node}"', "--format", "csv"), ("replay", folder, "--out", self.out()), ("report", folder), ("diff", folder, run), ("show", folder), ("tap", folder, node),
                                       ("resume", folder, "--iterations", 3)])
            self.add("parquet", f"{verb[0]} {path.name} of {node} {'cut longer footer random pages tail'.split()[how]} {'with' if known else 'without'} its sum", *verb)

    # Weights and models.
    def models(self, run):
        newest = max((run / "weights").iterdir(), key=lambda v: int(v.name)) / "actor"
        like = ("--like", run / "pipeline.yaml", "--panel", PANEL, "--max-turns", 1)
        header = lambda text, rest=b"": len(text.encode()).to_bytes(8, "little") + text.encode() + rest

        def both(name, folder, code=None):
            self.add("model", f"eval {name}", "eval", folder, *like, code=code)
            self.add("model", f"show {name}", "model", "show", folder)

        for name in ("config.json", "vocabulary.json", "model.safetensors"):
            for what, content in {"empty": b"", "null": b"null", "list": b"[]", "object": b"{}", "text": b'"x"', "deep": b"[" * 100_000, "zeros": b"\0" * 4096, "random": self.random.randbytes(4096), "nan": b"NaN", "bom": b"\xef\xbb\xbf{}",
                                  "huge header": (2**63).to_bytes(8, "little") + b"x" * 99, "header": header("{}"), "header list": header("[]"), "header deep": header("[" * 50_000),
                                  "header odd": header('{"a":{"dtype":"F32","shape":[18446744073709551615,2],"data_offsets":[0,8]}}', b"12345678"), "header back": header('{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}', b"12345678"),
                                  "header name": header('{"\\u001b[31m":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', b"12345678"), "words": json.dumps(["\x1b[31m", "", "\0"] * 5000).encode(), "numbers": b"[1,2,3]"}.items():
                folder = self.copy(newest)
                (folder / name).write_bytes(content)
                both(f"{name} {what}", folder, code="fails")
            for device, path in self.devices().items():
                if device in ("fifo", "zeros", "folder", "loop", "nothing"):
                    folder = self.copy(newest)
                    (folder / name).unlink()
                    (folder / name).symlink_to(path)
                    both(f"{name} is {device}", folder, code="fails")
        config = json.loads((newest / "config.json").read_text())
        for key in config["shape"]:
            for value in (-1, 0, 1, 7, 2**31, 2**63, 2**64, 1e300, "x", None, [], {}):
                folder = self.copy(newest)
                (folder / "config.json").write_text(json.dumps({**config, "shape": {**config["shape"], key: value}}))
                both(f"shape.{key}={value}", folder)
        for n in range(30):
            folder = self.copy(newest)
            path = folder / "model.safetensors"
            raw = bytearray(path.read_bytes())
            for _ in range(self.random.randrange(1, 8)):
                raw[self.random.randrange(len(raw) if n % 2 else 1500)] = self.random.randrange(256)
            path.write_bytes(raw if n % 3 else raw[: self.random.randrange(len(raw))])
            both(f"weights changed {n}", folder)
        for word in (float("nan"), float("inf"), -float("inf"), 3e38):
            folder = self.copy(newest)
            path = folder / "model.safetensors"
            raw = path.read_bytes()
            start = 8 + int.from_bytes(raw[:8], "little")
            path.write_bytes(raw[:start] + struct.pack("<f", word) * ((len(raw) - start) // 4))
            self.add("model", f"eval all {word}", "eval", folder, *like, code="fails" if word != 3e38 else None)
        for model in sorted(p.parent for p in MODELS.glob("*/config.json")):
            config = json.loads((model / "config.json").read_text())
            for key in sorted(config):
                for value in self.random.sample([-1, 0, 1, 3, 2**31, 2**63, 1e300, "x", None, [], {}, True, "\x1b[31m", {"rope_type": "x"}], 3):
                    folder = self.copy(model)
                    (folder / "config.json").write_text(json.dumps({**config, key: value}))
                    self.add("model", f"{model.name} {key}={value!r}", "model", "show", folder)
        qwen = MODELS / "qwen3"
        tokenizer = (qwen / "tokenizer.json").read_text()
        use = SMALL.replace("{ new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1 }", "{ load: FOLDER }").replace("max_turns: 3", "max_turns: 2, prompt: full, max_tokens: 2, decode: free")
        for name, template in {"endless": "{% for a in range(1000000000) %}x{% endfor %}", "long": "{{ 'x' * 1000000000 }}", "recursive": "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "error": "{{ raise_exception('\x1b[31m') }}", "unclosed": "{% if",
                               "include": "{% include '/etc/passwd' %}", "empty": "", "undefined": "{{ a.b.c.d }}", "divide": "{{ 1 // 0 }}", "deep": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "import": "{% import 'x' as y %}",
                               "nested": "".join("{% for a in range(1000) %}" for _ in range(6)) + "x" + "{% endfor %}" * 6, "filter": "{{ 'a' | nothing }}", "nul": "\0"}.items():
            folder = self.copy(qwen)
            (folder / "chat_template.jinja").write_text(template)
            self.add("model", f"template {name}", "run", self.file(use.replace("FOLDER", str(folder))), "--out", self.out(), "--threads", 1)
        for n in range(25):
            folder, raw = self.copy(qwen), bytearray(tokenizer.encode())
            for _ in range(self.random.randrange(1, 5)):
                raw[self.random.randrange(len(raw))] = self.random.randrange(32, 127)
            (folder / "tokenizer.json").write_bytes(raw if n % 4 else raw[: self.random.randrange(len(raw))])
            self.add("model", f"tokenizer changed {n}", "run", self.file(use.replace("FOLDER", str(folder))), "--out", self.out(), "--threads", 1)
        for n in range(25):
            raw = b"GGUF" + (3).to_bytes(4, "little") + self.random.choice([0, 1, 5, 2**32, 2**63]).to_bytes(8, "little") + self.random.choice([0, 1, 3, 2**40, 2**63]).to_bytes(8, "little") + self.random.randbytes(self.random.randrange(400))
            self.add("model", f"gguf {n}", "model", "convert", self.file(raw[: self.random.randrange(4, len(raw))] if n % 3 else raw, "gguf"), self.out(), code="fails", message=GGUF)
        for name, device in self.devices().items():
            self.add("model", f"load {name}", "check", self.file(SMALL.replace("{ new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1 }", json.dumps({"load": str(device)}))))

    # Panels, prompts, studies and tests of pipelines.
    def others(self, run):
        panel = json.loads(PANEL.read_text())
        odd = {"empty": b"", "null": b"null", "list": b"[]", "object": b"{}", "deep": b"[" * 100_000, "cut": PANEL.read_bytes()[:2000], "random": self.random.randbytes(5000), "escape": json.dumps({**panel, "name": "\x1b[31m"}).encode()}
        for key in panel:
            for value in (None, "", 7, [], {}, ["x"], ["\x1b[31m"] * 3, "x" * 100_000, ["minesweeper-4x4-m2-s" + "9" * 50]):
                odd[f"{key}={json.dumps(value)[:30]}"] = json.dumps({**panel, key: value}).encode()
        for name, content in odd.items():
            path = self.file(content, "json")
            self.add("panel", f"eval {name}", "eval", run, "--panel", path, code="fails")
            self.add("panel", f"check {name}", "check", self.file(LOOPED.replace(str(PANEL), str(path))), code="fails")
        for name, device in self.devices().items():
            if name == "socket":
                continue
            device = str(device)
            self.add("device", f"panel {name}", "eval", run, "--panel", device, code="fails")
            self.add("device", f"panel of evaluate {name}", "check", self.file(LOOPED.replace(str(PANEL), json.dumps(device))), code="fails")
            self.add("device", f"prompt {name}", "run", self.file(LOOPED.replace('tag: ""', f'tag: "", prompt: {json.dumps(device)}')), "--out", self.out(), code=None if name == "nothing" else "fails")
            for verb in ("check", "graph", "test", "study"):
                self.add("device", f"{verb} {name}", verb, device, code="fails")
            self.add("device", f"like {name}", "eval", run, "--panel", PANEL, "--like", device, code="fails")
            self.add("device", f"hosts {name}", "run", self.file(SMALL), "--hosts", device, "--dry-run")
            self.add("device", f"with {name}", "replay", run, "--with", device, code="fails")
            for verb in (("query", device, "select 1"), ("show", device), ("tap", device, "x"), ("top", device), ("report", device), ("diff", device, run), ("resume", device), ("replay", device), ("eval", device, "--panel", PANEL),
                         ("export", "--tensorboard", self.out(), device), ("model", "show", device)):
                self.add("device", f"{verb[0]} of {name}", *verb, code="fails")
        study = (ROOT / "papers/sokoban/study.yaml").read_text()
        for n in range(40):
            text = list(study)
            for _ in range(self.random.randrange(1, 30)):
                text[self.random.randrange(len(text))] = self.random.choice("[]{}:,-#&*'\"\n \0")
            self.add("study", f"changed {n}", "study", self.file("".join(text)), "--dry-run")
        for name, text in {"empty": "", "list": "[]", "null": "~", "deep": "[" * 100_000, "only name": "study: x", "odd": "study: x\nruns: {a: {pipeline: /dev/zero}}\n", "escape": 'study: "\\e[31m"\nruns: {}'}.items():
            self.add("study", name, "study", self.file(text), "--dry-run", code="fails")
        for n, rows in enumerate(("[]", "[{}]", "[1]", "~", "x", "[{ task: 1 }]", '[{ task: "\\e[31m", sample: 0 }]', "[{ task: a, sample: -1 }]", "[{ task: a, sample: 1e9, reward: .nan }]", "nothing.jsonl", "/dev/zero", "/etc/passwd")):
            for place in ("given", "expect"):
                given, expect = (f"{{ rollout: {rows} }}", "{ advantage: [] }") if place == "given" else ("{ rollout: [] }", f"{{ advantage: {rows} }}")
                self.add("test", f"{place} {rows}", "test", self.file(SMALL + f"tests:\n  - name: odd\n    given: {given}\n    expect: {expect}\n"))

    # Programs that play environments.
    def programs(self):
        changes = {
            "fine": "", "exits": "sys.exit(3)", "garbage": "print('DEBUG', flush=True)", "flood": "while True: print('x' * 1000)", "no newline": "\nwhile True: sys.stdout.write('x' * 65536)", "flood of errors": "\nfor i in range(100000): print('\\x1b[31m' + 'e' * 1000, file=sys.stderr)\nsys.exit(1)",
            "silent": "time.sleep(1000)", "closes": "os.close(1); time.sleep(1000)", "nan": "change = lambda k, a: {**a, 'reward': float('nan')} if k == 'step' else a", "inf": "change = lambda k, a: {**a, 'reward': float('inf')} if k == 'step' else a",
            "huge": "change = lambda k, a: {**a, 'reward': 1e308} if k == 'step' else a", "text reward": "change = lambda k, a: {**a, 'reward': 'x'} if k == 'step' else a", "no reward": "change = lambda k, a: {'episode': a['episode'], 'observation': 'a'} if k == 'step' else a",
            "list": "change = lambda k, a: [[a]]", "nothing": "change = lambda k, a: None if k == 'step' else a", "twice": "change = lambda k, a: json.dumps(a) + '\\n' + json.dumps(a)", "deep": "change = lambda k, a: '[' * 100000 if k == 'step' else a", "null": "change = lambda k, a: 'null'",
            "other episode": "change = lambda k, a: {**a, 'episode': 99999} if k == 'step' else a", "episode 2^64": "change = lambda k, a: {**a, 'episode': 2**64} if k == 'step' else a", "escape": "change = lambda k, a: {**a, 'observation': '\\x1b[31m\\x07\\x9b\\x00'} if 'observation' in a else a",
            "escape actions": "change = lambda k, a: {**a, 'actions': ['\\x1b[31m', '\\x9b']} if 'actions' in a else a", "escape error": "change = lambda k, a: {'episode': a['episode'], 'error': '\\x1b[31m\\x07'} if k == 'step' else a",
            "long": "change = lambda k, a: {**a, 'observation': 'x' * 900000} if 'observation' in a else a", "too long": "change = lambda k, a: {**a, 'observation': 'x' * 20000000} if 'observation' in a else a", "no observation": "change = lambda k, a: {**a, 'observation': ''} if 'observation' in a else a",
            "many actions": "change = lambda k, a: {**a, 'actions': [str(i) for i in range(20000)]} if 'actions' in a else a", "no actions": "change = lambda k, a: {**a, 'actions': []} if 'actions' in a else a", "odd actions": "change = lambda k, a: {**a, 'actions': {'drop': [9], 'add': [[-1, 'x']]}} if 'actions' in a else a",
            "unknown": "change = lambda k, a: {**a, 'odd': 1} if k == 'step' else a", "info": "change = lambda k, a: {**a, 'info': {'\\x1b': 1}} if k == 'step' else a", "score": "change = lambda k, a: {**a, 'score': 1e308} if k == 'step' else a", "utf-8": "\nsys.stdout.buffer.write(b'\\xff\\xfe\\n'); sys.stdout.flush()",
            "children": "import subprocess; subprocess.Popen(['sleep', '1000'])", "deaf": "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); change = lambda k, a: time.sleep(1000) if k == 'step' else a",
        }
        hello = {"version 0": {"protocol": 0}, "version 99": {"protocol": 99}, "version text": {"protocol": "2"}, "no splits": {"protocol": 2}, "splits": {"protocol": 2, "splits": {}}, "split 0": {"protocol": 2, "splits": {"train": 0}}, "split -1": {"protocol": 2, "splits": {"train": -1}},
                 "split 2^63": {"protocol": 2, "splits": {"train": 2**63}}, "split 2^64": {"protocol": 2, "splits": {"train": 2**64}}, "names": {"protocol": 2, "splits": {"train": ["\x1b[31m", ""]}}, "names twice": {"protocol": 2, "splits": {"train": ["a", "a"]}}, "split name": {"protocol": 2, "splits": {"\x1b": 3}},
                 "live 0": {"protocol": 2, "splits": {"train": 3}, "live": 0}, "live -1": {"protocol": 2, "splits": {"train": 3}, "live": -1}, "abilities": {"protocol": 2, "splits": {"train": 3}, "abilities": ["fly"]}, "words": {"protocol": 2, "splits": {"train": 3}, "words": ["x"] * 70_000},
                 "odd words": {"protocol": 2, "splits": {"train": 3}, "words": ["\x1b[31m", "", "\0"]}, "rules": {"protocol": 2, "splits": {"train": 3}, "rules": "\x1b[2J" * 9999}, "world": {"protocol": 2, "splits": {"train": 3}, "world": "\x1b[31m\x07"}, "score": {"protocol": 2, "splits": {"train": 3}, "score": [5, 1]},
                 "range": {"protocol": 2, "splits": {"train": 3}, "score": [-1e308, 1e308]}}
        for name, answer in hello.items():
            changes[f"hello {name}"] = f"change = lambda k, a: json.loads({json.dumps(json.dumps(answer))!s}) if k == 'hello' else a"
        for name, change in changes.items():
            program = self.file(SERVER.replace("CHANGE", change), "py")
            text = PROGRAM.replace("COMMAND", json.dumps([sys.executable, str(program)]))
            out = self.out()
            self.add("program", f"check {name}", "check", self.file(text))
            self.add("program", f"run {name}", "run", self.file(text), "--out", out, code=0 if name == "fine" else None)
        for command in ([], [""], ["/"], ["."], ["/dev/null"], ["/etc/passwd"], ["no-such-program"], ["\x1b[31m"], ["true"], ["false"], ["cat"], ["yes"], ["cat", "/dev/zero"], ["cat", "/dev/urandom"], ["sh", "-c", "kill -9 $$"], ["sh", "-c", "kill -SEGV $$"], ["sleep", "1000"]):
            text = PROGRAM.replace("COMMAND", json.dumps(command))
            if command != ["sleep", "1000"]:
                self.add("program", f"check {command}", "check", self.file(text), code="fails")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="cases in whose kind or name this stands")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, help="so many of the cases, drawn by the seed")
    parser.add_argument("--count", action="store_true", help="only says how many there are")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", type=Path, help="where the files are made, and stay")
    options = parser.parse_args()
    if subprocess.run(["python3", "-c", "import gguf"], env=ENV, capture_output=True).returncode != 0:
        sys.exit("python3 has no package gguf, or no numpy: `make hostile` fetches both")
    print(load())
    with tempfile.TemporaryDirectory() as folder:
        home = options.keep or Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        hostile = Hostile(home, options.seed)
        run = home / "run"
        if not run.exists():
            subprocess.run([FLOW, "run", hostile.file(SMALL), "--out", run], env=ENV, check=True, capture_output=True)
        hostile.texts()
        hostile.settings()
        hostile.commands(run)
        hostile.manifests(run)
        hostile.parquet(run)
        hostile.models(run)
        hostile.others(run)
        hostile.programs()
        cases = [c for c in hostile.cases if options.only in f"{c.kind} {c.name}"]
        if options.sample:
            cases = random.Random(options.seed).sample(cases, min(options.sample, len(cases)))
        if options.count:
            return print(Counter(c.kind for c in cases), len(cases))
        tally, kinds, start = Counter(), Counter(), time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for case, (found, said) in zip(cases, pool.map(lambda case: play(case, home), cases)):
                kinds[case.kind] += 1
                tally.update(found)
                if found:
                    words = " ".join(a if re.fullmatch(r"[\w./=:,-]+", a) else repr(a)[:200] for a in case.arguments)
                    last = repr(said.strip()[-300:])
                    print(f"{', '.join(found)}: [{case.kind}] {case.name[:120]!r}\n    flow {words}\n    {last}", flush=True)
        print(f"{len(cases)} commands in {time.monotonic() - start:.0f} s: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))
        print("found: " + (", ".join(f"{n} {what}" for what, n in tally.most_common()) or "nothing"))
        raise SystemExit(1 if tally else 0)


if __name__ == "__main__":
    main()
