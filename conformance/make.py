#!/usr/bin/env python3
"""Writes the cases: inputs made here, results by the reference. `--check` only says whether the files are up to date.

Usage: python3 conformance/make.py [--check]   (needs NumPy)
"""

import json
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from reference import credit, divergences, losses  # noqa: E402

# Losses. Log-probabilities have three decimals. A move is new - old; none lies on a clip's bound.


def row(old, moves, advantage, part=None, trajectory=0, **more):
    new = [round(a + b, 4) for a, b in zip(old, moves)]
    assert all(x <= 0 for x in new), new
    return {"new": new, "old": old, "advantage": advantage, "part": part or [1] * len(old), "trajectory": trajectory, **more}


def mixed():
    """Long and short rows, ratios from 0.05 to 12, every sign of the advantage, a row without a token that takes part."""
    return [
        row([-1.75], [0.45], 1.3, trajectory=0),
        row([-0.25, -2.875, -1.5], [-0.625, 2.5, 0.07], -0.7, trajectory=0),
        row(
            [-0.5, -1.25, -3.5, -0.125, -2.0, -0.75, -1.0, -4.25, -0.375],
            [0.1, -0.3, 1.4, -0.05, 0.22, 0.0625, -3.0, 0.26, -0.12],
            0.4,
            trajectory=1,
        ),
        row([-0.625, -1.125, -0.875, -2.25], [0.5, -0.9, 0.02, 0.3], 0.0, trajectory=2),
        row([-1.0, -2.0], [0.5, -0.5], 2.0, part=[0, 0], trajectory=3),
        row([-3.25, -0.5, -1.375, -0.3], [0.35, 0.25, -0.02, -2.25], -1.5, part=[1, 0, 1, 1], trajectory=1),
    ]


def near():
    """Moves of a thousandth, as in the first steps of an update: for clips as narrow as GSPO's."""
    return [
        row([-1.0, -0.5, -2.0], [0.0009, -0.0004, 0.0008], 1.0, trajectory=0),
        row([-0.25, -1.5], [-0.0014, 0.0004], 0.8, trajectory=1),
        row([-0.75, -1.25, -0.5, -3.0], [0.0002, -0.0011, -0.0008, 0.0001], -1.2, trajectory=2),
        row([-2.5], [0.0007], -0.6, trajectory=2),
    ]


def with_column(rows, name, values):
    flat = iter(values)
    return [{**r, name: [next(flat) for _ in r["new"]]} for r in rows]


def referenced(rows):
    shifts = [0.5, -0.25, 0.125, -1.0, 0.75, 0.06, -0.4, 2.0, -0.03, 0.3]
    return with_column(rows, "reference", [round(x + shifts[i % 10], 4) for i, x in enumerate(x for r in rows for x in r["new"])])


def sampled(rows):
    """A sampler whose log-probabilities differ from those at the update's start."""
    shifts = [0.1, -0.9, 0.05, 0.3, -0.2, -0.02, 0.6, -1.5, 0.15]
    return with_column(rows, "acted", [round(min(x + shifts[i % 9], 0.0), 4) for i, x in enumerate(x for r in rows for x in r["old"])])


def by_token(rows):
    values = [1.3, -0.7, 0.4, 0.0, -2.0, 0.9, 0.25]
    flat = iter(range(1000))
    return [{**r, "advantage": [values[next(flat) % 7] for _ in r["new"]]} for r in rows]


def selected(rows, which):
    flat = iter(range(1000))
    return [{**r, "chosen": [int(next(flat) in which) for _ in r["new"]]} for r in rows]


def entropic(rows):
    return with_column(rows, "entropy", [0.1 + 0.35 * (i % 6) for i in range(99)])


def critic():
    """Values, recorded values and targets; an expectile is taken of all values but a row's last."""
    one = lambda new, old, target, t: {
        "new": new,
        "old": old,
        "target": target,
        "part": [1] * len(new),
        "state": [1] * (len(new) - 1) + [0],
        "trajectory": t,
    }
    return [
        one([0.5, 1.75, -0.25], [0.4, 1.0, -0.1], [1.0, 1.25, 0.5], 0),
        one([2.5], [1.0], [0.75], 1),
        one([0.1, 0.9, 0.65, 1.05, -0.7], [0.2, 0.5, 0.6, 1.5, 0.3], [0.6, 0.45, 0.9, 1.2, 1.1], 2),
    ]


