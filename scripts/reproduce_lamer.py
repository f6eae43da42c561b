"""LaMer's tables and figures, on a policy small enough for two cores: trains what is missing, measures it, writes docs/lamer.md.

    python3 scripts/reproduce_lamer.py [--games minesweeper,sokoban] [--seeds 1,2,3] [--iterations 60] [--methods gigpo,lamer] [--parts table,cost,memory,gamma,harder]

One run at a time, into runs/lamer; what was stopped is resumed, what is there is not made again. Everything in docs/lamer.md comes
from `flow eval` and `flow query` on these runs, and each table says by which command. Tuning is done on training tasks: the panels
are for the tables.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

FLOW = "target/release/flow"
HOME = Path("runs/lamer")
PAGE = Path("docs/lamer.md")
NOTES = "## What came out"
GAMES = {
    "minesweeper": ("MineSweeper 6x6, three mines", "datasets/minesweeper-6x6-m3-72494b580fd3.json", None),
    "sokoban": ("Sokoban 6x6, two boxes, up to three moves a turn", "datasets/sokoban-6x6-b2-m3-b32814e7d705.json", "{ env: sokoban, size: 6, boxes: 2, moves: 3, batch: %d }"),
}
# The paper's table 1, for comparison: its model is a thousand times as large.
PAPER = {
    ("zero-shot", "minesweeper"): "4.5 / 6.6 / 8.6", ("zero-shot", "sokoban"): "6.8 / 9.8 / 12.9",
    ("reflexion", "minesweeper"): "5.5 / 7.2 / 9.8", ("reflexion", "sokoban"): "6.4 / 9.8 / 12.1",
    ("ppo", "minesweeper"): "29.7 / 34.2 / 35.5", ("ppo", "sokoban"): "12.5 / 15.4 / 16.8",
    ("rloo", "minesweeper"): "48.8 / 51.2 / 51.6", ("rloo", "sokoban"): "13.5 / 16.6 / 18.8",
    ("grpo", "minesweeper"): "36.3 / 40.0 / 40.4", ("grpo", "sokoban"): "22.9 / 26.4 / 27.0",
    ("gigpo", "minesweeper"): "52.0 / 54.9 / 55.1", ("gigpo", "sokoban"): "41.6 / 43.6 / 44.1",
    ("lamer", "minesweeper"): "44.1 / 66.4 / 74.4", ("lamer", "sokoban"): "42.4 / 52.0 / 55.9",
}
HARDER = {
    "minesweeper": ["datasets/minesweeper-6x6-m4-15e8f3347c70.json", "datasets/minesweeper-6x6-m5-e2c348f3f8e3.json"],
    "sokoban": ["datasets/sokoban-6x6-b3-m3-c58cf420c625.json"],
}
METHODS = ["ppo", "rloo", "grpo", "gigpo", "lamer"]  # in the table's order; the last are trained first


def call(*command):
    print("$", " ".join(command), flush=True)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def trained(pipeline, name, sets):
    """The run's folder, trained to its end."""
    out = HOME / name
    if not (out / "manifest.json").exists():
        call(FLOW, "run", f"pipelines/lamer/{pipeline}.yaml", "--out", str(out), *[a for s in sets for a in ("--set", s)])
    elif json.loads((out / "manifest.json").read_text())["status"] != "finished":
        call(FLOW, "resume", str(out))
    return out


def tasks(game, *nodes):
    """The settings that make a pipeline play this game."""
    template = GAMES[game][2]
    sizes = {"tasks": 16, "own": 192, "demos": 192}
    return [f"nodes.{node}.with={template % sizes[size]}" for node, size in nodes] if template else []


def warmstart(game):
    sets = tasks(game, ("tasks", "demos"), ("own", "own"))
    return trained("warmstart", f"warmstart-{game}", sets + ([f"flow=lamer-warmstart-{game}"] if sets else []))


def run(method, game, seed, iterations, *more):
    start = warmstart(game)
    models = [f"models.actor.load={start}"] + ([f"models.critic.load={start}"] if method == "ppo" else [])
    name = "-".join([method, game, str(seed)] + [s.rsplit(".", 1)[-1].replace("=", "") for s in more])
    sets = [f"seed={seed}", f"iterations={iterations}", *models, *tasks(game, ("tasks", "tasks")), *more]
    return trained(method, name, sets)


def measured(subject, panel, *extra):
    """pass@1, @2, @3 in percent."""
    answer = json.loads(call(FLOW, "eval", str(subject), "--panel", panel, "--attempts", "3", "--format", "json", *extra))
    return [100 * p["value" if "value" in p else "share"] for p in answer["pass"]]


def cell(rows):
    """Mean and deviation over seeds of each of the three."""
    def one(values):
        return f"{statistics.mean(values):.1f}" + (f" ({statistics.stdev(values):.1f})" if len(values) > 1 else "")
    return " / ".join(one([row[k] for row in rows]) for k in range(3))


def table(games, seeds, iterations, methods):
    lines = [
        "## Table 1: success within 1, 2 and 3 attempts, in percent",
        "",
        "    target/release/flow eval RUN --panel PANEL --attempts 3",
        "",
        "Mean over seeds, and in brackets their standard deviation. In italics the paper's (Qwen3-4B).",
        "",
        "| method | " + " | ".join(f"{GAMES[g][0]} | *paper*" for g in games) + " |",
        "| --- | " + " | ".join("---: | ---:" for _ in games) + " |",
    ]
    cells = {}
    for game in games:
        panel, start = GAMES[game][1], warmstart(game)
        forget = ["--set", "nodes.trial.nodes.reflect.with.keep=none"]
        evals = [["--seed", str(s)] for s in seeds]
        cells["zero-shot", game] = cell([measured(start, panel, *forget, *e) for e in evals])
        cells["reflexion", game] = cell([measured(start, panel, *e) for e in evals])
        for method in reversed(methods):
            cells[method, game] = cell([measured(run(method, game, s, iterations), panel, "--seed", str(s)) for s in seeds])
    for method in ["zero-shot", "reflexion", *methods]:
        lines.append(f"| {method} | " + " | ".join(f"{cells[method, g]} | *{PAPER[method, g]}*" for g in games) + " |")
    return lines


