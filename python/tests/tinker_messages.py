"""flow's messages to a trainer, for the tests of flow_tinker."""
import struct

import numpy

LORA = dict(rank=8, alpha=32.0, dropout=0.0, targets=["all-linear"])
STEP = dict(request="step", lr=1e-3, betas=[0.9, 0.999], eps=1e-8, weight_decay=0.01, weight_decay_of={}, max_grad_norm=0.0)


def opening(base, vocabulary, **options):
    return {**dict(request="open", base=base, adapter=None, lora=LORA, seed=7, head="language", vocabulary=vocabulary), **options}


def trace(rows, temperature=1.0, **options):
    """Asks for the log-probability of each response token; `rows` are pairs of a prompt and a response."""
    sequences = [[*prompt, *response[:-1]] for prompt, response in rows]
    at = [(i, len(prompt) + j - 1, token) for i, (prompt, response) in enumerate(rows) for j, token in enumerate(response)]
    numbers = [x for s in sequences for x in s] + [a[k] for k in range(3) for a in at]
    payload = struct.pack(f"<{len(numbers)}I", *numbers) + struct.pack(f"<{len(at)}f", *[temperature] * len(at))
    head = dict(request="trace", sequences=[len(s) for s in sequences], choices=len(at), gradient=True, entropy=False, reference=False)
    return {**head, **options}, payload


def logprobs(trainer, rows, **options):
    return numpy.frombuffer(trainer.answer(*trace(rows, **options))[1], "<f4")


def step(trainer, rows, by, **options):
    """One step by the gradient `by` of each response token; the answer, and the log-probabilities before it."""
    trainer.answer(dict(request="zero"), b"")
    found = logprobs(trainer, rows)
    trainer.answer(dict(request="back", entropy=False), by.astype("<f4").tobytes())
    return trainer.answer({**STEP, **options}, b"")[0], found
