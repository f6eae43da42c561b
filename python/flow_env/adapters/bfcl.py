"""The multi-turn categories of the Berkeley Function-Calling Leaderboard: `bfcl:CATEGORY[,key=value...]`, such as `bfcl:multi_turn_base`.

The categories are `multi_turn_base`, `multi_turn_miss_func`, `multi_turn_miss_param` and `multi_turn_long_context`, of the package
`bfcl-eval`, with its questions, simulated APIs and checker. The user's turns are scripted; a turn ends with an answer that calls no tool,
or whose call can't be read.
The reward is the checker's verdict on all turns, 1 or 0; `info` has the turns that were done. As in the package, more than `turns` (20) answers in a turn
are a failure of the policy: reward 0, `truncated`. The last tenth of the tasks is `test`. The expert writes the ground truth as Hermes' calls of tools
(`multi_turn_miss_func_49` can't be won so: its truth calls a function that its turn doesn't offer).

All is local, in this process and deterministic. Numbers by which the package's arithmetic would take for ever are refused.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import json
import re
import signal
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import bfcl_eval
from bfcl_eval.constants.default_prompts import DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC as MORE_FUNCTIONS
from bfcl_eval.constants.executable_backend_config import MULTI_TURN_FUNC_DOC_FILE_MAPPING as DOCUMENTS
from bfcl_eval.constants.type_mappings import GORILLA_TO_OPENAPI as TYPES
from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker

from ..door.episode import Episode, Failure
from ..door.settings import Wrong
from ..door.tasks import Tasks
from ..door.tools import Conversation, ToolSettings, WrongCall
from ..door.world import World
from ..episodes import Late
from ..limits import Json, is_number
from .arguments import split

CATEGORIES = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")
DATA = Path(bfcl_eval.__file__).parent / "data"
SIZES = {"power": "exponent", "logarithm": "precision", "square_root": "precision", "round_number": "decimal_places"}
"""Arguments on which the time of a call depends."""
LARGEST = 1_000
SECONDS = 10.0
"""Seconds that a function of the package may take: it runs in this process, where nothing else runs meanwhile."""
FAILED = "Error during execution:"
"""How the package says that a function can't be called so."""


@dataclass(kw_only=True)
class BfclSettings(ToolSettings):
    turns: int = 20
    characters: int = 100_000


class Bfcl(World):
    abilities = ("expert",)

    def __init__(self, arguments: str) -> None:
        plain, settings = split(arguments)
        if len(plain) != 1 or plain[0] not in CATEGORIES:
            raise Wrong(f"bfcl:CATEGORY[,key=value...] names one of {', '.join(CATEGORIES)}, not `{arguments}`")
        self.settings = self.limits = BfclSettings.of(settings)
        self.name = f"bfcl-eval {version('bfcl-eval')} {plain[0]}"
        answers = {entry["id"]: entry["ground_truth"] for entry in lines(DATA / "possible_answer" / f"BFCL_v4_{plain[0]}.json")}
        entries = lines(DATA / f"BFCL_v4_{plain[0]}.json")
        self.tasks = Tasks.held_out({entry["id"]: {**entry, "ground_truth": answers[entry["id"]]} for entry in entries})
        self.documents = {name: [tool(each) for each in lines(DATA / "multi_turn_func_doc" / file)] for name, file in DOCUMENTS.items()}

    def episode(self, task: Json, seed: int) -> Episode:
        return Turns(self.limits, task, seed, [each for name in task["involved_classes"] for each in self.documents[name]])


