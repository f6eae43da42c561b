"""verl: the functions of its verl.trainer.ppo.core_algos, as installed."""

import importlib.metadata

import numpy as np
import torch
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights
from verl.workers.config import ActorConfig, PolicyLossConfig

from common import Batch, Episodes, advantage_by, by_trajectory, expected_loss, settle, used_rows, with_settings

NAME = f"verl {importlib.metadata.version('verl')}"
MODES = {
    "token_mean": "token-mean",
    "seq_mean_token_sum": "seq-mean-token-sum",
    "seq_mean_token_mean": "seq-mean-token-mean",
    "seq_mean_token_sum_norm": "seq-mean-token-sum-norm",
}
UNBOUNDED = 1e9


def config(s, **more):
    low = s.get("clip", 0.2)
    actor = ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio=low,
        clip_ratio_low=low,
        clip_ratio_high=s.get("clip_high", low),
        clip_ratio_c=s.get("dual_clip", UNBOUNDED),
        tau_pos=s.get("gate", 1.0),
        tau_neg=s.get("gate_below", 1.05),
        **more,
    )
    actor.global_batch_info.update({"loss_scale_factor": s["norm"]} if "norm" in s else {})
    return actor


def loss(case, rows=None, mode=None, whole=None, **more):
    """verl's loss of a case: the policy's, its KL term and its entropy bonus, as its workers add them up.

    `rows` may be a micro-batch of `whole`: then the numbers of tokens and of rows are those of `whole`, as its workers say.
    """
    s, batch = case["settings"], Batch(rows or case["rows"])
    mode = mode or MODES[s.get("aggregation", "token_mean")]
    if s.get("objective") == "value":
        totals = {"batch_num_tokens": sum(sum(row["part"]) for row in whole), "global_batch_size": len(whole)} if whole else {}
        found, _ = core_algos.compute_value_loss(
            batch.new, batch.target, batch.old, batch.part, s["value_clip"] or UNBOUNDED, mode, **totals
        )
        return batch.result(found)
    how = {
        "clip": "gspo" if s.get("ratio") == "sequence" else "vanilla",
        "cispo": "cispo",
        "sapo": "sapo",
        "gmpo": "geo_mean",
        "kl_cov": "kl_cov",
        "clip_cov": "clip_cov",
    }
    name = (
        "gpg"
        if s.get("objective") == "reinforce"
        else f"dppo_{s.get('region')}"
        if s.get("surrogate") == "dppo"
        else how[s.get("surrogate", "clip")]
    )
    weights = None
    if s.get("old") == "recomputed":
        weights, _ = compute_rollout_correction_weights(batch.old - batch.acted, batch.part, "token", s["truncate"])
    actor = config(s, policy_loss=selection(s, batch), **more)
    if whole:
        actor.global_batch_info.update(dp_size=1, batch_num_tokens=sum(sum(row["part"]) for row in whole), global_batch_size=len(whole))
    with given(batch, name):
        found, _ = core_algos.get_policy_loss_fn(name)(batch.old, batch.new, batch.advantage, batch.part, mode, actor, weights)
    if s.get("kl") and "reference" in case["rows"][0]:
        kld = core_algos.kl_penalty(batch.new, batch.reference, s.get("kl_kind", "k3"))
        found = found + s["kl"] * core_algos.agg_loss(kld, batch.part, mode, **actor.global_batch_info)
    if s.get("entropy"):
        found = found - s["entropy"] * core_algos.agg_loss(batch.entropy, batch.part, mode, **actor.global_batch_info)
    return batch.result(found)


def selection(s, batch):
    """As many tokens as the case chose, from anywhere."""
    share = (len(batch.chosen) + 0.5) / batch.part.sum().item()
    return PolicyLossConfig(
        kl_cov_ratio=share, ppo_kl_coef=s.get("covary_kl", 1.0), clip_cov_ratio=share, clip_cov_lb=-1e9, clip_cov_ub=1e9
    )


