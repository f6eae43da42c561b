"""Run by a program's own Python, which may have no other package: it imports what the program imports, and forks a process an episode.

    python zygote.py REQUESTS REPORTS script.py|-m MODULE [ARGUMENT...]

REQUESTS is a socket: a line of JSON with the environment, with three descriptors. REPORTS is a pipe: a line as a process begins, and one
as it ends."""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.util
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from typing import Any, Dict, List, Optional, Set

Request = Dict[str, Any]


def imported(path: str) -> List[str]:
    """The modules that a file imports where it is begun."""
    try:
        with open(path, encoding="utf-8") as file:
            body = ast.parse(file.read()).body
    except (OSError, ValueError, SyntaxError):
        return []
    names: List[str] = []
    for node in body:
        if isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return names


def preload(path: str, own: str, seen: Set[str]) -> None:
    """Imports the packages that a file and the program's own modules import. The program's modules are read and not run: an episode runs
    them, since they may read its environment."""
    seen.add(path)
    for name in imported(path):
        try:
            spec = importlib.util.find_spec(name.partition(".")[0])
            origin = os.path.realpath(spec.origin) if spec and spec.origin else ""
            if origin.startswith(own) and "site-packages" not in origin:
                if origin not in seen:
                    preload(origin, own, seen)
            else:
                importlib.import_module(name)
        except BaseException as error:  # the program will say it itself
            print(f"start: fork: {name} isn't imported before an episode: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


def main() -> Optional[Request]:
    """Forks until the requests end. In a forked process it gives what that is to run."""
    requests, reports = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    script = sys.argv[3:]
    module = script[0] == "-m"
    own = os.path.join(os.getcwd() if module else os.path.dirname(os.path.realpath(script[0])), "")
    sys.path[0] = own
    spec = importlib.util.find_spec(script[1]) if module else None
    preload(os.path.realpath(str(spec.origin) if spec else script[0]), own, set())
    if threading.active_count() > 1:
        print("start: fork: a module has started threads as it was imported, and a fork has none of them", file=sys.stderr, flush=True)
    numbers: Dict[int, int] = {}
    gc.collect()
    gc.freeze()  # so that a collection in a forked process copies no memory
    while True:
        # A child that has ended shows within this time.
        ready, _, _ = select.select([requests], [], [], 0.02 if numbers else None)
        while numbers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            if pid in numbers:
                report(reports, {"id": numbers.pop(pid), "status": os.waitstatus_to_exitcode(status)})
        if not ready:
            continue
        first, descriptors, _, _ = socket.recv_fds(requests, 1 << 16, 3)
        if not first:
            sys.exit()
        while not first.endswith(b"\n"):
            first += requests.recv(1 << 16)
        request: Request = json.loads(first)
        pid = os.fork()
        if not pid:
            os.setsid()
            report(reports, {"id": request["id"], "pid": os.getpid()})
            begin(request, descriptors, [requests.detach(), reports])
            return {"script": script}
        numbers[pid] = request["id"]
        for descriptor in descriptors:
            os.close(descriptor)


def report(reports: int, what: Request) -> None:
    os.write(reports, json.dumps(what).encode() + b"\n")


def begin(request: Request, descriptors: List[int], more: List[int]) -> None:
    """Makes a forked process one of its own."""
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
    for descriptor in [*descriptors, *more]:
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["env"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    numpy = sys.modules.get("numpy")
    if numpy is not None:  # Python's own generator is seeded anew by the fork
        numpy.random.seed()


def run(script: List[str]) -> None:
    if script[0] == "-m":
        sys.argv = script[1:]
        runpy.run_module(script[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = script
        runpy.run_path(script[0], run_name="__main__")


if __name__ == "__main__":
    asked = main()
    if asked is not None:
        run(asked["script"])
