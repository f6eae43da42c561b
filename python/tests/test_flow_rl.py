"""The wheel's `flow`: where it looks for PyTorch, with one and without."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PYTHON = Path(__file__).resolve().parent.parent


class TheProgramOfTheWheel(unittest.TestCase):
    def started(self, torch="2.13.0+cpu", half=("2.11", "2.13"), program="#!/bin/sh\necho NAME $LD_LIBRARY_PATH $FLOW_TRAIN_PYTHON $@\n"):
        """What `flow a b` says in an environment with this PyTorch or none, with flow-rl-torch for these releases or without, and with
        programs that say what they were given."""
        with tempfile.TemporaryDirectory() as folder:
            self.home = Path(folder).resolve()
            package = self.home / "flow_rl"
            package.mkdir()
            for file in (PYTHON / "flow_rl").glob("*.py"):
                (package / file.name).write_text(file.read_text())
            for release in half:
                (package / "torch" / release).mkdir(parents=True)
            for name in ("bin/flow", "torch/flow") if half else ("bin/flow",):
                if program:
                    (package / name).parent.mkdir(exist_ok=True)
                    (package / name).write_text(program.replace("NAME", name))
                    (package / name).chmod(0o755)
            if torch:
                (self.home / "torch").mkdir()
                # It isn't imported: that would take seconds.
                (self.home / "torch/__init__.py").write_text("raise SystemExit('imported')")
                (self.home / "torch/version.py").write_text(f"from typing import Optional\n\n__version__ = '{torch}'\ndebug = False\n")
            env = {key: value for key, value in os.environ.items() if not key.startswith(("FLOW_", "LD_"))}
            command = [sys.executable, "-S", "-m", "flow_rl", "a", "b"]
            return subprocess.run(command, cwd=self.home, env=env, capture_output=True, text=True)

    def says(self, name, *folders, **of):
        done = self.started(**of)
        paths = ":".join(f"{self.home}/{folder}" for folder in folders)
        self.assertEqual(done.stdout, f"{name} {paths} {sys.executable} a b\n", done.stderr)

    def test_the_environments_pytorch_comes_first_with_the_library_of_its_release(self):
        self.says("torch/flow", "flow_rl/torch/2.13", "torch/lib", "flow_rl/lib")
        self.says("torch/flow", "flow_rl/torch/2.11", "torch/lib", "flow_rl/lib", torch="2.11.1")

    def test_a_release_that_has_no_library_is_left_to_the_program(self):
        self.says("torch/flow", "flow_rl/torch/2.11", "torch/lib", "flow_rl/lib", torch="2.99.0")

    def test_without_pytorch_it_starts_all_the_same(self):
        self.says("torch/flow", "flow_rl/lib", torch=None)

    def test_the_package_alone_has_a_program_without_pytorch(self):
        self.says("bin/flow", "flow_rl/lib", half=())
        self.says("bin/flow", "flow_rl/lib", half=(), torch=None)

    def test_a_package_without_the_program_says_where_it_comes_from(self):
        self.assertIn("`make wheel`", self.started(program=None).stderr)


if __name__ == "__main__":
    unittest.main()
