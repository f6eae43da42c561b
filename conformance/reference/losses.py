"""The loss of one optimiser step from log-probabilities: what each paper writes down, with its gradient in closed form.

A loss shape is a function of a row that gives three things: the loss of each token `[T]`, its Jacobian `[T, T]` (entry
t, u is the derivative of token t's loss by the log-probability of token u), and whether the clip or a mask decided the
token `[T]`. Most shapes have a diagonal Jacobian. Where a paper stops a gradient, the function reads `row.held` in place
of `row.new`: the same numbers, which no derivative is taken by.
"""

from dataclasses import dataclass, field, replace
from typing import Optional

import numpy as np

LOG_RATIO = 20.0  # The bound of |log ratio|: exp(20) is still a number in float32.


@dataclass
class Row:
    """One response."""

    new: np.ndarray  # log-probabilities under the weights that train; of a critic, its values
    old: np.ndarray  # the denominator of the ratio; of a critic, the recorded values
    advantage: np.ndarray  # one a token
    part: np.ndarray  # 1 for tokens that take part, else 0
    acted: Optional[np.ndarray] = None  # log-probabilities of the sampler; the same as `old` when left out
    reference: Optional[np.ndarray] = None  # log-probabilities of the reference model
    entropy: Optional[np.ndarray] = None  # entropies of the distributions that the tokens were drawn from
    chosen: Optional[np.ndarray] = None  # 1 for the tokens that KL-Cov or Clip-Cov selected
    target: Optional[np.ndarray] = None  # a critic's targets
    state: Optional[np.ndarray] = None  # 1 for a critic's values that an expectile is taken of
    trajectory: int = 0
    held: Optional[np.ndarray] = field(default=None, repr=False)  # `new` where no gradient goes through

    def __post_init__(self):
        self.held = self.new if self.held is None else self.held
        self.acted = self.old if self.acted is None else self.acted

    def moved(self, new):
        """The row with other log-probabilities; what gradients are stopped at stays."""
        return replace(self, new=new)


# Ratios


def token_ratio(row):
    """r_t = pi_new(t) / pi_old(t) = exp(new_t - old_t) (PPO, Schulman et al. 2017, arXiv 1707.06347, section 3).

    Gives the ratio of each token and its Jacobian. The logarithm is held within +-20.
    """
    d = row.new - row.old
    r = np.exp(np.clip(d, -LOG_RATIO, LOG_RATIO))
    return r, np.diag(np.where(abs(d) <= LOG_RATIO, r, 0.0))


def sequence_ratio(row):
    """s = (pi_new(y) / pi_old(y))^(1/|y|) = exp(mean of new_t - old_t) (GSPO, Zheng et al. 2025, arXiv 2507.18071, Eq. 7).

    Every token of the row has the same s. ds/dnew_u = s / |y| for each token u that takes part.
    """
    n = row.part.sum()
    s = np.exp(np.clip(((row.new - row.old) * row.part).sum() / n, -LOG_RATIO, LOG_RATIO))
    return np.full(len(row.new), s), np.outer(np.ones(len(row.new)), row.part * s / n)


def ratio(row, kind):
    return {"token": token_ratio, "sequence": sequence_ratio}[kind](row)


# Loss shapes


def clip(row, low=0.2, high=None, dual=None, ratio_kind="token"):
    """PPO's clipped objective (Schulman et al. 2017, Eq. 7), as a loss:

    L_t = max(-A r, -A clamp(r, 1 - low, 1 + high)).

    DAPO (Yu et al. 2025, arXiv 2503.14476) has two bounds. With a dual clip c (Ye et al. 2020, arXiv 1912.09729,
    Eq. 5), where A < 0: L_t = min(L_t, -A c). A token counts as clipped where the clamp decides; the dual clip doesn't count.
    GSPO and LUSPO are this with the ratio of the sequence.
    """
    high = low if high is None else high
    r, dr = ratio(row, ratio_kind)
    a = row.advantage
    free, bounded = -a * r, -a * np.clip(r, 1 - low, 1 + high)
    clipped = bounded > free
    loss, open_ = np.maximum(free, bounded), ~clipped
    if dual is not None:
        over = (a < 0) & (-a * dual < loss)
        loss, open_ = np.where(over, -a * dual, loss), open_ & ~over
    return loss, (open_ * -a)[:, None] * dr, clipped


