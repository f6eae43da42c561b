"""Process 1 of a sandbox, run by any Python 3 without packages: it starts the program under its limits, carries its calls to the door, and
ends the sandbox with it, or when its processes together exceed a limit.

    python inside.py '{"port": 1, "socket": PATH, "memory_mb": 1, ...}' COMMAND [ARGUMENT...]
"""

import json
import os
import resource
import selectors
import signal
import socket
import sys
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

Told = Dict[str, Any]

LOOK = 0.1
"""Seconds between two looks at all processes."""
DISK = 1.0
"""Seconds between two looks at the folders, which take longer."""
MB = 1 << 20
STOPPED = 125
"""The exit status of a sandbox that has exceeded a limit, or that can't start its program."""


def limited(told: Told) -> None:
    """The limits that the kernel holds, each of one process. In a container it also counts memory and processes of all: those of a user would
    be all of this machine's."""
    memory, disk = told["memory_mb"] * MB, told["disk_mb"] * MB
    # Not of addresses: node, Java and torch reserve far more than they write to.
    for name, most in ((resource.RLIMIT_DATA, memory), (resource.RLIMIT_FSIZE, disk), (resource.RLIMIT_CPU, told["cpu_seconds"]),
                       (resource.RLIMIT_CORE, 0), *([] if told.get("counted") else [(resource.RLIMIT_NPROC, told["max_processes"])])):
        hard = resource.getrlimit(name)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(name, (most, most))


def start(command: List[str], told: Told) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        limited(told)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        os.execvp(command[0], command)
    except BaseException as error:
        os.write(2, f"{command[0]} can't be started in the sandbox: {error}; folders that it needs are named in `read`\n".encode())
    os._exit(STOPPED)


class End:
    """A side of a connection that is carried, and the bytes that it has yet to get."""

    def __init__(self, side: socket.socket) -> None:
        side.setblocking(False)
        self.side, self.left, self.reads, self.writes = side, bytearray(), True, True
        self.other = self

    def watched(self, loop: selectors.BaseSelector) -> None:
        """Waits for what this side can do next; a side that may wait long isn't read meanwhile."""
        events = (selectors.EVENT_READ if self.reads and len(self.other.left) < MB else 0) | (selectors.EVENT_WRITE if self.left else 0)
        if self.side in loop.get_map():
            loop.unregister(self.side)
        if events:
            loop.register(self.side, events, self)

    def moved(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            del self.left[:self.side.send(self.left)]
        if events & selectors.EVENT_READ:
            data = self.side.recv(1 << 16)
            self.other.left += data
            self.reads = bool(data)

    def finished(self) -> bool:
        """Says that no more bytes come, once the other side has said so; whether both have."""
        if self.writes and not self.left and not self.other.reads:
            self.side.shutdown(socket.SHUT_WR)
            self.writes = False
        return not (self.writes or self.other.writes)


def accepted(listener: socket.socket, path: str) -> List[End]:
    near, _ = listener.accept()
    far = socket.socket(socket.AF_UNIX)
    try:
        far.connect(path)
    except OSError:
        near.close()
        far.close()
        raise
    ends = [End(near), End(far)]
    ends[0].other, ends[1].other = ends[1], ends[0]
    return ends


def carry(listener: socket.socket, path: str) -> None:
    """A connection to the door for each one to its port, all in one thread: a container has few."""
    loop = selectors.DefaultSelector()
    loop.register(listener, selectors.EVENT_READ)
    while True:
        for key, events in loop.select():
            end: Optional[End] = key.data
            try:
                if end is None:
                    ends, over = accepted(listener, path), False
                elif end.side.fileno() < 0:  # closed in this round
                    continue
                else:
                    ends = [end, end.other]
                    end.moved(events)
                    over = any([each.finished() for each in ends])
                for each in ends:
                    each.watched(loop)
            except BlockingIOError:
                continue
            except OSError:
                ends, over = [end, end.other] if end else [], True
                if end is None:  # too many are open
                    time.sleep(LOOK)
            if over:
                for each in ends:
                    if each.side in loop.get_map():
                        loop.unregister(each.side)
                    each.side.close()


def used() -> Tuple[int, int, float]:
    """Processes with their threads, bytes in memory and seconds of CPU time of all but this one."""
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    count = memory = ticks = 0
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    of = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            count += int(of[17])
            memory += int(of[21]) * page
            ticks += sum(map(int, of[11:15]))
    ended = os.times()
    return count, memory, ticks / tick + ended.children_user + ended.children_system


def filled(folders: List[str]) -> int:
    """Bytes of the files below these folders."""
    total = 0
    for folder in folders:
        for path, _, names in os.walk(folder):
            for name in names:
                try:
                    total += os.lstat(os.path.join(path, name)).st_blocks * 512
                except OSError:
                    continue
    return total


def exceeded(told: Told, look: int) -> Optional[str]:
    """The limit that all processes together exceed."""
    count, memory, seconds = used()
    found: List[Tuple[str, float, str]] = [("max_processes", count, "processes and threads"), ("memory_mb", memory / MB, "MB of memory"), ("cpu_seconds", seconds, "s of CPU time")]
    if not look % round(DISK / LOOK):
        found.append(("disk_mb", filled(told["writable"]) / MB, "MB in its folders"))
    return next((f"{value:.0f} {what}, and `{name}` is {told[name]}" for name, value, what in found if value > told[name]), None)


def killed_for_memory() -> bool:
    """Whether the kernel has killed a process because the container's memory was full: cgroup v2, and v1."""
    for path, name in (("/sys/fs/cgroup/memory.events", "oom_kill "), ("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill ")):
        try:
            with open(path) as file:
                return any(line.startswith(name) and int(line.split()[1]) > 0 for line in file)
        except (OSError, ValueError):
            continue
    return False


def ended(text: str) -> int:
    os.write(2, f"\nthe sandbox has ended the program: it had {text}\n".encode())
    return STOPPED


def guarded(child: int, told: Told) -> int:
    """Waits for the program; gives its status as a shell does."""
    look = 0
    while True:
        signal.sigtimedwait([signal.SIGCHLD], LOOK)
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return STOPPED
            if pid == child:
                seconds = usage.ru_utime + usage.ru_stime
                if status and seconds > told["cpu_seconds"] - LOOK:
                    return ended(f"{seconds:.0f} s of CPU time, and `cpu_seconds` is {told['cpu_seconds']}")  # the kernel doesn't say which limit it holds
                if told.get("counted") and status and killed_for_memory():
                    return ended(f"more memory than `memory_mb`, which is {told['memory_mb']}: the kernel killed a process of it")
                return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            if not pid:
                break
        look += 1
        text = exceeded(told, look)
        if text:
            os.kill(-1, signal.SIGKILL)  # all but this process
            return ended(text)


def hidden() -> None:
    """Keeps the program from reading and changing this process."""
    import ctypes

    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


def main() -> None:
    told, command = json.loads(sys.argv[1]), sys.argv[2:]
    hidden()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    listener = socket.socket()
    if told["socket"]:
        listener.bind(("127.0.0.1", told["port"]))
        listener.listen(128)
    child = start(command, told)
    if told["socket"]:
        threading.Thread(target=carry, args=(listener, told["socket"]), daemon=True).start()
    os._exit(guarded(child, told))


main()
