"""JSON Schema of a tool's arguments: which types a value may have, and what is wrong with arguments.

Names and types are read here; the rest is the package `jsonschema`'s, where the environment has it."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Iterator, List, Mapping, Optional

try:
    from jsonschema import validators
    from jsonschema.exceptions import best_match
    from referencing import Registry
except ImportError:
    validators = None

Types = FrozenSet[str]
ALL: Types = frozenset(("string", "integer", "number", "boolean", "array", "object", "null"))
FEW = 3
"""A value of more types than these isn't described by naming them."""


class Schema:
    """The schema of an object of arguments."""

    def __init__(self, root: Any) -> None:
        self.root: Any = root if isinstance(root, dict) else {}
        self.known: Dict[int, Types] = {}

    def types(self, schema: Any) -> Types:
        """The types that a value may have by a schema within this one; all where it says nothing."""
        if id(schema) in self.known or not isinstance(schema, dict):
            return self.known.get(id(schema), ALL)
        self.known[id(schema)] = ALL  # of a schema that refers to itself
        found = ALL
        if isinstance(schema.get("type"), (str, list)):
            named = [schema["type"]] if isinstance(schema["type"], str) else [each for each in schema["type"] if isinstance(each, str)]
            found = frozenset(named) & ALL or ALL
            found |= {"integer"} if "number" in found else set()
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list):
            found &= frozenset(name for value in values for name in names_of(value))
        if "$ref" in schema:
            found &= self.types(self.target(schema["$ref"]))
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list) and schema[word]:
                found &= frozenset().union(*map(self.types, schema[word]))
        for part in schema["allOf"] if isinstance(schema.get("allOf"), list) else []:
            found &= self.types(part)
        self.known[id(schema)] = found | {"null"} if schema.get("nullable") is True else found
        return self.known[id(schema)]

    def target(self, reference: Any) -> Any:
        """The schema that `#/...` names, or `#`, which is the whole."""
        if reference == "#":
            return self.root
        at: Any = self.root
        steps = reference[2:].split("/") if isinstance(reference, str) and reference.startswith("#/") else []
        for step in steps:
            step = step.replace("~1", "/").replace("~0", "~")
            at = at.get(step) if isinstance(at, dict) else at[int(step)] if isinstance(at, list) and step.isdigit() and int(step) < len(at) else None
        return at if steps else None

    def objects(self) -> Iterator[Mapping[str, Any]]:
        """This schema and those that it is composed of."""
        waiting: List[Any] = [self.root]
        seen = set()
        while waiting:
            schema = waiting.pop()
            if isinstance(schema, dict) and id(schema) not in seen:
                seen.add(id(schema))
                yield schema
                waiting.append(self.target(schema.get("$ref")))
                for word in ("anyOf", "oneOf", "allOf"):
                    waiting += schema[word] if isinstance(schema.get(word), list) else []

    def argument(self, name: str) -> Types:
        """The types that an argument may have."""
        found = [schema["properties"][name] for schema in self.objects() if isinstance(schema.get("properties"), dict) and name in schema["properties"]]
        found = found or [schema["additionalProperties"] for schema in self.objects() if isinstance(schema.get("additionalProperties"), dict)]
        return frozenset().union(*map(self.types, found)) if found else ALL

    def wrong(self, arguments: Mapping[str, Any]) -> Optional[str]:
        """What is wrong with arguments."""
        return wrong_names(self.root, arguments, open_to=self.root.get("additionalProperties") is not False or "patternProperties" in self.root) \
            or self.wrong_types(arguments) or self.wrong_else(arguments)

    def wrong_types(self, arguments: Mapping[str, Any]) -> Optional[str]:
        for name, value in arguments.items():
            types = self.argument(name)
            if not types & names_of(value):
                few = sorted(types - {"integer"} if "number" in types else types)
                return f"the argument `{name}` is no {' or '.join(few)}" if 0 < len(few) <= FEW else f"the argument `{name}` has the wrong type"
        return None

    def wrong_else(self, arguments: Mapping[str, Any]) -> Optional[str]:
        """What `jsonschema` finds. Nothing is fetched, and a schema that it can't use is left to the tool."""
        if validators is None:
            return None
        try:
            # A pattern may take for ever on a text that a policy writes. The tool itself will hold it.
            kind = validators.validator_for(self.root, validators.Draft202012Validator)
            kind = validators.extend(kind, {"pattern": lambda *_: (), "patternProperties": lambda *_: ()})
            error = best_match(kind(self.root, registry=Registry()).iter_errors(arguments))
        except Exception:
            return None
        if error is None:
            return None
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)[1:]
        return (f"the argument `{place}`: " if place else "the arguments: ") + str(error.message)[:300]


def wrong_names(schema: Mapping[str, Any], arguments: Mapping[str, Any], open_to: bool) -> Optional[str]:
    """Which argument is missing or, unless further ones may be given, unknown."""
    required, properties = schema.get("required"), schema.get("properties")
    missing = [name for name in required if name not in arguments] if isinstance(required, list) else []
    if missing:
        return f"the argument `{missing[0]}` is missing"
    known = properties if isinstance(properties, dict) else {}
    unknown = [] if open_to else [name for name in arguments if name not in known]
    return f"there is no argument `{unknown[0]}`; there are {', '.join(known) or 'none'}" if unknown else None


def names_of(value: Any) -> Types:
    """The types that a value has: 1 and 1.0 are integers and numbers."""
    if value is None:
        return frozenset(("null",))
    if isinstance(value, bool):
        return frozenset(("boolean",))
    if isinstance(value, (int, float)):
        return frozenset(("number", "integer") if isinstance(value, int) or value.is_integer() else ("number",))
    return frozenset(("string" if isinstance(value, str) else "array" if isinstance(value, list) else "object",))
