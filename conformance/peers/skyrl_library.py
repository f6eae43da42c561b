"""SkyRL: the functions of its backends/skyrl_train/utils/ppo_utils.py, as installed.

Its packages start Ray and read configurations that need Python 3.12; the functions held here need neither.
"""

import importlib
import importlib.metadata
from types import SimpleNamespace

import numpy as np
import torch

import common
from common import Batch, Episodes, Joined, advantage_by, expected_loss, settle, used_rows, with_settings

NAME = f"SkyRL {importlib.metadata.version('skyrl')}"
FOLDER = common.installed("skyrl")


def module():
    for name in ("", ".backends", ".backends.skyrl_train", ".backends.skyrl_train.utils", ".train"):
        common.package(f"skyrl{name}", FOLDER / name.replace(".", "/").lstrip("/"))
    common.stand_in("skyrl.train.config", AlgorithmConfig=object)
    return importlib.import_module("skyrl.backends.skyrl_train.utils.ppo_utils")


PPO = module()
REDUCTIONS = {"token_mean": "token_mean", "seq_mean_token_mean": "sequence_mean", "seq_mean_token_sum_norm": "seq_mean_token_sum_norm"}
LOSSES = {
    "clip": "ppo_policy_loss",
    "cispo": "compute_policy_loss_cispo",
    "sapo": "sapo_policy_loss",
    "dppo": "dppo_policy_loss",
    "kl_cov": "compute_policy_loss_kl_cov",
    "clip_cov": "compute_policy_loss_clip_cov",
}
ABSENT = "a row without a token that takes part counts in the mean; equal without such rows"


def loss(case, rows=None, whole=None):
    """SkyRL scales the advantages by the reduction and sums the losses; its workers add the KL and the entropy term.

    `rows` may be a micro-batch of `whole`: the advantages are scaled over `whole`, and the two terms are averaged.
    """
    s, batch = case["settings"], Batch(rows or case["rows"])
    low, kind = s.get("clip", 0.2), s.get("surrogate", "clip")
    high = s.get("clip_high", low)
    selected = (len(batch.chosen) + 0.5) / batch.part.sum().item()
    correction = SimpleNamespace(
        tis_ratio_type="token" if s.get("old") == "recomputed" else None,
        token_tis_ratio_clip_high=s.get("truncate"),
        sequence_mask_metric=None,
        outlier_token_is_threshold_low=None,
        outlier_token_is_threshold_high=None,
        token_mask_is_threshold_low=None,
        token_mask_is_threshold_high=None,
    )
    config = SimpleNamespace(
        policy_loss_type="dual_clip" if "dual_clip" in s else "regular",
        eps_clip_low=low,
        eps_clip_high=high,
        clip_ratio_c=s.get("dual_clip"),
        loss_reduction="sequence_mean",
        sapo=SimpleNamespace(tau_pos=s.get("gate", 1.0), tau_neg=s.get("gate_below", 1.05)),
        cispo=SimpleNamespace(cispo_eps_clip_low=low, cispo_eps_clip_high=high),
        dppo=SimpleNamespace(dppo_type=f"binary_{s.get('region')}", delta_low=low, delta_high=high),
        off_policy_correction=correction,
        kl_cov=SimpleNamespace(kl_cov_frac=selected, ppo_kl_coef=s.get("covary_kl")),
        clip_cov=SimpleNamespace(clip_ratio=selected, clip_cov_lb=-1e9, clip_cov_ub=1e9),
        value_clip=s.get("value_clip") or None,
    )
    if s.get("objective") == "value":
        return batch.result(PPO.ppo_critic_loss(batch.new, batch.old, batch.target, config, batch.part)[0])
    function = getattr(PPO, "gspo_policy_loss" if s.get("ratio") == "sequence" else LOSSES[kind])
    reduction = REDUCTIONS[s.get("aggregation", "token_mean")]
    every = Batch(whole) if whole else batch
    advantages = PPO.apply_loss_reduction_to_advantages_minibatch(every.advantage, every.part, reduction, len(every.rows), s.get("norm"))
    if whole:
        first = next(i for i, row in enumerate(whole) if row is batch.rows[0])
        advantages = advantages[first : first + len(batch.rows), : batch.new.shape[1]]
    share = 0.5 if whole else 1.0
    rollout = batch.acted if s.get("old") == "recomputed" else None
    from verl_library import given

    with given(batch, kind if kind in ("kl_cov", "clip_cov") else ""):
        found, _ = function(batch.new, batch.old, advantages, config, batch.part, rollout)
    if s.get("kl"):
        kl = PPO.compute_approx_kl(batch.new, batch.reference, batch.part, s.get("kl_kind", "k3"))
        found = found + share * s["kl"] * PPO.masked_mean(kl, batch.part, dim=-1).mean()
    if s.get("entropy"):
        found = found - share * s["entropy"] * PPO.masked_mean(batch.entropy, batch.part)
    return batch.result(found)


