"""The limits of protocols 2 and 3, and whether an answer keeps to them. docs/protocol.md says what they are for."""

from __future__ import annotations

import math
import re
from typing import Any, Dict, List, Mapping

from .world import FACTS

PROTOCOL = 2
NEWEST = 3
LINE = 16 << 20
ANSWER = 1 << 20
ACTIONS = 10_000
ACTION = 4_096
INFO = 32
WORDS = 65_536
SINGLE = 3.4028234663852886e38
"""The largest number of 32 bits."""
NAME = re.compile(r"[a-z][a-z0-9_]{0,31}\Z")
TASK = re.compile(r"[A-Za-z0-9._/:+-]{1,128}\Z")
ABILITIES = ("actions", "expert", "rollback", "copy")

HELLO = {"protocol", "world", "splits", "live", "abilities", "rules", "words", "score", "deterministic", "parallel"}
VIEW = {"observation", "reward", "done", "won", "truncated", "valid", "state", "score", "info", "actions", "call", "credit", "unread", *FACTS}
CALL = {"id", "model", "messages", "tools", "on", "since", "fork", "max_tokens", "stop", "must_call"}
CALL_NAME = re.compile(r"[0-9a-f]{16}\Z")

Json = Dict[str, Any]


def is_number(value: object) -> bool:
    """Whether a JSON value is a finite number."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def is_single(value: object) -> bool:
    """Whether a JSON value is a finite number as rows keep rewards: in 32 bits."""
    return is_number(value) and abs(value) <= SINGLE  # type: ignore[arg-type]


def is_text(value: object) -> bool:
    """Whether a JSON value is a text that UTF-8 can hold."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def clean(text: object) -> str:
    """A text that UTF-8 can hold: a lone surrogate becomes a question mark."""
    if not isinstance(text, str):
        raise TypeError(f"a {type(text).__name__} stands where a text belongs: {str(text)[:80]}")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def wrong_actions(value: object, have: bool) -> List[str]:
    """What is wrong with the `actions` of an answer; `have` says whether a list was given before."""
    if isinstance(value, dict):
        if not have:
            return ["`actions` is a change, but no list was given before"]
        if set(value) - {"drop", "add"}:
            return [f"`actions` has unknown fields {sorted(set(value) - {'drop', 'add'})}"]
        value = [add[1] for add in value.get("add", []) if isinstance(add, list) and len(add) == 2]
    if not isinstance(value, list):
        return ["`actions` is no list"]
    wrong = []
    if len(value) > ACTIONS:
        wrong.append(f"`actions` has {len(value)} texts, {ACTIONS} at most are allowed")
    if not all(is_text(action) and 0 < len(action.encode()) <= ACTION for action in value):
        wrong.append(f"`actions` holds what is no text of 1 to {ACTION} bytes")
    elif len(set(value)) < len(value):
        wrong.append("`actions` has an action twice")
    return wrong


def wrong_call(call: object) -> List[str]:
    """What is wrong with the `call` of a view."""
    if not isinstance(call, dict):
        return ["`call` is no object"]
    wrong = []
    unknown = sorted(set(call) - CALL)
    if unknown:
        wrong.append(f"`call` has unknown fields {unknown}")
    for name in ("id", "on"):
        value = call.get(name)
        if not (isinstance(value, str) and CALL_NAME.match(value) or name == "on" and value is None):
            wrong.append(f"`{name}` of the call isn't 16 hexadecimal digits")
    messages, since = call.get("messages"), call.get("since", 0)
    if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) and is_text(each.get("role")) and is_text(each.get("content"))
                                                                   for each in messages):
        wrong.append("`messages` of the call is no list of messages with texts as `role` and `content`")
    elif not isinstance(since, int) or isinstance(since, bool) or not (0 < since < len(messages) if call.get("on") else since == 0):
        wrong.append(f"`since` of the call is {since!r}, and it has {len(messages)} messages")
    return wrong