def cispo(row, low=0.2, high=None, ratio_kind="token"):
    """CISPO (MiniMax-M1, arXiv 2506.13585): L_t = -sg(clamp(r, 1 - low, 1 + high)) A new_t.

    sg stops the gradient: dL_t/dnew_t = -clamp(r) A. The paper has no lower bound: low = 1.
    """
    high = low if high is None else high
    r, _ = ratio(replace(row, new=row.held), ratio_kind)
    bounded = np.clip(r, 1 - low, 1 + high)
    return -bounded * row.advantage * row.new, np.diag(-bounded * row.advantage), bounded != r


def sapo(row, gate=1.0, gate_below=1.05, ratio_kind="token"):
    """SAPO (arXiv 2511.20347): L_t = -4 / tau sigmoid(tau (r - 1)) A, with tau = gate where A > 0, else gate_below.

    dL_t/dr = -4 sigmoid (1 - sigmoid) A: 1 times -A at r = 1.
    """
    r, dr = ratio(row, ratio_kind)
    tau = np.where(row.advantage > 0, gate, gate_below)
    gated = 1 / (1 + np.exp(-tau * (r - 1)))
    slope = -4 * gated * (1 - gated) * row.advantage
    return -4 / tau * gated * row.advantage, slope[:, None] * dr, np.zeros(len(r), bool)


def gmpo(row, low=0.4, high=None):
    """GMPO (arXiv 2507.20673): L_t = -A s, s the geometric mean of the row's ratios, each clipped beforehand:

    log s = mean of sgn(A) min(sgn(A) d_t, sgn(A) clamp(d_t, -low, high)), d_t = new_t - old_t.

    ds/dnew_u = s / |y| where the clip of token u doesn't decide, else 0.
    """
    high = low if high is None else high
    sign = np.sign(row.advantage)
    d = np.clip(row.new - row.old, -LOG_RATIO, LOG_RATIO)
    free, bounded = sign * d, sign * np.clip(d, -low, high)
    clipped = bounded < free
    n = row.part.sum()
    s = np.exp((sign * np.minimum(free, bounded) * row.part).sum() / n)
    ds = np.where(clipped | (sign == 0), 0.0, row.part * s / n)
    return -row.advantage * s, np.outer(-row.advantage, ds), clipped


def dppo(row, low=0.2, high=None, region="tv"):
    """DPPO (arXiv 2602.04879): L_t = -A r, and 0 where the token's probability p has left the trust region in the
    direction of its advantage: A > 0, p > q and D > high, or A < 0, p < q and D > low; q is the old probability.

    tv: D = |p - q|. kl: D = q ln(q / p) + (1 - q) ln((1 - q) / (1 - p)), the divergence of "this token or another one".
    The mask is a number that no gradient goes through.
    """
    high = low if high is None else high
    r, dr = token_ratio(row)
    p, q = np.exp(row.held), np.exp(row.old)
    if region == "tv":
        far = abs(p - q)
    else:
        far = q * (row.old - row.held) + (1 - q) * np.log((1 - q + 1e-8) / (1 - p + 1e-8))
    a = row.advantage
    masked = ((a > 0) & (p > q) & (far > high)) | ((a < 0) & (p < q) & (far > low))
    return np.where(masked, 0.0, -a * r), np.where(masked, 0.0, -a)[:, None] * dr, masked


