"""A function of a notebook as a file that the program's own Python runs. Nothing is guessed: what can't be written exactly is refused."""

from __future__ import annotations

import ast
import builtins
import hashlib
import inspect
import linecache
import os
import symtable
import sys
import types
from pathlib import Path
from typing import Any, Dict, Iterator, NamedTuple, NoReturn, Optional, Set, Tuple

from .errors import Error

IN_A_FILE = 'write it into a file beside the pipeline, and give call="FILE.py:{}"'


class CodeFile(NamedTuple):
    """A file with one function."""

    name: str
    text: str


def call_of(function: Any, imports: Optional[str], folder: Path) -> Tuple[str, Optional[CodeFile]]:
    """The value of `call` that names this function, and the file to write for it. A function of an imported file is named there as it is."""
    plain = inspect.unwrap(function)
    name = plain.__name__
    if getattr(function, "__flow_op__", None) is None:
        refuse(name, "isn't decorated", "write @flow_op.columns(needs=[...], adds={...}), @flow_op.rows(...) or @flow_op.loss() above it")
    if plain.__qualname__ != name or not name.isidentifier():
        refuse(name, "is defined inside another function or class", "define it at the left margin")
    module = sys.modules.get(plain.__module__)
    file = getattr(module, "__file__", None)
    if file is not None and plain.__module__ != "__main__":
        return in_file(plain, name, module, os.path.abspath(file), folder), None
    code = CodeFile(*cell(plain, name, imports or ""))
    return f"{code.name}:{name}", code


def in_file(plain: Any, name: str, module: Any, file: str, folder: Path) -> str:
    """The name of a function in a file that was imported."""
    if getattr(module, "__package__", None):
        refuse(name, f"is in the package {module.__package__}", f'give call="{module.__name__}:{name}" in its place')
    try:
        same = matches(Path(file).read_text(encoding="utf-8"), plain)
    except (OSError, ValueError):
        same = False
    if not same:
        refuse(name, f"isn't what {file} has now", "import that file again")
    root = os.path.realpath(folder)
    file = os.path.realpath(file)
    return f"{os.path.relpath(file, root) if file.startswith(root + os.sep) else file}:{name}"


def cell(plain: Any, name: str, imports: str) -> Tuple[str, str]:
    """The name and the text of a file with the imports and the source of a function."""
    try:
        source = inspect.getsource(plain)
    except (OSError, TypeError):
        refuse(name, "has no source that Python could show", IN_A_FILE.format(name))
    text = (imports.strip() + "\n\n\n" if imports.strip() else "") + source
    given = imported(name, imports)
    try:
        # An edited cell that was not run again has another text than the function.
        same = matches("".join(linecache.getlines(plain.__code__.co_filename)), plain, plain.__code__.co_firstlineno) and alone(source, name)
    except (SyntaxError, ValueError):
        same = False
    if not same:
        refuse(name, "isn't what its source says", "define it at the left margin of its cell, and run that cell again")
    if plain.__code__.co_freevars:
        refuse(name, f"uses variables of a function around it: {', '.join(plain.__code__.co_freevars)}", IN_A_FILE.format(name))
    for used in sorted(needed(text)):
        checked(name, used, given, plain.__globals__)
    return f"{name}_{hashlib.sha256(text.encode()).hexdigest()[:8]}.py", text


def imported(name: str, imports: str) -> Dict[str, Any]:
    """The names that the import statements bind, with their values."""
    try:
        statements = ast.parse(imports).body
    except SyntaxError as error:
        refuse(name, f"can't be written: imports= has no valid statement: {error.msg}", 'write them as imports="import flow_op, pyarrow as pa"')
    for one in statements:
        if not isinstance(one, (ast.Import, ast.ImportFrom)) or any(alias.name == "*" for alias in one.names):
            refuse(name, f"can't be written: imports= has `{ast.get_source_segment(imports, one)}`", "it takes import statements of single names; " + IN_A_FILE.format(name))
    names: Dict[str, Any] = {}
    try:
        exec(compile(imports.strip(), "<imports>", "exec", dont_inherit=True), names)
    except Exception as error:
        refuse(name, f"can't be written: its imports raise {type(error).__name__}: {error}", "correct imports=")
    names.pop("__builtins__", None)
    return names


def checked(name: str, used: str, given: Dict[str, Any], notebook: Dict[str, Any]) -> None:
    """Insists that a name means the same in the file as in the notebook."""
    if used in given:
        if used in notebook and notebook[used] is not given[used]:
            refuse(name, f"uses `{used}`, which is something else in the notebook than by imports=", "import it in the same way in both")
    elif not hasattr(builtins, used) or (used in notebook and notebook[used] is not getattr(builtins, used)):
        refuse(name, f"uses `{used}`, which neither its own text nor imports= has",
               f'give imports="import ..." with the statement that imports it; for any other name, {IN_A_FILE.format(name)}')


def needed(text: str) -> Set[str]:
    """The global names that a text uses and does not bind."""
    top = symtable.symtable(text, "<cell>", "exec")
    own = {one.get_name() for one in top.get_symbols() if one.is_namespace()}
    used: Set[str] = set()

    def walk(table: symtable.SymbolTable) -> None:
        for one in table.get_symbols():
            if (table is top or one.is_global()) and (one.is_referenced() or one.is_declared_global()):
                used.add(one.get_name())
        for child in table.get_children():
            walk(child)

    walk(top)
    return used - own


def matches(text: str, plain: Any, line: Optional[int] = None) -> bool:
    """Whether this text defines the function that is at hand: on this line, or as the only one of its name."""
    whole = ast.parse(text)
    # Python compiles a file as a whole, and IPython each statement of a cell on its own: the codes differ in how a call of an imported name is made.
    apart = [ast.Module([one], []) for one in whole.body if isinstance(one, ast.FunctionDef) and one.name == plain.__name__]
    return any(defines(tree, plain, line) for tree in (whole, *apart))


def defines(tree: ast.Module, plain: Any, line: Optional[int]) -> bool:
    module = compile(tree, "<text>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    found = [one for one in module.co_consts if isinstance(one, types.CodeType) and one.co_name == plain.__name__ and line in (None, one.co_firstlineno)]
    return len(found) == 1 and list(content(found[0])) == list(content(plain.__code__))


def alone(source: str, name: str) -> bool:
    """Whether a text is the definition of this function, and nothing else."""
    body = ast.parse(source).body
    return len(body) == 1 and isinstance(body[0], ast.FunctionDef) and body[0].name == name


def content(code: types.CodeType) -> Iterator[Any]:
    """Everything of a code but its place in a file."""
    yield code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from content(constant)
        else:
            # 1, 1.0 and True are equal.
            yield repr(constant)


def refuse(name: str, why: str, help: str) -> NoReturn:
    raise Error(f"`{name}` {why}", help)
