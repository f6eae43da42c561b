"""Starts `flow`: with the half that computes models where flow-rl-torch is installed, and with this environment's PyTorch, without importing it."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Dict, List, Optional

HERE = Path(__file__).resolve().parent
#: Alone, and with what flow-rl-torch adds: the program, and a library for each release of PyTorch.
ALONE, TORCH = HERE / "bin" / "flow", HERE / "torch"


def program() -> Optional[Path]:
    """The program of this environment."""
    return next((path for path in (TORCH / "flow", ALONE) if path.exists()), None)


def libraries() -> List[str]:
    """The folders of PyTorch's libraries, and of the one that was compiled for its release."""
    torch = importlib.util.find_spec("torch")
    if not torch or not torch.origin or not TORCH.is_dir():
        return []
    folder = Path(torch.origin).parent
    try:
        version = re.search(r"__version__ = '(\d+\.\d+)\.", (folder / "version.py").read_text())
    except OSError:
        version = None
    made = sorted((path.name for path in TORCH.iterdir() if path.is_dir()), key=lambda name: [int(part) for part in name.split(".")])
    # For a release that has none, any will do: flow says which one it needs.
    release = version.group(1) if version and version.group(1) in made else next(iter(made), "")
    return [str(TORCH / release), str(folder / "lib")]


def environment() -> Dict[str, str]:
    """The variables that the program starts with."""
    variables = dict(os.environ)
    paths = [*libraries(), str(HERE / "lib"), variables.get("LD_LIBRARY_PATH", "")]
    variables["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    # A trainer's processes run in the Python that has this PyTorch.
    variables.setdefault("FLOW_TRAIN_PYTHON", sys.executable)
    return variables


def main() -> None:
    starts = program()
    if starts is None:
        sys.exit("flow: the program isn't in this package: it comes with the wheel (`make wheel`)")
    os.execve(starts, [sys.argv[0], *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