class given:
    """Makes verl select the case's tokens: its torch.topk (KL-Cov) and torch.randperm (Clip-Cov) give these first."""

    def __init__(self, batch, name):
        valid = [tuple(place) for place in torch.nonzero(batch.part > 0).tolist()]
        free = valid
        if name == "clip_cov":
            ratio = torch.exp(batch.new - batch.old)
            clipped = -batch.advantage * ratio.clamp(0.8, 1.2) > -batch.advantage * ratio
            free = [place for place in valid if not clipped[place]]
        order = [free.index(place) for place in batch.chosen if place in free]
        self.order, self.names = (
            torch.tensor(order + [i for i in range(len(free)) if i not in order]),
            {"kl_cov": ["topk"], "clip_cov": ["randperm"]}.get(name, []),
        )
        self.count = len(order)

    def __enter__(self):
        self.before = {name: getattr(torch, name) for name in self.names}
        made = {
            "topk": lambda *_, **__: torch.return_types.topk((self.order[: self.count], self.order[: self.count])),
            "randperm": lambda count: self.order,
        }
        for name in self.names:
            setattr(torch, name, made[name])

    def __exit__(self, *_):
        for name, function in self.before.items():
            setattr(torch, name, function)


def hold_loss(case):
    s, expected = case["settings"], expected_loss(case)
    surrogate = s.get("surrogate")
    had = not (s.get("objective") == "sft" or surrogate == "vespo" or "mask_drift" in s or "mask_below" in s or "expectile" in s)
    if (
        not had
        or (s.get("objective") == "reinforce" and "reference" in case["rows"][0])
        or s.get("aggregation") == "trajectory_mean_turn_mean"
    ):
        return {"result": "not had"}
    if s.get("aggregation") == "trajectory_mean_token_mean":
        joined = by_trajectory(case["rows"])
        return settle(
            [
                (
                    "a row is a whole trajectory: seq-mean-token-mean over such rows",
                    lambda: loss(case, joined, "seq-mean-token-mean"),
                    with_settings(case, joined, aggregation="seq_mean_token_mean"),
                )
            ]
        )
    attempts = [(None, lambda: loss(case), expected)]
    if surrogate == "dppo":
        attempts.append(
            ("the loss's value is that of a ratio times the log-probability; the gradient is the same", lambda: loss(case)[1], expected[1])
        )
    if surrogate == "sapo" and s.get("aggregation") is None:
        attempts.append(
            (
                "SAPO is always averaged by rows; loss_agg_mode is not read",
                lambda: loss(case),
                with_settings(case, aggregation="seq_mean_token_mean"),
            )
        )
    if surrogate == "gmpo":
        rows = used_rows(case["rows"])
        attempts.append(
            (
                "a row without a token that takes part counts in the mean; equal without such rows",
                lambda: loss(case, rows),
                with_settings(case, rows),
            )
        )
    return settle(attempts)


ALGO = AlgoConfig(norm_adv_by_std_in_grpo=False, gamma=1.0)