def kl_cov(row, weight=1.0):
    """KL-Cov (arXiv 2505.22617): L_t = -A r, plus weight |new_t - old_t| for the tokens that covary most.

    The selection is given (`row.chosen`): see `covariance`.
    """
    r, dr = token_ratio(row)
    d = row.new - row.old
    loss = -row.advantage * r + weight * abs(d) * row.chosen
    return loss, -row.advantage[:, None] * dr + np.diag(weight * np.sign(d) * row.chosen), row.chosen == 1


def clip_cov(row, low=0.2, high=None, dual=None):
    """Clip-Cov (arXiv 2505.22617): PPO's clip; the drawn tokens (`row.chosen`) have no loss and no gradient."""
    loss, slope, clipped = clip(row, low, high, dual)
    drawn = row.chosen == 1
    return np.where(drawn, 0.0, loss), np.where(drawn[:, None], 0.0, slope), clipped | drawn


def covariance(rows):
    """The covariance by which KL-Cov and Clip-Cov select tokens (arXiv 2505.22617): (log p - mean) (A - mean), the
    means over all tokens that take part; p are the probabilities under the policy that acted."""
    part = np.concatenate([row.part for row in rows]) == 1
    logprob, advantage = (np.concatenate([getattr(row, name) for row in rows]) for name in ("acted", "advantage"))
    return np.where(part, (logprob - logprob[part].mean()) * (advantage - advantage[part].mean()), -np.inf)


def vespo(row, power=(2.0, 3.0), damping=(3.0, 2.0)):
    """VESPO (arXiv 2602.10693): L_t = -sg(phi(W)) A new_t, W the product of the row's ratios, phi(W) = W^k exp(l (1 - W)).

    k and l are power[0], damping[0] where A >= 0, else power[1], damping[1]. log W is held between ln 1e-8 and 20, as in
    TRL's implementation.
    """
    total = (np.clip(row.held - row.old, -LOG_RATIO, LOG_RATIO) * row.part).sum()
    log_w = np.clip(total, np.log(1e-8), LOG_RATIO)
    below = (row.advantage < 0).astype(int)
    phi = np.exp(np.array(power)[below] * log_w + np.array(damping)[below] * (1 - np.exp(log_w)))
    return -phi * row.advantage * row.new, np.diag(-phi * row.advantage), np.zeros(len(row.new), bool)


def surrogate(row, s):
    """The loss shape that the settings name."""
    kind, low, high = s.get("ratio", "token"), s.get("clip", 0.2), s.get("clip_high")
    return {
        "clip": lambda: clip(row, low, high, s.get("dual_clip"), kind),
        "cispo": lambda: cispo(row, low, high, kind),
        "sapo": lambda: sapo(row, s.get("gate", 1.0), s.get("gate_below", 1.05), kind),
        "gmpo": lambda: gmpo(row, low, high),
        "dppo": lambda: dppo(row, low, high, s.get("region", "tv")),
        "kl_cov": lambda: kl_cov(row, s.get("covary_kl", 1.0)),
        "clip_cov": lambda: clip_cov(row, low, high, s.get("dual_clip")),
        "vespo": lambda: vespo(row, s.get("power", (2.0, 3.0)), s.get("damping", (3.0, 2.0))),
    }[s.get("surrogate", "clip")]()


# Masks and weights of the policy's term


def off_policy_mask(row, most):
    """DeepSeek-V3.2's off-policy sequence mask (its report): tokens with A < 0 are masked in a row whose mean of
    acted_t - new_t is above `most`. No gradient goes through the mask."""
    drift = ((row.acted - row.held) * row.part).sum() / row.part.sum()
    return (drift > most) & (row.advantage < 0)


def improbable(logprobs, part, below, unit):
    """EMPO2 (arXiv 2602.23008, Eq. 2): the factor 1[pi >= delta] masks tokens whose probability is below `below`. By unit
    `row` one such token masks its whole row (the released code)."""
    low = logprobs < np.log(below)
    return np.full(len(low), low.any()) if unit == "row" else low


