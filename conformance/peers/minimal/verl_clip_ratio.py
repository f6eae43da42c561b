"""verl's `clip_ratio` alone changes nothing: `clip_ratio_low` and `clip_ratio_high` have defaults of their own, 0.2, which win."""

import torch
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.workers.config import ActorConfig

for clip in (0.1, 0.2, 0.5):
    config = ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, clip_ratio=clip)
    new = torch.tensor([[2.0]]).log()  # a ratio of 2 with an advantage of 1: the loss is -(1 + clip)
    print(clip, get_policy_loss_fn("vanilla")(torch.zeros(1, 1), new, torch.ones(1, 1), torch.ones(1, 1), config=config)[0].item())
