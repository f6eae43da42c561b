"""Runs in Python: what `flow_runs` says of a run, and of a question that a run can't answer."""

import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings
from pathlib import Path

from flow_runs import tensorboard, watch

PYTHON = Path(__file__).resolve().parent.parent
DUCKDB = importlib.util.find_spec("duckdb") is not None
NAME = {"iteration": "UBIGINT", "task": "VARCHAR", "sample": "UINTEGER", "attempt": "UINTEGER", "turn": "UINTEGER", "phase": "VARCHAR"}
NODES = {"rollout": {"role": "plays", "columns": {**NAME, "reward": "FLOAT"}, "upstream": []},
         "update": {"role": "learns", "columns": {**NAME, "version": "UBIGINT", "used": "VARCHAR"}, "upstream": ["rollout"]}}


def written(folder, iterations=2, nodes=("rollout", "update")):
    """A run of one row a node and iteration, as flow commits it; the files need DuckDB."""
    (folder / "journal").mkdir(parents=True)
    lines = []
    for iteration in range(iterations):
        parts = []
        for node in nodes:
            path = folder / f"{node}-{iteration}.parquet"
            values = {"iteration": iteration, "task": "'sokoban-1'", "phase": "'play'", "used": "'yes'"}
            row = ", ".join(f"{values.get(column, 0)}::{kind} as {column}" for column, kind in NODES[node]["columns"].items())
            if DUCKDB:
                import duckdb

                duckdb.sql(f"copy (select {row}) to '{path}' (format parquet)")
                parts.append({"node": node, "path": path.name, "bytes": path.stat().st_size})
        lines.append(json.dumps({"iteration": iteration, "metrics": {"rollout": {"success": iteration / 2}, "update": {"loss": 0.5}}, "parts": parts}) + "\n")
    (folder / "journal" / f"0-{0:020}.jsonl").write_text("".join(lines))
    logged = [{"id": node, "role": NODES[node]["role"], "columns": list(NODES[node]["columns"]), "upstream": NODES[node]["upstream"]} for node in nodes]
    manifest = {"format": 2, "name": "small", "status": "finished", "iterations": iterations, "nodes": logged, "segments": [], "generation": 0}
    (folder / "manifest.json").write_text(json.dumps(manifest))


@unittest.skipUnless(DUCKDB, "duckdb isn't installed here")
class ARun(unittest.TestCase):
    def setUp(self):
        import flow_runs

        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.runs = Path(folder.name).resolve()
        written(self.runs / "small")
        self.flow_runs, self.run_ = flow_runs, flow_runs.Run(self.runs / "small")

    def warned(self, question):
        """The answer to a question, and the warning that came with it."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            answer = question()
        return answer.fetchall(), "".join(str(warning.message) for warning in caught)

    def test_a_run_is_shown_as_one(self):
        self.assertEqual([repr(run) for run in self.flow_runs.runs(self.runs)], [f"<run small in {self.runs / 'small'}: finished, 2 iterations>"])
        self.assertIs(self.run_.refresh(), self.run_)

    def test_iterations_are_one_or_several(self):
        for asked, expected in ((1, [1]), (range(2), [0, 1]), ([], []), (None, [0, 1])):
            rows = self.run_.trajectories(iterations=asked).fetchall()
            self.assertEqual(sorted(row[0] for row in rows), expected)

    def test_an_unknown_name_of_a_figure_is_said(self):
        self.assertEqual(self.warned(lambda: self.run_.metrics("rollout", "success")), ([(0, "rollout", "success", 0.0), (1, "rollout", "success", 0.5)], ""))
        for asked, named in (((None, "sucess"), "`sucess`"), (("rolout",), "`rolout`"), (("rollout", "sucess"), "`sucess`"), (("update", "success"), "`success`")):
            rows, said = self.warned(lambda asked=asked: self.run_.metrics(*asked))
            self.assertEqual(rows, [])
            self.assertIn(named, said)
        self.assertTrue(said.endswith("small has no figure `success` of `update`: it has the figures loss"), said)
        self.assertTrue(self.warned(lambda: self.run_.metrics("rolout"))[1].endswith("no figure of `rolout`: it has figures of rollout, update"))

    def test_a_row_that_no_update_had_is_said(self):
        rows, said = self.warned(lambda: self.run_.provenance(iteration=1, task="sokoban-1"))
        self.assertEqual((len(rows), said), (1, ""))
        rows, said = self.warned(lambda: self.run_.provenance(iteration=1, task="sokoban-2"))
        self.assertEqual(rows, [])
        self.assertIn("iteration = 1, task = 'sokoban-2'", said)

    def test_what_a_run_did_not_log_is_said(self):
        with self.assertRaisesRegex(ValueError, "small has no memory in its log: it needs a node with `op: memory-update`"):
            self.run_.memory_at(1)
        written(self.runs / "rollouts", nodes=("rollout",))
        with self.assertRaisesRegex(ValueError, "rollouts has no update in its log: it needs a node with `op: gpu-update`"):
            self.flow_runs.Run(self.runs / "rollouts").provenance(iteration=0)

    def test_no_question_loads_or_fetches_an_extension(self):
        settings = "select name, value from duckdb_settings() where name in ('autoinstall_known_extensions', 'autoload_known_extensions') order by name"
        self.assertEqual([value for _, value in self.run_.sql(settings).fetchall()], ["false", "false"])
        with self.assertRaisesRegex(Exception, "`flow query` has it"):
            self.run_.sql("select text([1, 2])").fetchall()


class WithoutDuckDb(unittest.TestCase):
    def python(self, *arguments):
        """A Python that has no DuckDB."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "duckdb.py").write_text("raise ModuleNotFoundError(\"No module named 'duckdb'\", name='duckdb')\n")
            written(Path(folder) / "runs" / "small", nodes=())
            begin = f"import sys; sys.path[:0] = [{folder!r}, {str(PYTHON)!r}]; "
            return subprocess.run([sys.executable, "-S", "-c", begin + arguments[0], *arguments[1:]], cwd=folder, capture_output=True, text=True)

    def test_a_run_says_what_to_install(self):
        for question in ("import flow_runs; flow_runs.Run('x')", "from flow_runs import runs"):
            done = self.python(question)
            self.assertIn("pip install 'flow-rl[runs]'", done.stderr)
        self.assertEqual(self.python("import flow_runs; flow_runs.DamagedRun").returncode, 0)

    def test_figures_are_served_without_it(self):
        done = self.python("import runpy; runpy.run_module('flow_runs', run_name='__main__', alter_sys=True)", "--help")
        self.assertEqual((done.returncode, "prometheus" in done.stdout), (0, True), done.stderr)
        done = self.python("from pathlib import Path; from flow_runs.watch import exposition; print(exposition([Path('runs/small')]))")
        self.assertIn('flow_iterations{run="small"} 2', done.stdout, done.stderr)


