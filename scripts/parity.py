"""Replays random actions in gym-sokoban 0.0.6 and in flow's Sokoban, and compares every board, reward and end.

Half of the rooms are made by gym-sokoban, half by flow. The packages live in an environment of their own, .venv-parity.
Usage: cargo build --release -p flow-env --example sokoban_steps && python3 scripts/parity.py
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-parity"
# gym-sokoban asks for any gym; 0.26.2 is the last one, and it needs numpy 1.
PACKAGES = ["gym-sokoban==0.0.6", "gym==0.26.2", "numpy==1.26.4", "imageio==2.38.1", "pillow", "requests", "tqdm"]
SEQUENCES, STEPS = 1000, 60
MOVES = ["up", "down", "left", "right"]  # gym-sokoban's actions 1 to 4: push where there is a box, else move


def inside_the_venv():
    """Goes on in the environment of the comparison, made on first use."""
    python = VENV / "bin" / "python"
    if pathlib.Path(sys.prefix).resolve() == VENV.resolve():
        return
    done = VENV / "installed"
    wanted = "\n".join(PACKAGES)
    if not done.exists() or done.read_text() != wanted:
        print("parity: installing gym-sokoban 0.0.6 into .venv-parity", flush=True)
        venv.create(VENV, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
        done.write_text(wanted)
    os.execv(python, [str(python), "-W", "ignore", __file__, *sys.argv[1:]])


def draw(fixed, state):
    """The room in flow's symbols."""
    def symbol(under, here):
        if here == 5:
            return "S" if under == 2 else "P"
        if here in (3, 4):
            return "√" if under == 2 else "X"
        return "#_O"[int(here)]

    rows = [" ".join(symbol(f, s) for f, s in zip(*pair)) for pair in zip(fixed, state)]
    return "\n".join(f"Row {i}: {row}" for i, row in enumerate(rows, 1))


def put(env, board, np):
    """Sets gym-sokoban's room to a board drawn by flow."""
    cells = [line.split(": ")[1].split() for line in board.splitlines()]
    env.room_fixed = np.array([[{"#": 0, "O": 2, "S": 2, "√": 2}.get(c, 1) for c in row] for row in cells])
    env.room_state = np.array([[{"#": 0, "_": 1, "O": 2, "√": 3, "X": 4, "P": 5, "S": 5}[c] for c in row] for row in cells])
    env.player_position = np.argwhere(env.room_state == 5)[0]
    env.num_boxes = int((env.room_fixed == 2).sum())
    env.boxes_on_target = int((env.room_state == 3).sum())
    env.num_env_steps = 0


def flow(questions):
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    program = target / "release" / "examples" / "sokoban_steps"
    if not program.exists():
        sys.exit("parity: build it first: cargo build --release -p flow-env --example sokoban_steps")
    text = "".join(json.dumps(question) + "\n" for question in questions)
    answer = subprocess.run([program], input=text, capture_output=True, text=True)
    if answer.returncode:
        sys.exit(f"parity: {answer.stderr}")
    return [json.loads(line) for line in answer.stdout.splitlines()]


def main():
    import random

    import numpy as np
    from gym_sokoban.envs.sokoban_env import SokobanEnv

    random.seed(7)
    np.random.seed(7)
    # Small rooms among them, so that chance wins some.
    kinds = [((5, 5), 1), ((6, 6), 1), ((6, 6), 2), ((7, 7), 2)]
    envs = {kind: SokobanEnv(dim_room=kind[0], num_boxes=kind[1], max_steps=10**9, reset=False) for kind in kinds}
    questions = []
    for i in range(SEQUENCES):
        kind = kinds[i // 2 % len(kinds)]
        (size, _), boxes = kind
        actions = [random.choice(MOVES) for _ in range(STEPS)]
        if i % 2:
            questions.append({"task": f"sokoban-{size}x{size}-b{boxes}-m1-l1to21-s{i}", "actions": actions})
        else:
            with contextlib.redirect_stdout(None):  # it tells of every room that it throws away
                envs[kind].reset(render_mode="tiny_rgb_array")
            questions.append({"board": draw(envs[kind].room_fixed, envs[kind].room_state), "actions": actions})
    answers = flow(questions)

    steps = wins = paid = 0
    spent = 0.0
    for i, (question, answer) in enumerate(zip(questions, answers, strict=True)):
        env = envs[kinds[i // 2 % len(kinds)]]
        put(env, answer["boards"][0], np)
        played = list(zip(question["actions"], answer["boards"][1:], answer["rewards"], answer["done"], strict=False))
        for step, (action, board, reward, done) in enumerate(played):
            begin = time.perf_counter()
            _, theirs, ended, _ = env.step(MOVES.index(action) + 1, observation_mode="tiny_rgb_array")
            spent += time.perf_counter() - begin
            expected = draw(env.room_fixed, env.room_state)
            if expected != board or abs(theirs - reward) > 1e-5 or bool(ended) != done:
                sys.exit(f"parity: sequence {i}, step {step}, {action}:\ngym-sokoban ({theirs}, {ended})\n{expected}\nflow ({reward}, {done})\n{board}")
            steps += 1
            paid += abs(reward + 0.1) > 1e-5
            wins += done
        if len(played) < STEPS and not played[-1][3]:
            sys.exit(f"parity: sequence {i} ended early")
    print(f"parity: {len(questions)} sequences, {steps} steps, {paid} of them with a box on or off a target, {wins} wins: no difference")
    print(f"parity: gym-sokoban took {steps / spent:.0f} steps a second, its smallest picture drawn at each")


if __name__ == "__main__":
    inside_the_venv()
    main()
