"""An error says what is wrong, where, and what to do; a traceback shows the user's own frames."""

from __future__ import annotations

import os
import traceback
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
LONGEST = 4000
"""Characters of a message or a traceback at most; the rest is cut."""

Json = Dict[str, Any]


class Error(Exception):
    """A mistake in a function, its declaration or its result. `kind` is one of the protocol's kinds."""

    def __init__(self, kind: str, message: str, file: Optional[str] = None, line: Optional[int] = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.file, self.line = kind, message, file, line


def frames(trace: Optional[TracebackType], own: Callable[[str], bool]) -> List[traceback.FrameSummary]:
    """The frames of the user's files. Without any: all that aren't of this package or of Python's import."""
    found = traceback.extract_tb(trace)
    users = [frame for frame in found if own(os.path.realpath(frame.filename))]
    return users or [f for f in found if not f.filename.startswith(PACKAGE) and "importlib" not in f.filename]


def words(error: BaseException) -> str:
    """The exception's class and its text, also if the text can't be made."""
    try:
        text = str(error)
    except BaseException as second:
        text = f"(its text can't be made: {type(second).__name__})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def answer(kind: str, message: str, trace: str = "", file: Optional[str] = None, line: Optional[int] = None) -> Json:
    """An error as the protocol sends it."""
    return {"error": {"kind": kind, "message": cut(message), "traceback": cut(trace), "file": file, "line": line}}


def described(error: BaseException, own: Callable[[str], bool], where: str = "") -> Json:
    """The answer to an exception: an `Error` as it is, a MemoryError, or an exception of the user's code."""
    if isinstance(error, RecursionError):
        error.__context__ = None
    found = frames(error.__traceback__, own)
    last = found[-1] if found else None
    file, line = (last.filename, last.lineno) if last else (None, None)
    trace = "".join(traceback.format_list(found))
    if isinstance(error, Error):
        return answer(error.kind, error.message, trace, error.file or file, error.line or line)
    if isinstance(error, MemoryError):
        allowed = os.environ.get("FLOW_OP_MEMORY")
        limit = f"more than the {allowed} bytes that it may have, with Python and its libraries" if allowed else "more memory than there is"
        return answer("memory", f"the function's process takes {limit}{where}: work on fewer rows at once, or allow it more", trace, file, line)
    if not any(own(os.path.realpath(frame.filename)) for frame in found):
        return answer("exception", f"flow_op itself fails at this function's result: {words(error)}{where}", "".join(traceback.format_tb(error.__traceback__)))
    hint = ": list it in `needs`" if isinstance(error, KeyError) and "does not exist in schema" in str(error) else ""
    return answer("exception", f"the function raises {words(error)}{where}{hint}", trace, file, line)


def cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}\n... ({len(text) - LONGEST} characters are left out)\n{text[-LONGEST // 2 :]}"
