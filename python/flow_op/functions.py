"""The decorators: they check a function's declaration and leave it callable as a plain function."""

from __future__ import annotations

import functools
import inspect
import json
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

from .chance import inherited
from .errors import Error
from .settings import Setting, settings, wrong
from .state import json_value

F = TypeVar("F", bound=Callable[..., Any])
NAMES = ("iteration", "task", "sample", "attempt", "turn", "phase")
"""The columns that name a row, in the order by which rows are sorted."""
DECORATORS = "@flow_op.columns(needs=[...], adds={...}) for a function that adds columns, @flow_op.rows(needs=[...]) for one that keeps, drops or makes rows, or @flow_op.loss() for the loss of tokens"


class Spec(NamedTuple):
    """What a decorator declares of a function."""

    form: str
    needs: Union[str, Tuple[str, ...]]
    adds: Dict[str, Any]
    ordered: bool
    state: Any
    settings: Dict[str, Setting]
    function: Callable[..., Any]

    def first_state(self) -> Any:
        """A copy of the state before the first iteration."""
        return json.loads(json.dumps(self.state))


def columns(function: Optional[F] = None, /, *, needs: Union[str, Sequence[str]] = (), adds: Optional[Mapping[str, Any]] = None,
            ordered: bool = False, state: Any = None) -> Callable[[F], F]:
    """Declares a function from rows to the columns that it adds, one value a row.

    `needs` names the columns that it reads (or "all"); the six columns that name a row are always there. `adds` has each
    new column with its Arrow type. `ordered` says that the order of the rows matters. `state` is a JSON value that lasts
    from one iteration to the next: the function takes a keyword `state` and returns `(result, state)`."""
    return decorator("columns", function, needs, adds or {}, ordered, state)


def rows(function: Optional[F] = None, /, *, needs: Union[str, Sequence[str]] = (), adds: Optional[Mapping[str, Any]] = None,
         ordered: bool = False, state: Any = None) -> Callable[[F], F]:
    """Declares a function from rows to rows: it keeps, drops, changes or makes them. The result has the six columns that
    name a row. The parameters are those of `columns`; `adds` may be left out."""
    return decorator("rows", function, needs, adds or {}, ordered, state)


def decorator(form: str, function: Optional[Callable[..., Any]], needs: Any, adds: Any, ordered: bool, state: Any) -> Callable[[F], F]:
    if function is not None:
        raise wrong(function, f"@flow_op.{form} needs parentheses: @flow_op.{form}(needs=[...], adds={{...}})")

    def decorate(function: F) -> F:
        if not inspect.isfunction(function):
            raise Error("signature", f"@flow_op.{form} is for a function, not for {function!r}")
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise wrong(function, f"`{function.__name__}` is {'a generator' if inspect.isgeneratorfunction(function) else 'async'}: write a function that returns its result")
        spec = Spec(form, needed(function, needs), added(function, form, adds), bool(ordered), initial(function, state),
                    settings(function, () if state is None else ("state",)), function)

        @functools.wraps(function)
        def plain(*arguments: Any, **keywords: Any) -> Any:
            with inherited():
                return function(*arguments, **keywords)

        plain.__flow_op__ = spec  # type: ignore[attr-defined]
        return plain  # type: ignore[return-value]

    return decorate


def needed(function: Callable[..., Any], needs: Any) -> Union[str, Tuple[str, ...]]:
    if needs == "all":
        return "all"
    if isinstance(needs, str) or not all(isinstance(name, str) for name in needs):
        raise wrong(function, f"`needs` of `{function.__name__}` is {needs!r}: write a list of columns' names, or \"all\"")
    return tuple(dict.fromkeys(needs))


def added(function: Callable[..., Any], form: str, adds: Any) -> Dict[str, Any]:
    from .arrow_types import TYPES, type_name  # imports pyarrow, which a user's file has

    if not isinstance(adds, Mapping):
        raise wrong(function, f"`adds` of `{function.__name__}` is {adds!r}: write a dict of names and Arrow types, such as {{\"advantage\": pa.float32()}}")
    if not adds and form == "columns":
        raise wrong(function, f"`{function.__name__}` adds no column: write adds={{\"derived_x\": pa.float32()}}, or use @flow_op.rows for a function that keeps or drops rows")
    for name, one in adds.items():
        if name in NAMES:
            raise wrong(function, f"`adds` of `{function.__name__}` has `{name}`, one of the columns that name a row ({', '.join(NAMES)}): they can't be added")
        if type_name(one) is None:
            raise wrong(function, f"column `{name}` of `{function.__name__}` has the type {one!s}, which rows can't have: write one of {', '.join(TYPES)}")
    return dict(adds)


def initial(function: Callable[..., Any], state: Any) -> Any:
    try:
        state = json_value(state, f"`state` of `{function.__name__}`", "signature")
    except Error as error:
        raise wrong(function, error.message) from None
    parameter = inspect.signature(function).parameters.get("state")
    if state is not None and (parameter is None or parameter.kind is not parameter.KEYWORD_ONLY):
        raise wrong(function, f"`{function.__name__}` has a state and no keyword for it: write `*, state` in its parameters")
    if state is None and parameter is not None:
        raise wrong(function, f"`{function.__name__}` takes `state`, and its decorator declares none: write state={{...}} there, or name the setting otherwise")
    return state


def spec_of(function: Any) -> Optional[Spec]:
    found = getattr(function, "__flow_op__", None)
    return found if isinstance(found, Spec) else None


def names_of(module: Mapping[str, Any]) -> List[str]:
    """The decorated functions of a module."""
    return sorted(name for name, one in module.items() if spec_of(one) is not None)
