"""How fast environments are played through `flow run`, with one process and with two, and in a bare Python loop over the same package: the
same episodes with the same actions. Bare loop, one process, two processes, and so on in turn, so that what else the machine does falls
on all three alike; the table in docs/environments-played.md has the medians of each and of the ratios within a round, and how far they spread.

    for w in textworld-express scienceworld gymnasium; do flow env install $w; done
    python3 python/speed.py [NAME...]      ROUNDS=9 takes nine rounds instead of five

The bare loop makes the calls into the package that the adapter makes, admissible actions left out as an expert's rollout leaves them
out, and ScienceWorld's gold paths made once a task. Gymnasium's environments have no expert, so there a small policy plays, and its own time is
taken off. Training takes hours, and a JVM compiles most as it begins: all three play the episodes of the first iterations before their
time is taken.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLOW = Path(os.environ.get("FLOW", ROOT / "target" / "release" / "flow"))
PIPELINE = ROOT / "python" / "speed.yaml"
PAGE = ROOT / "docs" / "environments-played.md"
START, END = "<!-- speed: begin -->", "<!-- speed: end -->"
# The adapter, what it serves, the iterations that warm it up, those that are measured, and further settings of the pipeline.
WORLDS = [
    ("textworld-express", "cookingworld", 12, 12, []),
    ("scienceworld", "melt", 6, 6, ["nodes.tasks.with.batch=8"]),
    ("gymnasium", "FrozenLake-v1", 1, 2, ["nodes.rollout.with.actor=policy", "nodes.rollout.with.agent.decode=constrained", "models.actor.tokens=words"]),
]
EPISODES = "select iteration, task, list(action order by turn) as actions from rollout group by all order by iteration, task"
TIMES = ("select sum(value) filter (node = 'rollout' and name = 'turns') as turns, sum(value) filter (node = 'rollout' and name = 'seconds') as seconds, "
         "sum(value) filter (node = 'engine' and name = 'policy_busy_seconds') as policy from metrics where iteration >= {warm}")

BARE = r"""
import json, sys, time
name, world, (warm, episodes) = sys.argv[1], sys.argv[2], json.load(sys.stdin)
if name == "textworld-express":
    from textworld_express import TextWorldExpressEnv
    env = TextWorldExpressEnv(envStepLimit=1000)
    env.load(gameName=world, gameParams="")

    def play(task, actions, new):
        env.reset(seed=int(task), gameFold="train", generateGoldPath=True)
        for action in actions:
            env.step(action)
elif name == "scienceworld":
    from scienceworld import ScienceWorldEnv
    env = ScienceWorldEnv("", envStepLimit=1000)
    server = env.server
    env.load(warm[0][0].split("/")[0], 0, "", True)

    def play(task, actions, new):
        kind, variation = task.split("/")
        server.load(kind, int(variation), "", new)
        if new:
            server.getGoldActionSequence()
            server.reset()
        for action in ["look around", *actions]:
            server.step(action), server.freeActionLook(), server.freeActionInventory(), server.getScore(), server.getCompleted()
else:
    import gymnasium
    env = gymnasium.make(world)
    from flow_env.adapters.gymnasium import WORLD
    texts = WORLD(world)
    texts.split = "train"
    texts.reset(0, 0)
    number = {text: i for i, text in enumerate(texts.actions())}

    def play(task, actions, new):
        env.reset(seed=int(task))
        for action in actions:
            env.step(number[action])
for episode in warm:
    play(*episode)
begun = time.perf_counter()
for episode in episodes:
    play(*episode)
print(json.dumps(sum(len(actions) for _, actions, _ in episodes) / (time.perf_counter() - begun)))
"""


def query(run, sql):
    output = subprocess.run([FLOW, "query", run, sql, "--format", "json"], capture_output=True, text=True, check=True, cwd=ROOT)
    return json.loads(output.stdout)


def played(name, world, warm, iterations, processes, further, run):
    settings = [f"iterations={warm + iterations}", f"nodes.tasks.with.env={name}", f"nodes.tasks.with.world={world}",
                f"nodes.tasks.with.processes={processes}", *further]
    command = [FLOW, "run", PIPELINE, "--out", run, *(part for setting in settings for part in ("--set", setting))]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
    times = query(run, TIMES.format(warm=warm))[0]
    return times["turns"] / (times["seconds"] - (times["policy"] or 0))


def bare(name, world, episodes):
    python = ROOT / ".flow" / "env" / name / "bin" / "python"
    output = subprocess.run([python, "-W", "ignore", "-c", BARE, name, world], input=json.dumps(episodes), capture_output=True, text=True)
    if output.returncode:
        sys.exit(output.stderr)
    return json.loads(output.stdout.splitlines()[-1])


def measured(name, world, warm, iterations, further, rounds, folder):
    """Turns a second of each round, and how many turns there are."""
    first = folder / f"{name}-first"
    played(name, world, warm, iterations, 1, further, first)
    before, episodes, played_tasks = [], [], set()
    for row in query(first, EPISODES):
        task = row["task"].rsplit("-s", 1)[0].split("-", 3)[3]  # process-NAME-SPLIT-TASK-sSEED
        actions = row["actions"] if isinstance(row["actions"], list) else json.loads(row["actions"])
        (before if row["iteration"] < warm else episodes).append((task, actions, task not in played_tasks))
        played_tasks.add(task)
    rates = {"bare": [], "one": [], "two": []}
    for place in range(rounds):
        rates["bare"].append(bare(name, world, (before, episodes)))
        for processes, which in ((1, "one"), (2, "two")):
            rates[which].append(played(name, world, warm, iterations, processes, further, folder / f"{name}-{place}-{which}"))
        print(name, {which: round(some[-1], 1) for which, some in rates.items()}, f"load {os.getloadavg()[0]:.1f}", flush=True)
    return rates, sum(len(actions) for _, actions, _ in episodes)


def cell(rates, which):
    """The median speed and, against the bare loop of the same round, the median ratio with the least and the greatest."""
    ratios = [rate / bare for rate, bare in zip(rates[which], rates["bare"])]
    return f"{statistics.median(rates[which]):,.0f} ({statistics.median(ratios):.2f}; {min(ratios):.2f} to {max(ratios):.2f})"


def main():
    rounds = int(os.environ.get("ROUNDS", "5"))
    load = os.getloadavg()[0]
    lines = ["| environment | turns | bare loop, turns/s | one process (ratio) | two processes (ratio) |", "| --- | --- | --- | --- | --- |"]
    with tempfile.TemporaryDirectory() as folder:
        for name, world, warm, iterations, further in WORLDS:
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            rates, turns = measured(name, world, warm, iterations, further, rounds, Path(folder))
            lines.append(f"| `{name}:{world}` | {turns:,} | {statistics.median(rates['bare']):,.0f} | {cell(rates, 'one')} | {cell(rates, 'two')} |")
            print(lines[-1], flush=True)
    lines += ["", f"{time.strftime('%Y-%m-%d')}, {rounds} rounds, {os.cpu_count()} cores whose load was {load:.1f} at the start and "
              f"{os.getloadavg()[0]:.1f} at the end (a load above 1 before anything runs is other people's work)."]
    if not sys.argv[1:]:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(text[: text.index(START) + len(START)] + "\n" + "\n".join(lines) + "\n" + text[text.index(END):], encoding="utf-8")


if __name__ == "__main__":
    main()
