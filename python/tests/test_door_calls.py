"""Calls of tools in what a policy wrote, by family; and conversations brought to one form."""

import json
import unittest

from flow_env.door.anthropic import Anthropic
from flow_env.door.ask import Reply, assistant, settled, tool_call
from flow_env.door.calls import parse
from flow_env.door.chat import Chat
from flow_env.door.graph import answer
from flow_env.door.responses import Responses

TOOLS = [{"function": {"name": name, "parameters": {"properties": {"n": {"type": "integer"}, "s": {"type": "string"}, "l": {"type": "array"}}}}}
         for name in ("add", "get_weather")]


class Parsing(unittest.TestCase):
    def test_numbers_that_nobody_can_write_are_no_call(self):
        deep = "[" * 98 + "]" * 98  # as an argument it is 100 deep: in the arguments, in the call
        self.assertEqual(parse(f'{{"name": "add", "arguments": {{"l": {deep}}}}}', TOOLS)[1][0][0], "add")
        most = f'{{"name": "add", "arguments": {{"n": {2**64 - 1}}}}}'
        self.assertEqual(parse(most, TOOLS)[1], [("add", {"n": 2**64 - 1})])
        for value in ("NaN", "-Infinity", "1e999", "-1e999", "9" * 400, str(2**64), str(-2**63 - 1), f"[[{deep}]]", "[" * 5000 + "]" * 5000):
            text = f'<tool_call>{{"name": "add", "arguments": {{"n": {value}}}}}</tool_call>'
            self.assertEqual(parse(text, TOOLS), (text, [], False))
            self.assertEqual(parse(f'[TOOL_CALLS]add[ARGS]{{"n": {value}}}', TOOLS)[1], [])
            written = {"name": "add", "arguments": f'{{"n": {value}}}'}  # JSON in a text
            self.assertEqual(parse(f"<tool_call>{json.dumps(written)}</tool_call>", TOOLS)[1], [])
            # As an echo of the client it is no object, and stays the text that it is.
            self.assertIsInstance(tool_call("x", "f", written["arguments"])["function"]["arguments"], str)
        self.assertEqual(parse(f"<function=add><parameter=n>NaN</parameter></function>", TOOLS)[1], [("add", {"n": "NaN"})])

    def test_calls_of_unknown_tools_where_they_are_wanted(self):
        for text in ('<tool_call>{"name": "fly", "arguments": {"n": 1}}</tool_call>', '[TOOL_CALLS]fly[ARGS]{"n": 1}', '<|python_tag|>{"name": "fly", "arguments": {"n": 1}}'):
            self.assertEqual(parse(text, TOOLS, strangers=True), ("", [("fly", {"n": 1})], False))
            self.assertEqual(parse(text, TOOLS), (text, [], False))
        self.assertEqual(parse('{"name": "Ann", "arguments": {}}', TOOLS, strangers=True)[1:], ([], True))

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

    OURS = ["call_00112233445566aa_0", "call_00112233445566aa_1", "call_00112233445566aa_10"]

    def of_chat(self, calls, results):
        sent = [{"role": "user", "content": "u"}, {"role": "assistant", "content": None, "tool_calls": [
            {"id": each, "type": "function", "function": {"name": f"f{each[-2:]}", "arguments": "{}"}} for each in calls]}]
        return Chat().parse({"model": "m", "messages": sent + [{"role": "tool", "tool_call_id": each, "content": each} for each in results]}, {}).messages

    def of_messages(self, calls, results):
        sent = [{"role": "user", "content": "u"}, {"role": "assistant", "content": [{"type": "tool_use", "id": each, "name": f"f{each[-2:]}", "input": {}} for each in calls]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": each, "content": each} for each in results]}]
        return Anthropic().parse({"model": "m", "max_tokens": 9, "messages": sent}, {}).messages

    def of_responses(self, calls, results):
        sent = [{"role": "user", "content": "u"}, *({"type": "function_call", "call_id": each, "name": f"f{each[-2:]}", "arguments": "{}"} for each in calls),
                *({"type": "function_call_output", "call_id": each, "output": each} for each in results)]
        return Responses().parse({"model": "m", "input": sent}, {}).messages

    def test_results_stand_in_the_order_of_the_calls(self):
        import itertools

        for of in (self.of_chat, self.of_messages, self.of_responses):
            wanted = of(self.OURS, self.OURS)
            self.assertEqual([message["content"] for message in wanted[2:]], self.OURS)
            for order in itertools.permutations(self.OURS):
                self.assertEqual(of(self.OURS, order), wanted)  # results as the tools came to an end
                self.assertEqual(of(order, order), wanted)  # a client that brings the calls into that order, too
            # A result that is missing leaves the others in order; one of no call of the answer stays where it is.
            self.assertEqual([message["content"] for message in of(self.OURS, ["other", *self.OURS[:0:-1]])[2:]], ["other", *self.OURS[1:]])

    def test_results_are_ordered_by_ids_of_the_clients_own_and_around_other_texts(self):
        self.assertEqual([message["content"] for message in self.of_chat(["x", "a"], ["a", "x"])[2:]], ["x", "a"])
        self.assertEqual([message["content"] for message in self.of_chat(["", ""], ["", ""])[2:]], ["", ""])
        messages = self.of_messages(["x", "a"], [])[:2]
        results = [{"role": "tool", "content": each, "tool_call_id": each} for each in ("a", "x")]
        between = {"role": "user", "content": "by the way"}
        self.assertEqual([message["content"] for message in settled([*messages, results[0], between, results[1]])[2:]], ["x", "by the way", "a"])
        # A later answer's results are its own, though its ids are the same.
        twice = settled([*messages, *results, messages[1], {**results[0], "content": "a2"}, {**results[1], "content": "x2"}])
        self.assertEqual([message["content"] for message in twice if message["role"] == "tool"], ["x", "a", "x2", "a2"])

    def test_arguments_are_an_object_where_they_are_the_text_of_one(self):
        for given, wanted in [('{"a": 1}', {"a": 1}), ("", {}), ("{", "{"), ("[1]", "[1]"), (None, {}), ({"b": 2}, {"b": 2})]:
            self.assertEqual(tool_call("x", "f", given)["function"]["arguments"], wanted)


class Items(unittest.TestCase):
    def test_tools_of_free_text_and_in_namespaces_go_there_and_back(self):
        tools = [{"type": "custom", "name": "apply_patch", "description": "Edits.", "format": {"type": "grammar"}},
                 {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "close", "parameters": {"type": "object"}}]}]
        store = {}
        ask = Responses().parse({"model": "m", "input": "1", "tools": tools}, store)
        self.assertEqual([tool["function"]["name"] for tool in ask.tools], ["apply_patch", "agents__close"])
        reply = Reply("", [("call_a_0", "apply_patch", {"input": "*** Begin"}), ("call_a_1", "agents__close", {"id": 1})], False, 1, 1)
        output = Responses().answer(ask, reply, "a", store)["output"]
        self.assertEqual([{name: item.get(name) for name in ("type", "name", "namespace", "input", "arguments")} for item in output],
                         [{"type": "custom_tool_call", "name": "apply_patch", "namespace": None, "input": "*** Begin", "arguments": None},
                          {"type": "function_call", "name": "close", "namespace": "agents", "input": None, "arguments": '{"id":1}'}])
        results = [{"type": "custom_tool_call_output", "call_id": "call_a_0", "output": "done"},
                   {"type": "function_call_output", "call_id": "call_a_1", "output": [{"type": "input_text", "text": "closed"}]}]
        reasoning = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"}
        again = Responses().parse({"model": "m", "input": [{"role": "user", "content": "1"}, reasoning, *output, *results], "tools": tools}, store)
        self.assertEqual(again.messages[1], answer(reply))
        self.assertEqual([(message["content"], message["name"]) for message in again.messages[2:]], [("done", "apply_patch"), ("closed", "agents__close")])
        # The same by the earlier response's id: its instructions aren't taken over.
        self.assertEqual(Responses().parse({"model": "m", "input": results, "tools": tools, "previous_response_id": "resp_a"}, store).messages, again.messages)

    def test_blocks_of_messages(self):
        body = {"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}], "messages": [
            {"role": "user", "content": [{"type": "text", "text": "u"}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "x"},
                                              {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "r"}], "is_error": True}, {"type": "text", "text": "v"}]}]}
        self.assertEqual(Anthropic().parse(body, {}).messages, [
            {"role": "system", "content": "a\nb"}, {"role": "user", "content": "u"},
            {"role": "assistant", "content": "x", "tool_calls": [{"id": "t", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]},
            {"role": "tool", "content": "r", "tool_call_id": "t", "name": "f"}, {"role": "user", "content": "v"}])
