"""Plays the field's environments, each on its real package in a virtual environment of its own, and writes what it measured to
docs/environments-played.md. Each row is played twice, in two processes, the second time backwards and with another number of live episodes:
the rows must be the same.

    python3 python/environments.py [NAME...]      all environments unless some are named; what was measured before is kept
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "environments.json"
PAGE = ROOT / "docs" / "environments-played.md"
START, END = "<!-- measured: begin -->", "<!-- measured: end -->"

# What is played: the requirements file, what is served, who plays, steps at most, further arguments.
TASKSETS = "python/tests/tasksets"
EXPERT, RANDOM = ["--policy", "expert", "--no-lists"], ["--policy", "random"]
WORLDS = [
    ("gymnasium", "gymnasium:FrozenLake-v1", RANDOM, 100),
    ("gymnasium", "gymnasium:FrozenLake-v1,is_slippery=false", RANDOM, 100),
    ("gymnasium", "gymnasium:Taxi-v4", RANDOM, 200),
    ("gymnasium", "gymnasium:Blackjack-v1", RANDOM, 50),
    ("gymnasium", "gymnasium:CartPole-v1", RANDOM, 100),
    ("gymnasium", "gymnasium:MiniGrid-DoorKey-5x5-v0,import=minigrid", RANDOM, 100),
    *(("textworld-express", f"textworld-express:{game}", EXPERT, 400)
      for game in ("cookingworld", "coin", "twc", "mapreader", "arithmetic", "sorting", "simonsays", "peckingorder")),
    ("textworld-express", "textworld-express:cookingworld", RANDOM, 50),
    ("scienceworld", "scienceworld", EXPERT, 500),
    *(("textarena", f"textarena:{game}", RANDOM, 60)
      for game in ("FrozenLake-v0", "GuessTheNumber-v0", "Mastermind-v0", "Minesweeper-v0-small", "2048-v0-mega-easy", "TowerOfHanoi-v0",
                   "Bandit-v0", "LightsOut-v0", "FifteenPuzzle-v0", "Blackjack-v0", "ThreeCardMonte-v0", "Secretary-v0", "Sokoban-v0")),
    *(("gem", f"gem:game:{game}-easy", RANDOM, 50)
      for game in ("GuessTheNumber-v0", "Mastermind-v0", "Game2048-v0", "Minesweeper-v0", "Sokoban-v0", "FifteenPuzzle-v0")),
    *(("miniwob", f"miniwob:{page}", RANDOM, 20) for page in ("click-button", "click-checkboxes", "login-user")),
    ("openenv", "openenv:http://127.0.0.1:8765", RANDOM, 10),
    ("textworld", "textworld:tw-coin_collector,level=5", EXPERT, 100),
    ("textworld", "textworld:tw-cooking,recipe=2,take=1,go=6,open=true,cook=true", EXPERT, 100),
    ("alfworld", "alfworld", EXPERT, 200),
    # Tasksets of ours, made with the package's own classes: those that it brings need containers, other servers or downloads.
    ("verifiers", f"verifiers:{TASKSETS}/sums.py,test=50,expert=gold", EXPERT, 5),
    *(("verifiers", f"verifiers:{TASKSETS}/{name}.py{cut}", [*RANDOM, "--say", f"{TASKSETS}/{name}.txt"], 10)
      for name, cut in (("sums", ",test=50"), ("guess", ""), ("shop", ",test=50"))),
    *(("bfcl", f"bfcl:multi_turn_{category}", EXPERT, 400) for category in ("base", "miss_func", "miss_param", "long_context")),
    # The examples' tasks, which are few; of MCP's there is no expert.
    ("mcp", "mcp:examples/tools/mcp/stock.json", [*RANDOM, "--say", f"{TASKSETS}/stock.txt"], 10),
    ("harbor", "harbor:examples/tools/harbor", EXPERT, 10),
]


def environment(name):
    """The Python of an adapter's virtual environment, made from its pinned requirements if it isn't there."""
    folder = ROOT / f".venv-{name}"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        file = HERE / "flow_env" / "requirements" / f"{name}.txt"
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "-r", file], check=True)
    return python


@contextlib.contextmanager
def served(name):
    """For OpenEnv's adapter its own server, with a guessing game on it."""
    if name != "openenv":
        yield
        return
    server = subprocess.Popen([environment("openenv-server"), HERE / "tests" / "openenv_server.py", "8765"])
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", 8765)) == 0:
                    break
            if server.poll() is not None:
                raise RuntimeError("OpenEnv's server didn't start")
            time.sleep(0.5)
        yield
    finally:
        server.terminate()
        server.wait()


def played(python, spec, arguments, steps, tasks, *more):
    env = {**os.environ, "PYTHONPATH": str(HERE)}
    run = subprocess.run([python, "-m", "flow_env", "play", spec, "--tasks", str(tasks), "--steps", str(steps), *arguments, *more],
                         capture_output=True, text=True, env=env, cwd=ROOT)
    if run.returncode:
        raise RuntimeError(run.stderr.strip()[-1500:] or f"exit status {run.returncode}")
    return json.loads(run.stdout.splitlines()[-1])


