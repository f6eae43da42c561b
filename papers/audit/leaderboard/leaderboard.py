"""The leaderboard of credits: `python3 papers/audit/leaderboard/leaderboard.py` plays, audits, credits and writes the page.

For each environment and seed: one run of the policy (`play.yaml`), one audit of its turns, and one replay of its episodes for each file in
`estimators/`. What is done stays done: an interrupted command goes on, and a new file costs its replays alone. Standard library only.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import page

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
NAME = ("iteration", "task", "sample", "attempt", "turn", "phase")
WORLDS = json.loads((HERE / "worlds.json").read_text())


def flow(options, *arguments):
    """Runs flow with one thread at low priority, and gives what it prints; an error ends the command with flow's own words."""
    paths = os.pathsep.join(str(ROOT / name) for name in (".pyarrow", "python"))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    command = ["nice", options.flow, *map(str, arguments)]
    try:
        made = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800)
    except subprocess.TimeoutExpired:
        sys.exit(f"half an hour was not enough for: {' '.join(command)}\nthe same leaderboard command goes on; try fewer --turns or --plays in another --home")
    if made.returncode:
        sys.exit(f"{' '.join(command)}\n{made.stdout}{made.stderr}")
    return made.stdout


def settings(values):
    """Overrides of a pipeline, as arguments."""
    return [part for path, value in values.items() for part in ("--set", f"{path}={json.dumps(value)}")]


def query(options, run, sql):
    return json.loads(flow(options, "query", run, sql, "--format", "json"))


def once(options, out, *arguments):
    """A run or a replay that is made once: a folder without its mark was interrupted, and is made again. Returns the seconds."""
    mark = out.with_suffix(".done")
    if not mark.exists():
        shutil.rmtree(out, ignore_errors=True)
        begun = time.monotonic()
        flow(options, *arguments, "--out", out)
        mark.write_text(json.dumps(time.monotonic() - begun))
    return json.loads(mark.read_text())


def world_settings(options, world):
    """What an environment changes in the pipelines."""
    agent = {key: world[key] for key in ("prompt", "history") if key in world} | {"max_turns": world["turns"]}
    return {"nodes.tasks.with": world["tasks"], "agents.player": agent}


def audited(home, rows):
    return home / ("audit.json" if rows == "rows" else f"audit-{rows}.json")


def play(options, home, world, seed, rows):
    """The start, the episodes and the audit of an environment and seed, as `audit.json`. `rows` are the episodes: `rows`, or `branched`."""
    common = world_settings(options, world)
    start = common | {"iterations": world["start"], "seed": seed}
    if "demos" in world:
        start["nodes.tasks.with.batch"] = world["demos"]
    once(options, home / "start", "run", HERE / "start.yaml", *settings(start))
    played = common | {"seed": seed, "iterations": options.iterations, "models.actor.load": str(home / "start")}
    once(options, home / rows, "run", HERE / ("play.yaml" if rows == "rows" else f"play-{rows}.yaml"), *settings(played))
    out = audited(home, rows)
    if out.exists():
        return
    turns = options.turns or world["audited"]
    begun = time.monotonic()
    told = flow(options, "audit", home / rows, "--node", "rollout", "--turns", turns, "--plays", options.plays, "--answers", "all", "--seed", seed, "--format", "json")
    seconds = time.monotonic() - begun
    asked = {
        "answers": f"select {', '.join(NAME)}, role, answer, worth, audited, audited_error, refused from audit order by all",
        "turns": f"select {', '.join(NAME)}, state, action from rollout where (iteration, task, state) in (select iteration, task, state from audit where role = 'logged') order by all",
        "success": "select avg(won::int) as share from (select bool_or(won) as won from rollout group by iteration, task, sample)",
    }
    found = {key: query(options, home / rows, sql) for key, sql in asked.items()}
    keep(out, found | {"seconds": seconds, "told": json.loads(told)})


def keep(path, value):
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value))
    part.rename(path)


def texts(file):
    """The text of a pipeline and of those that it is like: what a credit follows from."""
    text = file.read_text()
    like = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("like:")]
    return text + "".join(texts((file.parent / name).resolve()) for name in like)


