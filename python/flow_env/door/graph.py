"""Which earlier call a call goes on from. The same program gives the same graph, whatever comes first."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..limits import Json
from . import thoughts
from .ask import Ask, ORIGIN, Reply, assistant
from .settings import canonical, digest

@dataclass
class Node:
    """One call."""

    id: str
    length: int
    """How many messages it has. The messages themselves aren't kept: each call has those of the calls before it again."""
    on: Optional["Node"]
    since: int
    fork: Optional[str]
    depth: int
    count: int
    """How often the same was asked before."""
    chain: str
    """Names its messages, tools and model."""
    state: str
    """Names its messages and the names of its tools, whatever the model."""
    family: str
    """Names its tools, its model and its system message."""
    begin: str
    """Names its first user message."""
    answer: Optional[Json] = None
    successors: int = 0


@dataclass
class Graph:
    """The calls of an episode. `scrub` removes from a text what differs between equal episodes, such as the folder's name."""

    scrub: Callable[[str], str] = lambda text: text
    nodes: List[Node] = field(default_factory=list)
    by_chain: Dict[str, List[Node]] = field(default_factory=dict)
    asked: Dict[str, int] = field(default_factory=dict)

    def add(self, ask: Ask) -> Node:
        """Finds a place for a call that came in."""
        plain = [self.plain(message) for message in ask.messages]
        setting = digest([ask.tools, ask.model])
        on, since, chain = self.walk(ask, plain, setting)
        question = digest([on.id if on else "", plain[since:], ask.tools, ask.model])
        count = self.asked.get(question, 0)
        self.asked[question] = count + 1
        system = plain[0] if plain and plain[0][0] == "system" else None
        family = digest([setting, system])
        begin = digest(next((message for message in plain if message[0] == "user"), None))
        state = digest([plain, sorted(tool["function"]["name"] for tool in ask.tools)])
        node = Node(digest([question, count])[:16], len(plain), on, since, None, on.depth + 1 if on else 0, count, chain, state, family, begin)
        node.fork = self.reason(node, system is not None)
        if on:
            on.successors += 1
        self.nodes.append(node)
        self.by_chain.setdefault(chain, []).append(node)
        return node

    def walk(self, ask: Ask, plain: List[Any], chain: str) -> Tuple[Optional[Node], int, str]:
        """The latest earlier call whose messages and answer these messages begin with, how many those are, and the name of all of them.
        An answer is put back as the policy gave it, however the client has changed it since."""
        on: Optional[Node] = None
        since = 0
        for place, message in enumerate(ask.messages):
            found = self.answered(chain, message) if message["role"] == "assistant" else None
            if found is not None and found.answer is not None:
                ask.messages[place], plain[place] = found.answer, self.plain(found.answer)
                if place + 1 < len(plain):
                    on, since = found, place + 1
            chain = digest([chain, plain[place]])
        return on, since, chain

    def answered(self, chain: str, message: Json) -> Optional[Node]:
        """The call with these messages that this message answers."""
        nodes = [node for node in self.by_chain.get(chain, []) if node.answer is not None and alike(node.answer, message)]
        ids = {ORIGIN.sub(r"\1", call["id"]) for call in message.get("tool_calls", [])}
        nodes.sort(key=lambda node: (node.id not in ids, node.answer is not None and self.plain(node.answer) != self.plain(message), node.count))
        return nodes[0] if nodes else None

    def reason(self, node: Node, told: bool) -> Optional[str]:
        """Why a call is no plain continuation; `told` says that it has a system message."""
        if node.count:
            return "again"
        if node.on is not None:
            return "edited" if node.on.successors else None
        if not self.nodes:
            return None
        kin = [other for other in self.nodes if other.family == node.family]
        same = [other for other in kin if other.begin == node.begin]
        if not same and node.family != self.nodes[0].family:
            return "sub_agent"
        longest = max((other.length for other in same or (kin if told else ())), default=0)
        return "compacted" if node.length < longest else "edited"

    def plain(self, message: Json) -> List[Any]:
        """A message without ids and without what differs between equal episodes."""
        calls = [[call["function"]["name"], self.scrubbed(call["function"]["arguments"])] for call in message.get("tool_calls", [])]
        return [message["role"], self.scrub(message["content"]), calls]

    def scrubbed(self, value: Any) -> Any:
        return json.loads(self.scrub(canonical(value)))


def alike(answer: Json, echo: Json) -> bool:
    """Whether a message that a client sent back is this answer. Clients strip blanks and thoughts, drop a text beside calls, and drop
    calls after the first. smolagents writes the calls as text, in which their ids stand."""
    said, calls = echo["content"].strip(), plain_calls(echo)
    texts = {answer["content"].strip(), thoughts.without(answer["content"]).strip(), thoughts.split(answer["content"])[1].strip()}
    given = plain_calls(answer)
    if given and calls and not said:
        texts.add("")
    if given and not calls and all(call["id"] in said for call in answer["tool_calls"]):
        return True
    return said in texts and (calls == given or bool(calls) and calls == given[:len(calls)])


def plain_calls(message: Json) -> List[Tuple[str, str]]:
    return [(call["function"]["name"], canonical(call["function"]["arguments"])) for call in message.get("tool_calls", [])]


def answer(reply: Reply) -> Json:
    """The message that a reply adds to a conversation."""
    return assistant(reply.content, [{"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
                                     for call_id, name, arguments in reply.calls])
