"""Plays experts twice on the same games, by a loop over the package alone, without flow_env, and through the adapter, and holds wins and
actions against each other, game by game. The table goes to docs/environments-played.md.

    python3 python/experts.py [NAME...]
"""

import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import environments

PAGE = environments.PAGE
START, END = "<!-- experts: begin -->", "<!-- experts: end -->"
# The requirements file, what is served, steps at most.
GAMES = [
    ("alfworld", "alfworld", 200),
    *(("textworld-express", f"textworld-express:{game}", 400)
      for game in ("cookingworld", "coin", "twc", "mapreader", "arithmetic", "sorting", "simonsays", "peckingorder")),
]


def alfworld(_, chosen, most):
    """ALFWorld's engine under the wrappers that its own environment puts around it, its expert among them, which says in each state
    what to do: wins and actions. The games are those that the adapter makes."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredExpert, AlfredInfos

    from flow_env.adapters.alfworld import DATA, scene

    domain, grammar = (DATA / "alfred.pddl").read_text(), (DATA / "alfred.twl2").read_text()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "game.tw-pddl"
        for split, task in chosen:
            made = scene(split, task)
            game = {"pddl_domain": domain, "grammar": grammar.replace("UNKNOWN GOAL", made.sentence), "pddl_problem": made.problem}
            file.write_text(json.dumps(game))
            (Path(folder) / "traj_data.json").write_text(json.dumps(made.about))
            env = textworld.start(str(file), textworld.EnvInfos(won=True, admissible_commands=True, feedback=True, extras=["gamefile", "expert_plan"]),
                                  [AlfredDemangler, AlfredInfos, AlfredExpert])
            # The expert draws now and then from Python's generator, which the adapter seeds by the task.
            random.seed(int.from_bytes(hashlib.sha256(f"{split} {task} 0".encode()).digest()[:4], "big"))
            state, done, actions = env.reset(), False, []
            try:
                while not done and len(actions) < most:
                    actions.append(state["extra.expert_plan"][0])
                    state, _, done = env.step(actions[-1])
                won = bool(state["won"])
            except Exception as error:
                if str(error) != "Timeout":  # so the package's wrapper says that its expert gave up
                    raise
                won = False
            env.close()
            yield won, actions


def textworld_express(spec, chosen, most):
    """TextWorldExpress's own environment and the gold path that it names: wins and actions."""
    from textworld_express import TextWorldExpressEnv

    env = TextWorldExpressEnv(envStepLimit=most)
    env.load(gameName=spec.partition(":")[2], gameParams="")
    for split, task in chosen:
        env.reset(seed=int(task), gameFold=split, generateGoldPath=True)
        won, actions = False, []
        for action in env.getGoldActionSequence()[:most]:
            actions.append(str(action))
            _, _, done, infos = env.step(actions[-1])
            won = bool(infos["tasksuccess"])
            if done:
                break
        yield won, actions


def compared(name, spec, most, many):
    """Both ways of playing, in this process's virtual environment."""
    from flow_env.client import Program, serving
    from flow_env.play import play, tasks

    program = Program(serving(spec), seconds=300.0)
    try:
        chosen = tasks(program.hello, many)
        played = play(program, chosen, "expert", most, live=1, lists=False)
        by_adapter = [(bool(rows[-1].answer.get("won")), [row.action for row in rows[1:]]) for rows in played.rows]
        world = program.hello["world"]
    finally:
        program.end()
    alone = list({"alfworld": alfworld, "textworld-express": textworld_express}[name](spec, chosen, most))
    pairs = list(zip(alone, by_adapter))
    return {
        "world": world, "games": len(pairs), "alone": sum(alone[0] for alone, _ in pairs), "adapter": sum(adapter[0] for _, adapter in pairs),
        "same_end": sum(alone[0] == adapter[0] for alone, adapter in pairs), "same_actions": sum(alone[1] == adapter[1] for alone, adapter in pairs),
        "differ": [f"{split} {task}" for (split, task), (alone, adapter) in zip(chosen, pairs) if alone[0] != adapter[0]],
    }


def main():
    many = int(os.environ.get("TASKS", "100"))
    if sys.argv[1:2] == ["--inside"]:
        name, spec, most = next(row for row in GAMES if row[1] == sys.argv[2])
        print(json.dumps(compared(name, spec, most, many)))
        return
    lines = ["| environment | package | games | won by the package's own loop | won by the adapter | same end | same actions |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for name, spec, _ in GAMES:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        run = subprocess.run([environments.environment(name), __file__, "--inside", spec], capture_output=True, text=True,
                             env={**os.environ, "PYTHONPATH": str(environments.HERE)})
        if run.returncode:
            sys.exit(run.stderr[-3000:])
        result = json.loads(run.stdout.splitlines()[-1])
        lines.append("| `{}` | {world} | {games} | {alone} | {adapter} | {same_end} | {same_actions} |".format(spec, **result))
        print(lines[-1], result["differ"], flush=True)
    if not sys.argv[1:]:
        lines += ["", f"Measured on {time.strftime('%Y-%m-%d')} by `python/experts.py`."]
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(text[: text.index(START) + len(START)] + "\n" + "\n".join(lines) + "\n" + text[text.index(END):], encoding="utf-8")


if __name__ == "__main__":
    main()
