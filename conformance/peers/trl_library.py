"""TRL: the loss and the advantages of its GRPOTrainer, RLOOTrainer and GMPOTrainer, as installed.

Both are inside methods of the trainers. A trainer is made here without a model: its log-probabilities, its completions and its
rewards are those of the case, and everything else that the methods read is the default of its configuration.
"""

import dataclasses
import importlib.metadata
from collections import defaultdict
from types import SimpleNamespace

import torch
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.experimental.gkd import GKDTrainer
from trl.experimental.gmpo import GMPOTrainer

from common import Batch, advantage_by, expected_loss, settle, unbounded, used_rows, with_settings

NAME = f"TRL {importlib.metadata.version('trl')}"


def without_model(trainer, config, **settings):
    """A trainer of this class with the defaults of its configuration and no model. What it hasn't is None."""

    class Bare(trainer):
        def __init__(self):
            pass

        def __getattr__(self, name):
            return None

        def _get_per_token_logps_and_entropies(self, *_, **__):
            entropy = self.entropy if self.entropy is not None else torch.zeros_like(self.logprobs)
            return self.logprobs, entropy.clone(), None

        def _generate(self, prompts):
            texts = ["x"] * len(prompts)
            if trainer is RLOOTrainer:
                return [[1]] * len(prompts), self.completions, texts
            return [[1]] * len(prompts), self.completions, None, texts, self.sampled, {}, None, None

        def _calculate_rewards(self, *_):
            return self.rewards_per_func

    bare = Bare()
    defaults = {f.name: f.default for f in dataclasses.fields(config) if f.default is not dataclasses.MISSING}
    bare.args = SimpleNamespace(**{**defaults, "steps_per_generation": 1, "gradient_accumulation_steps": 1, **settings})
    bare.model = SimpleNamespace(training=True, is_gradient_checkpointing=False)
    same = lambda x, *_, **__: x
    bare.accelerator = SimpleNamespace(
        device=torch.device("cpu"), num_processes=1, process_index=0, sync_gradients=True, gather=same, reduce=same, gather_for_metrics=same
    )
    bare._metrics = {"train": defaultdict(list)}
    bare._logs = defaultdict(lambda: defaultdict(list))
    for name in ("prompt", "completion", "advantages", "images"):
        bare._logs[name] = []
    bare._pending_extra_logs, bare._pending_metrics, bare.chat_template_kwargs = {}, {}, {}
    bare._tokenizer, bare.eos_token_id, bare.pad_token_id = SimpleNamespace(pad_token_id=0, eos_token_id=0), 0, 0
    bare.current_gradient_accumulation_steps, bare.pad_to_multiple_of = 1, None
    for name, value in {**defaults, **settings}.items():
        if name not in vars(bare) and not hasattr(type(bare), name):
            setattr(bare, name, value)
    bare.epsilon_low, bare.epsilon_high = settings.get("epsilon", 0.2), settings.get("epsilon_high") or settings.get("epsilon", 0.2)
    return bare


def loss(case, loss_type, rows=None, trainer=GRPOTrainer, whole=None, **settings):
    """TRL's loss of a case. `rows` may be a micro-batch of `whole`, one of two that it accumulates."""
    s, batch = case["settings"], Batch(rows or case["rows"])
    low = s.get("clip", 0.2)
    how = {
        "epsilon": low,
        "epsilon_high": s.get("clip_high", low),
        "loss_type": loss_type,
        "beta": 0.0,
        "top_entropy_quantile": 1.0,
        **settings,
    }
    if s.get("kl"):
        how["beta"] = s["kl"]
    if s.get("ratio") == "sequence":
        how["importance_sampling_level"] = "sequence"
    if "norm" in s:
        how["max_completion_length"] = s["norm"]
    bare = without_model(trainer, GRPOConfig, **how)
    bare.logprobs, bare.entropy = batch.new, batch.entropy
    bare._entropy_bonus_enabled, bare.entropy_coef = bool(s.get("entropy")), s.get("entropy", 0.0)
    bare.off_policy_mask_threshold = s.get("mask_drift")
    if whole:
        bare.current_gradient_accumulation_steps = bare.args.gradient_accumulation_steps = bare.args.steps_per_generation = 2
    advantage = batch.advantage[:, 0] if all(not isinstance(row["advantage"], list) for row in batch.rows) else batch.advantage
    mask = batch.part
    inputs = {
        "prompt_ids": torch.ones(len(batch.rows), 1),
        "prompt_mask": torch.ones(len(batch.rows), 1),
        "completion_ids": torch.ones_like(mask),
        "completion_mask": mask,
        "advantages": advantage,
        "old_per_token_logps": batch.old,
        "num_items_in_batch": torch.tensor(float(sum(sum(row["part"]) for row in whole or batch.rows))),
    }
    if batch.reference is not None:
        inputs["ref_per_token_logps"] = batch.reference
    if s.get("old") == "recomputed":
        bare.use_vllm = bare.vllm_importance_sampling_correction = True
        inputs["importance_sampling_ratio"] = truncated(case, batch)
        inputs["sampling_per_token_logps"] = batch.acted
    return batch.result(bare._compute_loss(None, inputs))