def importance(row, truncate):
    """Truncated importance sampling (Ionides 2008; Yao et al. 2025): w_t = min(exp(old_t - acted_t), truncate), the weight of
    tokens that another policy sampled than the one the ratio divides by (decoupled PPO, Hilton et al. 2022, arXiv 2110.00641)."""
    return np.minimum(np.exp(np.clip(row.old - row.acted, -LOG_RATIO, LOG_RATIO)), truncate)


# Divergences from the reference


def divergence(row, kind):
    """Estimates of KL(new || reference) from its own draws (Schulman 2020, "Approximating KL divergence"), d = new - reference:

    k1 = d, k2 = d^2 / 2, k3 = exp(-d) + d - 1, abs = |d|. Slopes 1, d, 1 - exp(-d), sgn d.
    """
    d = row.new - row.reference
    return {
        "k1": lambda: (d, np.ones(len(d))),
        "k2": lambda: (d**2 / 2, d),
        "k3": lambda: (np.exp(-d) + d - 1, 1 - np.exp(-d)),
        "abs": lambda: (abs(d), np.sign(d)),
    }[kind]()


# Objectives: the loss of each token, its Jacobian, and whether it was clipped


def policy_gradient(row, s):
    """The policy's term with its masks and weights, plus kl times the divergence, less `entropy` times the entropy.

    Masks and importance weights act on the policy's term alone (EMPO2, Eq. 2), so the divergence of a masked token counts.
    """
    loss, slope, clipped = surrogate(row, s)
    factor = np.ones(len(loss))
    if s.get("mask_drift") is not None:
        masked = off_policy_mask(row, s["mask_drift"])
        factor, clipped = np.where(masked, 0.0, factor), clipped | masked
    if s.get("mask_below") is not None and s.get("mask_from", "current") == "current":
        factor = np.where(improbable(row.held, row.part, s["mask_below"], s.get("mask_unit", "token")), 0.0, factor)
    if s.get("old") == "recomputed":
        factor = factor * importance(row, s.get("truncate", 2.0))
    loss, slope = loss * factor, slope * factor[:, None]
    if s.get("kl"):
        kl, dkl = divergence(row, s.get("kl_kind", "k3"))
        loss, slope = loss + s["kl"] * kl, slope + np.diag(s["kl"] * dkl)
    if s.get("entropy"):
        loss = loss - s["entropy"] * row.entropy
    return loss, slope, clipped


def reinforce(row, s):
    """REINFORCE towards a posterior (EAPO, Eq. 8): L_t = -sg(beta A - kl (log q - log p)) log q_t.

    log q and log p are the row's log-probabilities under the model and the reference: sums over its tokens, or means by the
    aggregation `seq_mean_token_mean`. The bracket is a coefficient that no gradient goes through.
    """
    d = ((row.held - row.reference) * row.part).sum() if row.reference is not None else 0.0
    if s.get("aggregation") == "seq_mean_token_mean":
        d = d / row.part.sum()
    coefficient = s.get("beta", 1.0) * row.advantage - s.get("kl", 0.0) * d
    return -coefficient * row.new, np.diag(-coefficient), np.zeros(len(row.new), bool)


def value(row, s):
    """The value loss of PPO's code (OpenAI Baselines): max((V - R)^2, (clamp(V, V_old - c, V_old + c) - R)^2) / 2.

    c = 0 leaves out the clip. With an expectile tau (IQL, Kostrikov et al. 2022, arXiv 2110.06169, Eq. 5) the loss of a state's
    value is multiplied by 2 |tau - 1[R < V]|, so that 1/2 leaves it as it is. No gradient goes through that weight.
    """
    c, tau = s.get("value_clip", 0.2), s.get("expectile", 0.5)
    v, target = row.new, row.target
    free, bounded = (v - target) ** 2 / 2, (np.clip(v, row.old - c, row.old + c) - target) ** 2 / 2
    outside = (abs(v - row.old) > c) & (c > 0)
    clipped = outside & (bounded > free)
    loss = np.maximum(free, bounded) if c > 0 else free
    slope = np.where(clipped, 0.0, v - target)
    weight = np.where(row.state == 1, 2 * abs(tau - (target < row.held)), 1.0) if row.state is not None else 1.0
    return loss * weight, np.diag(slope * weight), clipped


