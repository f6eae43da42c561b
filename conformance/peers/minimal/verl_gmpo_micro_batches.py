"""verl's GMPO loss is a mean over the rows of a micro-batch, and ignores the numbers of the whole batch that its workers give. Its
workers add up the losses of micro-batches, so the step grows with their number; the other losses of verl don't."""

import torch
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.workers.config import ActorConfig

config = ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1)
config.global_batch_info.update(dp_size=1, batch_num_tokens=12, global_batch_size=4)  # of all four rows
old, new, one = torch.full((4, 3), -1.0), torch.full((4, 3), -0.9), torch.ones(4, 3)
for name in ("geo_mean", "gspo", "vanilla"):
    loss = lambda rows: get_policy_loss_fn(name)(old[rows], new[rows], one[rows], one[rows], "seq-mean-token-mean", config)[0].item()
    print(f"{name}: one batch {loss(slice(0, 4)):.4f}, two micro-batches {loss(slice(0, 2)) + loss(slice(2, 4)):.4f}")
