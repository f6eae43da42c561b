"""Where an environment runs the commands of programs and models: `Bubblewrap`, or `Container` of Docker or Podman.

docs/agents.md says what each of them holds.
"""

from __future__ import annotations

from typing import Optional, Sequence

from .bubblewrap import Bubblewrap
from .container import Container
from .sandbox import Sandbox
from .settings import CONTAINERS, SandboxSettings


def of(settings: SandboxSettings, commands: Sequence[Sequence[str]], folder: Optional[str]) -> Optional[Sandbox]:
    """The sandbox of these settings, once it has been tried; None where there is none."""
    if settings.sandbox == "none":
        return None
    kind = Container if settings.sandbox in CONTAINERS else Bubblewrap
    return kind(settings, commands, folder)