def credit(options, home, world, seed, file):
    """One estimator's credits of the turns that `audit.json` names, by a replay of the episodes."""
    out = home / "credits" / f"{file.stem}.json"
    changes = world.get("set", {}).get(file.stem, {})
    digest = hashlib.sha256((texts(file) + json.dumps(changes)).encode()).hexdigest()
    if out.exists() and json.loads(out.read_text())["digest"] == digest:
        return
    out.parent.mkdir(exist_ok=True)
    rows = page.headers(file).get("rows", "rows")
    play(options, home, world, seed, rows)
    replay = home / f"replay-{file.stem}"
    replay.with_suffix(".done").unlink(missing_ok=True)
    common = world_settings(options, world) | {"seed": seed, "iterations": options.iterations, "models.actor.load": str(home / "start")}
    seconds = once(options, replay, "replay", home / rows, "--with", file, "--run-code", *settings(common | changes))
    turns = json.loads(audited(home, rows).read_text())["turns"]
    iterations = ", ".join(sorted({str(turn["iteration"]) for turn in turns})) or "0"
    told = query(options, replay, f"select {', '.join(NAME)}, advantage from credit where iteration in ({iterations})")
    credits = {tuple(row[name] for name in NAME): row["advantage"] for row in told}
    busy = query(options, replay, "select node, sum(value) as seconds from metrics where name = 'busy_seconds' group by all order by all")
    count = query(options, replay, "select count(*) as rows from credit")[0]["rows"]
    own = sum(row["seconds"] for row in busy if row["node"] not in others(file))
    shutil.rmtree(replay)
    keep(out, {"digest": digest, "credits": [credits.get(tuple(turn[name] for name in NAME)) for turn in turns], "seconds": seconds, "busy": own, "rows": count})


def others(file):
    """The nodes of a replay that no credit is computed by: what plays and what trains the policy."""
    played = re.findall(r"^  (\w+): \{ (?:op|inputs)", (HERE / "play.yaml").read_text(), re.MULTILINE) if "play.yaml" in texts(file) else []
    return {"engine", "tasks", "rollout", "greedy", *played} - set(page.headers(file).get("also", "").split())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flow", default=str(ROOT / "target/release/flow"), help="the program")
    parser.add_argument("--home", type=pathlib.Path, default=ROOT / "runs/leaderboard", help="where runs are kept")
    parser.add_argument("--worlds", default=",".join(WORLDS), help="environments of worlds.json")
    parser.add_argument("--first", type=int, default=11, help="the first seed; seeds to 10 were used to choose the settings")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=21)
    parser.add_argument("--turns", type=int, help="audited turns of a seed, in place of those of worlds.json")
    parser.add_argument("--plays", type=int, default=32)
    parser.add_argument("--only", help="estimators by the names of their files, in place of all")
    parser.add_argument("--until", help="begins no further work after this time of the day, as 02:10")
    parser.add_argument("--page", type=pathlib.Path, default=HERE, help="the folder of README.md and results.json")
    options = parser.parse_args()
    options.home = options.home.resolve()
    if not shutil.which(options.flow):
        parser.error(f"there is no program {options.flow}: build it (`make build`), or name one by --flow")
    for kind, asked, known in (("worlds", options.worlds, WORLDS), ("only", options.only, {file.stem for file in (HERE / "estimators").glob("*.yaml")})):
        for name in asked.split(",") if asked else ():
            if name not in known:
                parser.error(f"--{kind}: there is no {name}, but {', '.join(sorted(known))}")
    if options.only and "grpo" not in options.only.split(","):
        parser.error("--only: grpo is what others are compared with, so name it, too")
    seeds = range(options.first, options.first + options.seeds)
    files = [file for file in sorted((HERE / "estimators").glob("*.yaml")) if not options.only or file.stem in options.only.split(",")]
    for seed in seeds:
        for name in options.worlds.split(","):
            world, home = WORLDS[name], options.home / f"{name}-{seed}"
            if options.until and time.strftime("%H:%M") >= options.until:
                print(f"it is {options.until}: {name}, seed {seed}, and what follows are left")
                return page.write(options.home, options.worlds.split(","), seeds, files, options.page)
            home.mkdir(parents=True, exist_ok=True)
            play(options, home, world, seed, "rows")
            for file in files:
                if file.stem not in world.get("without", []):
                    credit(options, home, world, seed, file)
            print(time.strftime("%H:%M:%S"), name, seed, flush=True)
    page.write(options.home, options.worlds.split(","), seeds, files, options.page)


if __name__ == "__main__":
    main()
