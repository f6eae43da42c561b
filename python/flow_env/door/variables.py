"""The variables that a program gets."""

from __future__ import annotations

import os
from typing import Dict, Mapping, Sequence

PASSED = {
    "PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "NODE_PATH",
    "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES",
    "FLOW_PROGRAM",  # by which flow finds what is left when this process was killed
}


def environment(passed: Sequence[str], more: Mapping[str, str]) -> Dict[str, str]:
    """The variables of a program: only such as say how the machine is set up, because others may be secrets."""
    chosen = {name: value for name, value in os.environ.items() if name in PASSED or name in passed or name.startswith(("LC_", "XDG_"))}
    return {**chosen, **more}
