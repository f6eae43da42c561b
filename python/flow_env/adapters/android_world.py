"""AndroidWorld on an emulator of one's own: `android-world:[TASK,TASK...][,console_port=5554][,grpc_port=8554][,adb=PATH]`.

**Never run**: written against the package's published interface (its commit d9c569f), with no emulator at hand. Its tests hold the
translation of screens and actions alone.

The emulator, its apps and the package android_world are set up as its README says. An observation has a line for each element of the
screen that is in sight: its number, its kind, its text. Actions are `click N`, `double tap N`, `long press N`, `type N TEXT`,
`scroll up`, `scroll down N`, `open APP`, `back`, `home`, `enter`, `wait`, `answer TEXT`, and `complete` or `infeasible`, which end the
episode. As in the package's own runs it is won if the agent says `complete` and the task's check finds it done, and it may take ten
times the task's complexity of steps. The package has no training split: a task's parameters are drawn from its number, `train` and
`test` from different ones.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from typing import Any, Dict, List, Optional, Sequence

from ..world import Fatal, View, World
from .arguments import split

PLACES = {"train": 1_000, "test": 50}
"""Draws of each task's parameters."""
SIMPLE = {"back": "navigate_back", "home": "navigate_home", "enter": "keyboard_enter", "wait": "wait"}
TOUCHES = {"click": "click", "double tap": "double_tap", "long press": "long_press"}
ENDS = ("complete", "infeasible")
DIRECTIONS = ("up", "down", "left", "right")


class AndroidWorld(World):
    splits = ("train", "test")
    score = (0.0, 1.0)
    live = 1  # one emulator, whose apps are what a task changes
    deterministic = False
    reuse = True
    global_random = True
    rules = (
        "Do on the phone what is asked. Answer with `click N`, `double tap N`, `long press N`, `type N TEXT`, `scroll DIRECTION`, "
        "`open APP`, `back`, `home`, `enter`, `wait`, `answer TEXT`, or at the end `complete` or `infeasible`."
    )

    def __init__(self, arguments: str = "") -> None:
        try:
            from android_world import registry
            from android_world.env import env_launcher, json_action
        except ImportError as error:
            raise Fatal(f"android-world needs the package android_world in this Python, set up as its own pages say ({error})") from error
        plain, settings = split(arguments)
        adb = settings.pop("adb", None) or shutil.which("adb")
        console, grpc = int(settings.pop("console_port", 5554)), int(settings.pop("grpc_port", 8554))
        kinds = registry.TaskRegistry()
        self.types: Dict[str, Any] = kinds.get_registry(kinds.ANDROID_WORLD_FAMILY)
        unknown = [name for name in plain if name not in self.types] or list(settings)
        if unknown:
            raise ValueError(f"android-world has no {unknown[0]!r}; its tasks are {', '.join(sorted(self.types))}")
        if adb is None:
            raise Fatal("there is no adb on the PATH: install Android's platform tools, or say adb=PATH")
        self.kinds = plain or sorted(self.types)
        self.action = json_action.JSONAction
        try:
            self.env: Any = env_launcher.load_and_setup_env(console_port=console, grpc_port=grpc, adb_path=os.path.expanduser(str(adb)))
        except Exception as error:  # whatever the emulator's client raises
            raise Fatal(f"the emulator can't be reached: {error}") from error
        self.task: Any = None

    def tasks(self, split: str) -> Sequence[str]:
        return [f"{kind}/{number}" for number in range(PLACES.get(split, 0)) for kind in self.kinds]

    def reset(self, task: Any, seed: int) -> View:
        self.leave()
        kind, _, number = str(task).rpartition("/")
        made = self.types[kind]
        random.seed(f"{self.split} {number} {kind}")
        parameters = made.generate_random_params()
        parameters.setdefault("seed", random.getrandbits(31))
        self.task = made(parameters)
        self.env.reset(go_home=True)
        self.task.initialize_task(self.env)
        self.left = max(1, int(10 * self.task.complexity))
        view = self.show()
        view.instruction, view.type = str(self.task.goal), kind
        return view

    def step(self, action: str) -> View:
        text = action.strip()
        self.left -= 1
        if text in ENDS:
            done = float(self.task.is_successful(self.env)) if text == "complete" else 0.0
            return View(f"You said: {text}.", reward=done, done=True, won=done >= 1.0, score=done)
        meant = json_of(text, len(self.elements))
        if meant is not None:
            try:
                self.env.execute_action(self.action(**meant))
            except ValueError:  # an action that this screen doesn't have
                meant = None
        view = self.show()
        view.valid = meant is not None
        if self.left <= 0:
            view.done, view.truncated, view.score = True, True, 0.0
        return view

    def show(self) -> View:
        state = self.env.get_state(wait_to_stabilize=True)
        width, height = self.env.logical_screen_size
        # Numbers are those of the package's list, in which what is out of sight keeps its own.
        self.elements = list(state.ui_elements)
        seen = [f"{number} {element_text(each)}" for number, each in enumerate(self.elements) if in_sight(each, width, height)]
        return View("\n".join(seen) or "The screen is empty.")

    def actions(self) -> Sequence[str]:
        """A click on each element, and what needs no text."""
        clicks = [f"click {number}" for number, each in enumerate(self.elements) if getattr(each, "is_clickable", False)]
        return [*clicks, *(f"scroll {direction}" for direction in DIRECTIONS), *SIMPLE, *ENDS]

    def leave(self) -> None:
        if self.task is not None:
            self.task.tear_down(self.env)
            self.task = None

    def close(self) -> None:
        self.leave()
        self.env.close()


