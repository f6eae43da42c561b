"""Calls of tools as each model family writes them, by its chat template; thoughts; and what is no call."""

import json
import time
import unittest

from flow_env.adapters.tool_calls import calls as calls_for_verifiers
from flow_env.door import thoughts
from flow_env.door.ask import Reply
from flow_env.door.calls import parse
from flow_env.door.forms import FORMS, MARKS
from flow_env.door.graph import alike, answer

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "tags": {"type": "array"}, "deep": {"type": "object"}, "sure": {"type": "boolean"}}}
TOOLS = [{"function": {"name": "get_weather", "parameters": WEATHER}}, {"function": {"name": "get_time", "parameters": {}}}]
WHOLE = {"city": "São \"Paulo\" {x}", "days": 3, "tags": ["a", 1.5, None], "deep": {"k": {"n": -2}}, "sure": True}
JSON = json.dumps(WHOLE, ensure_ascii=False)
ONE = [("get_weather", WHOLE)]
TWO = [*ONE, ("get_time", {})]

# Of each family a call with all kinds of values, and two calls.
FAMILIES = {
    "Hermes, Qwen 2.5 and 3, Granite 4": [
        (f'<tool_call>\n{{"name": "get_weather", "arguments": {JSON}}}\n</tool_call>', ONE),
        (f'<tool_call>\n{{"name": "get_weather", "arguments": {JSON}}}\n</tool_call>\n<tool_call>\n{{"name": "get_time", "arguments": {{}}}}\n</tool_call>', TWO)],
    "Qwen-coder": [
        ('<tool_call>\n<function=get_weather>\n<parameter=city>\nSão "Paulo" {x}\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=tags>\n["a", 1.5, null]\n</parameter>\n'
         '<parameter=deep>\n{"k": {"n": -2}}\n</parameter>\n<parameter=sure>\ntrue\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=get_time>\n</function>\n</tool_call>', TWO)],
    "Llama 3.1": [(f"<function=get_weather>{JSON}</function>", ONE), (f'<|python_tag|>{{"name": "get_weather", "parameters": {JSON}}}; {{"name": "get_time", "parameters": {{}}}}', TWO),
                  (f'{{"name": "get_weather", "parameters": {JSON}}}', ONE)],
    "Llama 3.2": [("""[get_weather(city='São "Paulo" {x}', days=3, tags=['a', 1.5, None], deep={'k': {'n': -2}}, sure=True)]""", ONE),
                  ("""[get_weather(city='São "Paulo" {x}', days=3, tags=['a', 1.5, None], deep={'k': {'n': -2}}, sure=True), get_time()]""", TWO)],
    "Llama 4": [("""<|python_start|>[get_weather(city='São "Paulo" {x}', days=3, tags=['a', 1.5, null], deep={'k': {'n': -2}}, sure=true), get_time()]<|python_end|>""", TWO)],
    "Mistral": [(f'[TOOL_CALLS][{{"name": "get_weather", "arguments": {JSON}}}, {{"name": "get_time", "arguments": {{}}}}]', TWO),
                (f"[TOOL_CALLS]get_weather[ARGS]{JSON}[TOOL_CALLS]get_time[ARGS]{{}}", TWO)],
    "GLM-4.5": [
        ('\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>São "Paulo" {x}</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n<arg_key>tags</arg_key>\n'
         '<arg_value>["a", 1.5, null]</arg_value>\n<arg_key>deep</arg_key>\n<arg_value>{"k": {"n": -2}}</arg_value>\n<arg_key>sure</arg_key>\n<arg_value>true</arg_value>\n</tool_call>', ONE),
        ("<tool_call>get_time\n</tool_call>", [("get_time", {})]),
        # GLM-4.7 writes no line ends.
        ("<tool_call>get_weather<arg_key>city</arg_key><arg_value>Rome</arg_value></tool_call><tool_call>get_time</tool_call>", [("get_weather", {"city": "Rome"}), ("get_time", {})])],
    "Kimi K2": [
        (f"<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{JSON}<|tool_call_end|>"
         "<|tool_call_begin|>functions.get_time:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>", TWO),
        (f"<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:12 <|tool_call_argument_begin|> {JSON}<|tool_call_end|>", ONE)],
    "DeepSeek V3 and R1": [
        (f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{JSON}\n```<｜tool▁call▁end｜>\n"
         "<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_time\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", TWO)],
    "DeepSeek V3.1": [
        (f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{JSON}<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{{}}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", TWO)],
    "DeepSeek V3.2": [
        ('<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">São "Paulo" {x}</｜DSML｜parameter>\n'
         '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n<｜DSML｜parameter name="tags" string="false">["a", 1.5, null]</｜DSML｜parameter>\n'
         '<｜DSML｜parameter name="deep" string="false">{"k": {"n": -2}}</｜DSML｜parameter>\n<｜DSML｜parameter name="sure" string="false">true</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
         '<｜DSML｜invoke name="get_time">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>', TWO),
        ('<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">7</｜DSML｜parameter>\n</｜DSML｜invoke>', [("get_weather", {"city": "7"})])],
    "MiniMax M2": [
        ('<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">São "Paulo" {x}</parameter>\n<parameter name="days">3</parameter>\n<parameter name="tags">["a", 1.5, null]</parameter>\n'
         '<parameter name="deep">{"k": {"n": -2}}</parameter>\n<parameter name="sure">true</parameter>\n</invoke>\n<invoke name="get_time">\n</invoke>\n</minimax:tool_call>', TWO)],
    "MiniMax M1": [(f'<tool_calls>\n{{"name": "get_weather", "arguments": {JSON}}}\n{{"name": "get_time", "arguments": {{}}}}\n</tool_calls>', TWO)],
    "gpt-oss": [
        (f"<|channel|>analysis<|message|>I should call get_time.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{JSON}<|call|>", ONE),
        (f"<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{JSON}<|call|><|start|>assistant to=functions.get_time<|channel|>commentary json<|message|>{{}}", TWO)],
    "LFM2": [("""<|tool_call_start|>[get_weather(city='São "Paulo" {x}', days=3, tags=["a", 1.5, None], deep={"k": {"n": -2}}, sure=True), get_time()]<|tool_call_end|>""", TWO),
             (f'<|tool_call_start|>[{{"name": "get_weather", "arguments": {JSON}}}]<|tool_call_end|>', ONE)],
    "Phi-4-mini": [(f'<|tool_call|>[{{"name": "get_weather", "arguments": {JSON}}}, {{"name": "get_time", "arguments": {{}}}}]<|/tool_call|>', TWO),
                   (f'functools[{{"name": "get_weather", "arguments": {JSON}}}]', ONE)],
    "Granite": [(f'<|tool_call|>[{{"name": "get_weather", "arguments": {JSON}}}, {{"name": "get_time", "arguments": {{}}}}]', TWO),
                (f'<tool_call>[{{"name": "get_weather", "arguments": {JSON}}}]', ONE),
                (f'<function_call> {{"name": "get_weather", "arguments": {JSON}}} <function_call> {{"name": "get_time", "arguments": {{}}}}', TWO)],
    "Gemma 4": [
        ("""<|tool_call>call:get_weather{city:<|"|>São "Paulo" {x}<|"|>,days:3,tags:[<|"|>a<|"|>,1.5,null],deep:{k:{n:-2}},sure:true}<tool_call|><|tool_call>call:get_time{}<tool_call|>""", TWO)],
    "FunctionGemma": [
        ("""<start_function_call>call:get_weather{city:<escape>São "Paulo" {x}<escape>,days:3,tags:[<escape>a<escape>,1.5,null],deep:{k:{n:-2}},sure:true}<end_function_call>""", ONE)],
    "Gemma 3": [("""```tool_code\nget_weather(city='São "Paulo" {x}', days=3, tags=['a', 1.5, None], deep={'k': {'n': -2}}, sure=True)\n```""", ONE),
                (f'```json\n{{"name": "get_weather", "parameters": {JSON}}}\n```', ONE), ("```python\n[get_time()]\n```", [("get_time", {})])],
}


class Families(unittest.TestCase):
    def test_each_family_is_read(self):
        for family, examples in FAMILIES.items():
            for text, calls in examples:
                self.assertEqual(parse(text, TOOLS), ("", calls, True), f"{family}: {text}")

    def test_a_text_before_the_calls_and_a_thought_stay(self):
        for family, examples in FAMILIES.items():
            for text, calls in examples:
                if family == "gpt-oss" or not any(mark in text for mark in MARKS):
                    continue
                self.assertEqual(parse("I look. " + text, TOOLS), ("I look.", calls, True), text)
                self.assertEqual(parse("<think>hm</think>\n" + text, TOOLS), ("<think>hm</think>", calls, True), text)

    def test_a_call_of_an_unknown_tool_is_none(self):
        other = [{"function": {"name": "other", "parameters": {}}}]
        for family, examples in FAMILIES.items():
            for text, calls in examples:
                content, found, right = parse(text, other)
                self.assertEqual((found, right), ([], not any(mark in text for mark in (*MARKS, "<|channel|>"))), text)
                if "<|channel|>" not in text:
                    self.assertEqual(content, text)
                if any(mark in text for mark in MARKS) and "get_time" not in text:
                    self.assertEqual([name for name, _ in parse(text, other, strangers=True)[1]], [name for name, _ in calls], text)

    def test_a_call_in_a_thought_is_not_carried_out(self):
        for family, examples in FAMILIES.items():
            for text, calls in examples:
                if family == "gpt-oss":
                    continue
                for start, end in thoughts.MARKS:
                    for draft in (f"{start} I will write {text}. {end} ", f"I will write {text}.{end}", f"{start}{text}{end} so {start} {text} {end}"):
                        content, found, right = parse(draft + text, TOOLS)
                        self.assertEqual((found, right), (calls, True), draft)
                        self.assertEqual(content.split(), draft.split())
                        self.assertEqual(parse(draft + "No call.", TOOLS), (draft + "No call.", [], True))
                    self.assertEqual(parse(f"{start} I will write {text}", TOOLS)[1:], ([], True), "a thought that has no end has no calls")
        pay = '<think> I will write <tool_call>pay 1</tool_call>. </think> <tool_call>{"name": "get_time"}</tool_call>'
        self.assertEqual(parse(pay, TOOLS), ("<think> I will write <tool_call>pay 1</tool_call>. </think>", [("get_time", {})], True))
        self.assertEqual(calls_for_verifiers(pay, ["get_time"])[1], [("get_time", {})])
        self.assertEqual(calls_for_verifiers("<think>" + FAMILIES["Hermes, Qwen 2.5 and 3, Granite 4"][0][0], ["get_weather"])[1], [])

    def test_channels_of_gpt_oss(self):
        thought = "<|channel|>analysis<|message|>to=functions.get_time? <|channel|>commentary<|end|>"
        final = "<|start|>assistant<|channel|>final<|message|>It is noon.<|return|>"
        preamble = "<|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
        call = "<|start|>assistant<|channel|>commentary to=functions.get_time <|constrain|>json<|message|>{}<|call|>"
        for tools in (TOOLS, []):
            self.assertEqual(parse(thought + final, tools), ("It is noon.", [], True))
        self.assertEqual(parse(thought + preamble + call, TOOLS), ("I look.", [("get_time", {})], True))
        self.assertEqual(parse(thought[:-7], TOOLS), ("", [], True), "a thought that has no end")
        self.assertEqual(parse(call.replace("{}", "{"), TOOLS), ("{", [], False))
        self.assertEqual(parse(call.replace("get_time", "fly"), TOOLS, strangers=True), ("", [("fly", {})], False))

    def test_what_is_broken_stays_text_and_is_said_to_be_wrong(self):
        for text in ("<tool_call>get_weather<arg_key>city</arg_key></tool_call>", "<tool_call>no_such_tool</tool_call>",
                     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_time:0<|tool_call_argument_begin|>{<|tool_call_end|><|tool_calls_section_end|>",
                     "<｜tool▁calls▁begin｜>get_time<｜tool▁calls▁end｜>", '<｜DSML｜function_calls><｜DSML｜invoke name="get_time">loose</｜DSML｜invoke></｜DSML｜function_calls>',
                     "<minimax:tool_call>get_time</minimax:tool_call>", "<|tool_call_start|>[get_time(1)]<|tool_call_end|>", "<|tool_call_start|>[get_time(**{})]<|tool_call_end|>",
                     "<|tool_call_start|>[get_time(x=open('a'))]<|tool_call_end|>", "<|tool_call_start|>import os<|tool_call_end|>", "<|tool_call_start|>[get_time(x=1e999)]<|tool_call_end|>",
                     "<|tool_call_start|>[get_time(x=" + "9" * 400 + ")]<|tool_call_end|>", "<|tool_call_start|>[get_time(x=" + "[" * 150 + "]" * 150 + ")]<|tool_call_end|>",
                     "<|tool_call_start|>" + "(" * 100_000 + "<|tool_call_end|>", "<|tool_call_start|>" + "-" * 90_000 + "1<|tool_call_end|>", "<|tool_call_start|>" + "a." * 40_000 + "a()<|tool_call_end|>",
                     '<|tool_call>call:get_time{city:<|"|>a}<tool_call|>', "<|tool_call>call:get_time{city:bare text}<tool_call|>", "<|tool_call>get_time{}<tool_call|>"):
            self.assertEqual(parse(text, TOOLS), (text, [], False), text[:100])
        for text in ("[get_time(1)]", "[1, 2]", "[fly()]", "get_time()", "```json\n[]\n```", "```python\nprint(1)\n```", "[get_time(), 7]", "[" * 100_000):
            self.assertEqual(parse(text, TOOLS), (text, [], True), text[:100])

    def test_no_text_takes_long(self):
        for mark in (*MARKS, "<|channel|>a<|message|>", "<think>", "</think>", "<arg_key>", "<parameter=", "<invoke name=\"", "```json\n"):
            for text in (mark * 4_000, mark + " " * 40_000, mark + "x" * 40_000, mark + "x" + " " * 40_000 + "y", mark + "{" * 40_000, mark + "[" * 40_000, mark + "<|call|>" * 5_000, mark + ":1" * 20_000):
                began = time.process_time()
                parse(text, TOOLS, strangers=True)
                self.assertLess(time.process_time() - began, 2, f"{mark}: {text[:40]}")

    def test_half_of_a_character_is_mended(self):
        text = '<tool_call>{"name": "get_weather", "arguments": {"city": "\\ud800", "tags": ["\\udfff"]}}</tool_call>'
        self.assertEqual(parse(text, TOOLS)[1], [("get_weather", {"city": "?", "tags": ["?"]})])

    def test_every_mark_has_an_example(self):
        written = "".join(text for examples in FAMILIES.values() for text, _ in examples)
        self.assertEqual([form.families for form in FORMS if not any(mark in written for mark in form.marks)], [])

    def test_a_mark_of_a_thought_in_an_argument_hides_no_call(self):
        call = '<tool_call>{"name": "get_time", "arguments": {"zone": "strip <think>.*</think>"}}</tool_call>'
        found = [("get_time", {"zone": "strip <think>.*</think>"})]
        tools = [{"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}}}}]
        for text in (call, f"<think>p</think>{call}", f"I think.</think> {call}", f"{call} <think>hm</think>", f"<think>a</think> So: {call} <think>b</think>"):
            self.assertEqual(parse(text, tools)[1:], (found, True), text)
        draft = '<tool_call>{"name": "get_time", "arguments": {"zone": "a"}}</tool_call>'
        for tag in ("think", "thinking", "thought", "reasoning", "reflection"):
            self.assertEqual(parse(f"<{tag}>draft {draft}</{tag}> {call}", tools)[1:], (found, True), tag)
        self.assertEqual(parse(f"<think>one {draft} <tool_call>and </think> {call}", tools)[1:], (found, True), "a draft that isn't closed")

    def test_an_echo_without_its_thoughts_is_the_answer(self):
        for said, echo in [("<think>a</think>b", "b"), ("a</think>\n\nb", "b"), ("[THINK]a[/THINK]b", "b"), ("<think>a</think>b<think>c</think>d", "bd"), ("<think>a</think>b", "<think>a</think>b")]:
            self.assertTrue(alike(answer(Reply(said, [], False, 1, 1)), {"role": "assistant", "content": echo}), said)
        self.assertFalse(alike(answer(Reply("<think>a</think>b", [], False, 1, 1)), {"role": "assistant", "content": "a"}))


class Values(unittest.TestCase):
    def value(self, schema, text):
        tools = [{"function": {"name": "f", "parameters": {"type": "object", "properties": {"v": schema}, "$defs": {"n": {"type": "integer"}}}}}]
        xml = f"<function=f>\n<parameter=v>\n{text}\n</parameter>\n</function>"
        glm = f"<tool_call>f\n<arg_key>v</arg_key>\n<arg_value>{text}</arg_value>\n</tool_call>"
        minimax = f'<minimax:tool_call>\n<invoke name="f">\n<parameter name="v">{text}</parameter>\n</invoke>\n</minimax:tool_call>'
        found = [parse(each, tools)[1] for each in (xml, glm, minimax)]
        self.assertEqual(found, [found[0]] * 3)
        return found[0][0][1]["v"]

    def test_a_text_is_one_wherever_a_text_is_allowed(self):
        for schema, text, wanted in [
            ({"type": ["string", "null"]}, "90210", "90210"), ({"type": ["string", "null"]}, "null", None), ({"type": "string"}, "null", "null"), ({"type": "string"}, "true", "true"),
            ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "12", 12), ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "null", None),
            ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "12", "12"), ({"oneOf": [{"type": "number"}, {"type": "array"}]}, "[1]", [1]),
            ({"type": ["integer", "null"]}, "twelve", "twelve"), ({"$ref": "#/$defs/n"}, "7", 7), ({"allOf": [{"$ref": "#/$defs/n"}]}, "7", 7), ({"enum": [1, 2]}, "2", 2),
            ({"enum": ["1", "2"]}, "2", "2"), ({"const": 5}, "5", 5), ({}, "5", "5"), ({"type": "nothing"}, "5", "5"), (True, "5", "5"), ({"type": "boolean"}, "True", True),
            ({"type": "boolean"}, "false", False), ({"type": "number"}, "1e3", 1000.0), ({"type": "integer", "nullable": True}, "null", None), ({"type": "object"}, '{"a": null}', {"a": None}),
            ({"$ref": "#/$defs/none"}, "5", "5"), ({"$ref": "#/properties/v"}, "5", "5"), ({"anyOf": []}, "5", "5"), ({"type": "integer"}, "9" * 400, "9" * 400),
        ]:
            self.assertEqual((self.value(schema, text), type(self.value(schema, text))), (wanted, type(wanted)), (schema, text))

    def test_a_schema_that_is_composed_at_the_top(self):
        parameters = {"anyOf": [{"properties": {"n": {"type": "integer"}}}, {"properties": {"s": {"type": "string"}}}], "additionalProperties": {"type": "boolean"}}
        text = "<function=f><parameter=n>1</parameter><parameter=s>1</parameter><parameter=b>true</parameter></function>"
        self.assertEqual(parse(text, [{"function": {"name": "f", "parameters": parameters}}])[1], [("f", {"n": 1, "s": "1", "b": True})])
