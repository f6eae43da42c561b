"""OpenRLHF: its models/loss.py and the advantages of its trainer/ppo_utils/experience_maker.py, as installed.

Its packages import DeepSpeed and FlashAttention, which need a GPU; the functions held here use neither.
"""

import importlib
import importlib.metadata
import logging
from types import SimpleNamespace

import torch

import common
from common import Batch, Episodes, Joined, advantage_by, expected_loss, settle, used_rows

NAME = f"OpenRLHF {importlib.metadata.version('openrlhf')}"
FOLDER = common.installed("openrlhf")


def modules():
    for name in ("models", "trainer", "trainer/ppo_utils", "utils"):
        common.package(f"openrlhf.{name}".replace("/", "."), FOLDER / name)
    common.stand_in("deepspeed")
    # The annotations and the log of the file that makes advantages.
    common.stand_in("openrlhf.trainer.ppo_utils.experience", Experience=object)
    common.package("openrlhf.trainer.ray", FOLDER / "trainer/ray")
    common.stand_in("openrlhf.trainer.ray.launcher", RayActorGroup=object)
    common.stand_in("openrlhf.utils.logging_utils", init_logger=logging.getLogger)
    common.stand_in("openrlhf.utils.seqlen_balancing", get_minimum_num_micro_batch_size=None, get_seqlen_balanced_partitions=None)
    return (
        importlib.import_module("openrlhf.models.loss"),
        importlib.import_module("openrlhf.models.utils"),
        importlib.import_module("openrlhf.trainer.ppo_utils.experience_maker"),
    )


LOSS, UTILS, MAKER = modules()
DISCOUNT = "an observation's tokens cost a discount each; whitened by the population's deviation"


def loss(case, rows=None, whole=None):
    """OpenRLHF's loss of a case. `rows` may be a micro-batch of `whole`: then the totals are those of `whole`."""
    s, batch = case["settings"], Batch(rows or case["rows"])
    totals = {"batch_num_tokens": sum(sum(row["part"]) for row in whole), "global_batch_size": len(used_rows(whole))} if whole else {}
    by_token = s.get("aggregation", "token_mean") == "token_mean"
    if s.get("objective") == "value":
        return batch.result(LOSS.ValueLoss(s["value_clip"] or None, by_token)(batch.new, batch.old, batch.target, batch.part, **totals))
    if s.get("objective") == "sft":
        return batch.result(LOSS.SFTLoss(by_token)(batch.new, batch.part, **totals))
    low = s.get("clip", 0.2)
    how = (
        {"is_correction_level": "token", "is_correction_mode": "clip", "is_correction_threshold": [0.0, s["truncate"]]}
        if s.get("old") == "recomputed"
        else {}
    )
    policy = LOSS.PolicyLoss(
        low, s.get("clip_high", low), s.get("dual_clip"), by_token, "gspo" if s.get("ratio") == "sequence" else "ppo", **how
    )
    found = policy(batch.new, batch.old, batch.advantage, batch.part, batch.acted, **totals)[0]
    if s.get("kl"):
        kl = UTILS.compute_approx_kl(batch.new, batch.reference, kl_estimator=s.get("kl_kind", "k3"))
        found = found + s["kl"] * LOSS.aggregate_loss(kl, batch.part, by_token, **totals)
    if s.get("entropy"):
        found = found - s["entropy"] * LOSS.aggregate_loss(batch.entropy, batch.part, by_token, **totals)
    return batch.result(found)


def hold_loss(case):
    s = case["settings"]
    had = (
        s.get("surrogate", "clip") == "clip"
        and s.get("objective") in (None, "value", "sft")
        and s.get("aggregation", "token_mean") in ("token_mean", "seq_mean_token_mean")
    )
    had = had and not any(name in s for name in ("mask_drift", "mask_below", "expectile", "weigh_by")) and s.get("kl_kind") != "abs"
    return settle([(None, lambda: loss(case), expected_loss(case))]) if had else {"result": "not had"}


def made(batch, estimator, order=None, gamma=1.0, lam=1.0, no_std_norm=False):
    """What its experience maker gives for a batch whose groups are equally large: the experiences, with their tables."""
    tasks = list(batch.index)
    size = tasks.count(tasks[0])
    if len({tasks.count(task) for task in tasks}) > 1:
        raise ValueError("groups of several sizes")
    args = SimpleNamespace(
        algo=SimpleNamespace(advantage=SimpleNamespace(estimator=estimator, gamma=gamma, lambd=lam, no_std_norm=no_std_norm)),
        rollout=SimpleNamespace(n_samples_per_prompt=size),
        reward=SimpleNamespace(clip_range=None, overlong_buffer_len=None, stop_properly_penalty_coef=None),
    )
    maker = object.__new__(MAKER.RemoteExperienceMaker)
    maker.strategy, maker.advantage_estimator, maker.kl_ctl = SimpleNamespace(args=args), estimator, SimpleNamespace(value=1.0)
    # A token's own reward goes in as a negative KL, as InstructGPT charges it; the episode's with its last token.
    own, totals = batch.rewards.clone(), torch.zeros(len(tasks), dtype=torch.float64)
    for i, row in enumerate(batch.rows):
        e, place = batch.places[i]
        if place[-1] == max(p[-1] for j, (f, p) in batch.places.items() if f == e):
            own[e, place[-1]] -= row["reward"]
            totals[e] = row["reward"]
    experience = SimpleNamespace(
        rewards=totals, index=list(range(len(tasks))), kl=-own, action_mask=batch.mask, values=batch.values, info={}
    )
    MAKER.apply_length_penalties = lambda *_: None
    return maker.compute_advantages_and_returns([experience])[0]


