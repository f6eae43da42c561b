"""The divergence of a policy from a teacher at one token, over the whole distribution (distillation)."""

import numpy as np


def kl(a, b):
    """KL(a || b) = the sum of a ln(a / b)."""
    return (a * np.log(a / b)).sum()


def divergence(p, q, kind, beta=0.5, top_k=None):
    """p is the policy's distribution, q the teacher's. Gives the divergence and its gradient by the policy's logits.

    reverse_kl: KL(p || q) (OPD, Lu 2025; SDPO, arXiv 2601.20802). forward_kl: KL(q || p) (Hinton et al. 2015, arXiv 1503.02531).
    jsd: beta KL(q || m) + (1 - beta) KL(p || m), m = beta q + (1 - beta) p (GKD, Agarwal et al. 2024, arXiv 2306.13649, Eq. 1).
    By `top_k` the teacher's likeliest tokens are compared, and all others together as one more.

    Gradient by logit j: p_j (s_j - the sum of p s), s the derivative by ln p_j less what sums to a constant: ln(p / q), -q / p and
    (1 - beta) ln(p / m). The tokens of the rest have the slope of the rest.
    """
    listed = np.argsort(-q, kind="stable")[:top_k] if top_k else np.arange(len(p))
    rest = np.setdiff1d(np.arange(len(p)), listed)
    folded = lambda x: np.append(x[listed], x[rest].sum()) if len(rest) else x[listed]
    a, b = folded(p), folded(q)
    if kind == "reverse_kl":
        value, slope = kl(a, b), np.log(a / b)
    elif kind == "forward_kl":
        value, slope = kl(b, a), -b / a
    else:
        m = beta * b + (1 - beta) * a
        value, slope = beta * kl(b, m) + (1 - beta) * kl(a, m), (1 - beta) * np.log(a / m)
    every = np.zeros(len(p))
    every[listed] = slope[: len(listed)]
    if len(rest):
        every[rest] = slope[-1]
    return value, p * (every - (p * every).sum())
