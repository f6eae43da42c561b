"""SkyRL's KL-Cov: the advantages are divided by the number of tokens and the losses summed, but the KL term of the selected tokens
isn't divided. So it weighs as many times more as the batch has tokens. The same batch twice should give the same loss."""

import pathlib
import sys
from types import SimpleNamespace

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from skyrl_library import PPO  # its ppo_utils.py, without the packages around it

config = SimpleNamespace(kl_cov=SimpleNamespace(kl_cov_frac=0.25, ppo_kl_coef=1.0))
for copies in (1, 2, 100):
    new, old = torch.tensor([[-0.5, -1.0, -2.0, -0.1]] * copies), torch.full((copies, 4), -1.0)
    advantage, mask = torch.tensor([[1.0, -1.0, 0.5, 2.0]] * copies), torch.ones(copies, 4)
    scaled = PPO.apply_loss_reduction_to_advantages_minibatch(advantage, mask, "token_mean", copies, 4)
    print(copies, PPO.compute_policy_loss_kl_cov(new, old, scaled, config, mask)[0].item())
