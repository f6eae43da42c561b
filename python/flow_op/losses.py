"""Losses of tokens: a function in torch, jax or numpy as the surrogate of an update.

    @flow_op.loss(by="torch")
    def clip(new, old, acted, advantage, entropy, rows, *, low: float = 0.2, high: float = 0.2):
        ratio = (new - old).exp()
        return -torch.minimum(advantage * ratio, advantage * ratio.clamp(1 - low, 1 + high))

Each of the first five is a vector with one value a token: log-probabilities under the weights that learn, those that a
ratio divides by, those recorded when the token was drawn, advantages, entropies in nats. flow multiplies each token's loss
by its weight and takes their sum as the loss of the step, so a loss of a token may depend on tokens of its own row alone.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

from .chance import inherited
from .errors import Error
from .functions import Spec
from .settings import settings, wrong

F = TypeVar("F", bound=Callable[..., Any])
TOKENS = ("new", "old", "acted", "advantage", "entropy", "rows")
"""The parameters of a loss before its settings."""
LIBRARIES = ("torch", "jax", "numpy")
CLOSE = 1e-4
"""How far a loss row by row may be from the same loss of several rows, by the largest of its values."""


class LossSpec(Spec):
    """What `loss` declares: a function, the library of its vectors, and whether it reads entropies."""

    by: str
    entropy: bool
    stopped: bool


def loss(function: Optional[F] = None, /, *, by: str = "torch", entropy: bool = False, stopped: bool = False) -> Callable[[F], F]:
    """Declares a function from tokens to their losses. `by` is the library that it computes with: torch and jax derive the
    gradient; a numpy function returns `(loss, slope)`, where `slope` is the derivative of `(rows.weight * loss).sum()` by
    `new`, or a dict of them. `entropy` says that the gradient by the entropies counts, too.

    The first call of a numpy function holds its slope against central differences. `stopped` says that it stops a gradient
    on purpose, as CISPO does, so that the two differ.

    The result is the vector of losses, or a dict of `loss` and `clipped`: whether the loss holds a token back, which
    becomes the figure `clip_fraction`."""
    if function is not None:
        raise wrong(function, "@flow_op.loss needs parentheses: @flow_op.loss(by=\"torch\")")
    if by not in LIBRARIES:
        raise Error("signature", f"`by` of @flow_op.loss is {by!r}: write one of {', '.join(LIBRARIES)}")

    def decorate(function: F) -> F:
        names = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.KEYWORD_ONLY]
        if tuple(names) != TOKENS:
            raise wrong(function, f"`{function.__name__}` takes ({', '.join(names)}): a loss takes ({', '.join(TOKENS)}, *, settings...)")
        spec = LossSpec("loss", (), {}, False, None, settings(function, (), TOKENS), function)
        spec.by, spec.entropy, spec.stopped = by, bool(entropy), bool(stopped)

        @functools.wraps(function)
        def plain(*arguments: Any, **keywords: Any) -> Any:
            with inherited():
                return function(*arguments, **keywords)

        plain.__flow_op__ = spec  # type: ignore[attr-defined]
        return plain  # type: ignore[return-value]

    return decorate


class Rows:
    """Which row each token is in, for losses that compare the tokens of a row."""

    def __init__(self, library: str, index: Any, part: Any, weight: Any, count: int) -> None:
        self.library, self.index, self.part, self.weight, self.count = library, index, part, weight, count
        """The row of each token, from 0; 1 of a token that takes part, else 0; what the token's loss is multiplied by."""

    def sum(self, values: Any) -> Any:
        """The sum over the tokens of each row that take part, at each of its tokens."""
        return self.sums(values * self.part)[self.index]

    def mean(self, values: Any) -> Any:
        """The mean over the tokens of each row that take part, at each of its tokens."""
        return (self.sums(values * self.part) / self.sums(self.part))[self.index]

    def sums(self, values: Any) -> Any:
        if self.library == "torch":
            import torch

            return torch.zeros(self.count, dtype=values.dtype).index_add(0, self.index, values)
        if self.library == "jax":
            import jax

            return jax.ops.segment_sum(values, self.index, self.count)
        import numpy

        return numpy.bincount(self.index, weights=values, minlength=self.count).astype(values.dtype)