def memory(games, seed, iterations):
    lines = ["## Table 3: what the next attempt is told", "", "    --set nodes.trial.nodes.reflect.with.keep=KEEP", ""]
    lines += ["| told | " + " | ".join(GAMES[g][0] for g in games) + " |", "| --- | " + " | ".join("---:" for _ in games) + " |"]
    for keep in ["history", "reflection", "both"]:
        more = [] if keep == "reflection" else [f"nodes.trial.nodes.reflect.with.keep={keep}"]
        row = [cell([measured(run("lamer", g, seed, iterations, *more), GAMES[g][1])]) for g in games]
        lines.append(f"| {keep} | " + " | ".join(row) + " |")
    return lines


def gamma(games, seed, iterations):
    lines = ["## Figure 5: the discount across attempts", "", "    --set nodes.step_advantage.with.gamma_attempt=G (and episode_advantage)", ""]
    lines += ["| gamma_attempt | " + " | ".join(GAMES[g][0] for g in games) + " |", "| ---: | " + " | ".join("---:" for _ in games) + " |"]
    for value in ["0.0", "0.3", "0.6", "0.9", "1.0"]:
        more = [] if value == "0.6" else [f"nodes.{n}_advantage.with.gamma_attempt={value}" for n in ("episode", "step")]
        row = [cell([measured(run("lamer", g, seed, iterations, *more), GAMES[g][1])]) for g in games]
        lines.append(f"| {value} | " + " | ".join(row) + " |")
    return lines


def harder(games, seed, iterations):
    lines = ["## Figure 4: harder boards than those of training", "", "| panel | GiGPO | LaMer |", "| --- | ---: | ---: |"]
    for game in games:
        for panel in HARDER[game]:
            row = [cell([measured(run(m, game, seed, iterations), panel)]) for m in ("gigpo", "lamer")]
            lines.append(f"| {Path(panel).stem.rsplit('-', 1)[0]} | {row[0]} | {row[1]} |")
    return lines


def cost(games, seed, iterations):
    """Six iterations of each from the start, in turn, twice; the quicker counts."""
    prompts = "select count(distinct (iteration, prompt_tokens)) / 6.0 as prompts, count(distinct (iteration, task, sample, attempt)) / 6.0 as episodes from {}"
    lines = ["## Cost of an iteration", "", "    time target/release/flow run pipelines/lamer/METHOD.yaml --set iterations=6", ""]
    lines += ["| game | method | seconds an iteration | episodes | distinct prompts |", "| --- | --- | ---: | ---: | ---: |"]
    for game in games:
        took = {"gigpo": [], "lamer": []}
        for turn in range(2):
            for method in took:
                out = HOME / f"cost-{method}-{game}-{turn}"
                shutil.rmtree(out, ignore_errors=True)
                begin = time.monotonic()
                sets = ["iterations=6", f"models.actor.load={warmstart(game)}", *tasks(game, ("tasks", "tasks"))]
                call(FLOW, "run", f"pipelines/lamer/{method}.yaml", "--out", str(out), *[a for s in sets for a in ("--set", s)])
                took[method].append((time.monotonic() - begin) / 6)
        for method, node in (("gigpo", "rollout"), ("lamer", "trial")):
            sql = prompts.format(node)
            row = json.loads(call(FLOW, "query", str(HOME / f"cost-{method}-{game}-1"), sql, "--format", "json"))[0]
            lines.append(f"| {game} | {method} | {min(took[method]):.2f} | {row['episodes']:.0f} | {row['prompts']:.0f} |")
    return lines


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("--games", default="minesweeper,sokoban")
    ask.add_argument("--seeds", default="1,2,3")
    ask.add_argument("--iterations", type=int, default=60)
    ask.add_argument("--methods", default=",".join(METHODS), help="rows of the table")
    ask.add_argument("--parts", default="table,cost,memory,gamma,harder")
    given = ask.parse_args()
    games, seeds = given.games.split(","), [int(s) for s in given.seeds.split(",")]
    HOME.mkdir(parents=True, exist_ok=True)
    PAGE.parent.mkdir(exist_ok=True)
    parts = []
    for part in given.parts.split(","):
        make = {"memory": memory, "gamma": gamma, "harder": harder, "cost": cost}.get(part)
        if make:
            parts.append("\n".join(make(games, seeds[0], given.iterations)))
        else:
            parts.append("\n".join(table(games, seeds, given.iterations, [m for m in METHODS if m in given.methods.split(",")])))
        words = " ".join(["python3 scripts/reproduce_lamer.py", *sys.argv[1:]])
        head = f"# LaMer\n\nMade by `{words}`: {given.iterations} iterations a run, seeds {given.seeds}.\n\n"
        # What people wrote below stays.
        notes = PAGE.read_text().partition(NOTES)[2] if PAGE.exists() else ""
        PAGE.write_text(head + "\n\n".join(parts) + "\n" + (f"\n{NOTES}{notes}" if notes else ""))
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
