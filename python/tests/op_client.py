"""Speaks with `python -m flow_op` as flow does: real pipes, and functions written to a folder."""

import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PATH = os.pathsep.join([HERE, *(os.path.abspath(one) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one)])
"""Absolute, for processes in another folder."""
LENGTHS = struct.Struct("<IQ")
ARROW = importlib.util.find_spec("pyarrow") is not None
NEEDS_ARROW = unittest.skipUnless(ARROW, "pyarrow isn't installed")
HEAD = """\
import flow_op, os, sys, time
import pyarrow as pa
import pyarrow.compute as pc
"""


class Process:
    def __init__(self, env=None, flags=("-u",), path=None):
        env = {**os.environ, "PYTHONPATH": path or PATH, **(env or {})}
        self.process = subprocess.Popen([sys.executable, *flags, "-m", "flow_op"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        self.errors = []
        self.drain = threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True)
        self.drain.start()

    def ask(self, header, body=b""):
        head = header if isinstance(header, bytes) else json.dumps(header).encode()
        self.process.stdin.write(LENGTHS.pack(len(head), len(body)) + head)
        self.process.stdin.write(body)
        self.process.stdin.flush()
        return self.read()

    def read(self):
        lengths = self.process.stdout.read(LENGTHS.size)
        if len(lengths) < LENGTHS.size:
            return None, lengths
        head, size = LENGTHS.unpack(lengths)
        return json.loads(self.process.stdout.read(head)), self.process.stdout.read(size)

    def stderr(self):
        """Everything that was printed; ends the process."""
        self.close()
        return b"".join(self.errors).decode()

    def close(self):
        """Ends the input; gives the exit status. Fails if anything but answers was written."""
        if self.process.stdout.closed:
            return self.process.returncode
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        left = self.process.stdout.read()
        self.process.stdout.close()
        code = self.process.wait(20)
        self.drain.join(5)
        self.process.stderr.close()
        assert left == b"", left
        return code


def table(**columns):
    """Rows with names: two tasks of two samples of two turns, unless `columns` say otherwise."""
    import pyarrow as pa

    named = {
        "iteration": pa.array([7] * 8, pa.uint64()), "task": pa.array(["a"] * 4 + ["b"] * 4), "sample": pa.array([0, 0, 1, 1] * 2, pa.uint32()),
        "attempt": pa.array([0] * 8, pa.uint32()), "turn": pa.array([0, 1] * 4, pa.uint32()), "phase": pa.array(["play"] * 8),
    }
    return pa.table({**named, "reward": pa.array([0, 1, 0, 0, 1, 1, 0, 2], pa.float32()), **columns})


def ipc(rows):
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


class Asking(unittest.TestCase):
    """A test that writes functions and asks a process of them."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = os.path.realpath(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)
        self.op = None

    def start(self, **options):
        if self.op:
            self.op.close()
        self.op = Process(**options)
        self.addCleanup(self.op.close)
        return self.op

    def write(self, name, text, head=HEAD):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(head + textwrap.dedent(text))
        return path

    def describe(self, call, **more):
        op = self.op or self.start()
        return op.ask({"do": "describe", "protocol": 1, "call": call, "folder": self.folder, **more})[0]

    def declare(self, text, name="f", head=HEAD):
        """Describes the function `name` of a file with this text."""
        self.write("m.py", text, head)
        return self.describe(f"m.py:{name}")

    def run_rows(self, rows=None, ends=None, **more):
        """The answer's header and table."""
        import pyarrow as pa

        rows = table() if rows is None else rows
        groups = [{"end": end, "seed": 100 + at, "name": f"group {at}"} for at, end in enumerate(ends or [rows.num_rows])]
        header, body = self.op.ask({"do": "run", "settings": {}, "seed": 5, "iteration": 7, "groups": groups, "state": None, "check": False, **more}, ipc(rows))
        if header is None or "error" in header:
            return header, None
        batches = list(pa.ipc.open_stream(body))
        self.assertEqual(len(batches), 1)
        self.assertEqual(batches[0].num_rows, header["ok"]["rows"])
        return header, batches[0].to_pydict()

    def values(self, text, column="derived_x", **more):
        """The column that the function `f` of this text adds."""
        said = self.declare(text)
        self.assertIn("ok", said, said)
        header, rows = self.run_rows(**more)
        self.assertIn("ok", header, header)
        return rows[column]

    def error(self, text, **more):
        """The error of a run of the function `f`."""
        said = self.declare(text)
        self.assertIn("ok", said, said)
        header, _ = self.run_rows(**more)
        self.assertIn("error", header)
        return header["error"]
