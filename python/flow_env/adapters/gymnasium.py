"""Gymnasium's environments with discrete actions or text: `gymnasium:ID[,key=value...]`, such as
`gymnasium:FrozenLake-v1,is_slippery=false` or `gymnasium:MiniGrid-DoorKey-5x5-v0,import=minigrid`.

`import` names a module that registers environments. An observation is shown as the environment draws it in letters, if it can,
and else as its numbers; one with more than 200 numbers, such as a picture, is refused. Actions are named as the environment names
them, or by `names=left|right`, or are numbers.

`won` is `is_success` or `success` in the `info` of the last step. Environments of Gymnasium and MiniGrid that have neither have a rule of
their own (`WON`). Of all others no episode counts as won: a positive reward need not be a success.
"""

from __future__ import annotations

import enum
import hashlib
import importlib
import inspect
import re
from importlib.metadata import version
from typing import Any, Callable, Dict, List, Optional, Sequence

import gymnasium
from gymnasium import spaces

from ..world import View, World
from .arguments import split

TASKS = {"train": 1_000_000, "test": 10_000}
NAMES = {
    "FrozenLake": ["left", "down", "right", "up"],
    "CliffWalking": ["up", "right", "down", "left"],
    "Taxi": ["south", "north", "east", "west", "pickup", "dropoff"],
    "Blackjack": ["stick", "hit"],
    "CartPole": ["left", "right"],
    "MountainCar": ["left", "wait", "right"],
    "Acrobot": ["left", "wait", "right"],
    "LunarLander": ["wait", "left", "main", "right"],
}
"""Actions that Gymnasium's documentation names and its code doesn't."""
ENDED, TRUNCATED, PAID = "it ended", "it reached its limit of steps", "it ended with a positive reward"
WON = {
    "gymnasium.envs.toy_text.frozen_lake": PAID,
    "gymnasium.envs.toy_text.cliffwalking": ENDED,
    "gymnasium.envs.toy_text.taxi": ENDED,
    "gymnasium.envs.toy_text.blackjack": PAID,
    "gymnasium.envs.classic_control.cartpole": TRUNCATED,
    "gymnasium.envs.classic_control.mountain_car": ENDED,
    "gymnasium.envs.classic_control.acrobot": ENDED,
    "gymnasium.envs.box2d.lunar_lander": PAID,
    "minigrid": PAID,
}
"""When an episode is won, by the module or the package of its environment."""
MOST = 200


class Gymnasium(World):
    splits = ("train", "test")
    reuse = True
    global_random = True

    def __init__(self, arguments: str = "") -> None:
        plain, settings = split(arguments)
        if len(plain) != 1:
            raise ValueError(f"gymnasium:ID names one environment, not `{arguments}`")
        self.id = plain[0]
        if "import" in settings:
            importlib.import_module(str(settings.pop("import")))
        names = settings.pop("names", None)
        spec = gymnasium.spec(self.id)
        self.drawn = "ansi" in modes(spec.entry_point)
        if self.drawn:
            settings.setdefault("render_mode", "ansi")
        self.env = gymnasium.make(self.id, **settings)
        self.world = f"gymnasium {version('gymnasium')}"
        if "MiniGrid" in self.id or "BabyAI" in self.id:
            self.world += f", minigrid {version('minigrid')}"
        module = type(self.env.unwrapped).__module__
        self.rule = WON.get(module) or WON.get(module.partition(".")[0])
        self.named = action_names(self.id, self.env, names)
        self.first = int(getattr(self.env.action_space, "start", 0))
        if self.named is None:
            self.lacks = frozenset({"actions"})  # type: ignore[misc]
        self.describe: Callable[[Any], str] = self.drawing if self.drawn else describer(self.env)

    def tasks(self, split: str) -> int:
        return TASKS.get(split, 0)

    def reset(self, task: Any, seed: int) -> View:
        number = int.from_bytes(hashlib.sha256(f"{task} {seed}".encode()).digest()[:4], "big") >> 1
        observation, info = self.env.reset(seed=number)
        view = View(self.describe(observation), type=re.sub(r"[^A-Za-z0-9._/:+-]", "_", self.id))
        mission = getattr(self.env.unwrapped, "mission", None)
        if isinstance(mission, str):
            view.instruction = mission
        return view

    def drawing(self, observation: Any) -> str:
        return drawn(str(self.env.render()))

    def step(self, action: str) -> View:
        chosen = self.choice(action.strip())
        if chosen is None:
            return View(f"There is no action {action[:100]!r}.", valid=False)
        observation, reward, terminated, truncated, info = self.env.step(chosen)
        done, cut = bool(terminated or truncated), bool(truncated and not terminated)
        return View(self.describe(observation), reward=float(reward), done=done, truncated=cut, won=done and self.won(info, cut, float(reward)))

    def won(self, info: Dict[str, Any], cut: bool, reward: float) -> bool:
        """Whether an episode that is over is won."""
        for name in ("is_success", "success"):
            if name in info:
                return bool(info[name])
        return cut if self.rule == TRUNCATED else not cut and (self.rule == ENDED or self.rule == PAID and reward > 0)

    def choice(self, action: str) -> Any:
        if self.named is None:
            return action
        return self.named.index(action) + self.first if action in self.named else None

    def actions(self) -> Sequence[str]:
        return self.named or []

    def close(self) -> None:
        self.env.close()


