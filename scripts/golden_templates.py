#!/usr/bin/env python3
"""What Python's Jinja makes of small templates, written down for `cargo test`: tests/golden/templates.json. The settings are those of
transformers' `apply_chat_template`: a sandbox, `trim_blocks` and `lstrip_blocks`, loop controls, and its own `tojson`. Needs jinja2 (3.1)."""

import json
import pathlib

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

FILE = pathlib.Path(__file__).parent.parent / "tests/golden/templates.json"

SCHEMA = {
    "type": "function",
    "function": {
        "name": "scale", "description": "It's \"so\": é, <b>&\n",
        "parameters": {
            "type": "object", "required": ["by"],
            "properties": {
                "by": {"type": ["number", "null"], "minimum": 1e-7, "maximum": 1e22, "default": 1.0, "multipleOf": 0.1},
                "n": {"type": "integer", "minimum": -9007199254740993, "maximum": 18446744073709551615, "enum": [0, -1, 1e16, 1e15]},
                "to": {"anyOf": [{"type": "string"}, {"type": "array", "items": {}}], "default": None},
            },
            "additionalProperties": False,
        },
    },
}
VALUES = {
    "none": None, "yes": True, "no": False, "zero": 0, "seven": 7, "minus": -3, "half": 0.5, "three": 3.0, "tiny": 1e-7, "huge": 1e22,
    "text": "abc", "upper": "ABC", "empty": "", "digits": "12", "list": [1, 2], "nothing": [], "pairs": {"a": 1}, "bare": {},
}
NUMBERS = [0.0, -0.0, 1.0, 1.5, 0.1, 1e-4, 1e-5, 1e-7, 1.25e-9, 1e15, 1e16, 123456789012345680.0, 1e21, 1e22, 1e100, 5e-324,
           1.7976931348623157e308, 3.141592653589793, 100, -7, 2 ** 53, -2 ** 63, 2 ** 64 - 1]
TESTS = ["boolean", "callable", "defined", "undefined", "none", "number", "integer", "float", "string", "mapping", "iterable", "sequence",
         "true", "false", "lower", "upper", "escaped"]
NUMERIC = ["odd", "even", "divisibleby 3"]


def cases():
    yield "{{ v.tool | tojson }}"
    yield "{{ v.tool | tojson(indent=2) }}"
    yield "{{ v.tool | tojson(separators=(',', ':'), sort_keys=true) }}"
    yield "{{ v.tool }}"
    yield "{{ v.tool.function.parameters | string }}"
    for place in range(len(NUMBERS)):
        yield f"{{{{ v.numbers[{place}] }}}} {{{{ v.numbers[{place}] | tojson }}}} {{{{ v.numbers[{place}] | string }}}} {{{{ [v.numbers[{place}]] }}}}"
    for test in TESTS:
        for name in [*VALUES, "missing"]:
            yield f"{{{{ v.{name} is {test} }}}}"
    for test in TESTS:
        yield f"{{{{ missing is {test} }}}}"
        if test not in ("lower", "upper"):
            yield f"{{{{ range is {test} }}}}"
    for test in NUMERIC:
        for name in ["zero", "seven", "minus", "three", "half", "yes", "text", "none"]:
            yield f"{{{{ v.{name} is {test} }}}}"
    yield "{{ v.seven is divisibleby 0 }}"
    for test in ["eq 7", "equalto 7", "== 7", "ne 7", "lt 8", "lessthan 8", "le 7", "gt 6", "greaterthan 6", "ge 7", "in [1, 7]", "sameas 7"]:
        yield f"{{{{ v.seven is {test} }}}} {{{{ v.seven is not {test} }}}}"
    for text in ["{% if v.none is iterable and v.none | length > 0 %}a{% else %}b{% endif %}",
                 "{% if tools is iterable and tools | length > 0 %}a{% else %}b{% endif %}",
                 "{{ (1, 2) }} {{ (1,) }} {{ [] }} {{ {} }} {{ [none, true, 'a', \"it's\", 'say \"so\"', 'a\\nb'] }}",
                 "{{ 7 / 2 }} {{ 6 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 1e-7 }} {{ 0.00001 }} {{ 1e3 }}",
                 "{{ 'a:b:c'.partition(':') }} {{ 'a:b:c'.rpartition(':')[0] }} {{ 'abc'.partition(':') }} {{ 'a:b'.partition(':')[2] }}",
                 "{{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ 'abc'.removeprefix('x') }}",
                 "{{ 'a b/c?é=1&~_.-' | urlencode }} {{ {'a b': 'c/d', 'e': 1} | urlencode }} {{ [('a', 'é'), ('b', ' ')] | urlencode }} {{ 7 | urlencode }}",
                 "{{ 'one two, three_four 5-6' | wordcount }} {{ '' | wordcount }} {{ 'é ü' | wordcount }}",
                 "{{ '%s is %d' | format('a', 3) }} {{ '%.2f' | format(2.5) }}",
                 "{{ none }} {{ true }} {{ missing }}|{{ v.missing }}|{{ 'a' ~ 1 ~ none ~ true }}",
                 "a\r\nb\r{% if true %}\r\nc\r\n{% endif %}\r\nd\r\n", "{{ 'a\r\nb' }}|{# x\r\n #}\r\n{{ 1 }}\n\n", "a\n\n", "a\r\n", "a\r",
                 "{% for a in [1, 2, 3] %}{% if a == 2 %}{% continue %}{% endif %}{{ a }}{{ loop.index }}{% endfor %}",
                 "{{ range is callable }} {{ v.pairs.items is callable }} {% macro m() %}{% endmacro %}{{ m is callable }} {{ namespace is callable }}"]:
        yield text


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def main():
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = tojson
    given = {"v": {"tool": SCHEMA, "numbers": NUMBERS, **VALUES}}
    made = []
    for text in cases():
        try:
            made.append([text, environment.from_string(text).render(**given, messages=[], tools=None, documents=None, add_generation_prompt=True)])
        except (jinja2.TemplateError, TypeError, ZeroDivisionError):
            made.append([text, None])
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in made)
    FILE.write_text(f'{{"jinja2": "{jinja2.__version__}",\n"given": {json.dumps(given, ensure_ascii=False)},\n"cases": [\n{lines}\n]}}\n', encoding="utf-8")


main()
