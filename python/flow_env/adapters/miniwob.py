"""MiniWoB++'s pages in a real headless Chromium: `miniwob:PAGE[,steps=20]`, such as `miniwob:click-button` or `miniwob:login-user`.

Chromium and its driver come from the system (Debian's packages chromium and chromium-driver), the pages and how they are read and acted
on from the package. An observation has a line for each visible leaf of the page: its number, its kind, its text. Actions are
`click NUMBER`, `type NUMBER TEXT`, `press KEY` (the package's names, such as `<Enter>`) and `click at X Y`.

The reward is the page's without its discount by the clock, from -1 to 1, and there is no limit in seconds; `won` is a reward above 0.
Pages are loaded anew for each episode and don't animate, so that nothing depends on what was played before; those that wait on timers
of their own (chase-circle, simon-says, stock-market and others) still depend on the clock.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from importlib.metadata import version
from typing import Any, Dict, List, Optional, Sequence

import gymnasium
import miniwob
from miniwob.action import ActionTypes
from selenium.common.exceptions import WebDriverException

from ..world import Fatal, View, World
from .arguments import split

TASKS = {"train": 1_000_000, "test": 10_000}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WAITS = 20
"""Seconds after which a page or a script that doesn't answer ends the process."""
LONGEST = 256
"""A longer text isn't typed."""
LISTED = 200
"""A list offers as many actions at most; further ones may be said."""
# The clock neither ends an episode nor lowers its reward, and what jQuery would move slowly is there at once.
CALM = """document.addEventListener('DOMContentLoaded', () => {
  if (typeof core !== 'undefined') core.EPISODE_MAX_TIME = 2e9;
  if (typeof jQuery !== 'undefined') jQuery.fx.off = true;
});"""