def loss_inputs():
    seq, total, norm = "seq_mean_token_mean", "seq_mean_token_sum", "seq_mean_token_sum_norm"
    cases = []

    def add(name, method, rows, **settings):
        cases.append((name, method, settings, rows))

    add("ppo", "PPO clip", mixed(), clip=0.2)
    add("ppo-by-token", "PPO clip", by_token(mixed()), clip=0.2)
    add("ppo-dual-3", "dual clip", mixed(), clip=0.2, dual_clip=3.0)
    add("ppo-dual-10", "dual clip", mixed(), clip=0.2, clip_high=0.3, dual_clip=10.0)
    add("on-policy", "PPO clip", [{**r, "old": r["new"]} for r in mixed()], clip=0.2)
    add("one-token", "PPO clip", [row([-0.5], [-0.4], -1.0)], clip=0.2)
    add("one-and-nine", "PPO clip", [mixed()[0], mixed()[2]], clip=0.2, aggregation=seq)
    add("beyond-e20", "PPO clip", [row([-25.5, -1.0], [25.0, 0.1], -1.0), row([-0.5], [-24.0], 1.0)], clip=0.2)
    add("grpo", "GRPO", mixed(), clip=0.2, aggregation=seq)
    add("grpo-kl", "GRPO", referenced(mixed()), clip=0.2, aggregation=seq, kl=0.04, kl_kind="k3")
    add("dapo", "DAPO", mixed(), clip=0.2, clip_high=0.28, aggregation="token_mean")
    add("dr-grpo", "Dr. GRPO", mixed(), clip=0.2, aggregation=norm, norm=16.0)
    add("token-sum", "sequence mean of token sums", mixed(), clip=0.2, aggregation=total)
    add("trajectory-tokens", "trajectory mean of token means", mixed(), clip=0.2, aggregation="trajectory_mean_token_mean")
    add("trajectory-turns", "trajectory mean of turn means", mixed(), clip=0.2, aggregation="trajectory_mean_turn_mean")
    add("gspo", "GSPO", near(), ratio="sequence", clip=3e-4, clip_high=4e-4, aggregation=seq)
    add("gspo-wide", "GSPO", mixed(), ratio="sequence", clip=0.2, aggregation=seq)
    add("luspo", "LUSPO", near(), ratio="sequence", clip=3e-4, clip_high=4e-4, aggregation=total)
    add("cispo", "CISPO", mixed(), surrogate="cispo", clip=1.0, clip_high=0.28)
    add("cispo-two-bounds", "CISPO", mixed(), surrogate="cispo", clip=0.2, clip_high=0.28)
    add("sapo", "SAPO", mixed(), surrogate="sapo", gate=1.0, gate_below=1.05, aggregation=seq)
    add("sapo-steep", "SAPO", by_token(mixed()), surrogate="sapo", gate=2.0, gate_below=3.0)
    add("gmpo", "GMPO", mixed(), surrogate="gmpo", clip=0.4, clip_high=0.4, aggregation=seq)
    add("gmpo-uneven", "GMPO", mixed(), surrogate="gmpo", clip=0.1, clip_high=0.3, aggregation=seq)
    add("dppo-tv", "DPPO tv", mixed(), surrogate="dppo", region="tv", clip=0.2)
    add("dppo-kl", "DPPO kl", mixed(), surrogate="dppo", region="kl", clip=0.05, clip_high=0.1)
    add("kl-cov", "KL-Cov", selected(mixed(), {0, 2, 9, 13}), surrogate="kl_cov", covary_kl=1.0)
    add("clip-cov", "Clip-Cov", selected(mixed(), {3, 5, 14, 19}), surrogate="clip_cov", clip=0.2)
    add(
        "vespo",
        "VESPO",
        near() + [row([-1.0, -0.5], [0.3, -0.7], 1.0, trajectory=5), row([-1.5, -1.0], [0.4, 0.2], -1.0, trajectory=6)],
        surrogate="vespo",
    )
    add("vespo-far", "VESPO", mixed(), surrogate="vespo", power=[2.0, 3.0], damping=[3.0, 2.0])
    add("off-policy-mask", "DeepSeek-V3.2 mask", mixed() + [row([-0.5, -1.0], [-0.3, 0.2], -0.9, trajectory=7)], clip=0.2, mask_drift=0.1)
    add("off-policy-mask-acted", "DeepSeek-V3.2 mask", sampled(mixed()), clip=0.2, mask_drift=0.1, old="recomputed", truncate=2.0)
    for unit in ("token", "row"):
        for at in ("current", "start"):
            add(
                f"improbable-{unit}-{at}",
                "EMPO2 mask",
                referenced(mixed()),
                clip=0.2,
                kl=0.05,
                mask_below=0.05,
                mask_unit=unit,
                mask_from=at,
            )
    add("truncated-importance", "truncated importance", sampled(mixed()), clip=0.2, old="recomputed", truncate=2.0)
    add(
        "truncated-importance-kl",
        "truncated importance",
        sampled(referenced(mixed())),
        clip=0.2,
        old="recomputed",
        truncate=1.5,
        kl=0.1,
        kl_kind="k2",
        aggregation=seq,
    )
    for kind in ("k1", "k2", "k3", "abs"):
        add(f"kl-{kind}", f"KL {kind}", referenced(mixed()), clip=0.2, kl=0.1, kl_kind=kind)
    add("entropy", "entropy bonus", entropic(mixed()), clip=0.2, entropy=0.01)
    whole = [{**r, "part": [1] * len(r["new"])} for r in mixed()]
    add("reinforce-sum", "REINFORCE (EAPO)", referenced(whole), objective="reinforce", aggregation=total, beta=2.0, kl=0.5)
    add("reinforce-mean", "REINFORCE (EAPO)", referenced(whole), objective="reinforce", aggregation=seq, beta=1.0, kl=1.0)
    add("reinforce", "REINFORCE (EAPO)", whole, objective="reinforce", aggregation=total)
    add("value", "value loss", critic(), objective="value", value_clip=0.2)
    add("value-no-clip", "value loss", critic(), objective="value", value_clip=0.0)
    add("value-expectile", "value loss", critic(), objective="value", value_clip=0.2, expectile=0.7)
    add("value-rows", "value loss", critic(), objective="value", value_clip=0.5, aggregation=seq)
    add("sft", "SFT", mixed(), objective="sft")
    add("sft-rows", "SFT", mixed(), objective="sft", aggregation=seq)
    add("sft-weights", "SFT", by_token(mixed()), objective="sft", weigh_by="advantage")
    return cases


