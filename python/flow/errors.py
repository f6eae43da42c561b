"""What the program reports when it can't do its work, as an exception."""

from __future__ import annotations

import re
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence

# One mistake as the program prints it: its message, its place, and the lines below them.
MISTAKE = re.compile(r"^error: (?P<message>.+)\n +--> (?P<file>.+?)(?::(?P<line>\d+):(?P<column>\d+))?$(?P<rest>(?:\n(?!error: ).*)*)", re.MULTILINE)
HELP = re.compile(r"^ *= help: (.*)", re.MULTILINE)


class Mistake(NamedTuple):
    """One mistake in a pipeline. `file` is `--set PATH` for an override, and `<pipeline NAME>` for a pipeline made in Python: then `line` is a line of
    its `to_yaml()`."""

    message: str
    file: str
    line: int
    column: int
    help: Optional[str]


class Error(Exception):
    """The program could not do its work.

    `message` says why and `help` what to do, where the program knows it. `mistakes` has each mistake of a pipeline with its place. `code` is the exit
    code of the program, or None if it didn't start."""

    def __init__(self, message: str, help: str = "", mistakes: Sequence[Mistake] = (), code: Optional[int] = None, text: str = "") -> None:
        super().__init__(text or "\n".join(filter(None, (message, help))))
        self.message, self.help, self.mistakes, self.code = message, help, list(mistakes), code


def from_output(text: str, code: int, names: Optional[Mapping[str, str]] = None) -> Error:
    """The error that a program printed before it ended with `code`. `names` has what temporary files are called."""
    text = renamed(text, names).strip()
    found = [mistake(one) for one in MISTAKE.finditer(text)]
    if found:
        return several(found, code, text)
    # Warnings come before the error.
    begin = re.search(r"^error: ", text, re.MULTILINE)
    message, _, help = text[begin.end() if begin else 0 :].partition("\n")
    return Error(message or f"the program ended with code {code}", help.strip(), (), code, text)


def from_json(mistakes: Sequence[Mapping[str, Any]], code: int, text: str, names: Optional[Mapping[str, str]] = None) -> Error:
    """The mistakes that `flow check --format json` printed; `text` is how it prints them for people."""
    found = [Mistake(renamed(one["message"], names), renamed(one["file"], names), one["line"], one["column"], one["help"] and renamed(one["help"], names))
             for one in mistakes]
    return several(found, code, renamed(text, names).strip())


def several(mistakes: List[Mistake], code: int, text: str) -> Error:
    first = mistakes[0]
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    return Error(first.message + more, first.help or "", mistakes, code, text)


def mistake(found: "re.Match[str]") -> Mistake:
    help = HELP.search(found["rest"])
    return Mistake(found["message"], found["file"], int(found["line"] or 1), int(found["column"] or 1), help[1] if help else None)


def renamed(text: str, names: Optional[Mapping[str, str]]) -> str:
    for file, name in (names or {}).items():
        text = text.replace(file, name)
    return text