def modes(entry: Any) -> Sequence[str]:
    """The ways in which an environment can be drawn."""
    if isinstance(entry, str):
        module, _, name = entry.partition(":")
        entry = getattr(importlib.import_module(module), name)
    metadata: Dict[str, Any] = getattr(entry, "metadata", {})
    return list(metadata.get("render_modes", []))


def action_names(name: str, env: Any, listed: Optional[str]) -> Optional[List[str]]:
    """The names of discrete actions in their order; None where any text is an action."""
    space = env.action_space
    if isinstance(space, spaces.Text):
        return None
    if not isinstance(space, spaces.Discrete):
        raise ValueError(f"the actions of {name} are {space}; only discrete ones and text can be played")
    values = range(int(space.start), int(space.start) + int(space.n))
    own = getattr(env.unwrapped, "actions", None)
    names: Optional[List[str]] = None
    if listed is not None:
        names = str(listed).split("|")
    elif inspect.isclass(own) and issubclass(own, enum.Enum):
        # An environment may allow the first of them alone.
        by_value = {member.value: member.name.replace("_", " ") for member in own}
        names = [by_value[value] for value in values] if set(values) <= set(by_value) else None
    elif type(env.unwrapped).__module__.startswith("gymnasium.envs."):
        names = NAMES.get(name.split("-")[0].split("/")[-1])
    if names is not None and len(names) != len(values):
        raise ValueError(f"{name} has {len(values)} actions, and these are {len(names)} names: {', '.join(names)}")
    return names or [str(value) for value in values]


def describer(env: Any) -> Callable[[Any], str]:
    """How observations are told in text."""
    if hasattr(env.unwrapped, "pprint_grid"):
        return lambda observation: grid(env.unwrapped)
    space = env.observation_space
    if numbers(space) > MOST:
        raise ValueError(f"its observations have {numbers(space)} numbers ({space}), more than {MOST}, and it can't draw them in letters")
    return lambda observation: as_text(space, observation)


def numbers(space: Any) -> int:
    if isinstance(space, (spaces.Discrete, spaces.Text)):
        return 1
    if isinstance(space, spaces.Tuple):
        return sum(map(numbers, space.spaces))
    if isinstance(space, spaces.Dict):
        return sum(map(numbers, space.spaces.values()))
    shape = getattr(space, "shape", None)
    count = 1
    for side in shape or ():
        count *= side
    return count if shape is not None else MOST + 1


def as_text(space: Any, observation: Any) -> str:
    """An observation as text: numbers to three decimals."""
    if isinstance(space, spaces.Text):
        return str(observation)
    if isinstance(space, spaces.Discrete):
        return str(int(observation))
    if isinstance(space, spaces.Tuple):
        return ", ".join(as_text(inner, part) for inner, part in zip(space.spaces, observation))
    if isinstance(space, spaces.Dict):
        return "\n".join(f"{name}: {as_text(inner, observation[name])}" for name, inner in space.spaces.items())
    return " ".join(f"{value:.3f}".rstrip("0").rstrip(".") for value in observation.reshape(-1).tolist())


def drawn(text: str) -> str:
    """A drawing in letters without the terminal's colours: what is coloured in gets brackets.

    >>> drawn("SF\\x1b[41mF\\x1b[0mG")
    'SF[F]G'
    """
    text = re.sub(r"\x1b\[4\d(?:;1)?m(.*?)\x1b\[0m", r"[\1]", text, flags=re.DOTALL)
    return re.sub(r"\x1b\[[0-9;]*m", "", text).strip("\n")


def grid(env: Any) -> str:
    """MiniGrid's own drawing in letters, and what is carried."""
    carried = env.carrying
    return str(env.pprint_grid()) + (f"\nYou carry a {carried.color} {carried.type}." if carried else "")


WORLD = Gymnasium
