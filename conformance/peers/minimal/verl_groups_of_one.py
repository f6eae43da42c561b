"""verl's `rloo` keeps the reward of a group of one; its `rloo_vectorized` gives it 0."""

import numpy as np
import torch
from verl.trainer.ppo.core_algos import compute_rloo_outcome_advantage, compute_rloo_vectorized_outcome_advantage

reward, mask, index = torch.tensor([[3.0]]), torch.ones(1, 1), np.array(["a"])
print(
    compute_rloo_outcome_advantage(reward.clone(), mask, index)[0].item(),
    compute_rloo_vectorized_outcome_advantage(reward, mask, index)[0].item(),
)
