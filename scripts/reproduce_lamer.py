"""LaMer's tables and figures, on a policy small enough for two cores: trains what is missing, measures it, writes a page a game.

    python3 scripts/reproduce_lamer.py [--games minesweeper,sokoban] [--seeds 1,2,3] [--iterations N] [--short 60]
        [--methods gigpo,lamer] [--into docs] [--parts table,wide,relations,temperature,diversity,harder,memory,gamma,cost]

One run at a time, into runs/lamer; what was stopped is resumed, what is there is not made again, and neither is what was measured of
it. Every table there comes from `flow eval` and `flow query` on these runs, and each table says by which command. Tuning is
done on training tasks: the panels are for the tables.
"""

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

FLOW = "target/release/flow"
HOME = Path("runs/lamer")
NOTES = "## What came out"
GAMES = {
    "minesweeper": ("MineSweeper 6x6, three mines", "datasets/minesweeper-6x6-m3-72494b580fd3.json", None),
    "sokoban": ("Sokoban 6x6, two boxes, up to three moves a turn", "datasets/sokoban-6x6-b2-m3-b32814e7d705.json", "{ env: sokoban, size: 6, boxes: 2, moves: 3, batch: %d }"),
}
PAGES = {"minesweeper": "lamer.md", "sokoban": "lamer-sokoban.md"}
# Of a run of the table; the paper's are of 300.
ITERATIONS = {"minesweeper": 300, "sokoban": 150}
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
# Other boards of the same games, four times as many: a panel of 256 is 3 points of luck wide.
WIDE = {
    "minesweeper": "datasets/minesweeper-6x6-m3-1024-af76939b6386.json",
    "sokoban": "datasets/sokoban-6x6-b2-m3-1024-43860ddc8177.json",
}
HARDER = {
    "minesweeper": ["datasets/minesweeper-6x6-m4-15e8f3347c70.json", "datasets/minesweeper-6x6-m5-e2c348f3f8e3.json"],
    "sokoban": ["datasets/sokoban-6x6-b3-m3-c58cf420c625.json"],
}
METHODS = ["ppo", "rloo", "grpo", "gigpo", "lamer"]  # in the table's order; the last are trained first


def call(*command):
    print("$", " ".join(command), flush=True)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def trained(pipeline, name, sets, iterations=0):
    """The run's folder, trained to its end."""
    out = HOME / name
    if not (out / "manifest.json").exists():
        call(FLOW, "run", f"pipelines/lamer/{pipeline}.yaml", "--out", str(out), *[a for s in sets for a in ("--set", s)])
    manifest = json.loads((out / "manifest.json").read_text())
    if manifest["status"] != "finished" or manifest["iterations"] < iterations:
        call(FLOW, "resume", str(out), *(["--iterations", str(iterations)] if iterations else []))
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
    length = [] if iterations == ITERATIONS[game] else [f"i{iterations}"]
    changed = dict.fromkeys(s.rsplit("with.", 1)[-1].replace("=", "") for s in more)
    name = "-".join([method, game, str(seed), *length, *changed])
    sets = [f"seed={seed}", f"iterations={iterations}", *models, *tasks(game, ("tasks", "tasks")), *more]
    return trained(method, name, sets, iterations)


def evaluated(subject, panel, *extra):
    """What `flow eval` says; said again from its file as long as the run is the same."""
    command = [FLOW, "eval", str(subject), "--panel", panel, "--format", "json", *extra]
    said = HOME / "evals" / (" ".join([subject.name, Path(panel).stem, *extra]).replace("/", "_") + ".json")
    if not said.exists() or said.stat().st_mtime < (subject / "manifest.json").stat().st_mtime:
        said.parent.mkdir(exist_ok=True)
        answer = call(*command)
        said.write_text(answer)
    return json.loads(said.read_text())


def measured(subject, panel, *extra):
    """pass@1, @2, @3 in percent."""
    return [100 * p["share"] for p in evaluated(subject, panel, "--attempts", "3", *extra)["pass"]]


def cell(rows):
    """Mean and deviation over seeds of each of the three."""
    def one(values):
        return f"{statistics.mean(values):.1f}" + (f" ({statistics.stdev(values):.1f})" if len(values) > 1 else "")
    return " / ".join(one([row[k] for row in rows]) for k in range(3))


FORGET = ["--set", "nodes.trial.nodes.reflect.with.keep=none"]