class MiniWob(World):
    splits = ("train", "test")
    score = (-1.0, 1.0)
    live = 4  # a browser each
    reuse = True
    rules = "Do on the page what is asked. Answer with `click NUMBER`, `type NUMBER TEXT`, `press KEY` or `click at X Y`."

    def __init__(self, arguments: str = "") -> None:
        plain, settings = split(arguments)
        self.max_steps = int(settings.pop("steps", 20))
        gymnasium.register_envs(miniwob)
        known = sorted(name[8:].rpartition("-v")[0] for name in gymnasium.registry if name.startswith("miniwob/"))
        if settings or len(plain) != 1 or plain[0] not in known:
            raise ValueError(f"miniwob:PAGE[,steps=20] names one of {', '.join(known)}, not `{arguments}`")
        self.page = plain[0]
        browser()
        try:
            self.env: Any = gymnasium.make(f"miniwob/{self.page}-v1", disable_env_checker=True).unwrapped
            instance = self.env.instance
            instance.refresh_freq = 1
            instance.record_screenshots = False
            self.driver = instance.driver
            self.driver.set_page_load_timeout(WAITS)
            self.driver.set_script_timeout(WAITS)
            self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": CALM})
        except WebDriverException as error:
            raise Fatal(f"Chromium doesn't start: {first(error)}") from error
        self.types = self.env.action_space_config.action_types
        self.keys = self.env.action_space_config.allowed_keys
        about = self.driver.capabilities
        self.world = f"miniwob {version('miniwob')}, {about.get('browserName', 'Chromium')} {about.get('browserVersion', '?')}"

    def tasks(self, split: str) -> int:
        return TASKS.get(split, 0)

    def reset(self, task: Any, seed: int) -> View:
        number = int.from_bytes(hashlib.sha256(f"{task} {seed}".encode()).digest()[:4], "big") >> 1
        try:
            observation, info = self.env.reset(seed=number)
        except WebDriverException as error:
            raise Fatal(f"Chromium is gone: {first(error)}") from error
        view = self.show(observation, info)
        view.instruction = str(observation["utterance"])
        view.type = self.page
        return view

    def step(self, action: str) -> View:
        meant = self.meant(action.strip())
        if meant is None:
            return View(self.shown, valid=False)
        try:
            observation, _, done, _, info = self.env.step(meant)
        except WebDriverException as error:
            if alive(self.driver):
                return View(self.shown, valid=False)
            raise Fatal(f"Chromium is gone: {first(error)}") from error
        if not done:
            return self.show(observation, info)
        reward = max(-1.0, min(1.0, float(info["raw_reward"] or 0.0)))
        return View(f"The task is over: {info['reason'] or 'done'}.", reward=reward, done=True, won=reward > 0, score=reward)

    def show(self, observation: Dict[str, Any], info: Dict[str, Any]) -> View:
        self.leaves = [part for part in info["root_dom"].subtree_elements if part.is_leaf]
        self.values = [str(value) for _, value in observation["fields"] if str(value).strip()]
        self.shown = "\n".join(map(element_text, self.leaves)) or "The page is empty."
        return View(self.shown)

    def meant(self, action: str) -> Optional[Dict[str, Any]]:
        """The package's action of a text; None where it is none."""
        numbers = {part.ref for part in self.leaves if part.ref > 0}
        place = re.fullmatch(r"click at (\d{1,3}) (\d{1,3})", action)
        if place:
            return self.of(ActionTypes.CLICK_COORDS, coords=[float(place[1]), float(place[2])])
        verb, _, rest = action.partition(" ")
        if verb == "press" and rest in self.keys:
            return self.of(ActionTypes.PRESS_KEY, key=self.keys.index(rest))
        number, _, text = rest.partition(" ")
        if not (number.isascii() and number.isdigit() and len(number) < 9 and int(number) in numbers):
            return None
        if verb == "click" and not text:
            return self.of(ActionTypes.CLICK_ELEMENT, ref=int(number))
        if verb == "type" and text.isprintable() and 0 < len(text) <= LONGEST:
            return self.of(ActionTypes.FOCUS_ELEMENT_AND_TYPE_TEXT, ref=int(number), text=text)
        return None

    def of(self, kind: Any, **parts: Any) -> Dict[str, Any]:
        return {"action_type": self.types.index(kind), **parts}

    def actions(self) -> Sequence[str]:
        """A click on each leaf; in what takes text, each of the texts that the task names."""
        listed: List[str] = []
        for part in self.leaves:
            if part.ref > 0:
                listed.append(f"click {part.ref}")
                if part.tag in TYPED:
                    listed += [f"type {part.ref} {value}" for value in self.values if value.isprintable() and len(value) <= LONGEST]
        return listed[:LISTED] or ["click at 80 105"]

    def close(self) -> None:
        try:
            self.env.close()
        except WebDriverException:
            pass  # it was gone already


TYPED = ("input_text", "input_password", "input_number", "input_date", "input_time", "input_search", "textarea", "select")


def element_text(part: Any) -> str:
    """A leaf of the page: its number (texts have none), its kind, its text, its value and whether it has the focus."""
    text = re.sub(r"\s+", " ", part.text or "").strip()
    if part.ref < 0:
        return text
    name = "" if text or not part.id or re.fullmatch(r"\d+", part.id) else f" #{part.id}"
    value = "" if part.value is None else f" = {part.value}"
    return f"{part.ref} {part.tag}{name}" + (f" {text}" if text else "") + value + (" (focused)" if part.focused else "")


def browser() -> None:
    """Tells the package which Chromium to start: the one on the PATH, with its driver."""
    if os.environ.get("MINIWOB_CHROME_BINARY"):
        return
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        raise Fatal("there is no Chromium with its driver on the PATH: install them (on Debian: apt install chromium chromium-driver)")
    os.environ.update(MINIWOB_CHROME_BINARY=browser, MINIWOB_CHROMEDRIVER=driver)


def alive(driver: Any) -> bool:
    try:
        return bool(driver.execute_script("return true;"))
    except Exception:
        return False


def first(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


WORLD = MiniWob
