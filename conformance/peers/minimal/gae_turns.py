"""GAE over a row with an observation (mask 0) between two answers, lambda 0.95. verl passes over the observation, as GAE over the
answers' tokens does. In SkyRL its tokens are steps with the critic's values there. In OpenRLHF they are steps with the value 0:
the value after the first answer then counts for less. With its default, lambda 1, all three agree on the advantage."""

import pathlib
import sys

import torch
from verl.trainer.ppo.core_algos import compute_gae_advantage_return

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from openrlhf_library import MAKER
from skyrl_library import PPO

rewards, mask = torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([[1.0, 0.0, 1.0]])
values = torch.tensor([[0.5, 0.9, 0.6]])  # 0.9 is before a token of the observation
print("by hand  ", 0.0 + 0.6 - 0.5 + 0.95 * (1.0 - 0.6))
print("verl     ", (compute_gae_advantage_return(rewards, values, mask, 1.0, 0.95)[1] - values)[0, 0].item())
print("OpenRLHF ", MAKER.RemoteExperienceMaker.get_advantages_and_returns(None, values, rewards, mask, 1.0, 0.95)[0][0, 0].item())
print("SkyRL    ", (PPO.compute_gae_advantage_return(rewards, values, mask, 1.0, 0.95)[1] - values)[0, 0].item())