def measure(name, spec, arguments, steps, tasks):
    python = environment(name)
    load = os.getloadavg()[0]
    with served(name):
        first = played(python, spec, arguments, steps, tasks, "--live", "1")
        second = played(python, spec, arguments, steps, tasks, "--live", "8", "--backwards")
    return {**first, "again": first["digest"] == second["digest"], "steps_a_second_8": second["steps_a_second"], "policy": arguments[1],
            "licence": licence(python, name), "load": round(load, 1), "measured": time.strftime("%Y-%m-%d")}


def licence(python, name):
    """The licence that the package's metadata names."""
    code = ("import sys, importlib.metadata as m; d = m.metadata(sys.argv[1]); t = d.get('License-Expression') or "
            "next((c.split(' :: ')[-1] for c in d.get_all('Classifier') or [] if c.startswith('License ::')), None) or d.get('License') or "
            "next((f.read_text() for f in m.files(sys.argv[1]) if 'licenses/' in str(f)), None) or '?'; "
            "lines = t.strip().splitlines(); print(next((line for line in lines if 'licen' in line.lower()), lines[0]).strip())")
    if name == "openenv":
        python = environment("openenv-server")  # the adapter itself needs nothing of the package
    if name == "harbor":
        return "tasks of this repository, MIT License"
    package = {"gem": "gem-llm", "bfcl": "bfcl-eval"}.get(name, name)
    return subprocess.run([python, "-c", code, package], capture_output=True, text=True).stdout.strip()


def speed(steps):
    return f"{steps:,.0f}" if steps >= 10 else f"{steps:.1f}"


def page(results):
    """The measured part of the page."""
    played = {spec: result for spec, result in results.items() if "error" not in result}
    # BFCL's version has its category, which the table names.
    version = {spec: result["world"].removesuffix(f" {spec.split(' ')[0].split(':')[-1]}") for spec, result in played.items()}
    packages = dict.fromkeys(f"{version[spec]} ({result['licence']})" for spec, result in played.items())
    differ = [f"`{spec.split(' ')[0]}`" for spec, result in played.items() if not result["again"]]
    lines = [
        f"Packages: {'; '.join(packages)}.",
        "",
        f"The rows were **not** the same twice in {', '.join(differ)}." if differ else f"The rows were the same twice in all {len(played)} lines of the table.",
        "",
        "| environment | episodes, steps | by | won | mean score | steps/s, 1 and 8 live (load before) | start |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for spec, result in results.items():
        shown = spec.replace("|", "\\|").split(" ")[0]
        if "error" in result:
            lines.append(f"| `{shown}` | couldn't be played: {result['error'].splitlines()[-1][:160]} | | | | | |")
            continue
        ended = "" if result["expert"] == result["episodes"] else f" ({result['expert']} to the end)"
        by = f"expert{ended}" if result["policy"] == "expert" else "random"
        score = "" if result["score"] is None else f"{result['score']:g}"
        lines.append(
            f"| `{shown}` | {result['episodes']}, {result['steps']:,} | {by} | "
            f"{result['won']} | {score} | {speed(result['steps_a_second'])}, {speed(result['steps_a_second_8'])}"
            f"{' (' + format(result['load'], '.0f') + ')' if 'load' in result else ''} | "
            f"{result['start']:.1f} s |"
        )
    science = next((result for spec, result in results.items() if spec.startswith("scienceworld expert") and "types" in result), None)
    if science:
        full = [name for name, some in science["types"].items() if some["score"] == 100]
        rest = ", ".join(f"{name} {some['score']:g}" for name, some in science["types"].items() if some["score"] != 100)
        lines += ["", f"ScienceWorld's gold paths reach 100 in every episode of {len(full)} of {len(science['types'])} kinds of task"
                  + (f"; the mean of the others: {rest}." if rest else ".")]
    return "\n".join(lines)


def main():
    requested = sys.argv[1:]
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    tasks = int(os.environ.get("TASKS", "100"))
    for name, spec, arguments, steps in WORLDS:
        key = f"{spec} {arguments[1]}"
        if requested and name not in requested and spec not in requested:
            continue
        print(f"{key}: ", end="", flush=True)
        try:
            results[key] = measure(name, spec, arguments, steps, tasks)
            print({field: results[key][field] for field in ("episodes", "steps", "won", "again", "steps_a_second", "steps_a_second_8")}, flush=True)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            results[key] = {"error": str(error)}
            print(error, flush=True)
        order = [f"{spec} {arguments[1]}" for _, spec, arguments, _ in WORLDS]
        results = {key: results[key] for key in order if key in results}
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(text[: text.index(START) + len(START)] + "\n" + page(results) + "\n" + text[text.index(END):], encoding="utf-8")


if __name__ == "__main__":
    main()
