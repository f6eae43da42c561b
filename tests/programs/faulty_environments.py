"""Environments of the field that fail as real ones do, in one step of a hundred by a hash of the task and the step:

    Dies       TextWorldExpress whose JVM is killed
    Freezes    TextWorldExpress whose JVM is stopped, so that the answer never comes
    Hangs      a page of MiniWoB++ whose browser's driver is stopped

Each failure is a line of the file that NOTES names: its split and task, and the turn.
"""

import hashlib
import os
import signal
import time
from pathlib import Path

ONE_IN = int(os.environ.get("ONE_IN", "100"))


def faulty(world, arguments, child):
    """An environment of this class, one live episode a process, that signals a child of its own where a step is to fail."""

    class Faulty(world):
        live = 1

        def __init__(self):
            super().__init__(arguments)

        def reset(self, task, seed):
            self.called, self.turn = f"{self.split}-{task}", 0
            return super().reset(task, seed)

        def step(self, action):
            if int(hashlib.sha256(f"{self.called} {self.turn}".encode()).hexdigest(), 16) % ONE_IN == 0:
                with open(os.environ["NOTES"], "a", encoding="utf-8") as notes:
                    notes.write(f"{self.called} {self.turn}\n")
                child(self)
            self.turn += 1
            return super().step(action)

    return Faulty


def signalled(pid, how):
    """Sends a signal and waits until every thread has felt it: one that hasn't yet could still answer."""
    os.kill(pid, how)
    while any(state(thread) not in "TtZX" for thread in Path(f"/proc/{pid}/task").glob("*")):
        time.sleep(0.001)


def state(thread):
    """The letter of a thread's state; X once it is gone."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def express(how):
    from flow_env.adapters.textworld_express import TextWorldExpress

    return faulty(TextWorldExpress, "coin", lambda world: signalled(world.machine.process.pid, how))


def Dies():
    return express(signal.SIGKILL)()


def Freezes():
    return express(signal.SIGSTOP)()


def Hangs():
    from flow_env.adapters.miniwob import MiniWob

    return faulty(MiniWob, "click-checkboxes", lambda world: signalled(world.driver.service.process.pid, signal.SIGSTOP))()
