"""Removes the containers of a door that has been killed: it waits for the end of its input, which the door holds open. Run by any Python 3.

    python watch.py CLIENT LABEL
"""

import os
import signal
import subprocess
import sys
import time

LONGEST = 60.0
"""Seconds that a daemon may take to create a container after its client has ended."""


def clients(folder: bytes) -> None:
    """Kills the clients of the door, which have its folder in their environment: no more containers begin."""
    marked: "set[int]" = set()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if folder in file.read():
                        marked.add(int(name))
            except OSError:
                continue
    kill(marked)


def kill(above: "set[int]") -> None:
    """Kills processes with all below them: commands of a build are children of Podman's client, in an environment without a mark."""
    parents: "dict[int, int]" = {}
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
    found: "set[int]" = set()
    more = above
    while more:
        found |= more
        more = {child for child, parent in parents.items() if parent in more} - found
    for process in found - {os.getpid()}:
        try:
            os.kill(process, signal.SIGKILL)
        except OSError:
            continue


def removed(client: str, label: str) -> None:
    """Removes what has the label."""
    listed = subprocess.run([client, "ps", "--all", "--quiet", "--filter", "label=" + label], stdin=subprocess.DEVNULL, capture_output=True, timeout=LONGEST)
    names = listed.stdout.decode().split()
    if names:
        now = ["--time", "0"] if os.path.basename(client) == "podman" else []
        subprocess.run([client, "rm", "--force", "--volumes", *now, *names], stdin=subprocess.DEVNULL, capture_output=True, timeout=LONGEST)


def main() -> None:
    client, label = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    said = sys.stdin.buffer.read()
    until = time.monotonic() + (0 if said else LONGEST)
    while True:
        if not said:
            clients(b"=" + label.partition("=")[2].encode() + b"/")
        try:
            removed(client, label)
        except (OSError, subprocess.TimeoutExpired):
            pass
        if time.monotonic() >= until:
            return
        time.sleep(1)


if __name__ == "__main__":
    main()