def truncated(case, batch):
    """The importance weights that TRL computes where it scores completions."""
    bare = without_model(
        GRPOTrainer,
        GRPOConfig,
        beta=0.0,
        num_generations=1,
        use_vllm=True,
        vllm_importance_sampling_correction=True,
        vllm_importance_sampling_mode="token_truncate",
        vllm_importance_sampling_clip_max=case["settings"]["truncate"],
        vllm_importance_sampling_clip_min=None,
    )
    bare.num_generations, bare.num_iterations = 1, 1
    bare.completions = [[1] * len(row["new"]) for row in batch.rows]
    bare.sampled = [row.get("acted", row["old"]) for row in batch.rows]
    bare.logprobs = batch.old
    scored(bare, torch.zeros(len(batch.rows), 1))
    return bare.output["importance_sampling_ratio"].double()


def scored(bare, rewards, weights=None):
    """Has the trainer score completions whose rewards are these, a column a reward function."""
    count = rewards.shape[1]
    bare.rewards_per_func, bare.reward_weights = rewards, torch.tensor(weights or [1.0] * count)
    bare.reward_funcs = bare.reward_func_names = [f"r{i}" for i in range(count)]
    bare.completions = bare.completions or [[1]] * len(rewards)
    bare.environment_factories, bare.tools, bare.environments = None, None, None
    bare.output = bare._generate_and_score_completions([{"prompt": "x"}] * len(rewards))
    return bare.output["advantages"].tolist()


KINDS = {"token_mean": "dapo", "seq_mean_token_mean": "grpo", "seq_mean_token_sum_norm": "dr_grpo", "seq_mean_token_sum": "luspo"}
ABSENT = "a row without a token that takes part counts in the mean; equal without such rows"


def hold_loss(case):
    s, rows, expected = case["settings"], case["rows"], expected_loss(case)
    aggregation, surrogate = s.get("aggregation", "token_mean"), s.get("surrogate", "clip")
    if (
        s.get("objective")
        or surrogate in ("dppo", "kl_cov", "clip_cov")
        or "mask_below" in s
        or aggregation.startswith("trajectory")
        or s.get("kl_kind", "k3") != "k3"
    ):
        return {"result": "not had"}
    if surrogate == "cispo":
        if s["clip"] < 1:
            return {"result": "not had", "note": "CISPO has no lower bound here, as in its paper"}
        bound = 1 + s["clip_high"]
        return settle(
            [
                (
                    f"`epsilon_high` is the bound itself: {bound}, not {s['clip_high']}",
                    lambda: loss(case, "cispo", epsilon_high=bound),
                    expected,
                )
            ]
        )
    if surrogate == "vespo":
        (k, k_below), (damping, damping_below) = s.get("power", (2.0, 3.0)), s.get("damping", (3.0, 2.0))
        return settle(
            [
                (
                    None,
                    lambda: loss(
                        case, "vespo", vespo_k_pos=k, vespo_lambda_pos=damping, vespo_k_neg=k_below, vespo_lambda_neg=damping_below
                    ),
                    expected,
                )
            ]
        )
    if surrogate == "gmpo":
        found = lambda rows: lambda: loss(case, "grpo", rows, trainer=GMPOTrainer)
        kept = used_rows(rows)
        return settle([(None, found(rows), expected), (ABSENT, found(kept), with_settings(case, kept))])
    if surrogate == "sapo":
        how = {"sapo_temperature_pos": s["gate"], "sapo_temperature_neg": s["gate_below"]}
        kept, by_rows = used_rows(rows), {"aggregation": "seq_mean_token_mean"}
        found = lambda rows: lambda: loss(case, "sapo", rows, **how)
        note = ABSENT if aggregation != "token_mean" else f"SAPO is averaged by rows; {ABSENT}"
        return settle([(None, found(rows), expected), (note, found(kept), with_settings(case, kept, **by_rows))])
    kind = KINDS[aggregation]
    how = {"delta": s["dual_clip"]} if "dual_clip" in s else {}
    kept = used_rows(rows)
    attempts = [(None, lambda: loss(case, kind, **how), expected)]
    if case["name"] == "beyond-e20":
        attempts.append(("the log ratio has no bound (here it is held within 20)", lambda: loss(case, kind), unbounded(case)))
    if len(kept) < len(rows):
        attempts.append((ABSENT, lambda: loss(case, kind, kept, **how), with_settings(case, kept)))
    if s.get("kl"):
        # The default is DeepSeek-V3.2's: each token's KL times its ratio, which the gradient goes through as well.
        plain = "with `use_bias_correction_kl: false`; by default the KL term is multiplied by the ratio"
        attempts.append((plain, lambda: loss(case, kind, use_bias_correction_kl=False, **how), expected))
        attempts.append(
            (f"{plain}; {ABSENT}", lambda: loss(case, kind, kept, use_bias_correction_kl=False, **how), with_settings(case, kept))
        )
    return settle(attempts)


