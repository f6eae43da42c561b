"""OSWorld on a virtual machine of one's own: `osworld:FOLDER[,list=test_all.json][,train=FILE][,provider=docker][,steps=15][,pause=2]`.

**Never run**: written against the published interface of desktop-env 1.0.2, with no virtual machine at hand. Its tests hold the
translation of screens and actions alone.

FOLDER is the benchmark's evaluation_examples: a list (domain -> names of tasks) and a file of each task. The benchmark has no training
split; `train=FILE` names a list of one's own, as the tasks that are trained on. An observation has a line for each element that is
showing and can be used: its number, its kind, its name and its text. Actions are `click N`, `double click N`, `right click N`,
`type TEXT`, `press KEY`, `hotkey KEY KEY`, `scroll up`, `scroll down`, `wait`, and `done` or `fail`, which end the episode; they become
pyautogui's calls, and nothing else does. The score is the benchmark's own check at the end, from 0 to 1; it is won at 1.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence
from xml.etree import ElementTree

from ..world import Fatal, View, World
from .arguments import split

STATE, COMPONENT = (f"{{https://accessibility.ubuntu.example.org/ns/{name}}}" for name in ("state", "component"))
USED = ("enabled", "editable", "expandable", "checkable")
KEY = r"[a-z0-9]{1,12}|[!-/:-@\[-`{-~]"
ENDS = {"done": "DONE", "fail": "FAIL"}
LONGEST = 1_000
"""A longer text isn't typed."""


class Element(NamedTuple):
    line: str
    x: int
    y: int


class OsWorld(World):
    splits = ("train", "test")
    score = (0.0, 1.0)
    live = 1  # one virtual machine
    deterministic = False
    reuse = True
    rules = (
        "Do on the desktop what is asked. Answer with `click N`, `double click N`, `right click N`, `type TEXT`, `press KEY`, "
        "`hotkey KEY KEY`, `scroll up`, `scroll down`, `wait`, or at the end `done` or `fail`."
    )

    def __init__(self, arguments: str = "") -> None:
        try:
            from desktop_env.desktop_env import DesktopEnv
        except ImportError as error:
            raise Fatal(f"osworld needs the package desktop-env in this Python, set up as its own pages say ({error})") from error
        plain, settings = split(arguments)
        if len(plain) != 1:
            raise ValueError("osworld:FOLDER names the benchmark's folder evaluation_examples")
        self.folder = Path(plain[0])
        lists = {"test": str(settings.pop("list", "test_all.json")), "train": settings.pop("train", None)}
        self.named = {name: names(self.folder / str(file)) if file else [] for name, file in lists.items()}
        shared = sorted(set(self.named["train"]) & set(self.named["test"]))
        if shared:
            raise ValueError(f"{shared[0]} is both trained on and tested: leave it out of one list")
        self.steps = int(settings.pop("steps", 15))
        self.pause = float(settings.pop("pause", 2))
        provider = str(settings.pop("provider", "docker"))
        if settings:
            raise ValueError(f"osworld has no setting {next(iter(settings))!r}; it has list, train, provider, steps and pause")
        try:
            self.env: Any = DesktopEnv(provider_name=provider, action_space="pyautogui", headless=True, require_a11y_tree=True)
        except Exception as error:  # whatever the provider of virtual machines raises
            raise Fatal(f"the virtual machine doesn't start: {error}") from error

    def tasks(self, split: str) -> Sequence[str]:
        return self.named.get(split, [])

    def reset(self, task: Any, seed: int) -> View:
        domain, _, name = str(task).partition("/")
        config = json.loads((self.folder / "examples" / domain / f"{name}.json").read_text(encoding="utf-8"))
        view = self.show(self.env.reset(task_config=config))
        view.instruction, view.type = str(config["instruction"]), domain
        self.left = self.steps
        return view

    def step(self, action: str) -> View:
        text = action.strip()
        self.left -= 1
        meant = ENDS.get(text) or call_of(text, self.elements)
        view = View(self.shown, valid=False) if meant is None else self.show(self.env.step(meant, self.pause)[0])
        # What the steps came to is checked at their limit, too.
        if text in ENDS or self.left <= 0:
            score = float(self.env.evaluate())
            view.reward, view.score, view.done, view.won, view.truncated = score, score, True, score >= 1.0, text not in ENDS
        return view

    def show(self, observation: Dict[str, Any]) -> View:
        self.elements = elements(observation.get("accessibility_tree") or "<desktop/>")
        self.shown = "\n".join(f"{number} {each.line}" for number, each in enumerate(self.elements)) or "The screen is empty."
        return View(self.shown)

    def actions(self) -> Sequence[str]:
        """A click on each element, and what needs no text."""
        return [*(f"click {number}" for number in range(len(self.elements))), "scroll up", "scroll down", "wait", *ENDS]

    def close(self) -> None:
        self.env.close()


def names(file: Path) -> List[str]:
    """The tasks of a list, DOMAIN/NAME."""
    if not file.is_file():
        raise ValueError(f"there is no list of tasks {file}")
    return [f"{domain}/{name}" for domain, tasks in sorted(json.loads(file.read_text(encoding="utf-8")).items()) for name in tasks]


def elements(tree: str) -> List[Element]:
    """What is showing on the screen, can be used and has a name or a text, in the tree's order."""
    listed: List[Element] = []
    for node in ElementTree.fromstring(tree).iter():
        states = {name: node.get(STATE + name) == "true" for name in ("showing", "visible", *USED)}
        name, text = (re.sub(r"\s+", " ", part or "").strip() for part in (node.get("name"), node.text))
        place, size = (pair(node.get(COMPONENT + part)) for part in ("screencoord", "size"))
        usable = states["showing"] and states["visible"] and any(states[used] for used in USED)
        if usable and (name or text) and place and size and min(place) >= 0 and min(size) > 0:
            line = " ".join(filter(None, (node.tag, name, text if text != name else "")))
            listed.append(Element(line, place[0] + size[0] // 2, place[1] + size[1] // 2))
    return listed


def pair(text: Optional[str]) -> Optional[Sequence[int]]:
    """Two whole numbers as the tree writes them: (12, 34)."""
    match = re.fullmatch(r"\((-?\d{1,6}), (-?\d{1,6})\)", text or "")
    return (int(match[1]), int(match[2])) if match else None


def call_of(text: str, seen: Sequence[Element]) -> Optional[str]:
    """The call of pyautogui that a text means; None where it means none. What an agent says gets into it as a quoted text alone."""
    if text == "wait":
        return "WAIT"
    if text in ("scroll up", "scroll down"):
        return f"pyautogui.scroll({5 if text == 'scroll up' else -5})"
    touch = re.fullmatch(r"(click|double click|right click) (\d{1,4})", text)
    if touch and int(touch[2]) < len(seen):
        at = seen[int(touch[2])]
        call = {"click": "click", "double click": "doubleClick", "right click": "rightClick"}[touch[1]]
        return f"pyautogui.{call}({at.x}, {at.y})"
    verb, _, rest = text.partition(" ")
    if verb == "type" and 0 < len(rest) <= LONGEST and rest.isprintable():
        return f"pyautogui.typewrite({rest!r})"
    keys = rest.split(" ")
    if all(re.fullmatch(KEY, key) for key in keys) and (verb == "press" and len(keys) == 1 or verb == "hotkey" and 1 < len(keys) < 5):
        return f"pyautogui.{verb}({', '.join(map(repr, keys))})"
    return None


WORLD = OsWorld
