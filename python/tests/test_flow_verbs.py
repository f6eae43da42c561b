"""The program's verbs from Python, with the program where there is one."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

import flow
from flow import errors, program
from flow.arguments import file_of
from flow.process import execute
from tests.test_flow_pipeline import small
from tests.test_flow_yaml import reader

PYTHON = Path(__file__).resolve().parent.parent
try:
    PROGRAM = program.found()[0]
except flow.Error:
    PROGRAM = None
TEXT = """warning: the first

error: `gpu-update` has no setting `lrr`
  --> bad.yaml:32:43
   |
32 |     with: { lrr: 1.0e-3 }
   |             ^^^
   |
   = help: did you mean `lr`?

error: there is no node `a`
 --> --set nodes.update.inputs:1:21
"""


class AnError(unittest.TestCase):
    def test_mistakes_have_their_places(self):
        error = errors.from_output(TEXT, 1, {"bad.yaml": "<pipeline x>"})
        self.assertEqual(error.mistakes, [flow.Mistake("`gpu-update` has no setting `lrr`", "<pipeline x>", 32, 43, "did you mean `lr`?"),
                                          flow.Mistake("there is no node `a`", "--set nodes.update.inputs", 1, 21, None)])
        self.assertEqual((error.message, error.help, error.code), ("`gpu-update` has no setting `lrr` (and 1 more)", "did you mean `lr`?", 1))
        self.assertIn("--> <pipeline x>:32:43", str(error))

    def test_another_error_has_its_help(self):
        error = errors.from_output("warning: w\nerror: no\ndo this\n", 1)
        self.assertEqual((error.message, error.help, error.mistakes), ("no", "do this", []))
        self.assertEqual(errors.from_output("", 101).message, "the program ended with code 101")


class TheProgram(unittest.TestCase):
    def test_a_variable_names_it(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "flow"
            file.write_text("#!/bin/sh\necho \"$@\"\n")
            file.chmod(0o755)
            with unittest.mock.patch.dict(os.environ, {"FLOW_PROGRAM": str(file)}):
                self.assertEqual(program.found()[0], str(file))
                self.assertEqual(repr(flow.check("a.yaml", {"iterations": 3}, device="cpu")), "check --set=iterations=3 --device=cpu -- a.yaml")
            # A program that flow started has a mark in this variable.
            with unittest.mock.patch.dict(os.environ, {"FLOW_PROGRAM": "4711-7f3a.2", "PATH": folder}), unittest.mock.patch("flow.program.wheel_program", lambda: None):
                self.assertEqual(Path(program.found()[0]).name, "flow")
            with unittest.mock.patch.dict(os.environ, {"FLOW_PROGRAM": f"{file}-none"}), self.assertRaisesRegex(flow.Error, "there is no such program"):
                program.found()


@unittest.skipUnless(PROGRAM, "the program isn't here")
class WithTheProgram(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)

    def test_a_mistake_is_found_before_anything_runs(self):
        p = small()
        self.assertIn("mine is fine: 5 nodes, 20 iterations", flow.check(p))
        p.source["nodes"]["update"]["with"]["lrr"] = 1
        for ask in (flow.check, flow.run):
            with self.assertRaises(flow.Error) as caught:
                ask(p)
            found = caught.exception.mistakes[0]
            self.assertEqual((found.message, found.file, found.help), ("`gpu-update` has no setting `lrr`", "<pipeline mine>", "did you mean `lr`?"))
            self.assertTrue(p.to_yaml().splitlines()[found.line - 1][found.column - 1 :].startswith("lrr"))
        with self.assertRaises(flow.Error) as caught:
            flow.check("flow: x\niterations: 3\n")
        self.assertEqual(caught.exception.mistakes[0].file, "<pipeline>")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_run_is_made_asked_replayed_and_verified(self):
        run = flow.run(small(), "runs/a", {"iterations": 3}, progress=False)
        self.assertEqual((run.folder, run.name, run.status, run.iterations), (self.folder / "runs/a", "mine", "finished", [0, 1, 2]))
        self.assertEqual(flow.query("runs/a", "-- a question\nselect count(distinct iteration) as n from rollout"), [{"n": 3}])
        with self.assertRaisesRegex(flow.Error, "SELEC isn't one"):
            run.query("selec 1")
        self.assertIn("select", run.query("select 'select <b>' as \"<i>\"")._repr_html_())
        replayed = flow.replay(run, set={"nodes.update.with.lr": 1e-5}, out="runs/b", progress=False)
        self.assertEqual(replayed.summary["replays"], str(run.folder))
        self.assertTrue(flow.verify(run)["agrees"])
        self.assertEqual(len(flow.resume(run, iterations=4, progress=False).iterations), 4)
        shown = run.refresh()._repr_html_()
        for words in ("finished, 4 of 4 iterations", "success of rollout", "loss of update", ">update: gpu-update</text>", "stroke-dasharray"):
            self.assertIn(words, shown)
        with self.assertRaisesRegex(flow.Error, "exists and isn't empty"):
            flow.run(small(), run, progress=False)
        self.assertEqual([one.name for one in flow.run(small(), "runs/c", {"iterations": 1}, seeds=[1, 2], progress=False)], ["mine", "mine"])

    @unittest.skipUnless(importlib.util.find_spec("yaml"), "PyYAML isn't installed here")
    def test_the_program_reads_a_written_pipeline_as_the_one_of_the_repository(self):
        read, count = reader(), 0
        os.chdir(PYTHON.parent)
        for file in sorted(PYTHON.parent.glob("pipelines/*.yaml"))[::6]:
            pipeline = flow.Pipeline.from_dict(read(file.read_text()), folder=file.parent)
            with file_of(pipeline) as (written, _):
                answers = [execute(["graph", str(one)]) for one in (file, written)]
                checks = [execute(["check", "--format=json", str(one)]).out for one in (file, written)]
            self.assertEqual((answers[0].code, answers[0].out), (answers[1].code, answers[1].out), file)
            mistakes = [[one["message"] for one in json.loads(check)] for check in checks]
            self.assertEqual(mistakes[0], mistakes[1], file)
            count += answers[0].code == 0
        self.assertGreater(count, 4)

    def interrupted(self, times):
        """What a Python says that is interrupted so often while it runs a long pipeline, and the run."""
        code = ("import flow, signal; from tests.test_flow_pipeline import small; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
                "try: flow.run(small(), 'runs/long', {'iterations': 100000})\n"
                "except KeyboardInterrupt as stopped: print('stopped:', stopped)")
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PYTHON), os.environ.get("PYTHONPATH", "")])}
        with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as python:
            self.addCleanup(python.kill)
            # The first line of progress.
            python.stderr.readline()
            for _ in range(times):
                python.send_signal(signal.SIGINT)
                time.sleep(0.02)
            said = python.communicate(timeout=60)[0]
        return said, flow.Run("runs/long")

    def test_an_interrupt_ends_a_run_after_its_iteration(self):
        said, run = self.interrupted(1)
        self.assertRegex(said, "stopped: stopped after [0-9]+ iterations; they are committed, and `flow resume runs/long` goes on")
        self.assertEqual(run.status, "stopped")

    def test_a_second_interrupt_ends_it_at_once(self):
        said, run = self.interrupted(2)
        self.assertTrue(said.startswith("stopped:"), said)
        self.assertEqual([], self.running())

    def test_a_killed_python_leaves_no_run_behind(self):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PYTHON), os.environ.get("PYTHONPATH", "")])}
        code = "import flow; from tests.test_flow_pipeline import small; flow.run(small(), 'runs/long', {'iterations': 100000})"
        with subprocess.Popen([sys.executable, "-c", code], env=env, stderr=subprocess.PIPE, text=True) as python:
            python.stderr.readline()
            self.assertEqual(len(self.running()), 1)
            python.kill()
        end = time.monotonic() + 20
        while self.running() and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual([], self.running())

    def running(self):
        """The processes of the program that work in this test's folder."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "cwd") == str(self.folder) and os.path.realpath(process / "exe") == os.path.realpath(PROGRAM):
                    found.append(process.name)
            except OSError:
                pass
        return found


if __name__ == "__main__":
    unittest.main()
