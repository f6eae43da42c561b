"""Credit as plain Python loops over lists and dicts: the yardstick of benches/credit.rs.

Reads the columns as JSON, times the computation alone, writes the advantages as doubles.
Usage: credit_loops.py COLUMNS.json ADVANTAGES.bin GAMMA EPS RUNS
"""

import array
import json
import math
import sys
import time


def credit(task, sample, state, reward, gamma, eps):
    rows = len(task)

    # Discounted returns, backwards through each trajectory.
    returns = [0.0] * rows
    following = 0.0
    for i in range(rows - 1, -1, -1):
        if i + 1 == rows or sample[i] != sample[i + 1] or task[i] != task[i + 1]:
            following = 0.0
        following = reward[i] + gamma * following
        returns[i] = following

    # Visitation depth: a count of states for each trajectory.
    depth = [0] * rows
    seen = {}
    for i in range(rows):
        if i == 0 or sample[i] != sample[i - 1] or task[i] != task[i - 1]:
            seen = {}
        before = seen.get(state[i], 0)
        depth[i] = before
        seen[state[i]] = before + 1

    # Groups: a dict from what their rows share to the rows.
    groups = {}
    for i in range(rows):
        key = (task[i], state[i], depth[i])
        if key in groups:
            groups[key].append(i)
        else:
            groups[key] = [i]

    size = [0] * rows
    baseline = [0.0] * rows
    scale = [0.0] * rows
    advantage = [0.0] * rows
    for members in groups.values():
        n = len(members)
        if n == 1:
            i = members[0]
            size[i], baseline[i], scale[i] = 1, returns[i], 1.0
            continue
        mean = sum([returns[i] for i in members]) / n
        std = math.sqrt(sum([(returns[i] - mean) ** 2 for i in members]) / (n - 1))
        for i in members:
            size[i] = n
            baseline[i] = mean
            scale[i] = std + eps
            advantage[i] = (returns[i] - mean) / (std + eps)
    return depth, size, returns, baseline, scale, advantage


def main():
    columns, out, gamma, eps, runs = sys.argv[1:]
    with open(columns) as f:
        c = json.load(f)
    seconds = []
    for _ in range(int(runs)):
        start = time.perf_counter()
        result = credit(c["task"], c["sample"], c["state"], c["reward"], float(gamma), float(eps))
        seconds.append(time.perf_counter() - start)
    with open(out, "wb") as f:
        array.array("d", result[-1]).tofile(f)
    print(json.dumps(seconds))


main()
