"""A function of a user's file, described and run over real pipes."""

import hashlib
import os
import unittest

from .op_client import HERE, NEEDS_ARROW, PATH, Asking, table

CREDIT = """
from neighbour import half

@flow_op.columns(needs=["reward", "sample", "turn"], adds={"advantage": pa.float32()})
def f(rows: pa.Table, *, alpha: float = 0.5, kind: str, free=None) -> pa.Table:
    '''What the column means.

    More of it.'''
    reward = rows["reward"]
    return pa.table({"advantage": pc.multiply(pc.subtract(reward, pc.mean(reward)), 2 * half() * alpha)})
"""
SUM = """
@flow_op.columns(needs=["reward"], adds={"derived_x": pa.float32()})
def f(rows):
    return pa.table({"derived_x": pc.add(rows["reward"], 0 * pc.sum(rows["reward"]).as_py())})
"""


@NEEDS_ARROW
class Described(Asking):
    def test_what_a_function_needs_adds_and_takes(self):
        neighbour = self.write("neighbour.py", "def half():\n    return 0.5\n", head="")
        path = self.write("sub/m.py", CREDIT)
        os.rename(neighbour, os.path.join(self.folder, "sub", "neighbour.py"))
        said = self.describe("sub/m.py:f")["ok"]
        self.assertEqual((said["form"], said["needs"], said["adds"]), ("columns", ["reward", "sample", "turn"], {"advantage": "f32"}))
        self.assertEqual(said["settings"], {
            "alpha": {"schema": {"type": "number"}, "required": False, "default": 0.5},
            "kind": {"schema": {"type": "string"}, "required": True},
            "free": {"schema": {}, "required": False, "default": None},
        })
        self.assertEqual((said["state"], said["ordered"], said["about"]), (False, False, "What the column means.\n\nMore of it."))
        self.assertEqual([one["path"] for one in said["files"]], [path, os.path.join(self.folder, "sub", "neighbour.py")])
        with open(path, "rb") as file:
            self.assertEqual(said["files"][0]["sha256"], hashlib.sha256(file.read()).hexdigest())
        self.assertIn("pyarrow", said["versions"])

    def test_each_annotation_has_a_schema(self):
        said = self.declare("""
            from typing import Any, Dict, List, Literal, Optional

            @flow_op.rows(needs="all", ordered=True, state={"mean": 0.0})
            def f(rows, *, state, a: int, b: bool = True, c: list[float] = [1], d: dict, e: Literal["x", "y"] = "x", g: Optional[int] = None, h: "List[str]",
                  i: Dict[str, float] = {}, j: Any = 0):
                return rows, state
            """)["ok"]
        schemas = {name: one["schema"] for name, one in said["settings"].items()}
        self.assertEqual(schemas, {
            "a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {"type": "array", "items": {"type": "number"}}, "d": {"type": "object"},
            "e": {"enum": ["x", "y"]}, "g": {"type": ["integer", "null"]}, "h": {"type": "array", "items": {"type": "string"}},
            "i": {"type": "object", "additionalProperties": {"type": "number"}}, "j": {},
        })
        self.assertEqual(said["settings"]["c"]["default"], [1.0])
        self.assertEqual((said["form"], said["needs"], said["adds"], said["state"], said["ordered"]), ("rows", "all", {}, True, True))

    def test_a_module_of_a_package_and_an_edited_file(self):
        self.write("pack/__init__.py", "", head="")
        self.write("pack/mine.py", SUM)
        said = self.describe("pack.mine:f")["ok"]
        self.assertEqual([os.path.relpath(one["path"], self.folder) for one in said["files"]], ["pack/mine.py", "pack/__init__.py"])
        self.write("pack/mine.py", SUM.replace("derived_x", "derived_y"))
        self.assertEqual(self.describe("pack.mine:f")["ok"]["adds"], {"derived_y": "f32"})

    def test_a_file_with_the_name_of_a_module_hides_none(self):
        self.write("json.py", SUM)
        self.assertIn("ok", self.describe("json.py:f"))
        self.assertIn("ok", self.run_rows()[0])

    def test_packages_below_the_folder_are_no_files_of_the_user(self):
        self.write("venv/installed.py", "x = 1\n", head="")
        self.write("m.py", "import installed\n" + SUM)
        self.start(path=os.pathsep.join([PATH, os.path.join(self.folder, "venv")]))
        self.assertEqual([one["path"] for one in self.describe("m.py:f")["ok"]["files"]], [os.path.join(self.folder, "m.py")])

    def test_what_cannot_be_described(self):
        column = "@flow_op.columns(adds={'derived_x': pa.float32()})\n"
        for text, kind, words, line in [
            ("def f(rows):\n    return rows\n", "signature", "`f` isn't decorated: write @flow_op.columns", 4),
            ("g = 1\n", "import", "m.py has no function `f`", None),
            ("def f(:\n", "import", "m.py line 4: invalid syntax", 4),
            ("x = 1\n1 / 0\n", "import", "importing m.py raises ZeroDivisionError: division by zero", 5),
            ("raise SystemExit(3)\n", "import", "raises SystemExit: 3", 4),
            ("import no_such_package\n", "missing", "m.py imports no_such_package", 4),
            (column + "def f(rows, alpha):\n    return rows\n", "signature", "a second positional parameter `alpha`", 4),
            (column + "def f(rows, *more):\n    return rows\n", "signature", "a parameter `*more`", 4),
            (column + "def f(rows, **more):\n    return rows\n", "signature", "a parameter `**more`", 4),
            (column + "def f(*, alpha=1):\n    return rows\n", "signature", "takes no rows", 4),
            (column + "def f():\n    return rows\n", "signature", "takes no rows", 4),
            (column + "def f(rows, *, a: pa.Table):\n    return rows\n", "signature", "the annotation `pyarrow.lib.Table`", 4),
            (column + "def f(rows, *, a: int = 0.5):\n    return rows\n", "signature", "the default of setting `a` is 0.5", 4),
            (column + "def f(rows, *, a: 'nothing' = 1):\n    return rows\n", "signature", "the annotation `nothing` of setting `a` can't be read", 4),
            (column + "def f(rows, *, state):\n    return rows\n", "signature", "its decorator declares none", 4),
            (column + "def f(rows):\n    yield rows\n", "signature", "is a generator", 4),
            (column + "async def f(rows):\n    return rows\n", "signature", "`f` is async", 4),
            ("@flow_op.columns\ndef f(rows):\n    return rows\n", "signature", "needs parentheses", 4),
            ("@flow_op.columns(needs=['reward'])\ndef f(rows):\n    return rows\n", "signature", "adds no column", 4),
            ("@flow_op.columns(needs='reward', adds={'x': pa.float32()})\ndef f(rows):\n    return rows\n", "signature", "`needs` of `f` is 'reward'", 4),
            ("@flow_op.columns(adds={'x': pa.float64()})\ndef f(rows):\n    return rows\n", "signature", "column `x` of `f` has the type double", 4),
            ("@flow_op.columns(adds={'turn': pa.uint32()})\ndef f(rows):\n    return rows\n", "signature", "one of the columns that name a row", 4),
            ("@flow_op.rows(state={'a': float('nan')})\ndef f(rows, *, state):\n    return rows\n", "signature", "`state` of `f`.a is nan", 4),
            ("@flow_op.rows(state={'a': 1})\ndef f(rows):\n    return rows\n", "signature", "has a state and no keyword for it", 4),
        ]:
            with self.subTest(words):
                error = self.declare(text)["error"]
                self.assertIn(words, error["message"])
                self.assertEqual(error["kind"], kind, error)
                if line:
                    self.assertEqual((error["line"], error["file"]), (line, os.path.join(self.folder, "m.py")))
        self.assertIn("ok", self.declare(SUM))  # and the process goes on

    def test_places_that_are_none(self):
        for call, words in [("m.py", "write file.py:function"), ("none.py:f", "there is no file"), ("no_module:f", "there is no module no_module"), ("m.py:a b", "write file.py:function")]:
            self.assertIn(words, self.describe(call)["error"]["message"])
        self.assertEqual(self.describe("m.py:f", protocol=2)["error"]["kind"], "protocol")


