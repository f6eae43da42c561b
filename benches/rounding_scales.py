"""How coarse the scales of a base in 8 bits may be: perplexity, and divergence from f32, of a model whose matrices and their inputs are rounded.

    .venv-parity/bin/python benches/rounding_scales.py docs/*.md

Rounding is emulated in transformers, in f32: a scale for each so many inputs, of a row of weights and of a token's numbers alike, and for comparison
one a row. Rows of 96 tokens, 32 drawn ones. `FLOW_MODEL` names another folder.
"""

import os
import random
import sys
from pathlib import Path

os.environ.setdefault("TQDM_DISABLE", "1")

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

transformers.logging.set_verbosity_error()
TOKENS, ROWS = 96, 32


def rounded(x, group):
    """The numbers of each row, in groups of their last dimension, as whole numbers from -127 to 127 times a scale."""
    group = group or x.shape[-1]
    parts = x.unflatten(-1, (-1, group))
    scale = parts.abs().amax(-1, keepdim=True).clamp_min(1e-30) / 127
    return ((parts / scale).round() * scale).flatten(-2)


def main():
    torch.set_num_threads(int(os.environ.get("BENCH_THREADS", "2")))
    path = Path(os.environ.get("FLOW_MODEL", "models/smollm2-135m-instruct"))
    text = "".join(Path(name).read_text() for name in sys.argv[1:])
    ids = AutoTokenizer.from_pretrained(path)(text, return_tensors="pt").input_ids[0]
    rows = ids[: len(ids) // TOKENS * TOKENS].view(-1, TOKENS)
    rows = rows[random.Random(1).sample(range(len(rows)), ROWS)]
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    linears = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    # A tied output layer shares its matrix with the embedding, which is rounded as well.
    own = {id(module.weight): module.weight.data.clone() for module in linears}

    def chances():
        with torch.no_grad():
            return torch.cat([model(part).logits[:, :-1].log_softmax(-1) for part in rows.split(8)])

    def told(name, found, exact=None):
        nll = -found.gather(-1, rows[:, 1:, None]).mean().item()
        apart = "" if exact is None else f", divergence from f32 {(exact.exp() * (exact - found)).sum(-1).mean().item():.4f} nats"
        print(f"{name}: perplexity {torch.tensor(nll).exp().item():.2f}{apart}", flush=True)

    exact = chances()
    told("f32", exact)
    for group in (None, 192, 64, 32):
        for module in linears:
            module.weight.data = rounded(own[id(module.weight)] if id(module.weight) in own else module.weight.data, group)
        hooks = [module.register_forward_pre_hook(lambda _, args: (rounded(args[0], group),)) for module in linears]
        told(f"a scale for {group or 'a row'}", chances(), exact)
        for hook in hooks:
            hook.remove()


if __name__ == "__main__":
    main()
