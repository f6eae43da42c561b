"""The other side of `cargo bench --bench env`: gym-sokoban 0.0.6 and gem-llm 0.1.0, driven over standard input.

A line names a case and a number of steps; the answer is seconds a step. `room` cases answer seconds a reset.
Actions are drawn beforehand, rooms are made beforehand, and resets don't count.
"""

import contextlib
import copy
import os
import random
import sys
import time
import types
import warnings

# gem registers other people's data sets as it is imported; an empty catalogue spares their download and changes no game.
sys.modules["reasoning_gym"] = types.SimpleNamespace(factory=types.SimpleNamespace(DATASETS={}))
import gym

gym.logger.set_level(40)
warnings.filterwarnings("ignore")  # after gym, which turns them on
from gem.envs.game_env.minesweeper import MinesweeperEnv
from gem.envs.game_env.sokoban import SokobanEnv as GemSokoban
from gym_sokoban.envs.sokoban_env import SokobanEnv as GymSokoban

EPISODE = 200
ROOMS = 20
WORDS = ["up", "down", "left", "right"]


def timed(pool, actions, step, begin=lambda env: None):
    """Seconds a step: episodes on copies of the pool's environments, until the actions are used up."""
    total, at = 0.0, 0
    for episode in range(len(actions)):
        if at >= len(actions):
            break
        env = copy.deepcopy(pool[episode % len(pool)])
        begin(env)
        last = min(at + EPISODE, len(actions))
        start = time.perf_counter()
        while at < last:
            at += 1
            if step(env, actions[at - 1]):
                break
        total += time.perf_counter() - start
    return total / at


def gym_step(mode):
    return lambda env, action: env.step(action, observation_mode=mode)[2]


def gym_state(env, action):
    """The class's own step, its picture left out: what is seen is the array of the room."""
    return env.step(action)[2]


class Unseen(GymSokoban):
    def render(self, mode="human", close=None, scale=1):
        return self.room_state


def gem_step(env, action):
    _, _, terminated, truncated, info = env.step(action)
    assert info["suffix"]
    return terminated or truncated


def open_first(env):
    """gem lays its mines at the first opening; that belongs to the making of a field."""
    env.step("\\boxed{reveal 3 3}")


def rooms(make, count):
    start = time.perf_counter()
    made = [make() for _ in range(count)]
    return (time.perf_counter() - start) / count, made


def main():
    answers, sys.stdout = sys.stdout, open(os.devnull, "w")  # gym-sokoban prints about rooms that it gives up
    random.seed(1)
    import numpy

    numpy.random.seed(1)
    makers = {
        "gym": lambda: GymSokoban(dim_room=(6, 6), num_boxes=2, max_steps=10**9),
        "state": lambda: Unseen(dim_room=(6, 6), num_boxes=2, max_steps=10**9),
        "gem": lambda: GemSokoban(dim_room=(6, 6), num_boxes=2, max_turns=10**9),
        "mines": lambda: MinesweeperEnv(rows=6, cols=6, num_mines=3, max_turns=10**9),
    }
    pools = {name: [make() for _ in range(ROOMS)] for name, make in makers.items()}
    pushes = lambda n: [random.randint(1, 4) for _ in range(n)]
    words = lambda n: ["\\boxed{%s}" % random.choice(WORDS) for _ in range(n)]
    cells = lambda n: ["\\boxed{reveal %d %d}" % (random.randrange(6), random.randrange(6)) for _ in range(n)]
    cases = {
        "gym-rgb": lambda n: timed(pools["gym"], pushes(n), gym_step("rgb_array")),
        "gym-tiny": lambda n: timed(pools["gym"], pushes(n), gym_step("tiny_rgb_array")),
        "gym-state": lambda n: timed(pools["state"], pushes(n), gym_state),
        "gem-sokoban": lambda n: timed(pools["gem"], words(n), gem_step),
        "gem-minesweeper": lambda n: timed(pools["mines"], cells(n), gem_step, open_first),
        "gym-room": lambda n: rooms(makers["state"], n)[0],
        "gem-room": lambda n: rooms(makers["gem"], n)[0],
    }
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        name, count = line.split()
        print(cases[name](int(count)), file=answers, flush=True)


if __name__ == "__main__":
    main()