def as_row(r):
    n = len(r["new"])
    arrays = {
        name: np.array(r[name], float)
        for name in ("new", "old", "part", "acted", "reference", "entropy", "chosen", "target", "state")
        if name in r
    }
    advantage = np.broadcast_to(np.array(r.get("advantage", 0.0), float), n).copy()
    return losses.Row(**arrays, advantage=advantage, trajectory=r["trajectory"])


def loss_cases():
    cases = []
    for name, method, settings, rows in loss_inputs():
        loss, gradients, clips = losses.step([as_row(r) for r in rows], settings)
        cases.append(
            {
                "name": name,
                "method": method,
                "settings": settings,
                "rows": rows,
                "loss": float(loss),
                "dloss_dnew": [[float(x) + 0.0 for x in g] for g in gradients],
                "clipped": [[int(x) for x in c] for c in clips],
            }
        )
    return cases


# Credit


def samples(rewards, task="a", **more):
    return [{"task": task, "sample": i, "turn": 0, "reward": r, **{k: v[i] for k, v in more.items()}} for i, r in enumerate(rewards)]


def walk(task, sample, rewards, states=None, attempt=0, first=0, phase="play", **more):
    rows = []
    for i, reward in enumerate(rewards):
        place = {"attempt": attempt} if attempt or phase == "reflect" else {}
        rows.append(
            {
                "task": task,
                "sample": sample,
                **place,
                "turn": first + i,
                **({"phase": phase} if phase != "play" else {}),
                "reward": reward,
                **({"state": states[i]} if states else {}),
                **{k: v[i] for k, v in more.items()},
            }
        )
    return rows


