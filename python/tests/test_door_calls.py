"""Calls of tools in what a policy wrote, by family; and conversations brought to one form."""

import unittest

from flow_env.door.ask import assistant, settled, tool_call
from flow_env.door.calls import parse

TOOLS = [{"function": {"name": name, "parameters": {"properties": {"n": {"type": "integer"}, "s": {"type": "string"}, "l": {"type": "array"}}}}}
         for name in ("add", "get_weather")]


class Parsing(unittest.TestCase):
    def test_families(self):
        one = [("add", {"n": 1})]
        for text, content, calls in [
            ('<tool_call>\n{"name": "add", "arguments": {"n": 1}}\n</tool_call>', "", one),
            ('Hm. <tool_call>{"name": "add", "arguments": "{\\"n\\": 1}"}</tool_call> Done.', "Hm.  Done.", one),
            ('<tool_call>{"name": "add", "arguments": {"n": 1}}', "", one),  # the end of the text closes it
            ('<tool_call>{"name": "add", "arguments": {"n": 1}}</tool_call>\n<tool_call>{"name": "get_weather"}</tool_call>', "", [*one, ("get_weather", {})]),
            ("<tool_call>\n<function=add>\n<parameter=n>\n1\n</parameter>\n<parameter=s>\n1\n2\n</parameter>\n<parameter=l>\n[1]\n</parameter>\n</function>\n</tool_call>", "",
             [("add", {"n": 1, "s": "1\n2", "l": [1]})]),
            ("So <function=add><parameter=n>one</parameter></function>", "So", [("add", {"n": "one"})]),
            ('{"name": "add", "parameters": {"n": 1}}', "", one),
            ('<|python_tag|>{"name": "add", "parameters": {"n": 1}}; {"name": "get_weather", "parameters": {}}', "", [*one, ("get_weather", {})]),
            ('Look: [TOOL_CALLS][{"name": "add", "arguments": {"n": 1}}]', "Look:", one),
            ('[TOOL_CALLS]add[ARGS]{"n": 1}[TOOL_CALLS]get_weather[CALL_ID]ab[ARGS]{}', "", [*one, ("get_weather", {})]),
        ]:
            self.assertEqual(parse(text, TOOLS), (content, calls, True), text)

    def test_what_is_no_call_stays_text_verbatim(self):
        for text in ['<tool_call>{"name": "add", "argum</tool_call> ', ' <tool_call>{"name": "fly", "arguments": {}}</tool_call>', "<tool_call>[1]</tool_call>",
                     "<function=fly></function>", "<function=add>loose</function>", "[TOOL_CALLS][1]", "[TOOL_CALLS]add[ARGS]{", "<|python_tag|>print(1)",
                     '<tool_call>{"name": "add", "arguments": [1]}</tool_call>', "<tool_call>" + "[" * 100_000 + "</tool_call>"]:
            self.assertEqual(parse(text, TOOLS), (text, [], False), text[:80])
        for text in ["  plain ", '{"name": "fly"}', "7", "[]", "", "<think>add</think>"]:
            self.assertEqual(parse(text, TOOLS), (text, [], True), text)

    def test_a_call_beside_a_broken_one(self):
        broken = "<tool_call>{</tool_call>"
        self.assertEqual(parse(broken + '<tool_call>{"name": "add"}</tool_call>', TOOLS), (broken, [("add", {})], False))

    def test_without_tools_nothing_is_a_call(self):
        text = '<tool_call>{"name": "add"}</tool_call>'
        self.assertEqual(parse(text, []), (text, [], True))

    def test_strange_schemas(self):
        for parameters in ({"properties": []}, {"properties": {"n": 3}}, {"properties": {"n": {"type": ["integer", "null"]}}}, {}):
            text = "<function=add><parameter=n>1</parameter></function>"
            self.assertEqual(parse(text, [{"function": {"name": "add", "parameters": parameters}}])[1][0][0], "add")


class Settling(unittest.TestCase):
    def roles(self, messages):
        return [(message["role"], message["content"]) for message in settled(messages)]

    def test_a_system_message_in_the_middle_becomes_a_reminder(self):
        def say(role, content):
            return {"role": role, "content": content}
        r = "<system-reminder>\nr\n</system-reminder>"
        for given, wanted in [
            ([say("system", "a"), say("system", "b"), say("user", "u")], [("system", "a\n\nb"), ("user", "u")]),
            ([say("user", "u"), say("system", "r"), say("assistant", "x"), say("user", "v")], [("user", "u\n" + r), ("assistant", "x"), ("user", "v")]),
            ([say("user", "u"), say("assistant", "x"), say("system", "r"), say("user", "v")], [("user", "u"), ("assistant", "x"), ("user", r + "\nv")]),
            ([say("user", "u"), say("assistant", "x"), say("system", "r")], [("user", "u"), ("assistant", "x"), ("user", r)]),
            ([say("user", "u"), say("assistant", "x"), say("tool", "t"), say("system", "r"), say("assistant", "y")],
             [("user", "u"), ("assistant", "x"), ("tool", "t"), ("user", r), ("assistant", "y")]),
        ]:
            self.assertEqual(self.roles(given), wanted)

    def test_split_answers_are_one_message(self):
        def call(name):
            return tool_call(name, "f", {})
        ours = ["call_00112233445566aa_0", "call_00112233445566aa_1"]

        def result(name):
            return {"role": "tool", "content": "r", "tool_call_id": name}
        whole = settled([assistant("text", [call(each) for each in ours]), *map(result, ours)])
        self.assertEqual(settled([assistant("text"), assistant("", [call(ours[0])]), assistant("", [call(ours[1])]), *map(result, ours)]), whole)
        self.assertEqual(settled([assistant("text", [call(ours[0])]), result(ours[0]), assistant("text", [call(ours[1])]), result(ours[1])]), whole)
        # Two answers are two messages, also where nothing but a result stands between them.
        other = "call_ff112233445566aa_0"
        self.assertEqual(len(settled([assistant("", [call(ours[0])]), result(ours[0]), assistant("", [call(other)]), result(other)])), 4)
        self.assertEqual(len(settled([assistant("a"), assistant("b")])), 2)

    def test_arguments_are_an_object_where_they_are_the_text_of_one(self):
        for given, wanted in [('{"a": 1}', {"a": 1}), ("", {}), ("{", "{"), ("[1]", "[1]"), (None, {}), ({"b": 2}, {"b": 2})]:
            self.assertEqual(tool_call("x", "f", given)["function"]["arguments"], wanted)