def sft(row, s):
    """Cross-entropy of the response: L_t = -new_t, times a weight a token where the settings say `weigh_by`."""
    weight = row.advantage if s.get("weigh_by") else np.ones(len(row.new))
    return -weight * row.new, np.diag(-weight), np.zeros(len(row.new), bool)


# Aggregation


def token_weights(rows, aggregation, norm=None):
    """The weight of each token of each row in the loss of the step, which is the weighted sum over tokens that take part.

    token_mean: 1 / all tokens (DAPO). seq_mean_token_mean: 1 / (rows x the row's tokens) (GRPO, Shao et al. 2024, arXiv
    2402.03300, Eq. 3). seq_mean_token_sum: 1 / rows (LUSPO, arXiv 2602.05261). seq_mean_token_sum_norm: 1 / (rows x a
    constant) (Dr. GRPO, Liu et al. 2025, arXiv 2503.20783). trajectory_mean_token_mean: 1 / (trajectories x the trajectory's
    tokens) (EAPO, Eq. 2). trajectory_mean_turn_mean: 1 / (trajectories x the trajectory's turns) (SLEA-RL, arXiv 2603.18079,
    Eq. 7). Tokens, rows and trajectories are those of the whole step. A row without a token that takes part doesn't count.
    """
    tokens = [row.part.sum() for row in rows]
    used = [n > 0 for n in tokens]
    count, all_tokens = sum(used), sum(tokens)
    turns, written = {}, {}
    for row, n in zip(rows, tokens):
        if n > 0:
            turns[row.trajectory] = turns.get(row.trajectory, 0) + 1
            written[row.trajectory] = written.get(row.trajectory, 0) + n
    divisor = {
        "token_mean": lambda row, n: all_tokens,
        "seq_mean_token_sum": lambda row, n: count,
        "seq_mean_token_mean": lambda row, n: count * n,
        "seq_mean_token_sum_norm": lambda row, n: count * norm,
        "trajectory_mean_token_mean": lambda row, n: len(turns) * written[row.trajectory],
        "trajectory_mean_turn_mean": lambda row, n: len(turns) * turns[row.trajectory],
    }[aggregation]
    return [1 / divisor(row, n) if n > 0 else 0.0 for row, n in zip(rows, tokens)]


OBJECTIVES = {"policy_gradient": policy_gradient, "reinforce": reinforce, "value": value, "sft": sft}


def step(rows, s):
    """The loss of one optimiser step over `rows` by settings `s`, its gradient by each row's `new`, and the clipped tokens."""
    if s.get("mask_below") is not None and s.get("mask_from") == "start":
        # EMPO2's released code: by the weights at the update's start, out of the loss, the divergence and every mean.
        start = [improbable(row.old, row.part, s["mask_below"], s.get("mask_unit", "token")) for row in rows]
        rows = [replace(row, part=np.where(low, 0.0, row.part)) for row, low in zip(rows, start)]
    weights = token_weights(rows, s.get("aggregation", "token_mean"), s.get("norm"))
    total, gradients, clips = 0.0, [], []
    for row, weight in zip(rows, weights):
        if row.part.sum() == 0:
            gradients.append(np.zeros(len(row.new)))
            clips.append(np.zeros(len(row.new), bool))
            continue
        loss, slope, clipped = OBJECTIVES[s.get("objective", "policy_gradient")](row, s)
        total += weight * (loss * row.part).sum()
        gradients.append(weight * (row.part @ slope) * row.part)
        clips.append(clipped & (row.part == 1))
    return total, gradients, clips
