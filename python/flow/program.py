"""Finds the program `flow`, and the variables that it starts with."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Dict, Tuple

from .errors import Error

HERE = Path(__file__).resolve().parent
# In an environment or an agent program, the variable is the mark by which the program finds its leftover processes.
MARK = re.compile(r"[0-9]+-[0-9a-f]+\.[0-9]+")


def found() -> Tuple[str, Dict[str, str]]:
    """The program and its environment: `FLOW_PROGRAM`, else the wheel's, else the one that this checkout built, else the one on PATH."""
    named = os.environ.get("FLOW_PROGRAM")
    if named and MARK.fullmatch(named) is None:
        path = shutil.which(named)
        if path is None:
            raise Error(f"FLOW_PROGRAM is {named}, and there is no such program")
        return os.path.abspath(path), with_python(dict(os.environ))
    wheel = wheel_program()
    if wheel is not None:
        return wheel
    built = HERE.parent.parent / "target" / "release" / "flow"
    if built.is_file():
        return str(built), with_python(dict(os.environ))
    path = shutil.which("flow")
    if path is None:
        raise Error("the program flow isn't installed", "install the wheel, build it by `make build`, put it on PATH, or name it in the variable FLOW_PROGRAM")
    return path, with_python(dict(os.environ))


def wheel_program() -> "Tuple[str, Dict[str, str]] | None":
    try:
        from flow_rl import __main__ as wheel
    except ImportError:
        return None
    program = wheel.program()
    return None if program is None else (str(program), with_python(wheel.environment()))


def with_python(variables: Dict[str, str]) -> Dict[str, str]:
    """Lets `python3` be the Python of this process: a notebook often runs in an environment that its PATH doesn't name."""
    own = os.path.dirname(sys.executable)
    paths = variables.get("PATH", "")
    first = shutil.which("python3", path=paths)
    if os.path.isfile(os.path.join(own, "python3")) and (first is None or os.path.dirname(first) != own):
        variables["PATH"] = os.pathsep.join(filter(None, (own, paths)))
    return variables
