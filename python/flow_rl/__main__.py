"""Starts `flow`, and tells it where this environment's PyTorch lies, with whose libraries the program computes: without importing it."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Dict

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "bin" / "flow"


def environment() -> Dict[str, str]:
    """The variables that the program starts with."""
    variables = dict(os.environ)
    # What needs no PyTorch runs without one; what does says which release fits.
    torch = importlib.util.find_spec("torch")
    libraries = [str(Path(torch.origin).parent / "lib")] if torch and torch.origin else []
    paths = [*libraries, str(HERE / "lib"), variables.get("LD_LIBRARY_PATH", "")]
    variables["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    # A trainer's processes run in the Python that has this PyTorch.
    variables.setdefault("FLOW_TRAIN_PYTHON", sys.executable)
    return variables


def main() -> None:
    if not PROGRAM.exists():
        sys.exit("flow: the program isn't in this package: it comes with the wheel (`make wheel`)")
    os.execve(PROGRAM, [sys.argv[0], *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