def compute(spec: LossSpec, tokens: Dict[str, Any], given: Dict[str, Any], check: bool) -> Dict[str, Any]:
    """The losses and their gradients, each one value a token. `tokens` are numpy vectors by name."""
    made = one_pass(spec, tokens, given)
    if check:
        alone(spec, tokens, given, made)
        if spec.by == "numpy" and not spec.stopped:
            differences(spec, tokens, given, made)
    return made


def one_pass(spec: LossSpec, tokens: Dict[str, Any], given: Dict[str, Any]) -> Dict[str, Any]:
    import numpy

    count = rows_of(tokens)
    derive = {"torch": by_torch, "jax": by_jax, "numpy": by_numpy}[spec.by]
    made = {name: numpy.asarray(one) for name, one in derive(spec, tokens, given, count).items() if one is not None}
    for name, values in made.items():
        if values.shape != tokens["new"].shape:
            raise Error("result", f"`{name}` of the loss has the shape {values.shape} for {len(tokens['new'])} tokens: give one value a token")
    return made


def rows_of(tokens: Dict[str, Any]) -> int:
    return int(tokens["row"].max()) + 1 if len(tokens["row"]) else 0


def by_torch(spec: LossSpec, tokens: Dict[str, Any], given: Dict[str, Any], count: int) -> Dict[str, Any]:
    import torch

    vector = {name: torch.from_numpy(one.copy()) for name, one in tokens.items()}
    rows = Rows("torch", vector["row"].long(), vector["part"], vector["weight"], count)
    leaves = [vector["new"].requires_grad_(), vector["entropy"].requires_grad_()]
    result, clipped = split(spec.function(*(vector[name] for name in TOKENS[:5]), rows, **given))
    if not isinstance(result, torch.Tensor):
        raise Error("result", f"the loss is a {type(result).__name__}, and `by=\"torch\"` means a tensor")
    if not result.requires_grad:
        raise Error("result", "the loss doesn't depend on `new`, so nothing can be learnt from it: don't detach `new`, and don't compute under no_grad")
    by = torch.autograd.grad((rows.weight * result).sum(), leaves, allow_unused=True)
    numbers = [None if one is None else one.numpy() for one in by]
    unread(spec, numbers[1])
    zero = torch.zeros_like(result).detach().numpy()
    return {"loss": result.detach().numpy(), "by_new": zero if numbers[0] is None else numbers[0],
            "by_entropy": (zero if numbers[1] is None else numbers[1]) if spec.entropy else None, "clipped": clipped}


def by_jax(spec: LossSpec, tokens: Dict[str, Any], given: Dict[str, Any], count: int) -> Dict[str, Any]:
    import jax
    import jax.numpy as jnp

    vector = {name: jnp.asarray(one) for name, one in tokens.items()}
    rows = Rows("jax", vector["row"].astype(int), vector["part"], vector["weight"], count)

    def whole(new: Any, entropy: Any) -> Tuple[Any, Any]:
        result, clipped = split(spec.function(new, vector["old"], vector["acted"], vector["advantage"], entropy, rows, **given))
        return (rows.weight * result).sum(), (result, clipped)

    by, (result, clipped) = jax.grad(whole, argnums=(0, 1), has_aux=True)(vector["new"], vector["entropy"])
    unread(spec, by[1])
    return {"loss": result, "by_new": by[0], "by_entropy": by[1] if spec.entropy else None, "clipped": clipped}


def by_numpy(spec: LossSpec, tokens: Dict[str, Any], given: Dict[str, Any], count: int) -> Dict[str, Any]:
    rows = Rows("numpy", tokens["row"].astype("int64"), tokens["part"], tokens["weight"], count)
    result = spec.function(*(tokens[name] for name in TOKENS[:5]), rows, **given)
    if isinstance(result, tuple) and len(result) == 2:
        result = {"loss": result[0], "slope": result[1]}
    if not isinstance(result, dict) or not {"loss", "slope"} <= set(result):
        raise Error("result", "a loss in numpy returns (loss, slope): the losses, and the derivative of (rows.weight * loss).sum() by `new`")
    if spec.entropy and "entropy_slope" not in result:
        raise Error("result", "the loss says that it reads entropies, and its result lacks `entropy_slope`: the derivative of (rows.weight * loss).sum() by `entropy`")
    return {"loss": result["loss"], "by_new": result["slope"], "by_entropy": result.get("entropy_slope") if spec.entropy else None, "clipped": result.get("clipped")}


