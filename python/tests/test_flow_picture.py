"""A run as a notebook shows it, and the progress of one, without the program."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import flow
from flow import graph, picture, progress
from tests.test_flow_runs import DUCKDB, written

DOT = '''digraph {
  n0 [label="tasks"];
  subgraph cluster_1 {
    label="trial: 3 attempts";
    n2 [label="rollout <b>", peripheries=2];
  }
  n4 [label="update"];
  n0 -> n2 [label="tasks"];
  n4 -> n2 [label="weights, staleness 0", style=dashed, constraint=false];
  n2 -> n4 [label="rows", ltail=cluster_1];
}'''


class ARun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve() / "small"
        written(self.folder, nodes=("rollout", "update") if DUCKDB else ())

    def test_it_is_shown_without_duckdb_and_the_program(self):
        manifest = json.loads((self.folder / "manifest.json").read_text())
        (self.folder / "manifest.json").write_text(json.dumps({**manifest, "name": "<small>", "nodes": [{**one, "op": "x"} for one in manifest["nodes"]]}))
        run = flow.Run(self.folder)
        self.assertEqual(repr(run), f"<run <small> in {self.folder}: finished, 2 iterations>")
        with mock.patch("flow.graph.execute", side_effect=flow.Error("none")):
            shown = run._repr_html_()
        self.assertIn("<b>&lt;small&gt;</b> finished, 2 of 2 iterations", shown)
        self.assertIn("success of rollout: 0.5 (from 0 to 0.5)", shown)
        self.assertIn("loss of update: 0.5", shown)
        self.assertNotIn("http", shown.replace("http://www.w3.org/2000/svg", ""))
        with self.assertRaises(AttributeError):
            run.nothing

    @unittest.skipUnless(DUCKDB, "duckdb isn't installed here")
    def test_it_has_the_tables_of_flow_runs(self):
        run = flow.Run(self.folder)
        self.assertEqual(run.metrics("rollout", "success").fetchall(), [(0, "rollout", "success", 0.0), (1, "rollout", "success", 0.5)])
        self.assertEqual(len(run.table("rollout", 1).fetchall()), 1)
        self.assertEqual((run.nodes, len(run.trajectories().fetchall())), (["rollout", "update"], 2))

    def test_a_folder_that_is_no_run_is_said(self):
        with self.assertRaises(flow.DamagedRun):
            flow.Run(self.folder.parent)


class Drawings(unittest.TestCase):
    def test_a_graph_has_its_edges_and_loops(self):
        read = graph.parsed(DOT)
        self.assertEqual(read.nodes, {"n0": ("tasks", False), "n2": ("rollout <b>", True), "n4": ("update", False)})
        self.assertEqual([edge[3] for edge in read.edges], [False, True, False])
        self.assertEqual((read.loops, graph.columns(read)), ([("trial: 3 attempts", ["n2"])], [["n0"], ["n2"], ["n4"]]))
        self.assertIn("rollout &lt;b&gt;", graph.drawing(read))

    def test_a_curve_of_many_points_shows_means(self):
        self.assertIn("means of 4 iterations", picture.curve("loss", [(i, float(i % 2)) for i in range(1000)]))
        self.assertEqual(picture.curve("loss", [(i, float(i)) for i in range(1000)]).count(","), 250 + 1)
        self.assertIn("<circle", picture.curve("loss", [(0, 1.0)]))

    def test_the_main_curves_are_success_and_loss(self):
        figures = [(i, {"rollout": {"success": 0.5, "return": 1.0}, "update": {"loss": None if i else 2.0}}) for i in range(3)]
        self.assertEqual([(title, len(points)) for title, points in picture.main(figures)], [("success of rollout", 3), ("loss of update", 1)])
        self.assertEqual([title for title, _ in picture.main([(0, {"a": {"return": 1.0}})])], ["return of a"])


class Progress(unittest.TestCase):
    LINES = ("1/4  1s left", "warning: slow", "4/4  0s left")

    def shown(self, line):
        for one in self.LINES:
            line.show(one)
        line.end()

    def test_a_terminal_has_one_line_that_moves(self):
        for terminal, expected in ((False, "1/4  1s left\nwarning: slow\n4/4  0s left\n"), (True, "1/4  1s left\nwarning: slow\n4/4  0s left\n")):
            out = io.StringIO()
            out.isatty = lambda terminal=terminal: terminal
            with contextlib.redirect_stderr(out):
                self.shown(progress.Stderr())
            self.assertEqual(out.getvalue(), expected)
        with contextlib.redirect_stderr(out):
            line = progress.Stderr()
            line.show("1/4")
            line.show("2/4")
        self.assertTrue(out.getvalue().endswith("1/4\r\x1b[K2/4"))

    def test_a_notebook_has_one_output_that_is_updated(self):
        handle, display = mock.Mock(), mock.Mock()
        display.return_value = handle
        self.shown(progress.Notebook(display))
        self.assertEqual([call.args[0]["text/plain"] for call in display.call_args_list], ["1/4  1s left", "warning: slow"])
        self.assertEqual([call.args[0]["text/plain"] for call in handle.update.call_args_list], ["4/4  0s left"])
        self.assertIsInstance(progress.shown(False), progress.Silent)


if __name__ == "__main__":
    unittest.main()