def credit_inputs():
    cases = []

    def add(name, method, function, rows, by=(), **settings):
        cases.append((name, method, function, settings, list(by), rows))

    two = samples([1, 0, 0, 1]) + samples([0.25, 3.0, -1.0, 0.5], "b")
    alone, equal = samples([0.7]) + samples([2, 5], "b"), samples([2, 2, 2]) + samples([0, 0], "b") + samples([1, 4], "c")
    turns = walk("a", 0, [0, 0, 10]) + walk("a", 1, [1]) + walk("a", 2, [0.5, 0.25]) + walk("b", 0, [1, 2]) + walk("b", 1, [0])
    add("grpo", "GRPO", "grpo", two, ["task"])
    add("grpo-no-eps", "GRPO", "grpo", two, ["task"], eps=0.0)
    add("grpo-eps-1e-4", "GRPO", "grpo", two, ["task"], eps=1e-4)
    add("grpo-population", "GRPO", "grpo", two, ["task"], ddof=0)
    add("grpo-alone", "GRPO", "grpo", alone, ["task"])
    add("grpo-alone-raw", "GRPO", "grpo", alone, ["task"], singleton="raw")
    add("grpo-equal", "GRPO", "grpo", equal, ["task"])
    add("grpo-turns", "GRPO", "grpo", turns, ["task"], unit="trajectory")
    add("grpo-once-a-turn", "GRPO", "grpo", turns, ["task"], unit="turn")
    add("grpo-batch-std", "GRPO", "grpo", two, [])
    add("dr-grpo", "Dr. GRPO", "dr_grpo", two + samples([7], "c"), ["task"])
    add("rloo", "RLOO", "rloo", two, ["task"])
    add("rloo-turns", "RLOO", "rloo", turns, ["task"])
    add("rloo-alone-and-equal", "RLOO", "rloo", samples([3]) + samples([2, 2], "b"), ["task"])
    add("maxrl", "MaxRL", "maxrl", samples([1, 0, 0, 0]) + samples([1, 1, 0, 1], "b") + samples([0, 0], "c"), ["task"])
    add("pass-at-k", "pass@k", "pass_at_k", two + samples([2, 2, 0], "c") + samples([5], "d"), ["task"])
    add("dapo", "DAPO", "dapo", equal + samples([1, 0, 1], "d"), ["task"])
    add("overlong", "DAPO overlong", "overlong", samples([1, 1, 0, -1, 1], tokens=[4, 9, 10, 13, 20]), longest=14, buffer=6)
    charged = [
        {"task": "a", "sample": 0, "turn": 0, "reward": 3.0, "tokens": 1, "token_rewards": [-0.25]},
        {"task": "a", "sample": 1, "turn": 0, "reward": 0.0, "tokens": 2, "token_rewards": [-1.0, -0.5]},
        {"task": "a", "sample": 1, "turn": 1, "reward": 1.0, "tokens": 3, "token_rewards": [0.0, 0.125, 0.0]},
        {"task": "b", "sample": 0, "turn": 0, "reward": -1.0, "tokens": 4, "token_rewards": [0.0, 0.0, -0.75, 0.0]},
    ]
    add("reinforce-pp", "REINFORCE++", "reinforce_pp", charged)
    add("reinforce-pp-discounted", "REINFORCE++", "reinforce_pp", charged, gamma=0.9)
    add("reinforce-pp-floor", "REINFORCE++", "reinforce_pp", charged, ddof=0, eps=1e-8, eps_in="variance_floor")
    add(
        "reinforce-pp-baseline",
        "REINFORCE++ baseline",
        "reinforce_pp_baseline",
        samples([1, 0], tokens=[1, 1]) + samples([4, 0], "b", tokens=[2, 1]),
    )
    greedy = [{"task": "a", "sample": 0, "turn": i, "reward": r, "greedy": 1} for i, r in enumerate([0.25, 0.5])]
    add("remax", "ReMax", "remax", [*greedy, *walk("a", 1, [1]), *walk("a", 2, [0, 0.5]), *walk("a", 3, [0])])
    kinds = [
        {"iteration": t, "task": f"{k}{i}", "sample": 0, "turn": 0, "type": k, "reward": r}
        for t, batch in enumerate([{"x": [1, 0], "y": [4]}, {"x": [1, 1], "y": [2, 0]}, {"x": [0]}])
        for k, rs in batch.items()
        for i, r in enumerate(rs)
    ]
    for ema in ("before", "after"):
        add(f"rae-{ema}", "RAE", "running_mean", kinds, ["type"], decay=0.95, ema=ema, each="iteration")
        add(f"rae-{ema}-episodes", "RAE", "running_mean", kinds, ["type"], decay=0.95, ema=ema, each="episode")
    rooms = (
        walk("a", 0, [0, 0, 10], [0, 1, 2])
        + walk("a", 1, [0, 0], [0, 1])
        + walk("b", 0, [1, 0, 0.5], [0, 7, 0])
        + walk("b", 1, [0.25], [0])
    )
    add("gigpo", "GiGPO", "gigpo", rooms, gamma=0.95)
    add("gigpo-no-std", "GiGPO", "gigpo", rooms, gamma=0.95, scale="none", unit="turn")
    add("gigpo-weight", "GiGPO", "gigpo", rooms, gamma=0.9, weight=0.5, scale="none")
    add("slea-rl", "SLEA-RL", "gigpo", [{**r, "state": r["state"] % 2} for r in rooms], gamma=1.0)
    visits = walk("a", 0, [0, 0, 0, 1], [1, 2, 1, 1]) + walk("a", 1, [0, 0.5], [1, 1]) + walk("a", 2, [0, 0, 0], [2, 1, 1])
    add("eapo", "EAPO groups", "grouped_step", visits, ["task", "state", "visitation_depth"], gamma=0.9)
    add("state-groups", "EAPO groups", "grouped_step", visits, ["task", "state"], gamma=0.9)
    paths = (
        walk("a", 0, [0, 0, 10], [1, 2, 3])
        + walk("a", 1, [0, 0, 4], [1, 2, 3])
        + walk("a", 2, [0, 0, 1], [5, 2, 3])
        + walk("a", 3, [2], [1])
        + walk("a", 4, [0, 0, 4], [5, 2, 3])
    )
    add("hgpo", "HGPO", "hgpo", paths, gamma=0.95, depth=3, alpha=1.0)
    add("hgpo-uniform", "HGPO", "hgpo", paths, gamma=0.95, depth=2, alpha=0.0)
    trial = (
        walk("a", 0, [0, 0.5], [1, 2])
        + walk("a", 0, [0], [2], first=2, phase="reflect")
        + walk("a", 0, [0, 10], [1, 3], attempt=1)
        + walk("a", 1, [0], [1])
        + walk("a", 1, [0.25], [1], first=1, phase="reflect")
        + walk("a", 1, [1, 2], [1, 4], attempt=1)
        + walk("a", 1, [0], [4], attempt=1, first=2, phase="reflect")
        + walk("a", 1, [0, 0, 3], [1, 2, 4], attempt=2)
    )
    for boundary in ("paper", "code"):
        add(f"lamer-{boundary}", "LaMer", "lamer", trial, ["task"], gamma=0.95, gamma_attempt=0.6, boundary=boundary)
        add(
            f"lamer-states-{boundary}",
            "LaMer",
            "lamer",
            trial,
            ["task", "state"],
            gamma=0.95,
            gamma_attempt=0.6,
            boundary=boundary,
            scale="none",
        )
    leaf = lambda sample, turn, branch, reward=0, done=False: {
        "task": "a",
        "sample": sample,
        "turn": turn,
        "branch_of": branch,
        "state": 10 * branch + turn,
        "reward": reward,
        "done": done,
    }
    tree = [
        leaf(0, 0, 0),
        leaf(0, 1, 0),
        leaf(0, 2, 0, 1, True),
        leaf(1, 0, 1),
        leaf(1, 1, 1, 0, True),
        leaf(2, 1, 0),
        leaf(2, 2, 2, 0, True),
        leaf(3, 2, 2, 0.5, True),
    ]
    add("at2po", "AT2PO", "at2po", tree)
    add("at2po-discounted", "AT2PO", "at2po", tree, gamma=0.9)
    several = samples([0, 0, 0, 0], right=[1, 0, 0, 1], short=[0.5, 0.25, 1.0, 0.75], tokens=[1, 3, 2, 2]) + samples(
        [0, 0, 0], "b", right=[1, 1, 1], short=[0, 1, 0], tokens=[2, 1, 4]
    )
    add("gdpo", "GDPO", "gdpo", several, rewards=["right", "short"])
    valued = walk("a", 0, [0, 0, 10], value=[1, 2, 4]) + walk("a", 1, [1, 2], value=[0.5, 3]) + walk("b", 0, [0.5], value=[0.25])
    cut = [{**r, "truncated": "world"} if (r["task"], r["sample"], r["turn"]) == ("a", 1, 1) else r for r in valued]
    add("gae", "GAE", "ppo_turns", valued, gamma=0.5, lam=0.5)
    add("gae-ppo", "GAE", "ppo_turns", valued, gamma=1.0, lam=0.95)
    add("gae-lambda-0", "GAE", "ppo_turns", valued, gamma=0.9, lam=0.0)
    add("gae-cut", "GAE", "ppo_turns", cut, gamma=0.9, lam=0.95)
    token_valued = [
        {"task": "a", "sample": 0, "turn": 0, "reward": 0.0, "tokens": 3, "token_values": [1.0, 2.0, 4.0]},
        {"task": "a", "sample": 0, "turn": 1, "reward": 10.0, "tokens": 2, "token_values": [6.0, 8.0]},
        {"task": "b", "sample": 0, "turn": 0, "reward": -1.0, "tokens": 1, "token_values": [3.0]},
    ]
    add("token-gae", "token GAE", "ppo_tokens", token_valued, gamma=1.0, lam=0.95)
    add("token-gae-discounted", "token GAE", "ppo_tokens", token_valued, gamma=0.9, lam=0.5)
    add("token-gae-white", "token GAE", "ppo_tokens", token_valued, gamma=1.0, lam=1.0, white=True)
    add("iql", "IQL targets", "iql", token_valued, gamma=0.5)
    add("episode-return", "REINFORCE returns", "returns", turns, of="episode_return")
    add("step-return", "REINFORCE returns", "returns", turns, of="step_return", gamma=0.9)
    fined = [{**r, "valid": i % 3 != 1} for i, r in enumerate(rooms)]
    for when in ("before_return", "after_return"):
        add(
            f"penalty-{when}".replace("_", "-"),
            "invalid actions",
            "penalised",
            fined,
            ["task", "state"],
            gamma=0.95,
            penalty=0.1,
            when=when,
        )
    add("gagpo", "GAGPO", "gagpo", rooms, gamma=0.95, lam=0.95)
    add("rtmc", "RTMC", "gagpo", rooms, gamma=0.95, lam=0.0)
    return cases


