"""What a door serves."""

from __future__ import annotations

from typing import ClassVar, Tuple

from ..limits import Json
from .episode import Episode
from .settings import Settings
from .tasks import Tasks


class World:
    """Tasks, and how an episode on one of them begins. Made of what stands behind the colon; raises `Wrong` where that is wrong."""

    abilities: ClassVar[Tuple[str, ...]] = ()
    name: str
    settings: Settings
    tasks: Tasks

    def episode(self, task: Json, seed: int) -> Episode:
        raise NotImplementedError

    async def begin(self) -> None:
        """Before the first episode."""

    def closed(self, episode: Episode) -> None:
        """Flow has closed an episode."""

    async def end(self) -> None:
        """After the last episode."""
