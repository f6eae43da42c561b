"""OpenEnv's servers over their WebSocket: `openenv:URL[,live=1][,steps=50][,deterministic=false]`, such as
`openenv:http://127.0.0.1:8000`.

The server's schema says what an action is: one text where it has one field of text, one of its values where they are listed (as they
also may be in the observation's `legal_actions`), and else a JSON object. An observation is told as its only field, or field by field.
Splits and tasks are those of the server's task API, whose `split` and `index` a reset then gets beside the seed; a server without one
has seeds for tasks. `won` is a positive reward in the last step. Each live episode is a session of the server, which must allow as
many as processes times `live`.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, List, Optional, Sequence
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from ..world import Fatal, View, World
from .arguments import split

TASKS = {"train": 1_000_000, "test": 10_000}
NAMES = {"validation": "dev"}
"""Splits that are called otherwise here."""
LISTS = ("legal_actions", "valid_actions", "available_actions")
SECONDS = 60.0
LARGEST = 64 << 20


class OpenEnv(World):
    reuse = True

    def __init__(self, arguments: str = "") -> None:
        plain, settings = split(arguments)
        self.live = int(settings.pop("live", 1))
        self.max_steps = int(settings.pop("steps", 50))
        self.deterministic = bool(settings.pop("deterministic", True))
        if len(plain) != 1 or settings or not plain[0].startswith(("http://", "https://")):
            raise ValueError(f"openenv:URL[,live=1][,steps=50][,deterministic=false] names a server by http://..., not `{arguments}`")
        self.url = plain[0].rstrip("/")
        try:
            self.schema: Dict[str, Any] = self.get("/schema")
            named = self.optional("/metadata") or {}
        except (HTTPError, URLError, OSError) as error:
            raise Fatal(f"no OpenEnv server answers at {self.url}: {error}") from error
        self.world = " ".join(["openenv", str(named.get("name") or self.url), str(named.get("version") or "")]).strip()
        self.fields: Dict[str, Any] = {name: field for name, field in self.schema["action"].get("properties", {}).items() if name != "metadata"}
        self.values = {name: values(field, self.schema["action"]) for name, field in self.fields.items()}
        listed = [name for name in LISTS if name in self.schema["observation"].get("properties", {})]
        self.listed = listed[0] if listed else None
        if self.listed is None and not (len(self.fields) == 1 and any(self.values.values())):
            self.lacks = frozenset({"actions"})  # type: ignore[misc]
        self.counts = self.known()
        self.splits = tuple(self.counts)
        self.session: Optional[ClientConnection] = None

    def known(self) -> Dict[str, int]:
        """How many tasks each split has, by the server's task API."""
        named = self.optional("/list_environments")
        if not named:
            return TASKS
        self.environment = named[0]
        described = self.optional(f"/{self.environment}/splits") or []
        counts = {part["name"]: self.optional(f"/{self.environment}/num_tasks", {"split": part["name"]}) for part in described}
        self.names = {NAMES.get(name, name): name for name, described in counts.items() if described and described.get("num_tasks")}
        return {here: int(counts[there]["num_tasks"]) for here, there in self.names.items()} or TASKS

    def get(self, path: str, body: Optional[Dict[str, Any]] = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.url + path, data, {"Content-Type": "application/json"}), timeout=SECONDS) as answer:
            return json.load(answer)

    def optional(self, path: str, body: Optional[Dict[str, Any]] = None) -> Any:
        """What a server says that may not know this."""
        try:
            return self.get(path, body)
        except HTTPError as error:
            if error.code in (400, 404, 405, 422, 501):
                return None
            raise

    def tasks(self, split: str) -> Sequence[str] | int:
        count = self.counts.get(split, 0)
        return count if self.counts is TASKS else [str(index) for index in range(count)]

    def reset(self, task: Any, seed: int) -> View:
        settings: Dict[str, Any] = {"seed": int.from_bytes(hashlib.sha256(f"{task} {seed}".encode()).digest()[:4], "big") >> 1}
        if self.counts is not TASKS:
            settings.update(split=self.names[self.split], index=int(task))
        return self.show(self.ask("reset", settings))

    def step(self, action: str) -> View:
        try:
            meant = self.meant(action)
        except ValueError:
            return View("That is no action.", valid=False)
        return self.show(self.ask("step", meant))

    def ask(self, what: str, data: Dict[str, Any]) -> Dict[str, Any]:
        """One message and its answer. What fails costs this episode and its session."""
        try:
            if self.session is None:
                self.session = connect("ws" + self.url[4:] + "/ws", open_timeout=SECONDS, max_size=LARGEST, ping_interval=None)
            self.session.send(json.dumps({"type": what, "data": data}))
            answer: Dict[str, Any] = json.loads(self.session.recv(timeout=SECONDS))
        except (WebSocketException, OSError, TimeoutError, ValueError) as error:
            self.close()
            raise RuntimeError(f"the server at {self.url} failed in a {what}: {type(error).__name__}: {error}") from error
        if answer.get("type") == "error":
            self.close()
            failure = answer.get("data", {})
            raise RuntimeError(f"the server at {self.url} refused a {what}: {failure.get('code')}: {str(failure.get('errors') or failure.get('message'))[:500]}")
        reply: Dict[str, Any] = answer["data"]
        return reply

    def meant(self, action: str) -> Dict[str, Any]:
        """The action of a text."""
        if len(self.fields) != 1:
            fields = json.loads(action)
            if not isinstance(fields, dict) or not set(fields) <= set(self.fields):
                raise ValueError("no action")
            return fields
        (name,) = self.fields
        by = {str(value): value for value in self.values[name]}
        if by:
            if action.strip() not in by:
                raise ValueError("not one of its values")
            return {name: by[action.strip()]}
        return {name: int(action) if self.fields[name].get("type") == "integer" else action}

    def show(self, result: Dict[str, Any]) -> View:
        observation: Dict[str, Any] = {name: value for name, value in result["observation"].items() if name != "metadata" and value is not None}
        self.now = [str(value) for value in observation.pop(self.listed, None) or []] if self.listed else []
        reward, done = float(result.get("reward") or 0.0), bool(result.get("done"))
        text = as_text(next(iter(observation.values()))) if len(observation) == 1 else "\n".join(f"{name}: {as_text(value)}" for name, value in observation.items())
        return View(text or "Nothing is shown.", reward=reward, done=done, won=done and reward > 0)

    def actions(self) -> List[str]:
        return self.now or [str(value) for value in next(iter(self.values.values()), [])]

    def close(self) -> None:
        if self.session is not None:
            session, self.session = self.session, None
            session.close()


def values(field: Dict[str, Any], schema: Dict[str, Any]) -> List[Any]:
    """The values that a field may have, where its schema lists them."""
    if "$ref" in field:
        field = schema.get("$defs", {}).get(field["$ref"].rpartition("/")[2], {})
    listed: List[Any] = field.get("enum") or ([field["const"]] if "const" in field else [])
    if not listed and field.get("type") == "integer" and {"minimum", "maximum"} <= field.keys() and field["maximum"] - field["minimum"] < 1000:
        listed = list(range(field["minimum"], field["maximum"] + 1))
    return listed


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


WORLD = OpenEnv
