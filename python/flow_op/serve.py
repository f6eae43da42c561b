"""Answers requests until the input ends."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any, List, Tuple

from .errors import Error, Json, described
from .wire import Pipes

PROTOCOL = 1
GRACE = 4.0
"""How long threads and exit handlers of the user's code may take at the end, in seconds."""


def serve() -> int:
    pipes = Pipes()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # flow ends the process by closing its input
    limit_memory()
    session = Session(pipes)
    try:
        while True:
            message = pipes.read(session.buffer)
            if message is None:
                break
            header, body = session.answer(*message)
            pipes.write(header, body)
            del message, header, body  # so that the next request has their memory
    except BrokenPipeError:
        pass
    watch = threading.Timer(GRACE, os._exit, (0,))
    watch.daemon = True
    try:
        watch.start()
    except RuntimeError:  # no memory for a thread
        os._exit(0)
    return 0


class Session:
    def __init__(self, pipes: Pipes) -> None:
        self.pipes = pipes
        self.operator: Any = None
        self.call: Any = None

    def buffer(self, size: int) -> Any:
        """Memory for a body: Arrow's own, which is aligned, once pyarrow is imported."""
        arrow = sys.modules.get("pyarrow")
        return arrow.allocate_buffer(size) if arrow and size else bytearray(size)

    def answer(self, header: bytes, body: Any) -> Tuple[Json, Any]:
        try:
            return self.respond(header, body)
        except BaseException as error:
            self.pipes.only_owner()
            return self.failed(error), b""
        finally:
            self.pipes.only_owner()
            self.call = None
            flush()

    def failed(self, error: BaseException) -> Json:
        own = self.operator.own if self.operator else lambda path: False
        where = self.call.where() if self.call else ""
        try:
            said = described(error, own, where)
            if self.call and said["error"]["file"] is None:  # of a result: where the function is
                code = self.call.spec.function.__code__
                said["error"].update(file=code.co_filename, line=code.co_firstlineno)
            return said
        finally:
            error.__traceback__ = error.__context__ = error.__cause__ = None  # its frames hold the function's memory

    def respond(self, header: bytes, body: Any) -> Tuple[Json, Any]:
        if body is None:
            raise MemoryError
        try:
            request = json.loads(header)
        except ValueError as error:
            raise Error("protocol", f"a request is no JSON: {error}") from None
        what = request.get("do") if isinstance(request, dict) else None
        if what == "describe":
            return self.describe(request), b""
        if what in ("run", "loss"):
            if self.operator is None or self.operator.spec is None:
                raise Error("protocol", f"the request {what} comes before a function is described")
            return (self.run if what == "run" else self.loss)(request, body)
        raise Error("protocol", f"there is no request {what!r}: write describe, run or loss")

    def describe(self, request: Json) -> Json:
        if request.get("protocol") != PROTOCOL:
            raise Error("protocol", f"flow speaks version {request.get('protocol')} of the protocol, and this flow_op version {PROTOCOL}: install the flow_op of the same release")
        for key in ("call", "folder"):
            if not isinstance(request.get(key), str):
                raise Error("protocol", f"the request describe has no text `{key}`")
        need_arrow()
        from .load import Operator

        self.operator = None
        self.operator = Operator(request["call"], request["folder"])  # errors below show the frames of its files
        self.operator.load()
        return {"ok": self.operator.described()}

    def run(self, request: Json, body: Any) -> Tuple[Json, Any]:
        from .again import check
        from .groups import Call, batch

        rows = table(body)
        settings, seed = request.get("settings") or {}, request.get("seed") or 0
        if not isinstance(settings, dict) or not isinstance(seed, int):
            raise Error("protocol", f"the request run has the settings {settings!r} and the seed {seed!r}: an object and an integer")
        self.call = call = Call(self.operator.spec, rows, groups(request, rows.num_rows), settings, request.get("state"))
        result = call.answer()
        checked = bool(request.get("check"))
        if checked:
            check(call, result, seed)
        made = batch(result.columns)
        varied = checked and varies(self.operator.spec, made, rows.num_rows)
        return {"ok": {"rows": made.num_rows, "state": result.state, "checked": checked, "varied": varied}}, stream(made)

    def loss(self, request: Json, body: Any) -> Tuple[Json, Any]:
        from .losses import answer

        return {"ok": {}}, stream(answer(self.operator.spec, request, table(body)))


def varies(spec: Any, made: Any, count: int) -> bool:
    """Whether a result can show that rows were mixed up: some rows have other values than others, or are gone."""
    import pyarrow.compute as pc

    def distinct(name: str) -> bool:
        column = made.column(name)
        flat = column.flatten() if "list" in str(column.type) else column
        return bool(pc.count_distinct(flat).as_py() > 1)

    return spec.form == "rows" and 0 < made.num_rows != count or any(distinct(name) for name in spec.adds if name in made.schema.names)


def table(body: Any) -> Any:
    """The rows of a body, without a copy."""
    import pyarrow as pa

    try:
        return pa.ipc.open_stream(pa.py_buffer(body)).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise Error("protocol", f"the body is no Arrow IPC stream: {error}") from None


def stream(batch: Any) -> Any:
    """A batch as a body."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def groups(request: Json, count: int) -> List[Any]:
    from .groups import Group

    found, start = [], 0
    for one in request.get("groups") or []:
        end, seed = one.get("end"), one.get("seed", 0)
        if not isinstance(end, int) or not start <= end <= count or not isinstance(seed, int) or not 0 <= seed < 1 << 64:
            raise Error("protocol", f"a group ends at {end!r}, after {start} and among {count} rows, with the seed {seed!r}")
        found.append(Group(start, end, seed, str(one.get("name") or "")))
        start = end
    if start != count:
        raise Error("protocol", f"the groups end at row {start} of {count}")
    return found


def need_arrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise Error("missing", f"pyarrow can't be imported by {sys.executable} ({error}): {sys.executable} -m pip install pyarrow 'numpy>=2'") from None


def limit_memory() -> None:
    """FLOW_OP_MEMORY, in bytes: a function that takes more gets a MemoryError."""
    allowed = os.environ.get("FLOW_OP_MEMORY", "")
    if allowed.isdigit() and int(allowed):
        import resource

        # Arrow's default allocator reserves a gigabyte at once, which would count.
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        resource.setrlimit(resource.RLIMIT_DATA, (int(allowed), int(allowed)))


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # the user's code may have closed it
            pass
