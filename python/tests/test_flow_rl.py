"""The wheel's `flow`: where it looks for PyTorch, with one and without."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PYTHON = Path(__file__).resolve().parent.parent


class TheProgramOfTheWheel(unittest.TestCase):
    def started(self, torch=True, program="#!/bin/sh\necho $LD_LIBRARY_PATH $FLOW_TRAIN_PYTHON $@\n"):
        """What `flow a b` says in an environment with or without PyTorch, and with a program that says what it was given."""
        with tempfile.TemporaryDirectory() as folder:
            self.home = Path(folder)
            package = self.home / "flow_rl"
            (package / "bin").mkdir(parents=True)
            for file in (PYTHON / "flow_rl").glob("*.py"):
                (package / file.name).write_text(file.read_text())
            if program:
                (package / "bin/flow").write_text(program)
                (package / "bin/flow").chmod(0o755)
            if torch:
                (self.home / "torch").mkdir()
                # It isn't imported: that would take seconds.
                (self.home / "torch/__init__.py").write_text("raise SystemExit('imported')")
            env = {key: value for key, value in os.environ.items() if not key.startswith(("FLOW_", "LD_"))}
            command = [sys.executable, "-S", "-m", "flow_rl", "a", "b"]
            return subprocess.run(command, cwd=self.home, env=env, capture_output=True, text=True)

    def test_the_environments_pytorch_comes_first(self):
        done = self.started()
        self.assertEqual(done.stdout, f"{self.home}/torch/lib:{self.home}/flow_rl/lib {sys.executable} a b\n", done.stderr)

    def test_without_pytorch_it_starts_all_the_same(self):
        done = self.started(torch=False)
        self.assertEqual(done.stdout, f"{self.home}/flow_rl/lib {sys.executable} a b\n", done.stderr)

    def test_a_package_without_the_program_says_where_it_comes_from(self):
        self.assertIn("`make wheel`", self.started(program=None).stderr)


if __name__ == "__main__":
    unittest.main()