def hold_credit(case):
    function, s, rows = case["function"], case["settings"], case["rows"]
    turns = any(row["turn"] or row.get("attempt") for row in rows)
    if turns or s.get("unit") == "turn":
        return {"result": "not had", "note": "a completion has one turn or one advantage for all its turns"}
    by_size = {}
    for i, row in enumerate(rows):
        size = sum(row["task"] == other["task"] for other in rows)
        by_size.setdefault(size, []).append(i)

    def advantages(trainer, config, columns=("reward",), **settings):
        """Groups of one size at a time, as TRL has one number of samples a prompt."""
        found = [None] * len(rows)
        for size, own in by_size.items():
            bare = without_model(trainer, config, beta=0.0, num_generations=size, **settings)
            bare.num_generations, bare.num_iterations, bare.logprobs = size, 1, torch.zeros(len(own), 1)
            rewards = torch.tensor([[rows[i][name] for name in columns] for i in own], dtype=torch.float32)
            for i, a in zip(own, scored(bare, rewards)):
                found[i] = a
        return found

    plain = {"multi_objective_aggregation": "sum_then_normalize"}
    if function in ("grpo", "dapo") and s.get("ddof", 1) == 1 and "singleton" not in s and case["group_by"]:
        found = lambda: advantages(GRPOTrainer, GRPOConfig, scale_rewards="group", **plain)
        return settle(
            [
                (None, found, case["advantage"]),
                ("eps is 1e-4, and no setting (`eps: 1e-4`)", found, advantage_by(case, eps=1e-4)["advantage"]),
            ]
        )
    if function == "dr_grpo":
        return settle([(None, lambda: advantages(GRPOTrainer, GRPOConfig, scale_rewards="none", **plain), case["advantage"])])
    if function == "rloo":
        return settle([(None, lambda: advantages(RLOOTrainer, RLOOConfig, normalize_advantages=False), case["advantage"])])
    if function == "gdpo":
        # All groups at once: the last step compares the whole batch.
        size = max(by_size)
        own = by_size[size]
        case = {**case, "rows": [rows[i] | {"tokens": 1} for i in own]}
        by_size.clear()
        by_size[size] = own
        found = lambda: [
            x
            for x in advantages(GRPOTrainer, GRPOConfig, columns=s["rewards"], multi_objective_aggregation="normalize_then_sum")
            if x is not None
        ]
        note = "each completion counts once, not once a token, and eps is 1e-4 beside each deviation"
        from reference import credit

        parts = [credit.grpo([{**row, "reward": row[name]} for row in case["rows"]], eps=1e-4)["advantage"] for name in s["rewards"]]
        total = sum(parts)
        return settle([(note, found, [float(a) for a in (total - total.mean()) / (credit.deviation(total, 1) + 1e-4)])])
    return {"result": "not had"}


def hold_divergence(case):
    s = case["settings"]
    if "top_k" in s:
        return {"result": "not had"}
    beta = {"forward_kl": 0.0, "reverse_kl": 1.0}.get(s["divergence"], s.get("beta"))

    def found():
        student = torch.tensor(case["policy"], dtype=torch.float64).log().requires_grad_(True)
        teacher = torch.tensor(case["teacher"], dtype=torch.float64).log()
        value = GKDTrainer.generalized_jsd_loss(student[None, None], teacher[None, None], beta=beta, reduction="sum")
        (slope,) = torch.autograd.grad(value, [student])
        return [value.item(), slope.tolist()]

    return settle([(None, found, [case["value"], case["by_logits"]])])


def micro(case, part, whole):
    s = case["settings"]
    kind = KINDS[s.get("aggregation", "token_mean")] if s.get("surrogate", "clip") in ("clip", "gmpo") else s["surrogate"]
    how = {"epsilon_high": 1 + s["clip_high"]} if kind == "cispo" else {"delta": s["dual_clip"]} if "dual_clip" in s else {}
    return loss(case, kind, part, GMPOTrainer if s.get("surrogate") == "gmpo" else GRPOTrainer, whole, **how)


HOLD = {"losses": hold_loss, "credit": hold_credit, "divergences": hold_divergence}