def json_of(text: str, elements: int) -> Optional[Dict[str, Any]]:
    """The package's action of a text; None where it is none."""
    if text in SIMPLE:
        return {"action_type": SIMPLE[text]}
    touch = re.fullmatch(r"(click|double tap|long press) (\d{1,4})", text)
    if touch and int(touch[2]) < elements:
        return {"action_type": TOUCHES[touch[1]], "index": int(touch[2])}
    typed = re.fullmatch(r"type (\d{1,4}) (.+)", text)
    if typed and int(typed[1]) < elements:
        return {"action_type": "input_text", "index": int(typed[1]), "text": typed[2]}
    scroll = re.fullmatch(r"scroll (up|down|left|right)(?: (\d{1,4}))?", text)
    if scroll and (scroll[2] is None or int(scroll[2]) < elements):
        return {"action_type": "scroll", "direction": scroll[1], **({"index": int(scroll[2])} if scroll[2] else {})}
    for verb, kind, key in (("open", "open_app", "app_name"), ("answer", "answer", "text")):
        if text.startswith(verb + " ") and text[len(verb) :].strip():
            return {"action_type": kind, key: text[len(verb) :].strip()}
    return None


def in_sight(element: Any, width: int, height: int) -> bool:
    """As the package's own agents filter: visible, and with a part of it on the screen."""
    if not element.is_visible:
        return False
    box = element.bbox_pixels
    return box is None or (box.x_min < box.x_max and box.y_min < box.y_max and box.x_min < width and box.x_max > 0 and box.y_min < height and box.y_max > 0)


def element_text(element: Any) -> str:
    """An element in a line: its kind, its texts, and what is special about it."""
    kind = str(element.class_name or "element").rpartition(".")[2]
    texts: List[str] = []
    for text in (element.text, element.content_description, element.hint_text, element.tooltip):
        plain = re.sub(r"\s+", " ", str(text or "")).strip()
        if plain and plain not in texts:
            texts.append(plain)
    marks = [name for name in ("checked", "selected", "focused", "editable") if getattr(element, f"is_{name}", False)]
    return " ".join([kind, *texts]) + (f" ({', '.join(marks)})" if marks else "")


WORLD = AndroidWorld