@NEEDS_ARROW
class Ran(Asking):
    def test_a_call_for_each_group(self):
        self.write("neighbour.py", "def half():\n    return 0.5\n", head="")
        self.assertIn("ok", self.declare(CREDIT))
        header, rows = self.run_rows(ends=[4, 4, 8], settings={"alpha": 2, "kind": "x"}, check=True)
        self.assertEqual(header["ok"], {"rows": 8, "state": None, "checked": True, "varied": True})
        self.assertEqual(list(rows), ["iteration", "task", "sample", "attempt", "turn", "phase", "advantage"])
        self.assertEqual(rows["advantage"], [-0.5, 1.5, -0.5, -0.5, 0, 0, -2, 2])
        self.assertEqual(rows["task"], ["a"] * 4 + ["b"] * 4)

    def test_no_rows(self):
        self.assertEqual(self.values(SUM, rows=table().slice(0, 0), ends=[0], check=True), [])
        header, _ = self.run_rows(rows=table().slice(0, 0), groups=[])
        self.assertEqual(header["ok"]["rows"], 0)

    def test_settings_are_checked_again(self):
        self.write("neighbour.py", "def half():\n    return 0.5\n", head="")
        self.assertIn("ok", self.declare(CREDIT))
        for given, words in [({}, "`kind` is required"), ({"kind": "x", "alpha": "much"}, "setting `alpha` is 'much'"), ({"kind": "x", "beta": 1}, "no setting `beta`")]:
            error = self.run_rows(settings=given)[0]["error"]
            self.assertEqual(error["kind"], "signature")
            self.assertIn(words, error["message"])

    def test_rows_are_kept_dropped_changed_and_made(self):
        self.assertIn("ok", self.declare("""
            @flow_op.rows(needs=["reward"], adds={"derived_x": pa.float32()})
            def f(rows):
                won = rows.filter(pc.greater(rows["reward"], 0)).sort_by([("sample", "ascending"), ("turn", "ascending")])
                new = won.slice(0, 1).set_column(2, "sample", pa.array([9], pa.uint32()))
                both = pa.concat_tables([won, new])
                return both.append_column("derived_x", pa.array([1] * len(both))).append_column("other", pa.array([None] * len(both)))
            """))
        header, rows = self.run_rows(ends=[4, 8], check=True)
        self.assertEqual(header["ok"]["rows"], 6)
        self.assertEqual(list(rows), ["iteration", "task", "sample", "attempt", "turn", "phase", "derived_x", "reward"])
        self.assertEqual([(rows["task"][i], rows["sample"][i], rows["turn"][i], rows["reward"][i]) for i in range(6)],
                         [("a", 0, 1, 1), ("a", 9, 1, 1), ("b", 0, 0, 1), ("b", 0, 1, 1), ("b", 1, 1, 2), ("b", 9, 0, 1)])

    def test_a_state_goes_in_and_out(self):
        self.assertIn("ok", self.declare("""
            @flow_op.columns(needs=["reward"], adds={"derived_x": pa.float32()}, state={"seen": 0, "list": []})
            def f(rows, *, state):
                state["seen"] += rows.num_rows
                state["list"].append((1, 2))
                return {"derived_x": [state["seen"]] * rows.num_rows}, state
            """))
        state = None
        for seen in (8, 16, 24):
            header, rows = self.run_rows(state=state, check=True)
            state = header["ok"]["state"]
            self.assertEqual((state["seen"], rows["derived_x"][0]), (seen, seen))
        self.assertEqual(state["list"], [[1, 2]] * 3)
        self.assertEqual(self.run_rows(ends=[4, 8])[0]["error"]["kind"], "protocol")

    def test_states_that_last_not(self):
        text = "@flow_op.columns(adds={'derived_x': pa.float32()}, state={})\ndef f(rows, *, state):\n    return {'derived_x': [0.0] * rows.num_rows}%s\n"
        for end, words in [("", "returns (result, state)"), (", {'a': float('nan')}", "the state.a is nan"), (", {'a': [1, {2}]}", "the state.a[1] is of type builtins.set"),
                           (", {3: 4}", "the key 3"), (", None", "is None")]:
            self.assertIn(words, self.error(text % end)["message"])

    def test_seeds_of_groups(self):
        text = """
            @flow_op.columns(adds={"derived_x": pa.float32(), "derived_y": pa.uint64()})
            def f(rows):
                return {"derived_x": [flow_op.rng().random()] * rows.num_rows, "derived_y": pa.array([flow_op.seed()] * rows.num_rows, pa.uint64())}
            """
        self.assertIn("ok", self.declare(text))
        _, first = self.run_rows(ends=[4, 8], check=True)
        _, second = self.run_rows(ends=[4, 8])
        self.assertEqual(first, second)
        self.assertEqual(first["derived_y"], [100] * 4 + [101] * 4)
        self.assertNotEqual(first["derived_x"][0], first["derived_x"][4])


class WithoutArrow(Asking):
    def test_a_process_without_pyarrow_says_what_to_install(self):
        self.write("m.py", SUM)
        self.start(flags=("-u", "-S"), path=HERE)
        error = self.describe("m.py:f")["error"]
        self.assertEqual(error["kind"], "missing")
        self.assertIn("-m pip install pyarrow 'numpy>=2'", error["message"])


if __name__ == "__main__":
    unittest.main()