def rows(method, game, ask, panel=None, *extra):
    """Of each seed what a method reaches on a panel: the game's own unless given."""
    panel, start = panel or GAMES[game][1], warmstart(game)
    untrained = {"zero-shot": FORGET, "reflexion": []}.get(method)
    if untrained is None:
        return [measured(run(method, game, s, ask.length(game)), panel, "--seed", str(s), *extra) for s in ask.seeds]
    return [measured(start, panel, *untrained, "--seed", str(s), *extra) for s in ask.seeds]


def table(game, ask):
    return [
        "## Table 1: success within 1, 2 and 3 attempts, in percent",
        "",
        "    target/release/flow eval RUN --panel PANEL --attempts 3 --seed SEED",
        "",
        "Mean over seeds, and in brackets their standard deviation. In italics the paper's (Qwen3-4B).",
        "",
        f"| method | {GAMES[game][0]}, {ask.length(game)} iterations | *paper* |",
        "| --- | ---: | ---: |",
        *[f"| {m} | {cell(rows(m, game, ask))} | *{PAPER[m, game]}* |" for m in ["zero-shot", "reflexion", *ask.methods]],
    ]


def wide(game, ask):
    return [
        "## The same on 1,024 other boards",
        "",
        "    target/release/flow eval RUN --panel PANEL --attempts 3 --seed SEED",
        "",
        f"| method | {Path(WIDE[game]).stem} |",
        "| --- | ---: |",
        *[f"| {m} | {cell(rows(m, game, ask, WIDE[game]))} |" for m in ["zero-shot", "reflexion", *ask.methods]],
    ]


def interval(values):
    """Mean and 95% interval by Student's t."""
    if len(values) < 2:
        return f"{values[0]:.1f}"
    t = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}[len(values)]
    half = t * statistics.stdev(values) / math.sqrt(len(values))
    middle = statistics.mean(values)
    return f"{middle:.1f} ({middle - half:.1f} to {middle + half:.1f})"


