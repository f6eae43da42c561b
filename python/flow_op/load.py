"""Finds the function that a pipeline names, and describes it."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import sys
from typing import Any, Dict, List, Set, Tuple

from .errors import PACKAGE, Error, Json
from .functions import DECORATORS, Spec, names_of, spec_of


BASE: Set[str] = set()
"""Modules that were there before any of the user's: Arrow's among them."""


class Operator:
    """A decorated function of a file or module, and the user's files behind it."""

    def __init__(self, call: str, folder: str) -> None:
        place, _, name = call.rpartition(":")
        if not place or not name.isidentifier():
            raise Error("import", f"`call` is {call!r}: write file.py:function or package.module:function")
        self.call, self.folder = call, os.path.abspath(folder)
        path = os.path.join(self.folder, place) if place.endswith(".py") else None
        # Packages that are installed below the folder, such as a virtual environment, are no files of the user.
        self.installed = [entry for entry in map(os.path.realpath, sys.path) if entry != os.path.realpath(self.folder)]
        self.roots = [os.path.realpath(self.folder)] + ([os.path.realpath(os.path.dirname(path))] if path else [])
        for root in reversed([os.path.dirname(path)] if path else [self.folder]):
            if os.path.realpath(root) in self.installed:
                self.installed.remove(os.path.realpath(root))
            if root not in sys.path:
                sys.path.insert(0, os.path.normpath(root))
        self.place, self.path, self.name = place, path, name
        self.spec: Any = None

    def load(self) -> None:
        """Imports the user's module and finds the function in it."""
        self.forget()
        module = self.load_file(self.path) if self.path else self.load_module(self.place)
        self.file = os.path.abspath(getattr(module, "__file__", None) or self.path or "")
        self.spec = self.find(module)

    def forget(self) -> None:
        """Modules of the user's folder are read again, so that an edited file counts."""
        importlib.invalidate_caches()
        BASE.update(() if BASE else sys.modules)
        for name, _ in self.modules():
            if name not in BASE:
                del sys.modules[name]

    def load_file(self, path: str) -> Any:
        if not os.path.isfile(path):
            raise Error("import", f"there is no file {os.path.normpath(path)}: `call` is relative to the pipeline's folder")
        name = os.path.basename(path)[: -len(".py")]
        if not name.isidentifier() or name in sys.modules or name in getattr(sys, "stdlib_module_names", ()):
            name = f"flow_op_user_{abs(hash(name))}"  # a name that hides no other module
        made = importlib.util.spec_from_file_location(name, os.path.normpath(path))
        assert made is not None and made.loader is not None  # a file that ends with .py has a loader
        execute = made.loader.exec_module
        module = importlib.util.module_from_spec(made)
        sys.modules[name] = module
        try:
            self.run(lambda: execute(module), path)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        return module

    def load_module(self, place: str) -> Any:
        return self.run(lambda: importlib.import_module(place), place)

    def run(self, load: Any, what: str) -> Any:
        """Runs the user's module; what it raises becomes an error of kind import, at the user's line."""
        name = os.path.basename(what)
        try:
            return load()
        except (Error, MemoryError):
            raise
        except SyntaxError as error:
            raise Error("import", f"{os.path.basename(error.filename or name)} line {error.lineno}: {error.msg}", error.filename, error.lineno) from None
        except ModuleNotFoundError as error:
            if error.name and (error.name == what or what.startswith(error.name + ".")):
                raise Error("import", f"there is no module {error.name}: it is neither in {self.folder} nor installed for {sys.executable}").with_traceback(error.__traceback__) from None
            raise Error("missing", f"{name} imports {error.name}, which is neither beside it nor installed for {sys.executable}: correct the name, or install it "
                                   f"({sys.executable} -m pip install ...)").with_traceback(error.__traceback__) from None
        except BaseException as error:
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise Error("import", f"importing {name} raises {text}").with_traceback(error.__traceback__) from None

    def find(self, module: Any) -> Spec:
        name, found = self.name, vars(module)
        decorated = names_of(found)
        there = f"; decorated are {', '.join(decorated)}" if decorated else ""
        if name not in found:
            raise Error("import", f"{os.path.basename(self.file)} has no function `{name}`{there}", self.file)
        spec = spec_of(found[name])
        if spec is None:
            code = getattr(found[name], "__code__", None)
            raise Error("signature", f"`{name}` isn't decorated: write {DECORATORS}{there}", self.file, code and code.co_firstlineno)
        return spec

    def own(self, path: str) -> bool:
        """Whether a file is the user's: in the pipeline's folder or beside the function, and not of an installed package."""
        def below(folder: str) -> bool:
            return path.startswith(folder.rstrip(os.sep) + os.sep)

        deepest = max((root for root in self.roots if below(root)), key=len, default=None)
        return deepest is not None and not path.startswith(PACKAGE) and f"{os.sep}site-packages{os.sep}" not in path \
            and not any(below(entry) for entry in self.installed if len(entry) > len(deepest))

    def modules(self) -> List[Tuple[str, str]]:
        """The user's modules that are imported: name and file."""
        found = []
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None)
            if isinstance(path, str) and self.own(os.path.realpath(path)):
                found.append((name, os.path.abspath(path)))
        return found

    def files(self) -> List[Json]:
        paths: Set[str] = {path for _, path in self.modules()}
        return [{"path": path, "sha256": digest(path)} for path in [self.file, *sorted(paths - {self.file})] if os.path.isfile(path)]

    def described(self) -> Json:
        from .arrow_types import type_name

        spec = self.spec
        return {
            "form": spec.form,
            "needs": spec.needs if isinstance(spec.needs, str) else list(spec.needs),
            "adds": {name: type_name(one) for name, one in spec.adds.items()},
            "settings": {name: one.described() for name, one in spec.settings.items()},
            "state": spec.state is not None,
            "ordered": spec.ordered,
            "entropy": getattr(spec, "entropy", False),
            "about": about(spec),
            "files": self.files(),
            "versions": versions(),
        }


def about(spec: Spec) -> str:
    import inspect

    return inspect.getdoc(spec.function) or ""


def digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def versions() -> Dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("pyarrow", "numpy"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found