def hold_credit(case):
    function, s, rows = case["function"], case["settings"], case["rows"]
    single = "a group of one keeps its return (`singleton: raw`)"
    if function in ("grpo", "dr_grpo", "dapo") and s.get("unit") != "turn" and s.get("ddof", 1) == 1:
        batch = Episodes(rows)
        index = batch.index if case["group_by"] else np.array(["all"] * len(batch.episodes), dtype=object)
        with_std = function != "dr_grpo"
        found = lambda: batch.turns(
            core_algos.compute_grpo_outcome_advantage(batch.rewards.clone(), batch.mask, index, s.get("eps", 1e-6), with_std)[0]
        )
        return settle([(None, found, case["advantage"]), (single, found, advantage_by(case, singleton="raw")["advantage"])])
    if function == "rloo":
        batch = Episodes(rows)
        found = lambda of: (
            lambda: batch.turns(getattr(core_algos, f"compute_{of}_outcome_advantage")(batch.rewards.clone(), batch.mask, batch.index)[0])
        )
        return settle(
            [
                (None, found("rloo"), case["advantage"]),
                (f"{single}; verl's rloo_vectorized gives it 0", found("rloo"), advantage_by(case, singleton="raw")["advantage"]),
            ]
        )
    if function == "pass_at_k":
        kept = [i for i, row in enumerate(rows) if sum(row["task"] == other["task"] for other in rows) > 1]
        batch = Episodes([rows[i] for i in kept])
        found = lambda: batch.turns(core_algos.compute_grpo_passk_outcome_advantage(batch.rewards, batch.mask, batch.index, config=ALGO)[0])
        return settle([("a group of one is refused; equal without it", found, [case["advantage"][i] for i in kept])])
    if function == "reinforce_pp" and "eps_in" not in s:
        batch = Episodes(rows)
        found = lambda: batch.lists(
            core_algos.compute_reinforce_plus_plus_outcome_advantage(batch.rewards, batch.mask, AlgoConfig(gamma=s.get("gamma", 1.0)))[0]
        )
        return settle([(None, found, case["token_advantages"])])
    if function == "reinforce_pp_baseline":
        batch = Episodes(rows)
        found = lambda: batch.turns(
            core_algos.compute_reinforce_plus_plus_baseline_outcome_advantage(batch.rewards, batch.mask, batch.index)[0]
        )
        return settle([(None, found, case["advantage"])])
    if function == "remax":
        greedy = {row["task"]: 0.0 for row in rows}
        for row in rows:
            greedy[row["task"]] += row["reward"] if row.get("greedy") else 0.0
        own = [i for i, row in enumerate(rows) if not row.get("greedy")]
        batch = Episodes([rows[i] for i in own])
        baselines = torch.tensor([greedy[rows[own[0]]["task"]]] * len(batch.episodes), dtype=torch.float64)
        found = lambda: core_algos.compute_remax_outcome_advantage(batch.rewards, baselines, batch.mask)[0]
        firsts = lambda: [found()[batch.places[i][0], 0].item() for i in range(len(batch.rows))]
        return settle([(None, firsts, [case["advantage"][i] for i in own])] if own else [])
    if function == "gdpo":
        batch = Episodes(rows)
        components = {name: np.array([rows[e[0]][name] for e in batch.episodes], dtype=np.float32) for name in s["rewards"]}
        # verl puts a reward at the place before the last one of the attention mask: here every response ends there.
        data = {
            "prompts": torch.zeros(len(batch.episodes), 1),
            "attention_mask": torch.cat([torch.ones(len(batch.episodes), 1), batch.mask], dim=1).long(),
        }
        found = lambda: batch.turns(
            core_algos.compute_gdpo_outcome_advantage(
                batch.rewards.float(),
                batch.mask,
                batch.index,
                config=AlgoConfig(gdpo_reward_keys=s["rewards"]),
                non_tensor_batch=components,
                batch=data,
            )[0]
        )
        return settle([(None, found, case["advantage"])])
    if function in ("ppo_turns", "ppo_tokens") and not any("truncated" in row for row in rows):
        batch = Episodes(rows)
        whole = lambda: core_algos.compute_gae_advantage_return(batch.rewards, batch.values, batch.mask, s["gamma"], s["lam"])
        if s.get("white"):
            return settle([(None, lambda: batch.lists(whole()[0]), case["token_advantages"])])
        plain = lambda: [batch.lists(whole()[1] - batch.values), batch.lists(whole()[1])]
        if function == "ppo_tokens":
            return settle([(None, plain, [case["token_advantages"], case["token_targets"]])])
        return settle([(None, plain, [case["advantage"], case["target"]])])
    return {"result": "not had"}


def micro(case, part, whole):
    return loss(case, part, whole=whole)


HOLD = {"losses": hold_loss, "credit": hold_credit, "divergences": lambda case: {"result": "not had"}}
