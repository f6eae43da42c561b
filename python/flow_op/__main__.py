"""`python -m flow_op` answers flow over pipes; `python -m flow_op check FILE:FUNCTION` describes a function."""

from __future__ import annotations

import os
import sys

USAGE = "usage: python -m flow_op check FILE.py:FUNCTION\nWithout arguments the program answers flow over standard input."


def main() -> int:
    # `-m` puts the working folder first: a file json.py there would hide Python's.
    if not getattr(sys.flags, "safe_path", False) and sys.path and os.path.abspath(sys.path[0]) == os.getcwd():
        del sys.path[0]
    arguments = sys.argv[1:]
    if not arguments and not sys.stdin.isatty():
        from .serve import serve

        return serve()
    if len(arguments) == 2 and arguments[0] == "check":
        from .check import check

        return check(arguments[1])
    print(USAGE, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
