"""verl's DPPO bounds the ratio by `clip_ratio_c`. Its code falls back to 20 and recommends a large bound, but the configuration's
default is 3, the one of PPO's dual clip. prime-rl, SkyRL and flow have no such bound below e^20."""

import torch
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.workers.config import ActorConfig

config = ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1)
old = torch.tensor([[0.01]]).log()
new = torch.tensor([[0.08]]).log().requires_grad_()  # the probability moves by 0.07, less than 0.2; the ratio is 8
get_policy_loss_fn("dppo_tv")(old, new, torch.ones(1, 1), torch.ones(1, 1), config=config)[0].backward()
print("the gradient by the log-probability is", new.grad.item(), "where -ratio is -8")