class Turns(Conversation):
    processes = False
    typed = False  # the functions are Python, and some of the ground truth isn't of the documents' types
    asks_again = False  # the package goes on with the next turn

    def __init__(self, settings: BfclSettings, entry: Json, seed: int, tools: List[Json]) -> None:
        super().__init__(settings, entry, seed)
        self.entry, self.every = entry, tools
        self.done: List[List[List[str]]] = []
        """The calls that were made, by turn and answer."""

    async def played(self) -> Json:
        missed: Dict[str, List[str]] = self.entry.get("missed_function", {})
        later = {name for names in missed.values() for name in names}
        self.tools = [each for each in self.every if each["function"]["name"] not in later]
        try:
            for place, said in enumerate(self.entry["question"]):
                if str(place) in missed:
                    self.tools = self.tools + [each for each in self.every if each["function"]["name"] in missed[str(place)]]
                    said = [{"role": "user", "content": MORE_FUNCTIONS}]
                self.messages += copy.deepcopy(said)
                self.done.append([])
                if not await self.converse(self.settings.turns + 1):
                    return self.verdict(False, len(self.done) - 1)
            with limited(SECONDS):
                checked = multi_turn_checker(self.done, self.entry["ground_truth"], self.entry, "", self.name())
            return self.verdict(bool(checked["valid"]))
        finally:
            self.forget()

    def verdict(self, valid: bool, turns: Optional[int] = None) -> Json:
        done = len(self.done) if turns is None else turns
        return self.end({"reward": float(valid), "won": valid, "info": {"turns": done}}, truncated=turns is not None)

    def name(self) -> str:
        """Names the instances that the package keeps for the episode."""
        return f"flow_{self.key}"

    def forget(self) -> None:
        """The package keeps its instances for ever."""
        kept = vars(multi_turn_utils)
        for name in [name for name in kept if name.startswith(self.name())]:
            del kept[name]

    async def call(self, name: str, arguments: Json) -> str:
        size = arguments.get(SIZES.get(name, ""), 0)
        if is_number(size) and abs(size) > LARGEST:
            raise WrongCall(f"`{SIZES[name]}` is more than {LARGEST}")
        written = f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
        self.done[-1].append([written])
        with limited(SECONDS):
            results, _ = multi_turn_utils.execute_multi_turn_func_call(
                [written], self.entry["initial_config"], self.entry["involved_classes"], self.name(), self.entry["id"], "long_context" in self.entry["id"])
        # The package writes its instances' names into texts that look like calls, too.
        text = re.sub(rf"{self.name()}\w*?_instance\.", "", str(results[0]))
        if text.startswith(FAILED):
            self.valid = False
        return text

    def expert(self) -> Optional[str]:
        if not self.done or len(self.done) > len(self.entry["ground_truth"]):
            return None
        truth = [] if self.done[-1] else self.entry["ground_truth"][len(self.done) - 1]
        return "\n".join(f"<tool_call>\n{json.dumps(called(text, self.every), ensure_ascii=False)}\n</tool_call>" for text in truth) or "Done."


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Ends Python code that takes longer; nothing else runs meanwhile."""

    def late(*_: Any) -> None:
        raise Late

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except Late:
        raise Failure(f"a function of the package took longer than {seconds:g} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def called(text: str, tools: List[Json]) -> Json:
    """The call that an expression of Python writes, such as `sort('report.pdf')`."""
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"the ground truth is no call: {text}")
    name = call.func.id
    order = next(list(each["function"]["parameters"]["properties"]) for each in tools if each["function"]["name"] == name)
    arguments = {key: ast.literal_eval(value) for key, value in zip(order, call.args)}
    return {"name": name, "arguments": {**arguments, **{str(each.arg): ast.literal_eval(each.value) for each in call.keywords}}}


def tool(document: Json) -> Json:
    """A tool of chat completions, as the package makes one for a model that calls functions."""
    parameters = {**document["parameters"], "type": "object", "properties": typed(document["parameters"]["properties"])}
    description = document["description"] + " Note that the provided function is in Python 3 syntax."
    return {"type": "function", "function": {"name": re.sub(r"\.", "_", document["name"]), "description": description, "parameters": parameters}}


def typed(properties: Json) -> Json:
    return {name: schema(each) for name, each in properties.items()}


def schema(given: Json) -> Json:
    """A schema with the types of JSON Schema."""
    out = {**given, "type": TYPES.get(given.get("type", "string"), "string")}
    if given.get("type") == "float":
        out.update(format="float", description=given.get("description", "") + " This is a float type value.")
    if isinstance(given.get("properties"), dict):
        out["properties"] = typed(given["properties"])
    elif isinstance(given.get("items"), dict):
        out["items"] = schema(given["items"])
    return out


def lines(path: Path) -> List[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


WORLD = Bfcl
