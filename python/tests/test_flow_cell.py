"""Functions of a notebook as files: what is written, and what is refused."""

import ast
import importlib.util
import linecache
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import flow

IMPORTS = "import flow_op, pyarrow as pa, pyarrow.compute as pc"
SOURCE = '''@flow_op.columns(needs=["reward"], adds={"advantage": pa.float32()})
def gap(rows: pa.Table, *, share: float = 1.0) -> pa.Table:
    "The reward less its mean."
    reward = rows["reward"]
    return pa.table({"advantage": pc.subtract(reward, abs(share) * pc.mean(reward).as_py())})
'''


@unittest.skipUnless(importlib.util.find_spec("pyarrow"), "pyarrow isn't installed here")
class ACell(unittest.TestCase):
    def setUp(self):
        self.notebook, self.cells = {"__name__": "__main__"}, 0
        self.cell(IMPORTS + "\nFACTOR = 2")

    def cell(self, text):
        """Runs a cell as IPython does, which keeps its text."""
        self.cells += 1
        file = f"<cell {id(self)} {self.cells}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        exec(compile(text, file, "exec"), self.notebook)
        return file

    def made(self, imports=IMPORTS):
        p = flow.Pipeline("x")
        p.node("credit", op="python", inputs="rollout", function=self.notebook["gap"], imports=imports, by=["task"])
        return p

    def refused(self, words, imports=IMPORTS):
        with self.assertRaisesRegex(flow.Error, words) as caught:
            self.made(imports)
        self.assertTrue(caught.exception.help)

    def test_its_source_is_beside_the_pipeline_while_it_runs(self):
        self.cell(SOURCE)
        p = self.made()
        settings = p.source["nodes"]["credit"]["with"]
        file, _, name = settings["call"].partition(":")
        self.assertRegex(file, r"^gap_[0-9a-f]{8}\.py$")
        self.assertEqual((name, settings["by"]), ("gap", ["task"]))
        with tempfile.TemporaryDirectory() as folder:
            p.folder = Path(folder)
            with p._written():
                self.assertEqual((Path(folder) / file).read_text(), f"{IMPORTS}\n\n\n{SOURCE}")
            self.assertEqual(list(Path(folder).iterdir()), [])
            p.save(Path(folder) / "x.yaml")
            self.assertEqual(sorted(one.name for one in Path(folder).iterdir()), [file, "x.yaml"])

    def test_imports_in_the_same_cell_make_no_difference(self):
        file = self.cell(f"{IMPORTS}\n\n{SOURCE}\nx = 1\n")
        self.made()
        # IPython compiles each statement of a cell on its own.
        for statement in ast.parse("".join(linecache.getlines(file))).body:
            exec(compile(ast.Module([statement], []), file, "exec"), self.notebook)
        self.made()

    def test_names_must_come_from_its_text_or_its_imports(self):
        self.cell(SOURCE)
        self.refused("`gap` uses `flow_op`", "")
        self.refused("`gap` uses `pc`", "import flow_op, pyarrow as pa")
        self.refused("`pc`, which is something else in the notebook", "import flow_op, pyarrow as pa, math as pc")
        self.refused("has `FACTOR = 2`", IMPORTS + "\nFACTOR = 2")
        self.refused(r"has `from math import \*`", "from math import *")
        self.refused("its imports raise ModuleNotFoundError", "import no_such_module")
        self.notebook["abs"] = len
        self.refused("`gap` uses `abs`")
        self.cell(SOURCE.replace("abs(share)", "FACTOR"))
        self.refused("`gap` uses `FACTOR`")
        self.cell(SOURCE.replace("share: float = 1.0", "share: float = FACTOR"))
        self.refused("`gap` uses `FACTOR`")

    def test_a_text_that_is_not_the_function_is_refused(self):
        file = self.cell(SOURCE)
        text = SOURCE.replace("reward less", "loss less").replace("1.0", "2.0")
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        self.refused("isn't what its source says")
        exec(SOURCE, self.notebook)
        self.refused("has no source")
        self.cell("def make():\n" + textwrap.indent(SOURCE, "    ") + "    return gap\ngap = make()\n")
        self.refused("inside another function")
        self.cell("def gap(rows):\n    return rows\n")
        self.refused("isn't decorated")

    def test_a_function_of_an_imported_file_is_named_there(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder).resolve() / "flow_cell_credit.py"
            file.write_text(f"{IMPORTS}\nFACTOR = 3\n\n{SOURCE.replace('abs(share)', 'FACTOR')}")
            spec = importlib.util.spec_from_file_location("flow_cell_credit", file)
            module = sys.modules["flow_cell_credit"] = importlib.util.module_from_spec(spec)
            self.addCleanup(sys.modules.pop, "flow_cell_credit")
            spec.loader.exec_module(module)
            for place, call in ((folder, "flow_cell_credit.py:gap"), (".", f"{file}:gap")):
                p = flow.Pipeline("x", folder=place)
                p.node("credit", flow.ops.python(call=module.gap) if hasattr(flow.ops, "python") else {"op": "python", "with": {"call": module.gap}})
                self.assertEqual(p.source["nodes"]["credit"]["with"]["call"], call)
            file.write_text(file.read_text().replace("reward, FACTOR", "reward, 1 + FACTOR"))
            with self.assertRaisesRegex(flow.Error, "import that file again"):
                p.node("credit", op="python", function=module.gap)


if __name__ == "__main__":
    unittest.main()