def parts(batch, rows, estimator, **how):
    """Of groups of several sizes those of one size at a time."""
    found = [None] * len(rows)
    sizes = {}
    for i, row in enumerate(rows):
        sizes.setdefault(sum(row["task"] == other["task"] for other in rows), []).append(i)
    for own in sizes.values():
        some = Episodes([rows[i] for i in own])
        for i, a in zip(own, some.turns(made(some, estimator, **how).advantages)):
            found[i] = a
    return found


def hold_credit(case):
    function, s, rows = case["function"], case["settings"], case["rows"]
    turns = any(row["turn"] for row in rows)
    batch = Episodes(rows)
    names = {"grpo": "group_norm", "dapo": "group_norm", "dr_grpo": "dr_grpo", "rloo": "rloo"}
    if function in names and not turns and case["group_by"] and "unit" not in s and s.get("ddof", 1) == 1 and "singleton" not in s:
        found = lambda: parts(batch, rows, names[function])
        several = [i for i, row in enumerate(rows) if sum(row["task"] == other["task"] for other in rows) > 1]
        some = lambda: [a for i, a in enumerate(found()) if i in several]
        attempts = [
            (None, found, case["advantage"]),
            ("a group of one gives no number; equal without it", some, [case["advantage"][i] for i in several]),
        ]
        if function in ("grpo", "dapo"):
            attempts.append(("eps is 1e-9 (`eps: 1e-9`)", found, advantage_by(case, eps=1e-9)["advantage"]))
        return settle(attempts)
    if function == "reinforce_pp":
        joined = Joined(rows)
        found = lambda: batch.lists(made(alone(batch), "reinforce", gamma=s.get("gamma", 1.0)).advantages)
        floor = "whitened by the population's deviation, sqrt(max(variance, 1e-8)) (`ddof: 0`, `eps_in: variance_floor`)"
        return settle(
            [
                (None, found, case["token_advantages"]),
                (floor, found, advantage_by(case, ddof=0, eps_in="variance_floor")["token_advantages"]),
                (
                    DISCOUNT,
                    lambda: joined.lists(made(alone(joined), "reinforce", gamma=s.get("gamma", 1.0)).advantages),
                    advantage_by(case, ddof=0, eps_in="variance_floor")["token_advantages"],
                ),
            ]
        )
    if function == "reinforce_pp_baseline":
        found = lambda: batch.turns(made(batch, "reinforce_baseline").advantages)
        floor = "whitened by the population's deviation (`ddof: 0`, `eps_in: variance_floor`)"
        return settle([(None, found, case["advantage"]), (floor, found, advantage_by(case, ddof=0, eps_in="variance_floor")["advantage"])])
    if function in ("ppo_turns", "ppo_tokens") and not any("truncated" in row for row in rows):
        values = lambda: made(alone(batch), "gae", gamma=s["gamma"], lam=s["lam"], no_std_norm=True).returns
        if s.get("white"):
            return {"result": "not had", "note": "whitened with the population's deviation"}
        each = batch.lists if function == "ppo_tokens" else batch.turns
        plain = lambda: [each(values() - batch.values), each(values())]
        expected = [case["token_advantages"], case["token_targets"]] if function == "ppo_tokens" else [case["advantage"], case["target"]]
        joined = Joined(rows)
        less = lambda: made(alone(joined), "gae", gamma=s["gamma"], lam=s["lam"], no_std_norm=True).returns - joined.values
        without = lambda: [(joined.lists if function == "ppo_tokens" else joined.turns)(less())]
        note = "an observation's token is a step with the value 0, which matters where lambda or gamma is below 1 (its default is 1); equal without observations"
        return settle([(None, plain, expected), (note, without, [expected[0]])])
    return {"result": "not had"}


def alone(batch):
    """Every episode its own group: for estimators that compare no group."""
    batch.index = [str(i) for i in range(len(batch.episodes))]
    return batch


def micro(case, part, whole):
    return loss(case, part, whole)


HOLD = {"losses": hold_loss, "credit": hold_credit, "divergences": lambda case: {"result": "not had"}}
