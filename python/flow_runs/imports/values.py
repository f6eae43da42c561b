"""Values of JSON: read strictly, of the types that a format has, and spelled in one way."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from typing import Any

# Reads a value of a type.
Kind = Callable[[Any], Any]
REQUIRED = object()


class Bad(ValueError):
    """A line that can't be read: why."""


def whole_number(text: str) -> int | float:
    """Beyond 64 bits it is a number like those with a point."""
    number = int(text) if len(text) < 21 else math.inf
    return number if -(1 << 63) <= number < 1 << 64 else point(text)


def point(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise Bad(f"number out of range: {text[:40]}")
    return number


def constant(text: str) -> float:
    raise Bad(f"{text} is no JSON")


DECODER = json.JSONDecoder(parse_int=whole_number, parse_float=point, parse_constant=constant)


def parsed(line: bytes) -> Any:
    try:
        return DECODER.decode(line.decode())
    except RecursionError as error:
        raise Bad("recursion limit exceeded") from error


def spelled(value: Any, ordered: bool = False) -> str:
    """The value as flow spells JSON; `ordered` with its names in their order."""
    if isinstance(value, dict):
        items = sorted(value.items()) if ordered else value.items()
        return "{" + ",".join(f"{spelled(name)}:{spelled(of, ordered)}" for name, of in items) + "}"
    if isinstance(value, list):
        return "[" + ",".join(spelled(of, ordered) for of in value) + "]"
    if isinstance(value, float):
        return number(value)
    return json.dumps(value, ensure_ascii=False)


def number(value: float) -> str:
    """From 1e-5 to below 1e16 without an exponent."""
    if not math.isfinite(value):
        return "null"
    text = repr(value)
    mantissa, _, power = text.partition("e")
    if not power:
        return text
    if int(power) == -5:
        return ("-" if value < 0 else "") + "0.0000" + mantissa.replace(".", "").lstrip("-")
    return f"{mantissa}e{int(power):+d}"


def single(value: float) -> float:
    """The nearest number of 32 bits, infinite where they can't hold it."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]  # type: ignore[no-any-return]
    except OverflowError:
        return math.copysign(math.inf, value)


def at(value: Any, name: str) -> Any:
    """What an object has under a name; none of anything else."""
    return value.get(name) if isinstance(value, dict) else None


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def of(kind: type | tuple[type, ...], name: str) -> Kind:
    def read(value: Any) -> Any:
        if not isinstance(value, kind) or isinstance(value, bool) and kind is not bool:
            raise Bad(f"invalid type: {spelled(value)[:40]}, expected {name}")
        return value

    return read


def below(end: int, name: str) -> Kind:
    integer = of(int, name)

    def read(value: Any) -> Any:
        if not 0 <= integer(value) < end:
            raise Bad(f"invalid value: integer `{value}`, expected {name}")
        return value

    return read


def anything(value: Any) -> Any:
    return value


text, flag = of(str, "a string"), of(bool, "a boolean")
count, small = below(1 << 64, "u64"), below(1 << 32, "u32")
real = of((int, float), "a number")


def narrow(value: Any) -> float:
    narrowed = single(float(real(value)))
    if math.isinf(narrowed):
        raise Bad(f"{value} is no number of 32 bits")
    return narrowed


def maybe(kind: Kind) -> Kind:
    return lambda value: None if value is None else kind(value)


def many(kind: Kind) -> Kind:
    return lambda value: [kind(item) for item in of(list, "a sequence")(value)]


def mapping(kind: Kind) -> Kind:
    return lambda value: {name: kind(of) for name, of in sorted(of_object(value).items())}


of_object = of(dict, "a map")


def record(**fields: tuple[Kind, Any]) -> Kind:
    """An object with these fields, each of a type and with a value where it isn't there."""

    def read(value: Any) -> Any:
        value, made = of_object(value), {}
        for name, (kind, default) in fields.items():
            if name in value:
                made[name] = kind(value[name])
            elif default is REQUIRED:
                raise Bad(f"missing field `{name}`")
            else:
                made[name] = default
        return made

    return read


def reward(value: float) -> float:
    """A reward as a row has it."""
    narrowed = single(value)
    if not math.isfinite(narrowed):
        raise Bad(f"a reward or an advantage of {value} is no number of 32 bits")
    return narrowed


def mean(values: list[float | None]) -> float | None:
    """The mean of the advantages of tokens, as a row has it."""
    known = [value for value in values if value is not None]
    return reward(summed(known) / len(known)) if known else None


def summed(values: list[float]) -> float:
    total = -0.0
    for value in values:
        total += value
    return total


def checked(logprobs: list[float | None], length: int, where: str) -> list[float] | None:
    """Log-probabilities of sampled tokens, as far as they are there."""
    if logprobs and len(logprobs) != length:
        raise Bad(where.format(len(logprobs), length))
    known = [value for value in logprobs if value is not None]
    if len(known) != len(logprobs) or len(known) != length:
        return None
    wrong = next((value for value in known if not math.isfinite(value) or value > single(1e-3)), None)
    if wrong is not None:
        raise Bad(f"{wrong:g} is no log-probability of a sampled token")
    return known