def hold_loss(case):
    s, rows, expected = case["settings"], case["rows"], expected_loss(case)
    aggregation = s.get("aggregation", "token_mean")
    if s.get("objective") == "value" and "expectile" not in s:
        return settle(
            [
                (None, lambda: loss(case), expected),
                (
                    "always a mean over rows of means over tokens",
                    lambda: loss(case),
                    with_settings(case, aggregation="seq_mean_token_mean"),
                ),
            ]
        )
    if (
        s.get("objective")
        or s.get("surrogate", "clip") not in LOSSES
        or aggregation not in REDUCTIONS
        or "mask_drift" in s
        or "mask_below" in s
    ):
        return {"result": "not had"}
    kept = used_rows(rows)
    attempts = [(None, lambda: loss(case), expected), (ABSENT, lambda: loss(case, kept), with_settings(case, kept))]
    if s.get("kl"):
        plain = with_settings(case, kept, kl=0.0)
        mean = with_settings(
            {**case, "settings": {**s, "clip": 1e6, "aggregation": "seq_mean_token_mean"}}, [{**row, "advantage": 0.0} for row in kept]
        )
        total = [plain[0] + mean[0], [[a + b for a, b in zip(x, y)] for x, y in zip(plain[1], mean[1])]]
        attempts.append((f"the KL term is always a mean over rows; {ABSENT}", lambda: loss(case, kept), total))
    if s.get("surrogate") == "kl_cov":
        count = sum(sum(row["part"]) for row in rows)
        attempts.append(
            (
                "!the KL term of the selected tokens is summed, where the rest is a mean: it weighs as many times more as the step has tokens",
                lambda: loss(case),
                with_settings(case, covary_kl=s["covary_kl"] * count),
            )
        )
    return settle(attempts)


def per_token(case, batch):
    s, function = case["settings"], case["function"]
    places = [max(place[-1] for e, place in batch.places.values() if e == episode) for episode in range(len(batch.episodes))]
    mask = torch.tensor([[float(t <= last) for t in range(batch.mask.shape[1])] for last in places], dtype=torch.float64)
    if function == "reinforce_pp":
        return batch.lists(PPO.compute_reinforce_plus_plus_outcome_advantage(batch.rewards, mask, s.get("gamma", 1.0))[0])
    white, returns = PPO.compute_gae_advantage_return(batch.rewards, batch.values, mask, s["gamma"], s["lam"])
    return (batch.lists if function == "ppo_tokens" else batch.turns)(white if s.get("white") else returns - batch.values)


def expected_tokens(case):
    return case["advantage"] if case["function"] == "ppo_turns" else case["token_advantages"]


def hold_credit(case):
    function, s, rows = case["function"], case["settings"], case["rows"]
    single, batch = "a group of one keeps its return (`singleton: raw`)", Episodes(rows)
    index = batch.index if case["group_by"] else np.array(["all"] * len(batch.episodes), dtype=object)
    table = lambda found: batch.turns(found[0])
    if function in ("grpo", "dr_grpo", "dapo") and s.get("unit") != "turn" and s.get("ddof", 1) == 1:
        found = lambda: table(
            PPO.compute_grpo_outcome_advantage(batch.rewards.clone(), batch.mask, index, s.get("eps", 1e-6), function != "dr_grpo")
        )
        return settle([(None, found, case["advantage"]), (single, found, advantage_by(case, singleton="raw")["advantage"])])
    if function == "rloo":
        return settle(
            [(None, lambda: table(PPO.compute_rloo_outcome_advantage(batch.rewards.clone(), batch.mask, index)), case["advantage"])]
        )
    if function == "maxrl":
        return settle([(None, lambda: table(PPO.compute_maxrl_advantage(batch.rewards.clone(), batch.mask, index)), case["advantage"])])
    if function in ("reinforce_pp", "ppo_turns", "ppo_tokens") and "eps_in" not in s and not any("truncated" in row for row in rows):
        # Its trainer gives these the mask of all tokens after the prompt, observations with them.
        note = "an observation's tokens are steps and count in the whitening; equal without observations"
        return settle(
            [
                (None, lambda: per_token(case, batch), expected_tokens(case)),
                (note, lambda: per_token(case, Joined(rows)), expected_tokens(case)),
            ]
        )
    return {"result": "not had"}


def micro(case, part, whole):
    return loss(case, part, whole)


HOLD = {"losses": hold_loss, "credit": hold_credit, "divergences": lambda case: {"result": "not had"}}
