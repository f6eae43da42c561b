"""Starts `flow`, and tells it where this environment's PyTorch lies, with whose libraries the program computes: without importing it."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "bin" / "flow"


def main() -> None:
    if not PROGRAM.exists():
        sys.exit("flow: the program isn't in this package: it comes with the wheel (`make wheel`)")
    # What needs no PyTorch runs without one; what does says which release fits.
    torch = importlib.util.find_spec("torch")
    libraries = [str(Path(torch.origin).parent / "lib")] if torch and torch.origin else []
    paths = [*libraries, str(HERE / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    # A trainer's processes run in the Python that has this PyTorch.
    os.environ.setdefault("FLOW_TRAIN_PYTHON", sys.executable)
    os.execv(PROGRAM, [sys.argv[0], *sys.argv[1:]])


if __name__ == "__main__":
    main()
