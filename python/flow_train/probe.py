"""A check on rows of the run: tokens that are computed side by side must get the states that they get alone. No list of architectures could promise that."""
import numpy as np
import torch
import torch.distributed as dist

from .attention import NAME, Attention
from .layout import Batch, Layout
from .rows import Rows

# Sequences and tokens of each that are looked at.
SEQUENCES, TOKENS = 4, 192
# The most that states may be apart from those of each sequence alone, as a share of their size: rounding, which kernels do differently.
ROUNDING = {torch.float32: 1e-4, torch.bfloat16: 0.05}
# The most that they may move where another sequence's tokens are others: nothing, but for the last bit.
LEAK = 1e-5


class Probe:
    def __init__(self, net, rows, device):
        self.net, self.device, self.why = net, device, ""
        # Neighbours in their order share the longest beginnings; what is looked at is where they part.
        place = max(range(len(rows.leaves)), key=lambda i: rows.shared.get(rows.leaves[i], 0), default=0)
        cut = max(0, rows.shared.get(rows.leaves[place], 0) - TOKENS // 2)
        near = [rows.sequences[i][cut:][:TOKENS] for i in rows.leaves[max(0, place - 1) :][:SEQUENCES]]
        some = [sequence for sequence in near if len(sequence) > 1] or [rows.sequences[rows.leaves[place]][:TOKENS]]
        self.rows = sequences([*some, some[0][::-1]])

    def states(self, layout, rows):
        batch = Batch(rows, rows.leaves, layout, self.device)
        forward, self.net.forward = self.net.forward, self.net.states
        try:
            # Through `forward`, so that the parameters are there.
            return batch, self.net(batch)
        finally:
            self.net.forward = forward

    @torch.no_grad()
    def holds(self, layout):
        """Whether `layout` gives the states that each sequence has alone, on all ranks."""
        self.net.eval()
        alone = [self.states(Layout("padded"), sequences([self.rows.sequences[i]]))[1] for i in self.rows.leaves]
        wrong = True
        if not self.net.attention(NAME):
            self.why = "their attention can't be exchanged"
        else:
            try:
                wrong = self.differs(layout, alone)
            except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
                self.why = str(error).splitlines()[0]
        worst = torch.tensor([float(wrong)])
        dist.all_reduce(worst, op=dist.ReduceOp.MAX)
        return worst.item() == 0

    def differs(self, layout, alone):
        Attention.windows.clear()
        batch, states = self.states(layout, self.rows)
        if windows(self.net.config) != sum(window is not None for window in Attention.windows):
            self.why = "its windows aren't its attention's to know"
            return True
        paths = [torch.as_tensor(path, device=self.device) for path in batch.paths]
        far = torch.tensor([apart(states[path], own) for path, own in zip(paths, alone)]).max().item()
        # The same sequences, but the first has other tokens at its end.
        first, *others = self.rows.leaves
        keep = self.rows.shared.get(others[0], 0) if others else 0
        changed = list(self.rows.sequences)
        changed[first] = np.concatenate([changed[first][:keep], (changed[first][keep:] + 1) % self.net.vocabulary])
        # In the order that they had: what is looked at is what moves, and not where.
        moved = sequences(changed)
        moved.leaves, moved.shared, moved.owner = self.rows.leaves, self.rows.shared, self.rows.owner
        after = self.states(layout, moved)[1]
        own = torch.ones(len(states), dtype=torch.bool, device=self.device)
        own[paths[0]] = False
        leak = apart(after[own], states[own]) if own.any() else 0.0
        self.why = f"states are {far:.1e} of their size from those alone, and {leak:.1e} of it comes from neighbours"
        # Not the other way round: what is no number doesn't hold.
        return not (far <= ROUNDING[torch.bfloat16 if self.net.bf16 else torch.float32] and leak <= LEAK)


def windows(config):
    """How many layers attend to a window, by a model's configuration; more than it has where it says so in a way that isn't known here."""
    layers = config.num_hidden_layers
    kinds = getattr(config, "layer_types", None)
    if getattr(config, "attention_chunk_size", None) or kinds and set(kinds) - {"full_attention", "sliding_attention"}:
        return layers + 1
    if kinds:
        return kinds.count("sliding_attention")
    wanted = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    return layers if wanted else 0


def sequences(some):
    message = {"sequences": [len(s) for s in some], "choices": 0}
    return Rows(message, np.concatenate(some).astype("<u4").tobytes())


def apart(a, b):
    a, b = a.double(), b.double()
    return ((a - b).norm() / b.norm()).item()
