"""Programs, tools and tasks in containers of Docker and of Podman. Needs a daemon, or Podman, and an image with Python 3 and bash that FLOW_TEST_IMAGE names."""

import importlib.util
import os
import subprocess
import unittest

from flow_env.door.engine import Engine
from flow_env.door.settings import Wrong
from tests import test_sandbox

IMAGE = os.environ.get("FLOW_TEST_IMAGE", "")


def unusable(name):
    """Why containers can't be tested here; nothing if they can."""
    if importlib.util.find_spec("aiohttp") is None:
        return "the package aiohttp isn't here"
    if not IMAGE:
        return "FLOW_TEST_IMAGE names no image"
    try:
        Engine(name).image(IMAGE)
    except Wrong as wrong:
        return str(wrong)[:200]
    return ""


WHY = {name: unusable(name) for name in ("docker", "podman")}


class Contained:
    covered = ""
    open_to_root = ("/proc/slabinfo",) if not os.getuid() else ()

    @property
    def box(self):
        return {"sandbox": self.kind, "image": IMAGE}

    def containers(self, *options):
        """The containers of all doors, whatever their state."""
        said = subprocess.run([self.kind, "ps", "--all", "--filter", "label=flow.door", "--format", "{{.Names}}", *options], capture_output=True, text=True, check=True)
        return said.stdout.split()

    def running(self, flow):
        return self.containers()


class Docker(Contained):
    kind = "docker"
    why = staticmethod(lambda: WHY["docker"])


class Podman(Contained):
    kind = "podman"
    why = staticmethod(lambda: WHY["podman"])


class DockerAlike(Docker, test_sandbox.Alike):
    pass


class PodmanAlike(Podman, test_sandbox.Alike):
    pass


class DockerHeld(Docker, test_sandbox.Held):
    pass


class PodmanHeld(Podman, test_sandbox.Held):
    pass
