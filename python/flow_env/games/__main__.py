"""Plays games for flow: a request a line on standard input, an answer a line on standard output, until the input ends.

    {"do": "begin", "episode": 3, "game": "search", "settings": {...}, "split": null, "seed": 5, "actions": []}
    {"do": "step", "episode": 3, "action": "search[a name]"}     {"do": "expert", "episode": 3}
    {"do": "board", "game": ..., "settings": ..., "split": ..., "seed": ...}

`begin` carries out the actions of an episode that another process began. A request may name episodes that are over in `close`."""

from __future__ import annotations

import json
import sys
from typing import Any, Dict

from . import search, seeds, webshop
from .game import Game, Seen, Unmade

GAMES = {"search": search.made, "webshop": webshop.made}


def made(request: Dict[str, Any]) -> Game:
    return GAMES[request["game"]](request["settings"], request["seed"], seeds.Deal(request["split"]))


def shown(game: Game, seen: Seen) -> Dict[str, Any]:
    return {"seen": {**seen._asdict(), "instruction": game.instruction, "kind": game.kind, "gold": game.gold}}


def answered(games: Dict[int, Game], request: Dict[str, Any]) -> Dict[str, Any]:
    for episode in request["close"]:
        games.pop(episode, None)
    if request["do"] == "board":
        return {"board": made(request).board()}
    if request["do"] == "begin":
        game = games[request["episode"]] = made(request)
        seen = game.reset()
        for action in request["actions"]:
            seen = game.step(action)
        return shown(game, seen)
    game = games[request["episode"]]
    if request["do"] == "expert":
        return {"action": game.expert()}
    return shown(game, game.step(request["action"]))


def main() -> None:
    games: Dict[int, Game] = {}
    for line in sys.stdin.buffer:
        try:
            answer = answered(games, json.loads(line))
        except Unmade as error:
            answer = {"unmade": str(error)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
