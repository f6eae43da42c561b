"""The sockets of Docker, Podman and containerd: by one of them a program is master of this machine or of its user. No sandbox shows one."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import List

PLACES = ("/run/docker.sock", "/run/podman", "/run/containerd", "/run/user")
PATIENCE = 20.0
"""Seconds for an answer of the client, which asks no daemon."""


def host(client: str) -> str:
    """The address of the daemon that a client calls, if it names one. Docker has it from a variable or from a context."""
    given = os.environ.get("DOCKER_HOST" if client == "docker" else "CONTAINER_HOST", "")
    path = shutil.which(client)
    if given or client != "docker" or path is None:
        return given
    try:
        said = subprocess.run([path, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if said.returncode else said.stdout.strip()


def places() -> List[str]:
    """The sockets, and folders of such."""
    named = [address.partition(":")[2].lstrip("/") for address in map(host, ("docker", "podman")) if address.startswith("unix:")]
    return [*PLACES, *(os.path.realpath("/" + path) for path in named if path)]