class Clients(unittest.TestCase):
    def test_only_a_server_is_reached_without_all_of_mlflow(self):
        found = {"sqlalchemy": None}
        with unittest.mock.patch("importlib.util.find_spec", lambda name: found[name]):
            lacking = [watch.lacks_store(uri) for uri in ("sqlite:///mlflow.db", "file:./mlruns", "http://host:5000", "https://host", "databricks")]
            self.assertEqual(lacking, [True, True, False, False, False])
            found["sqlalchemy"] = object()
            self.assertFalse(watch.lacks_store("sqlite:///mlflow.db"))

    def test_a_database_without_it_is_an_error_in_words(self):
        client = type(sys)("mlflow.tracking")
        client.MlflowClient = None
        entities = type(sys)("mlflow.entities")
        entities.Metric = None
        with tempfile.TemporaryDirectory() as place, unittest.mock.patch.dict(sys.modules, {"mlflow": type(sys)("mlflow"), "mlflow.tracking": client, "mlflow.entities": entities}):
            written(Path(place) / "run", nodes=())
            asked = type("Asked", (), {"uri": "sqlite:///mlflow.db", "project": None, "follow": False})
            with unittest.mock.patch("importlib.util.find_spec", lambda name: None), self.assertRaisesRegex(SystemExit, "mlflow-skinny has no databases"):
                watch.to_mlflow(Path(place) / "run", asked)


class TensorBoard(unittest.TestCase):
    def test_the_checksum_is_that_of_rfc_3720(self):
        self.assertEqual((tensorboard.crc32c(b"123456789"), tensorboard.crc32c(bytes(32))), (0xE3069283, 0x8A9136AA))

    def test_records_are_framed_and_fields_are_in_their_places(self):
        """The bytes that `tf.summary` writes for `loss` 0.5 at step 3."""
        event = b"\x09\0\0\0\0\0\0\0\x40\x10\x03\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f"
        length = len(event).to_bytes(8, "little")
        expected = length + tensorboard.masked(length) + event + tensorboard.masked(event)
        self.assertEqual(tensorboard.summary(2.0, 3, [tensorboard.text(1, b"loss") + tensorboard.single(2, 0.5)]), expected)
        self.assertEqual([tensorboard.single(2, value)[1:] for value in (1e39, -1e39, None)], [b"\0\0\x80\x7f", b"\0\0\x80\xff", b"\0\0\xc0\x7f"])

    def test_runs_of_one_name_have_folders_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder:
            runs = [Path(folder) / place / "small" for place in ("a", "b")]
            for run in runs:
                written(run)
                (run / "pipeline.yaml").write_text("flow: small\n")
            said = tensorboard.export(runs, Path(folder) / "board")
            self.assertTrue(said.startswith("8 numbers of 2 runs -> "), said)
            self.assertEqual(sorted(file.parent.name for file in (Path(folder) / "board").glob("*/events*")), ["small", "small-2"])


if __name__ == "__main__":
    unittest.main()
