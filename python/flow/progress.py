"""The progress of a run: one line that is updated, in a notebook or at a terminal."""

from __future__ import annotations

import html
import re
import sys
from typing import Any

# A line that replaces the one before: "12/40  3s left  success 0.156".
PROGRESS = re.compile(r"^\d+/\d+( |$)")


class Silent:
    """Shows nothing."""

    def show(self, line: str) -> None:
        pass

    def end(self) -> None:
        pass


class Stderr(Silent):
    """Writes to standard error: at a terminal, a line of progress replaces the one before."""

    def __init__(self) -> None:
        self.moving = sys.stderr.isatty()
        self.open = False

    def show(self, line: str) -> None:
        progress = self.moving and PROGRESS.match(line) is not None
        begin = "\r\x1b[K" if self.open and progress else "\n" if self.open else ""
        sys.stderr.write(begin + line + ("" if progress else "\n"))
        sys.stderr.flush()
        self.open = progress

    def end(self) -> None:
        if self.open:
            sys.stderr.write("\n")
            self.open = False


class Notebook(Silent):
    """Updates one output of the cell. Other lines, such as warnings, stay below it."""

    def __init__(self, display: Any) -> None:
        self.display, self.handle = display, None

    def show(self, line: str) -> None:
        shown = {"text/plain": line, "text/html": f"<pre>{html.escape(line)}</pre>"}
        if PROGRESS.match(line) is None:
            self.display(shown, raw=True)
        elif self.handle is None:
            self.handle = self.display(shown, raw=True, display_id=True)
        else:
            self.handle.update(shown, raw=True)


def shown(progress: bool) -> Silent:
    """Where progress is shown: nowhere, in the notebook whose kernel this is, or on standard error."""
    if not progress:
        return Silent()
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    # IPython at a terminal can't update an output.
    if shell is not None and hasattr(shell, "kernel"):
        from IPython.display import display

        return Notebook(display)
    return Stderr()
