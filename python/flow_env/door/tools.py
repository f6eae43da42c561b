"""An episode whose loop is ours: it asks, carries out the tools that the answer calls, shows their results, and asks again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, List, Mapping, Optional

from ..limits import Json, clean
from .ask import Ask, Refusal, Reply
from .episode import Episode
from .graph import answer
from .program import swept
from .schema import Schema, wrong_names
from .settings import Settings

AT_ONCE = 100
"""An answer may call so many tools."""
UNREADABLE = "Error: the call of a tool can't be read. Write it again, with the name of a tool and its arguments as JSON."


@dataclass(kw_only=True)
class ToolSettings(Settings):
    episode_seconds: float = 3600.0
    turns: int = 50
    """Answers at most; what is there then is scored."""
    call_seconds: float = 60.0
    """Seconds that a call of a tool may take."""
    characters: int = 20_000
    """The most that is shown of a tool's result."""

    def check(self) -> None:
        super().check()
        self.number("turns", 1, True)
        self.number("characters", 100, True)
        self.number("call_seconds", 0.01)


class WrongCall(Exception):
    """A tool can't be called so. The text goes back to the policy."""


class Conversation(Episode):
    """The messages so far, and the tools that may be called now."""

    ending = "The conversation is over."
    strangers = True
    processes: ClassVar[bool] = True
    """Whether it starts any."""
    typed: ClassVar[bool] = True
    """Whether a tool's schema is one of JSON Schema. If not, it says the names of the arguments and no more, and there are no others."""
    asks_again: ClassVar[bool] = True
    """Whether an answer whose call can't be read is told so. If not, it ends the turn as an answer without a call does."""
    settings: ToolSettings

    def __init__(self, settings: ToolSettings, task: Json, seed: int) -> None:
        super().__init__(settings, task, seed)
        self.messages: List[Json] = []
        self.tools: List[Json] = []

    async def call(self, name: str, arguments: Json) -> str:
        """The result of a tool. `WrongCall` goes back to the policy; any other exception is the failure of the episode."""
        raise NotImplementedError

    async def converse(self, turns: int) -> bool:
        """Asks until an answer calls no tool. False where the conversation is too long before that."""
        for _ in range(turns):
            reply = await self.say()
            if reply is None:
                return False
            if not reply.calls and (self.valid or not self.asks_again):
                return True
            if not reply.calls:
                self.messages.append({"role": "user", "content": UNREADABLE})
            for place, (call_id, name, arguments) in enumerate(reply.calls):
                text = await self.result(name, arguments) if place < AT_ONCE else f"Error: an answer may call {AT_ONCE} tools."
                self.messages.append({"role": "tool", "content": text, "tool_call_id": call_id, "name": name})
        return False

    async def say(self) -> Optional[Reply]:
        """The policy's answer; None where the prompt is too long for it."""
        try:
            reply = await self.ask(Ask(self.settings.name_model, list(self.messages), self.tools)).reply
        except Refusal as refusal:
            if refusal.tokens is None:
                raise
            return None
        self.messages.append(answer(reply))
        return reply

    async def result(self, name: str, arguments: Json) -> str:
        """What a call of a tool gives, or what is wrong with it."""
        known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in self.tools}
        try:
            if name not in known:
                raise WrongCall(f"there is no tool `{name}`; there are {', '.join(sorted(known))}")
            mismatch(known[name], arguments, self.typed)
            text = await self.call(name, arguments)
        except WrongCall as wrong:
            self.valid = False
            text = f"Error: {wrong}"
        return bounded(clean(text), self.settings.characters) or "(no text)"

    def abandon(self, why: str) -> None:
        super().abandon(why)
        if self.run is not None:
            self.run.cancel()

    async def swept(self) -> None:
        await super().swept()
        if self.processes:
            await swept(self.home.encode())


def mismatch(parameters: Mapping[str, Any], arguments: Json, typed: bool = True) -> None:
    """Raises `WrongCall` where arguments aren't as a tool's schema says."""
    wrong = Schema(parameters).wrong(arguments) if typed else wrong_names(parameters, arguments, open_to=False)
    if wrong:
        raise WrongCall(wrong)


def bounded(text: str, most: int) -> str:
    """The beginning and the end of a text that is too long.

    >>> bounded("abcdefgh", 4)
    'ab\\n[4 characters are left out]\\ngh'
    """
    if len(text) <= most:
        return text
    return f"{text[:most // 2]}\n[{len(text) - most // 2 * 2} characters are left out]\n{text[len(text) - most // 2:]}"