def wrong_view(view: Mapping[str, Any], step: bool, have: bool) -> List[str]:
    """What is wrong with a view; `step` says whether it answers a step."""
    wrong = []
    unknown = sorted(set(view) - VIEW - {"episode"})
    if unknown:
        wrong.append(f"unknown fields {unknown}")
    present = {name: value for name, value in view.items() if value is not None}
    if not is_text(present.get("observation")) or not present["observation"]:
        last = " of the episode's last view" if present.get("done") is True else ""
        wrong.append(f"`observation`{last} is no text, or empty: each view needs a text" + (", the last one, too" if last else ""))
    for name in ("reward", "done") if step else ():
        if name not in present:
            wrong.append(f"`{name}` is missing")
    for name in ("reward", "score"):
        if name in present and not is_single(present[name]):
            too_large = is_number(present[name])
            wrong.append(f"`{name}` is too large: {present[name]:g} is beyond 32 bits" if too_large else f"`{name}` is no finite number")
    for name in ("done", "won", "truncated", "valid"):
        if name in present and not isinstance(present[name], bool):
            wrong.append(f"`{name}` is neither true nor false")
    for name in ("state", *FACTS):
        if name in present and not is_text(present[name]):
            wrong.append(f"`{name}` is no text")
    if is_text(present.get("type")) and not TASK.match(present["type"]):
        wrong.append(f"`type` {present['type']!r} isn't of 1 to 128 letters, digits and . _ / : + -")
    info = present.get("info", {})
    if not isinstance(info, dict) or len(info) > INFO or not all(is_text(n) and NAME.match(n) and is_number(v) for n, v in info.items()):
        wrong.append(f"`info` isn't an object of at most {INFO} finite numbers with names such as `steps_left`")
    if "actions" in present:
        wrong += wrong_actions(present["actions"], have)
    if "call" in present:
        wrong += wrong_call(present["call"])
    credit, unread = present.get("credit", []), present.get("unread", [])
    if not isinstance(credit, list) or not all(isinstance(each, list) and len(each) == 2 and is_number(each[1]) for each in credit):
        wrong.append("`credit` is no list of calls with their rewards")
    elif not isinstance(unread, list) or not all(isinstance(name, str) and CALL_NAME.match(name) for name in [*unread, *(each[0] for each in credit)]):
        wrong.append("`credit` or `unread` names what isn't 16 hexadecimal digits")
    return wrong


def wrong_hello(hello: Mapping[str, Any]) -> List[str]:
    """What is wrong with the answer to hello."""
    wrong = []
    if hello.get("protocol") not in (PROTOCOL, NEWEST):
        return [f"`protocol` is {hello.get('protocol')!r}, not {PROTOCOL} or {NEWEST}"]
    if set(hello) - HELLO:
        wrong.append(f"unknown fields {sorted(set(hello) - HELLO)}")
    splits = hello.get("splits")
    if not isinstance(splits, dict) or not splits:
        wrong.append("`splits` is no object with at least one split")
        splits = {}
    for name, tasks in splits.items():
        if not NAME.match(name):
            wrong.append(f"the split `{name}` isn't called by lower-case letters, digits and _")
        if isinstance(tasks, list):
            bad = [task for task in tasks if not is_text(task) or not TASK.match(task)]
            if bad:
                wrong.append(f"the split `{name}` has a task {bad[0]!r}; allowed are 1 to 128 letters, digits and . _ / : + -")
            if len(set(map(str, tasks))) < len(tasks):
                wrong.append(f"the split `{name}` has a task twice")
        elif not isinstance(tasks, int) or isinstance(tasks, bool):
            wrong.append(f"the split `{name}` is neither a number nor a list")
        if tasks == [] or isinstance(tasks, int) and tasks < 1:
            wrong.append(f"the split `{name}` has no tasks")
    live = hello.get("live")
    if live is not None and (not isinstance(live, int) or isinstance(live, bool) or live < 1):
        wrong.append("`live` is no number from 1 on")
    abilities = hello.get("abilities") or []
    if not isinstance(abilities, list) or set(abilities) - set(ABILITIES):
        wrong.append(f"`abilities` {abilities!r} isn't a list of {', '.join(ABILITIES)}")
    words = hello.get("words") or []
    if not isinstance(words, list) or len(words) > WORDS or not all(map(is_text, words)):
        wrong.append(f"`words` is no list of at most {WORDS} texts")
    score = hello.get("score")
    if score is not None and not (isinstance(score, list) and len(score) == 2 and all(map(is_number, score)) and score[0] < score[1]):
        wrong.append("`score` isn't two numbers, the lower one first")
    return wrong
