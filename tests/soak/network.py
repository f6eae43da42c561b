"""Two hosts as network namespaces, with a slow and lossy link between them: `make network` (as root, on Linux).

    python3 tests/soak/network.py [MILLISECONDS [LOSS]]

Each host is a namespace of its own with one interface. This program is the link: it hands packets over after MILLISECONDS (20) each way, and loses
LOSS (0.01) of them. A run in two processes, one on each host, must end with the rows and weights of a run in one. Then the link is cut while a run
goes on: the process on the other side must end by itself within seconds, and say which host is gone.
"""

import collections
import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from runs import ENV, FLOW, QUIET, digest, load

PIPELINE = """
flow: network
iterations: 12
seed: 11
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 6 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update, staleness: 1 } }, with: { agent: { model: actor, max_turns: 5 }, samples: 4 } }
  group: { op: group, inputs: rollout, with: { by: [task, state, visitation_depth] } }
  advantage: { op: advantage, inputs: group, with: { of: step_return, gamma: 0.95 } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [rollout, group, advantage, update]
"""
TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 0x0001, 0x1000, 0x40000000
NAMES = [f"flow-{os.getpid()}-{side}" for side in "ab"]
# How long the process that is left may take to notice that it is alone.
WITHIN = 60.0


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def tun(namespace, address):
    """An interface in the namespace, whose packets are read and written here."""
    libc, own = ctypes.CDLL(None, use_errno=True), os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    assert libc.setns(there, CLONE_NEWNET) == 0
    try:
        # It belongs to the namespace in which it is opened.
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", b"flow0", IFF_TUN | IFF_NO_PI))
    finally:
        assert libc.setns(own, CLONE_NEWNET) == 0
    ip("-n", namespace, "link", "set", "lo", "up")
    ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "flow0")
    ip("-n", namespace, "link", "set", "flow0", "up")
    return fd


class Link(threading.Thread):
    """Carries packets between two interfaces, late and not all of them."""

    def __init__(self, ends, seconds, loss):
        super().__init__(daemon=True)
        self.ends, self.seconds, self.loss, self.draws = ends, seconds, loss, random.Random(3)
        self.cut, self.carried, self.lost = False, 0, 0

    def run(self):
        late = collections.deque()
        while True:
            wait = max(0.0, late[0][0] - time.monotonic()) if late else 0.05
            for fd in select.select(self.ends, [], [], wait)[0]:
                packet = os.read(fd, 65536)
                lost = self.draws.random() < self.loss
                self.lost += lost
                if not lost and not self.cut:
                    late.append((time.monotonic() + self.seconds, self.ends[1 - self.ends.index(fd)], packet))
            while late and late[0][0] <= time.monotonic():
                _, fd, packet = late.popleft()
                self.carried += 1
                try:
                    os.write(fd, packet)
                except OSError:
                    pass  # a full queue loses packets too


def begun(home, run, extra=()):
    """A run in two processes, one on each host."""
    (home / "hosts").write_text("10.99.0.1:4321\n10.99.0.2:4321\n")
    command = [FLOW, "run", home / "network.yaml", *extra, "--out", run, "--hosts", home / "hosts", "--process"]
    children = []
    for side, name in enumerate(NAMES):
        with open(home / f"{run.name}-{side}", "w") as messages:
            children.append(subprocess.Popen(["ip", "netns", "exec", name, *command, str(side)], stdout=subprocess.DEVNULL, stderr=messages, env=ENV))
    return children


def main():
    milliseconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    loss = float(sys.argv[2]) if len(sys.argv) > 2 else 0.01
    print(load())
    made = []
    try:
        for name in NAMES:
            ip("netns", "add", name)
            made.append(name)
        link = Link([tun(name, f"10.99.0.{side + 1}") for side, name in enumerate(NAMES)], milliseconds / 1000, loss)
        link.start()
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            (home / "network.yaml").write_text(PIPELINE)
            subprocess.run([FLOW, "run", home / "network.yaml", "--out", home / "one"], check=True, **QUIET)
            start = time.monotonic()
            both = begun(home, home / "two")
            for side, child in enumerate(both):
                if child.wait() != 0:
                    raise SystemExit(f"process {side} failed: {(home / f'two-{side}').read_text()}")
            same = digest(home / "one") == digest(home / "two")
            print(f"{milliseconds:.0f} ms each way, {100 * loss:.0f}% lost: {'the same rows and weights' if same else 'OTHER rows or weights'} as on one host, in "
                  f"{time.monotonic() - start:.1f} s; {link.carried} packets carried, {link.lost} lost", flush=True)
            fine = same
            for first in (0, 1):
                run = home / f"cut-{first}"
                both = begun(home, run, ["--set", "iterations=100000"])
                while not (run / "log").is_dir() or not any((run / "log").iterdir()):
                    time.sleep(0.01)
                time.sleep(1.0)
                link.cut, start = True, time.monotonic()
                # Seen from both sides: the one that is asked for first and then the other.
                for side in (first, 1 - first):
                    while both[side].poll() is None and time.monotonic() - start < WITHIN:
                        time.sleep(0.01)
                    took = time.monotonic() - start
                    words = (home / f"{run.name}-{side}").read_text().strip().splitlines()
                    named = any(f"process {1 - side}" in line for line in words)
                    fine &= both[side].poll() not in (None, 0) and named
                    print(f"cut off: process {side} {f'ended after {took:.1f} s' if both[side].poll() is not None else 'goes on'}: {words[-1] if words else ''}", flush=True)
                for child in both:
                    child.kill()
                    child.wait()
                link.cut = False
        sys.exit(0 if fine else 1)
    finally:
        for name in made:
            ip("netns", "del", name)


main()
