"""Process 1 of a sandbox, run by any Python 3 without packages: it starts the program under its limits, carries its calls to the door, and
ends the sandbox with it, or when its processes together exceed a limit.

    python inside.py '{"port": 1, "socket": PATH, "memory_mb": 1, ...}' COMMAND [ARGUMENT...]
"""

import json
import os
import resource
import signal
import socket
import sys
import threading
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


def pump(one: socket.socket, other: socket.socket) -> None:
    """Carries what comes from one socket to the other, to its end."""
    try:
        while True:
            data = one.recv(1 << 16)
            if not data:
                break
            other.sendall(data)
    except OSError:
        pass
    for end, how in ((other, socket.SHUT_WR), (one, socket.SHUT_RD)):
        try:
            end.shutdown(how)
        except OSError:
            pass


def carry(listener: socket.socket, path: str) -> None:
    """A connection to the door for each one to its port."""

    def both(near: socket.socket) -> None:
        far = socket.socket(socket.AF_UNIX)
        with near, far:
            try:
                far.connect(path)
            except OSError:
                return
            back = threading.Thread(target=pump, args=(far, near), daemon=True)
            back.start()
            pump(near, far)
            back.join()

    while True:
        near, _ = listener.accept()
        threading.Thread(target=both, args=(near,), daemon=True).start()


def used() -> Tuple[int, int, float]:
    """Processes with their threads, bytes in memory and seconds of processor time of all but this one."""
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
    found: List[Tuple[str, float, str]] = [("max_processes", count, "processes and threads"), ("memory_mb", memory / MB, "MB of memory"), ("cpu_seconds", seconds, "s of processor time")]
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
                    return ended(f"{seconds:.0f} s of processor time, and `cpu_seconds` is {told['cpu_seconds']}")  # the kernel doesn't say which limit it holds
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
