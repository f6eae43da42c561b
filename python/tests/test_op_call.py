"""Without a process: decorated functions as plain functions, `flow_op.call`, chance, and `python -m flow_op check`."""

import importlib.util
import os
import random
import subprocess
import sys
import unittest

import flow_op

from .op_client import HERE, NEEDS_ARROW, PATH, Asking, table

NEEDS_NUMPY = unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy isn't installed")


class Chance(unittest.TestCase):
    def test_the_seed_is_0_outside_a_run(self):
        self.assertEqual(flow_op.seed(), 0)
        with flow_op.seeded(2**64 - 1):
            self.assertEqual(random.Random(flow_op.seed()).random(), random.Random(2**64 - 1).random())
            with flow_op.seeded(5):
                self.assertEqual(flow_op.seed(), 5)
            self.assertEqual(flow_op.seed(), 2**64 - 1)
        self.assertEqual(flow_op.seed(), 0)
        for wrong in (-1, 2**64, 0.5, True, "1"):
            with self.assertRaises(ValueError), flow_op.seeded(wrong):
                pass

    @NEEDS_NUMPY
    def test_a_generator_goes_on_within_a_call_and_begins_anew_in_the_next(self):
        with flow_op.seeded(3):
            first = [flow_op.rng().random(), flow_op.rng().random()]
        with flow_op.seeded(3):
            self.assertEqual([flow_op.rng().random(), flow_op.rng().random()], first)
        self.assertNotEqual(*first)
        self.assertEqual(flow_op.rng().random(), flow_op.rng().random())

    def test_without_numpy_the_error_names_seed(self):
        code = "import sys; sys.modules['numpy'] = None\nimport flow_op\nprint(flow_op.seed())\nflow_op.rng()"
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": HERE}, capture_output=True, text=True)
        self.assertEqual(done.stdout, "0\n")
        self.assertIn("ImportError: flow_op.rng() is a generator of numpy", done.stderr)
        self.assertIn("flow_op.seed()", done.stderr.splitlines()[-1])


@NEEDS_ARROW
class Called(unittest.TestCase):
    def setUp(self):
        import pyarrow as pa
        import pyarrow.compute as pc

        @flow_op.columns(needs=["reward", "return"], adds={"derived_x": pa.float32()})
        def centred(rows, *, share: float = 1.0):
            "The reward less its mean."
            self.seen = rows
            return {"derived_x": pc.subtract(rows["reward"], share * pc.mean(rows["reward"]).as_py())}

        @flow_op.columns(needs=["reward"], adds={"derived_x": pa.float32()}, state={"mean": 0.0})
        def running(rows, *, state):
            mean = 0.5 * state["mean"] + 0.5 * pc.mean(rows["reward"]).as_py()
            return {"derived_x": pc.subtract(rows["reward"], state["mean"])}, {"mean": mean}

        @flow_op.columns(adds={"derived_x": pa.float32()})
        def drawn(rows):
            return {"derived_x": [flow_op.rng().random()] * rows.num_rows}

        self.pa, self.centred, self.running, self.drawn = pa, centred, running, drawn

    def test_a_plain_function(self):
        rows = self.pa.table({"reward": [1.0, 3.0]})
        self.assertEqual(self.centred(rows)["derived_x"].to_pylist(), [-1, 1])
        self.assertEqual((self.centred.__name__, self.centred.__doc__), ("centred", "The reward less its mean."))
        self.assertEqual(self.drawn(rows), self.drawn(rows))
        with flow_op.seeded(1):
            self.assertNotEqual(self.drawn(rows), self.drawn(rows))

    def test_the_checks_of_a_run(self):
        made = flow_op.call(self.centred, {"reward": [1.0, 3.0], "return": [0, 0], "done": [True, False]}, share=0.5)
        self.assertEqual(made["derived_x"].to_pylist(), [0, 2])
        self.assertEqual(made["sample"].to_pylist(), [0, 1])
        self.assertEqual(self.seen.column_names, ["iteration", "task", "sample", "attempt", "turn", "phase", "reward", "return"])
        self.assertEqual((str(self.seen["reward"].type), str(self.seen["return"].type)), ("float", "uint64"))
        for rows, settings, words in [
            ({"reward": [1.0]}, {}, "the rows lack the column `return`"),
            ({"reward": [1.0], "return": [0.0]}, {"shar": 1}, "there is no setting `shar`"),
            ({"reward": [1.0], "return": [0.0]}, {"share": "1"}, "setting `share` is '1'"),
            ({"reward": [float("nan")], "return": [0.0]}, {}, "column `derived_x` is nan"),
        ]:
            with self.assertRaises(flow_op.Error) as caught:
                flow_op.call(self.centred, rows, **settings)
            self.assertIn(words, str(caught.exception))
        with self.assertRaises(flow_op.Error):
            flow_op.call(len, {})

    def test_a_state(self):
        rows, state = {"reward": [1.0, 3.0]}, None
        for mean, first in ((1.0, 1.0), (1.5, 0.0), (1.75, -0.5)):
            made, state = flow_op.call(self.running, rows, state=state)
            self.assertEqual((state, made["derived_x"].to_pylist()[0]), ({"mean": mean}, first))

    @NEEDS_NUMPY
    def test_chance_is_that_of_the_test(self):
        with flow_op.seeded(1):
            first = flow_op.call(self.drawn, table())
        with flow_op.seeded(2):
            second = flow_op.call(self.drawn, table())
        self.assertNotEqual(first, second)


@NEEDS_ARROW
class Printed(Asking):
    def check(self, call):
        env = {**os.environ, "PYTHONPATH": PATH}
        done = subprocess.run([sys.executable, "-m", "flow_op", *call], cwd=self.folder, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr

    def test_a_description(self):
        self.write("m.py", """
            from typing import Literal

            @flow_op.columns(needs=["reward"], adds={"derived_x": pa.float32()})
            def f(rows, *, alpha: float = 0.5, kind: Literal["a", "b"], names: list[str] = []):
                "What it means."
                return {}
            """)
        code, out, _ = self.check(["check", "m.py:f"])
        self.assertEqual(code, 0)
        for line in ("  What it means.", "needs     reward", "adds      derived_x: f32", "settings  alpha: number, default 0.5", "          kind: 'a' or 'b', required",
                     "          names: array of string, default []", "state     none"):
            self.assertIn(line, out.splitlines())

    def test_a_mistake(self):
        path = self.write("m.py", "def f(rows):\n    return 1 +\n")
        code, out, err = self.check(["check", "m.py:f"])
        self.assertEqual((code, out), (1, ""))
        self.assertIn(f"{path}:5: m.py line 5: invalid syntax", err)
        self.assertEqual(self.check(["chek"])[0], 2)


if __name__ == "__main__":
    unittest.main()