def unread(spec: LossSpec, by_entropy: Any) -> None:
    """Refuses a gradient by the entropies that nothing would learn from."""
    import numpy

    if not spec.entropy and by_entropy is not None and numpy.any(numpy.asarray(by_entropy) != 0):
        raise Error("result", "the loss depends on `entropy`, and its gradient by the entropies wouldn't count: say entropy=True in the decorator, or stop the gradient "
                              "(entropy.detach(), jax.lax.stop_gradient(entropy))")


def differences(spec: LossSpec, tokens: Dict[str, Any], given: Dict[str, Any], made: Dict[str, Any]) -> None:
    """The slope along three directions, beside central differences of the weighted sum of the losses in float64."""
    import numpy

    exact = {name: values if name == "row" else values.astype("float64") for name, values in tokens.items()}
    mix = numpy.random.default_rng(0)
    for _ in range(3):
        way = mix.choice([-1.0, 1.0], len(exact["new"]))
        sums = []
        for step in (1e-5, -1e-5):
            moved = one_pass(spec, {**exact, "new": exact["new"] + step * way}, given)
            sums.append(float((exact["weight"] * moved["loss"].astype("float64")).sum()))
        found, said = (sums[0] - sums[1]) / 2e-5, float((made["by_new"].astype("float64") * way).sum())
        size = float(numpy.abs(made["by_new"].astype("float64")).sum())
        if abs(found - said) > 0.02 * max(abs(found), size) + 1e-5:
            raise Error("differs", f"the slope isn't the derivative of (rows.weight * loss).sum() by `new`: along one direction it is {said:.5g}, and central differences of the "
                                   f"losses give {found:.5g}. Is rows.weight in it, and the sign right? A function that stops a gradient on purpose says stopped=True")


def split(result: Any) -> Tuple[Any, Any]:
    """The losses and what is clipped."""
    if isinstance(result, dict):
        if "loss" not in result:
            raise Error("result", f"the loss returns a dict of {', '.join(result)}: it lacks `loss`")
        return result["loss"], result.get("clipped")
    return result, None


def alone(spec: LossSpec, tokens: Dict[str, Any], given: Dict[str, Any], made: Dict[str, Any]) -> None:
    """Each of the first rows by itself must give what it gave among others: passes cut a step's rows anywhere."""
    import numpy

    for row in range(min(8, rows_of(tokens))):
        own = tokens["row"] == row
        part = {name: values[own] for name, values in tokens.items()}
        part["row"] = numpy.zeros_like(part["row"])
        for name, values in one_pass(spec, part, given).items():
            before = made[name][own]
            largest = float(numpy.abs(before.astype("float64")).max(initial=0.0))
            if not numpy.allclose(values.astype("float64"), before.astype("float64"), rtol=0, atol=CLOSE * largest + 1e-7, equal_nan=True):
                what = {"by_new": "the gradient", "by_entropy": "the gradient by the entropies"}.get(name, f"`{name}`")
                raise Error("differs", f"{what} of a row's tokens is another among other rows than by itself, and a step's rows are cut into passes: use `rows.mean` and "
                                       "`rows.sum` in place of means and sums over all tokens, and no chance")


def answer(spec: Any, request: Dict[str, Any], table: Any) -> Any:
    """The answer to a request: a batch of the losses and gradients."""
    import numpy
    import pyarrow as pa

    from .settings import values as fitted

    if not isinstance(spec, LossSpec):
        raise Error("protocol", "the function computes no loss")
    tokens = {name: table.column(name).to_numpy() for name in table.column_names}
    made = compute(spec, tokens, fitted(spec.settings, request.get("settings") or {}), bool(request.get("check")))
    columns: List[Tuple[str, Any]] = [(name, pa.array(made[name].astype("float32"))) for name in ("loss", "by_new", "by_entropy") if name in made]
    for name, values in columns:
        bad = numpy.flatnonzero(~numpy.isfinite(made[name]))
        if len(bad):
            at, new = int(bad[0]), float(tokens["new"][bad[0]])
            raise Error("result", f"`{name}` of the loss is {made[name][at]} for a token (log-probability {new:.4g}, old {float(tokens['old'][at]):.4g}, "
                                  f"advantage {float(tokens['advantage'][at]):.4g})")
    if "clipped" in made:
        columns.append(("clipped", pa.array(made["clipped"].astype(bool))))
    return pa.RecordBatch.from_arrays([values for _, values in columns], names=[name for name, _ in columns])
