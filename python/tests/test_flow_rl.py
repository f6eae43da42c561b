"""The wheel's `flow`: which PyTorch it takes, and what it says where none fits."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PYTHON = Path(__file__).resolve().parent.parent


class TheProgramOfTheWheel(unittest.TestCase):
    def started(self, torch, program="#!/bin/sh\necho $LD_LIBRARY_PATH $FLOW_TRAIN_PYTHON $@\n"):
        """What `flow a b` says in an environment with this version of PyTorch, and a program that says what it was given."""
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
                (self.home / "torch/version.py").write_text(f"__version__ = '{torch}'\n")
            env = {key: value for key, value in os.environ.items() if not key.startswith(("FLOW_", "LD_"))}
            command = [sys.executable, "-S", "-m", "flow_rl", "a", "b"]
            return subprocess.run(command, cwd=self.home, env=env, capture_output=True, text=True)

    def test_the_environments_pytorch_comes_first(self):
        done = self.started("2.11.0+cu130")
        self.assertEqual(done.stdout, f"{self.home}/torch/lib:{self.home}/flow_rl/lib {sys.executable} a b\n", done.stderr)

    def test_what_does_not_fit_is_told_in_one_line(self):
        none, other, empty = self.started(None), self.started("2.13.0"), self.started("2.11.0", program=None)
        self.assertEqual((none.returncode, none.stderr), (1, "flow: this Python has no PyTorch: pip install torch==2.11.0\n"))
        self.assertEqual(other.stderr, "flow: it computes with PyTorch 2.11, and this Python has 2.13.0: pip install torch==2.11.0\n")
        self.assertIn("`make wheel`", empty.stderr)


if __name__ == "__main__":
    unittest.main()
