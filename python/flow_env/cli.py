"""The command `flow-env`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import List, Optional, Sequence

ABOUT = """Environments for flow, which plays them over JSON lines.

WORLD names an environment: MODULE[:CLASS], FILE.py[:CLASS] (a subclass of flow_env.World), or an adapter with its arguments:
`flow-env list` shows them."""


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="flow-env", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = root.add_subparsers(dest="verb", required=True, metavar="VERB")
    serve = verbs.add_parser("serve", help="answer flow on standard input and output")
    serve.add_argument("world", metavar="WORLD")
    serve.add_argument("--seconds", type=float, help="an episode whose request takes longer fails, and the others go on")
    serve.add_argument("--words", type=Path, help="a file of the words of the environment's texts, one a line")
    check = verbs.add_parser("check", help="check an environment against the protocol: is it deterministic, are its actions valid, ...")
    profile = verbs.add_parser("profile", help="how many steps a second, and where the time goes")
    for verb, tasks in ((check, 12), (profile, 8)):
        verb.add_argument("world", metavar="WORLD")
        verb.add_argument("--tasks", type=int, default=tasks, help="how many tasks are played (%(default)s)")
        verb.add_argument("--steps", type=int, default=30, help="how many steps of each at most (%(default)s)")
        verb.add_argument("--say", type=Path, help="actions for an environment that lists none, one a line")
    check.add_argument("--command", action="store_true", help="WORLD is a whole command line that speaks the protocol itself")
    play = verbs.add_parser("play", help="play episodes through the protocol and print what came of them, as JSON")
    play.add_argument("world", metavar="WORLD")
    play.add_argument("--tasks", type=int, default=100, help="how many tasks are played (%(default)s)")
    play.add_argument("--steps", type=int, default=100, help="how many steps of each at most (%(default)s)")
    play.add_argument("--policy", choices=["expert", "random"], default="expert", help="who plays (%(default)s; where it knows no way on, at random)")
    play.add_argument("--live", type=int, default=8, help="how many episodes at a time (%(default)s)")
    play.add_argument("--split", action="append", help="a split to play; all unless given")
    play.add_argument("--no-lists", action="store_true", help="don't ask for the admissible actions unless they are needed")
    play.add_argument("--backwards", action="store_true", help="the last task first: the rows must not change")
    play.add_argument("--say", type=Path, help="actions for an environment that lists none, one a line")
    words = verbs.add_parser("words", help="print the words of an environment's texts, from episodes that are played")
    words.add_argument("world", metavar="WORLD", nargs="+")
    words.add_argument("--tasks", type=int, default=64, help="how many tasks are played (%(default)s)")
    words.add_argument("--steps", type=int, default=40, help="how many steps of each at most (%(default)s)")
    words.add_argument("--most", type=int, default=4096, help="how many words at most (%(default)s)")
    verbs.add_parser("list", help="the adapters")
    return root


def main(arguments: Optional[Sequence[str]] = None) -> None:
    args = parser().parse_args(arguments)
    if args.verb == "list":
        from .spec import ADAPTERS

        for name, adapter in ADAPTERS.items():
            print(f"{name + ':' + adapter.arguments:<44} {adapter.about}{' `flow-env serve` only.' if adapter.asks else ''}")
        return
    sys.exit(VERBS[args.verb](args))


def serve(args: argparse.Namespace) -> int:
    from .serve import own_the_pipes, serve

    reader, writer = own_the_pipes()
    from . import spec

    try:
        asking = spec.asking(args.world)
    except spec.Unknown as unknown:
        print(f"flow-env: {unknown}", file=sys.stderr, flush=True)
        return 1
    if asking is not None:
        from .door import serve as door

        return door.main(asking, reader, writer, None if args.words is None else lines_of(args.words))
    from .episodes import Episodes

    def begin() -> Episodes:
        vocabulary = None if args.words is None else lines_of(args.words)
        return Episodes(spec.world(args.world), (lambda: spec.vocabulary(args.world)) if vocabulary is None else (lambda: vocabulary))

    return serve(begin, reader, writer, args.seconds)


def check(args: argparse.Namespace) -> int:
    import shlex

    from .check import check
    from .client import serving

    command = shlex.split(args.world) if args.command else serving(args.world)
    return check(command, args.tasks, args.steps, lines_of(args.say))


def play(args: argparse.Namespace) -> int:
    import json

    from .client import Broken
    from .play import summary

    try:
        print(json.dumps(summary(
            args.world, args.tasks, args.policy, args.steps, args.live, args.split, not args.no_lists, args.backwards, lines_of(args.say)
        )))
    except Broken as error:
        print(f"flow-env: {error}", file=sys.stderr)
        return 1
    return 0


def profile(args: argparse.Namespace) -> int:
    from .profile import profile

    return profile(args.world, args.tasks, args.steps, lines_of(args.say))


def words(args: argparse.Namespace) -> int:
    from . import spec
    from .words import of_texts, texts

    collected = [text for world in args.world for text in texts(spec.world(world), args.tasks, args.steps)]
    print("\n".join(of_texts(collected, args.most)))
    return 0


def lines_of(path: Optional[Path]) -> List[str]:
    return [] if path is None else [line for line in path.read_text(encoding="utf-8").split("\n") if line]


VERBS = {"serve": serve, "check": check, "play": play, "profile": profile, "words": words}