def relations(game, ask):
    lines = [
        "## What the paper claims: relations",
        "",
        "Mean over seeds and its 95% interval by Student's t, of the runs above. *Gain* is pass@3 less pass@1.",
        "",
        "| game | boards | LaMer's pass@3 | GiGPO's pass@3 | LaMer's gain | GiGPO's gain | *gap, and gains, of the paper* |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    theirs = {m: [float(x) for x in PAPER[m, game].split(" / ")] for m in ("lamer", "gigpo")}
    gap, gains = theirs["lamer"][2] - theirs["gigpo"][2], [theirs[m][2] - theirs[m][0] for m in ("lamer", "gigpo")]
    for boards, panel in ((256, GAMES[game][1]), (1024, WIDE[game])):
        both = [rows(m, game, ask, panel) for m in ("lamer", "gigpo")]
        cells = [interval([row[2] for row in of]) for of in both] + [interval([row[2] - row[0] for row in of]) for of in both]
        lines.append(f"| {game} | {boards} | " + " | ".join(cells) + f" | *{gap:.1f}; {gains[0]:.1f}, {gains[1]:.1f}* |")
    return lines


def temperature(game, ask):
    lines = [
        "## The temperature of evaluation",
        "",
        "    target/release/flow eval RUN --panel PANEL --attempts 3 --seed SEED --temperature T",
        "",
        "The tables above are at the paper's 0.7. At 0 an agent without memory plays a board the same way every time.",
        "",
        "| game | temperature | GiGPO | LaMer |",
        "| --- | ---: | ---: | ---: |",
    ]
    for value in ["0", "0.2", "0.4", "0.7", "1"]:
        extra = [] if value == "0.7" else ["--temperature", value]
        found = [cell(rows(m, game, ask, None, *extra)) for m in ("gigpo", "lamer")]
        lines.append(f"| {game} | {value} | " + " | ".join(found) + " |")
    return lines


def variety(game, ask):
    lines = [
        "## Figure 3: diversity of trajectories",
        "",
        "    target/release/flow eval RUN --panel PANEL --attempts 1 --samples 8",
        "",
        "Entropy over the distinct trajectories of a task, in nats; at most ln 8 = 2.08.",
        "",
        f"| model | {game} |",
        "| --- | ---: |",
    ]
    for method in ["warm start", "gigpo", "lamer"]:
        subjects = [warmstart(game)] if method == "warm start" else [run(method, game, s, ask.length(game)) for s in ask.seeds]
        found = [evaluated(s, GAMES[game][1], "--attempts", "1", "--samples", "8")["diversity"] for s in subjects]
        spread = f" ({statistics.stdev(found):.2f})" if len(found) > 1 else ""
        lines.append(f"| {method} | {statistics.mean(found):.2f}{spread} |")
    return lines


def short(game, ask, *more):
    """What LaMer reaches after few iterations of one seed, with these settings."""
    return cell([measured(run("lamer", game, ask.seeds[0], ask.short, *more), GAMES[game][1])])


def memory(game, ask):
    lines = [f"## Table 3: what the next attempt is told ({ask.short} iterations, one seed)", "", "    --set nodes.trial.nodes.reflect.with.keep=KEEP", ""]
    lines += [f"| told | {GAMES[game][0]} |", "| --- | ---: |"]
    for keep in ["history", "reflection", "both"]:
        more = [] if keep == "reflection" else [f"nodes.trial.nodes.reflect.with.keep={keep}"]
        lines.append(f"| {keep} | {short(game, ask, *more)} |")
    return lines


def gamma(game, ask):
    lines = [f"## Figure 5: the discount across attempts ({ask.short} iterations, one seed)", "", "    --set nodes.step_advantage.with.gamma_attempt=G", ""]
    lines += [f"| gamma_attempt | {GAMES[game][0]} |", "| ---: | ---: |"]
    for value in ["0.0", "0.3", "0.6", "0.9", "1.0"]:
        more = [] if value == "0.6" else [f"nodes.step_advantage.with.gamma_attempt={value}"]
        lines.append(f"| {value} | {short(game, ask, *more)} |")
    return lines


def harder(game, ask):
    lines = ["## Figure 4: harder boards than those of training", "", "| panel | GiGPO | LaMer |", "| --- | ---: | ---: |"]
    for panel in HARDER[game]:
        found = [cell(rows(m, game, ask, panel)) for m in ("gigpo", "lamer")]
        lines.append(f"| {Path(panel).stem.rsplit('-', 1)[0]} | " + " | ".join(found) + " |")
    return lines


def cost(game, _):
    """Six iterations of each from the start, in turn, twice; the quicker counts."""
    prompts = "select count(distinct (iteration, prompt_tokens)) / 6.0 as prompts, count(distinct (iteration, task, sample, attempt)) / 6.0 as episodes from {}"
    lines = ["## Cost of an iteration", "", "    time target/release/flow run pipelines/lamer/METHOD.yaml --set iterations=6", ""]
    lines += ["| game | method | seconds an iteration | episodes | distinct prompts |", "| --- | --- | ---: | ---: | ---: |"]
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


PARTS = {
    "table": table,
    "wide": wide,
    "relations": relations,
    "temperature": temperature,
    "diversity": variety,
    "harder": harder,
    "memory": memory,
    "gamma": gamma,
    "cost": cost,
}


def write(page, game, ask):
    """The page of one game, written again after each part."""
    parts = []
    for part in ask.parts:
        parts.append("\n".join(PARTS[part](game, ask)))
        words = " ".join(["python3 scripts/reproduce_lamer.py", *sys.argv[1:]])
        name = GAMES[game][0].split()[0]
        head = f"# LaMer on {name}\n\nMade by `{words}`; seeds {', '.join(map(str, ask.seeds))}.\n\n"
        # What people wrote below stays.
        notes = page.read_text().partition(NOTES)[2] if page.exists() else ""
        page.write_text(head + "\n\n".join(parts) + "\n" + (f"\n{NOTES}{notes}" if notes else ""))


def main():
    ask = argparse.ArgumentParser()
    names = lambda text: text.split(",")
    ask.add_argument("--games", type=names, default=list(GAMES))
    ask.add_argument("--seeds", type=lambda text: [int(s) for s in text.split(",")], default=[1, 2, 3])
    ask.add_argument("--iterations", type=int, help="of a run of the table; " + ", ".join(f"{n} for {g}" for g, n in ITERATIONS.items()))
    ask.add_argument("--short", type=int, default=60, help="iterations of a run of Table 3 and Figure 5")
    ask.add_argument("--methods", type=names, default=METHODS, help="rows of the table")
    ask.add_argument("--parts", type=names, default=list(PARTS))
    ask.add_argument("--into", type=Path, default=Path("docs"), help="the folder of the pages")
    given = ask.parse_args()
    given.length = lambda game: given.iterations or ITERATIONS[game]
    HOME.mkdir(parents=True, exist_ok=True)
    given.into.mkdir(parents=True, exist_ok=True)
    for game in given.games:
        page = given.into / PAGES[game]
        write(page, game, given)
        print(page.read_text())


if __name__ == "__main__":
    main()