TAKES_BY = {"grpo", "dr_grpo", "rloo", "maxrl", "pass_at_k", "running_mean", "grouped_step", "lamer"}


def plain(value):
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(x) for x in value]
    return value if isinstance(value, int) else float(value) + 0.0


def credit_cases():
    cases = []
    for name, method, function, settings, by, rows in credit_inputs():
        more = {"by": by} if function in TAKES_BY and function not in ("dr_grpo", "rloo", "maxrl", "pass_at_k") else {}
        found = credit.METHODS[function](rows, **more, **settings)
        cases.append(
            {
                "name": name,
                "method": method,
                "function": function,
                "settings": settings,
                "group_by": by,
                "rows": rows,
                **{key: plain(value) for key, value in found.items()},
            }
        )
    return cases


# Divergences from a teacher


def divergence_cases():
    cases = []
    p, q = [0.5, 0.25, 0.125, 0.125], [0.125, 0.125, 0.25, 0.5]
    shapes = [
        ("reverse_kl", {}),
        ("forward_kl", {}),
        ("jsd", {"beta": 0.5}),
        ("jsd", {"beta": 0.25}),
        ("jsd", {"beta": 0.9}),
        ("reverse_kl", {"top_k": 2}),
        ("forward_kl", {"top_k": 2}),
        ("jsd", {"beta": 0.5, "top_k": 3}),
    ]
    for kind, settings in shapes:
        value, slope = divergences.divergence(np.array(p), np.array(q), kind, settings.get("beta", 0.5), settings.get("top_k"))
        name = "-".join([kind.replace("_", "-"), *(f"{k.replace('_', '-')}-{v}" for k, v in settings.items())])
        cases.append(
            {
                "name": name,
                "method": kind,
                "settings": {"divergence": kind, **settings},
                "policy": p,
                "teacher": q,
                "value": float(value),
                "by_logits": plain(slope),
            }
        )
    return cases


def texts():
    """The files' texts: a case a line."""
    made = {"losses": loss_cases(), "credit": credit_cases(), "divergences": divergence_cases()}
    line = lambda case: json.dumps(case, separators=(", ", ": "), allow_nan=False)
    return {HERE / "cases" / f"{name}.json": "[\n" + ",\n".join(map(line, cases)) + "\n]\n" for name, cases in made.items()}


def same(a, b):
    """Whether two values of JSON are the same, numbers up to the last digits: exp and log differ there between CPUs."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= 1e-12 * max(1.0, abs(a), abs(b))
    return type(a) is type(b) and a == b


def out_of_date():
    """The files that differ from what is made here."""
    return [path for path, text in texts().items() if not path.exists() or not same(json.loads(path.read_text()), json.loads(text))]


def main():
    stale = out_of_date()
    if "--check" in sys.argv:
        sys.exit(f"out of date: {', '.join(path.name for path in stale)}; run conformance/make.py" if stale else 0)
    for path, text in texts().items():
        path.parent.mkdir(exist_ok=True)
        if path in stale:
            path.write_text(text)
        print(f"{path.name}: {len(json.loads(text))} cases, {len(text) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
