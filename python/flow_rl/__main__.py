"""Starts `flow`: finds this environment's PyTorch, whose libraries the program computes with, without importing it."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "bin" / "flow"
# The program is compiled against this release's C++ interface.
TORCH = "2.11"


def torch_libraries() -> Path:
    """The folder with PyTorch's libraries; ends with a line that says what to install where there is none that fits."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit(f"flow: this Python has no PyTorch: pip install torch=={TORCH}.0")
    folder = Path(spec.origin).parent
    found = re.search(r"__version__\s*=\s*['\"]([^'\"]+)", (folder / "version.py").read_text())
    version = found.group(1) if found else "an unknown version"
    if not version.startswith(f"{TORCH}."):
        sys.exit(f"flow: it computes with PyTorch {TORCH}, and this Python has {version}: pip install torch=={TORCH}.0")
    return folder / "lib"


def main() -> None:
    if not PROGRAM.exists():
        sys.exit("flow: the program isn't in this package: it comes with the wheel (`make wheel`)")
    paths = [str(torch_libraries()), str(HERE / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    # A trainer's processes run in the Python that has this PyTorch.
    os.environ.setdefault("FLOW_TRAIN_PYTHON", sys.executable)
    os.execv(PROGRAM, [sys.argv[0], *sys.argv[1:]])


if __name__ == "__main__":
    main()
