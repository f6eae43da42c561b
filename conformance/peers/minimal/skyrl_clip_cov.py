"""SkyRL's Clip-Cov selects tokens whose covariance is between `clip_cov_lb` and `clip_cov_ub`, 1 and 5 by default. The advantages in
it are already divided by the number of tokens, so the larger the batch, the fewer tokens qualify: of 400 tokens none does."""

import pathlib
import sys
from types import SimpleNamespace

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from skyrl_library import PPO

config = SimpleNamespace(eps_clip_low=0.2, eps_clip_high=0.2, clip_cov=SimpleNamespace(clip_ratio=0.5, clip_cov_lb=1.0, clip_cov_ub=5.0))
for copies in (1, 100):
    new, advantage, mask = (
        torch.tensor([[-0.5, -1.0, -6.0, -0.1]] * copies),
        torch.tensor([[1.0, -1.0, -2.0, 2.0]] * copies),
        torch.ones(copies, 4),
    )
    scaled = PPO.apply_loss_reduction_to_advantages_minibatch(advantage, mask, "token_mean", copies, 4)
    for name, given in (("advantages", advantage), ("divided advantages", scaled)):
        print(copies, name, PPO.compute_policy_loss_clip_cov(new, new, given, config, mask)[1])
