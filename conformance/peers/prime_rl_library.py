"""prime-rl: its trainer/rl/loss.py and orchestrator/algo, from a checkout: it is in no package index.

Set PRIME_RL to the folder of a checkout (held at commit 559b447, version 0.8.0). Its configurations, and the environments' library,
are replaced by stand-ins: the functions held here read a few numbers of them.
"""

import asyncio
import importlib
import os
import pathlib
from types import SimpleNamespace

import torch

import common
from common import Batch, expected_loss, settle

FOLDER = pathlib.Path(os.environ["PRIME_RL"]) / "src" / "prime_rl"
NAME = "prime-rl 0.8.0 (559b447)"


def modules():
    for name in ("", "/trainer", "/trainer/rl", "/orchestrator", "/orchestrator/algo"):
        common.package(f"prime_rl{name}".replace("/", "."), FOLDER / name.lstrip("/"))
    common.stand_in("prime_rl.configs")
    common.stand_in(
        "prime_rl.configs.trainer",
        **{name: type(name, (), {}) for name in ("CustomLossConfig", "DefaultLossConfig", "IPOLossConfig", "LossConfig")},
    )
    common.stand_in(
        "prime_rl.configs.algorithm",
        **{name: object for name in ("ActionLossType", "AlgoConfig", "FrozenModelConfig", "GRPOAlgoConfig", "RAEAlgoConfig")},
    )
    common.stand_in("prime_rl.utils")
    common.stand_in("prime_rl.utils.utils", import_object=None)
    common.stand_in("prime_rl.utils.logger", get_logger=None)
    common.stand_in("prime_rl.transports")
    common.stand_in("prime_rl.transports.rollouts", TrainingSample=object)
    common.stand_in("verifiers")
    common.stand_in("verifiers.v1", Trace=object, Episode=object, Branch=object)
    names = (
        "prime_rl.trainer.rl.loss",
        "prime_rl.orchestrator.algo.grpo",
        "prime_rl.orchestrator.algo.max_rl",
        "prime_rl.orchestrator.algo.rae",
    )
    return [importlib.import_module(name) for name in names]


LOSS, GRPO, MAX_RL, RAE = modules()


def loss(case, kl_tau=0.0):
    s, batch = case["settings"], Batch(case["rows"])
    low = s.get("clip", 0.2)
    config = SimpleNamespace(dppo_mask_low=low, dppo_mask_high=s.get("clip_high", low), adv_tau=1.0, kl_tau=kl_tau)
    rows, count = range(len(batch.rows)), int(batch.part.sum())
    ce = [batch.part[i] for i in rows] if s.get("objective") == "sft" else None
    if ce and s.get("weigh_by"):
        ce = [batch.part[i] * batch.advantage[i] for i in rows]
    function = LOSS.setup_rl_loss_fn(config)
    nothing = [torch.zeros_like(batch.part[i]) for i in rows]
    found, _ = LOSS.compute_loss(
        [batch.new[i] for i in rows],
        [batch.acted[i] for i in rows],
        None,
        [batch.advantage[i] for i in rows],
        [batch.part[i] > 0 for i in rows],
        nothing if ce else None,
        ce,
        None,
        function,
        count,
        count,
        count,
    )
    return batch.result(found)


def hold_loss(case):
    s = case["settings"]
    plain = s.get("aggregation", "token_mean") == "token_mean"
    if plain and s.get("objective") == "sft" and not s.get("weigh_by"):
        return settle([(None, lambda: loss(case), expected_loss(case))])
    if plain and s.get("surrogate") == "dppo" and s["region"] == "tv":
        return settle([("with `kl_tau: 0`; by default 1e-3 times the squared log ratio is added", lambda: loss(case), expected_loss(case))])
    if s.get("objective") == "sft" and s.get("weigh_by"):
        return settle(
            [
                (
                    "tokens with the weight 0 don't count in the mean (here the number of tokens is given)",
                    lambda: loss(case),
                    expected_loss(case),
                )
            ]
        )
    return {"result": "not had"}


def scored(algorithm, rows):
    """The advantages that an algorithm assigns to the samples of one group, each an episode with one token."""
    nodes = [SimpleNamespace(mask=[True], token_ids=[1], advantages=None) for _ in rows]
    traces = [
        SimpleNamespace(
            id=i,
            has_error=False,
            agent=SimpleNamespace(trainable=True, name=row.get("type", "x")),
            nodes=[node],
            reward=float(row["reward"]),
        )
        for i, (row, node) in enumerate(zip(rows, nodes))
    ]
    asyncio.run(algorithm.score_group([SimpleNamespace(traces=[trace]) for trace in traces]))
    return [node.advantages[0] for node in nodes]


def by_task(algorithm, rows):
    found = [None] * len(rows)
    for task in dict.fromkeys(row["task"] for row in rows):
        own = [i for i, row in enumerate(rows) if row["task"] == task]
        for i, a in zip(own, scored(algorithm, [rows[i] for i in own])):
            found[i] = a
    return found


def hold_credit(case):
    function, s, rows = case["function"], case["settings"], case["rows"]
    if any(row["turn"] for row in rows):
        return {"result": "not had"}
    if function == "dr_grpo":
        return settle([(None, lambda: by_task(GRPO.GRPOAlgorithm(SimpleNamespace(length_penalty=None), None), rows), case["advantage"])])
    if function == "maxrl":
        return settle([(None, lambda: by_task(MAX_RL.MaxRLAlgorithm(None, None), rows), case["advantage"])])
    if function == "running_mean":
        found = lambda: scored(RAE.RAEAlgorithm(SimpleNamespace(decay=s["decay"]), None), rows)
        from reference import credit

        other = credit.running_mean(rows, case["group_by"], s["decay"], "before", "episode")["advantage"]
        moves = "the mean moves with each episode" if s["each"] == "iteration" else ""
        order = "each episode is compared with the mean before it" if s["ema"] == "after" else ""
        note = " and ".join(x for x in (moves, order) if x)
        return settle([(None, found, case["advantage"]), (note, found, other)])
    return {"result": "not had"}


HOLD = {"losses": hold_loss, "credit": hold_credit, "divergences": lambda case: {"result": "not had"}}
