"""Arguments of tools held against JSON Schema, with the package jsonschema and without."""

import importlib.util
import unittest
from unittest import mock

from flow_env.door import schema
from flow_env.door.schema import Schema
from flow_env.door.tools import WrongCall, mismatch

OPEN = {"type": "object"}
COMPOSED = {"type": "object", "anyOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": {"type": "string"}}, "required": ["b"]}]}
CLOSED = {"type": "object", "properties": {"a": {"type": ["integer", "null"]}, "b": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]}},
          "required": ["a"], "additionalProperties": False}
REFERRING = {"$defs": {"n": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}}, "properties": {"n": {"$ref": "#/$defs/n"}, "l": {"$ref": "#/$defs/loop"}, "far": {"$ref": "http://127.0.0.1:9/x"}}}
NESTED = {"properties": {"o": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}, "e": {"enum": ["x", 1, None]}}}


class Arguments(unittest.TestCase):
    def told(self, given, arguments):
        try:
            mismatch(given, arguments)
        except WrongCall as wrong:
            return str(wrong)

    def test_what_any_reader_of_json_schema_says(self):
        for given, arguments, wanted in [
            (OPEN, {"anything": 1}, None), ({}, {"x": [1]}, None), (True, {"x": 1}, None), (COMPOSED, {"a": 1}, None), (COMPOSED, {"b": "x", "more": 1}, None),
            (CLOSED, {"a": 1}, None), (CLOSED, {"a": None, "b": [1]}, None), (CLOSED, {"a": 1.0}, None), (CLOSED, {}, "the argument `a` is missing"),
            (CLOSED, {"a": "1"}, "the argument `a` is no integer or null"), (CLOSED, {"a": True}, "the argument `a` is no integer or null"), (CLOSED, {"a": 1.5}, "the argument `a` is no integer or null"),
            (CLOSED, {"a": 1, "b": 7}, "the argument `b` is no array or string"), (CLOSED, {"a": 1, "c": 7}, "there is no argument `c`; there are a, b"),
            ({"additionalProperties": False}, {"c": 1}, "there is no argument `c`; there are none"), ({"properties": {"a": {}}}, {"a": 1, "b": 2}, None),
            ({"properties": {"a": {"type": "number"}}}, {"a": "x"}, "the argument `a` is no number"), ({"properties": {"a": {"type": "number"}}}, {"a": 3}, None),
            ({"properties": [], "required": "a"}, {"a": 1}, None), ({"properties": {"a": 3}}, {"a": 1}, None), ({"properties": {"a": {"type": "no such"}}}, {"a": 1}, None),
            (REFERRING, {"n": 1, "l": [1], "far": 2}, None), (REFERRING, {"n": "1"}, "the argument `n` is no integer"),
            ({"additionalProperties": {"type": "integer"}}, {"z": "1"}, "the argument `z` is no integer"), ({"patternProperties": {"^x": {}}, "additionalProperties": False}, {"xa": 1}, None),
        ]:
            self.assertEqual(self.told(given, arguments), wanted, (given, arguments))
            with mock.patch.object(schema, "validators", None):
                self.assertEqual(self.told(given, arguments), wanted, (given, arguments))

    @unittest.skipUnless(importlib.util.find_spec("jsonschema"), "the package jsonschema isn't here")
    def test_the_rest_is_the_packages(self):
        self.assertRegex(self.told(COMPOSED, {}), "the arguments: .*is (a required property|not valid under any)")
        self.assertEqual(self.told(NESTED, {"o": {"n": 1}}), "the argument `o.n`: 1 is less than the minimum of 3")
        self.assertEqual(self.told(NESTED, {"o": {}}), "the argument `o`: 'n' is a required property")
        self.assertRegex(self.told(CLOSED, {"a": 1, "b": [1, "x"]}), r"the argument `b(\[1\])?`")
        self.assertRegex(self.told(NESTED, {"e": "y"}), "the argument `e`: 'y' is not one of")
        # A pattern that would take for ever is left to the tool.
        self.assertIsNone(self.told({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 60 + "!"}))

    def test_a_schema_that_grows_by_its_references_takes_no_longer(self):
        laughs = {"$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(50)}, "properties": {"a": {"$ref": "#/$defs/d0"}}}
        self.assertEqual(Schema(laughs).argument("a"), schema.ALL)
        self.assertEqual(len(list(Schema({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#"}] * 50}}}).objects())), 3)
