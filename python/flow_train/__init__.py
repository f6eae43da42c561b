"""A trainer for flow: any causal language model of transformers, sharded by FSDP2, spoken to as docs/protocol.md says ("Trainers").

It holds no loss and no reinforcement learning: it gives log-probabilities and entropies of tokens, takes the gradient of a loss by these
numbers, steps, saves and loads.
"""

VERSION = "0.2.0"
PROTOCOL = 1
