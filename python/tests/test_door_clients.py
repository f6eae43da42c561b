"""Unchanged programs of other people's clients through the door: examples/agents, each on its real package where it is installed."""

import importlib.util
import shutil
import sys
import time
import unittest
from pathlib import Path

from tests.door_driver import Flow, tool_calls
from tests.test_door import CHAT, Door

AGENTS = Path(__file__).resolve().parents[2] / "examples" / "agents"


def needs(*modules):
    lacking = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(lacking, f"the package {', '.join(lacking)} isn't here")


class Clients(Door):
    def episode(self, name, policy=None):
        """One episode of 40 + 2: the tool is called, then the sum is said."""
        def calling(call):
            done = call["messages"][-1]["role"] == "tool" or "Observation" in call["messages"][-1]["content"]
            last = tool_calls(("final_answer", {"answer": "42"})) if "smolagents" in name else "42"
            return last if done or not call.get("tools") else tool_calls(("add", {"a": 40, "b": 2}))

        flow = Flow([sys.executable if name.endswith(".py") else "sh", name], tasks=[{"id": "one", "a": 40, "b": 2}], folder=str(AGENTS), seconds=60)
        self.addCleanup(flow.end)
        calls, end = flow.play(policy or calling)[0]
        self.assertEqual((end.get("reward"), end.get("won")), (1.0, True), end)
        self.assertEqual([call.get("fork") for call in calls], [None] * len(calls))
        return calls

    def goes_on(self, name):
        calls = self.episode(name)
        self.assertEqual((len(calls), calls[1]["on"], calls[1]["since"]), (2, calls[0]["id"], 3))
        self.assertEqual([tool["function"]["name"] for tool in calls[0]["tools"]][0], "add")
        self.assertEqual([message["role"] for message in calls[1]["messages"][:3]], ["system", "user", "assistant"])
        self.assertEqual(calls[1]["messages"][2]["tool_calls"][0]["function"], {"name": "add", "arguments": {"a": 40, "b": 2}})
        return calls

    @needs("openai")
    def test_openai_python(self):
        calls = self.goes_on("openai_python.py")
        self.assertEqual(calls[1]["messages"][3], {
            "role": "tool", "content": "42", "name": "add", "tool_call_id": f"call_{calls[0]['id']}_0"})

    @needs("agents")
    def test_openai_agents_speaks_responses(self):
        self.goes_on("openai_agents.py")

    @needs("langgraph", "langchain_openai")
    def test_langgraph(self):
        self.goes_on("langgraph_agent.py")

    @needs("pydantic_ai")
    def test_pydantic_ai(self):
        self.goes_on("pydantic_ai_agent.py")

    @needs("anthropic")
    def test_anthropic_sdk_streams(self):
        self.goes_on("anthropic_sdk.py")

    @needs("smolagents")
    def test_smolagents_sends_calls_back_as_text(self):
        # "Calling tools:\n[{'id': 'call_...', ...}]" and "Observation:\n42" from the user; and a stop text.
        calls = self.goes_on("smolagents_agent.py")
        self.assertEqual(calls[0]["stop"], ["Observation:", "Calling tools:"])
        self.assertEqual(calls[1]["messages"][3], {"role": "user", "content": "Observation:\n42"})

    def in_a_shell(self, name, tool, argument):
        """An episode of a coding agent: it calls its shell once."""
        def policy(call):
            return "42" if call["messages"][-1]["role"] == "tool" else tool_calls((tool, {argument: "echo $((40+2))", "description": "adds"}))

        calls = self.episode(name, policy)
        self.assertEqual((len(calls), calls[1]["on"]), (2, calls[0]["id"]))
        self.assertIn("42", calls[1]["messages"][-1]["content"])
        return calls

    @needs("minisweagent")
    def test_mini_swe_agent(self):
        def policy(call):
            return tool_calls(("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo 42" if "on" in call else "pwd"}))

        self.assertEqual(len(self.episode("mini_swe_agent.py", policy)), 2)

    @unittest.skipUnless(shutil.which("codex"), "the program codex isn't here")
    def test_codex(self):
        # Tools in a namespace; the date and the folder in the first user message; what its shell prints has a random id and a time.
        names = [tool["function"]["name"] for tool in self.in_a_shell("codex.sh", "exec_command", "cmd")[0]["tools"]]
        self.assertTrue(any("__" in name for name in names), names)

    @unittest.skipUnless(shutil.which("claude"), "the program claude isn't here")
    def test_claude_code(self):
        # Some 24 tools, 32,000 tokens wanted, and a system message in the middle, which becomes a reminder.
        calls = self.in_a_shell("claude_code.sh", "Bash", "command")
        self.assertEqual([message["role"] for message in calls[0]["messages"]], ["system", "user"])
        self.assertIn("<system-reminder>", calls[0]["messages"][1]["content"])

    @unittest.skipUnless(shutil.which("curl"), "curl isn't here")
    def test_a_shell_script(self):
        self.assertEqual(len(self.episode("plain_shell.sh")), 1)


class Retries(Door):
    @needs("openai")
    def test_an_sdk_that_loses_patience_makes_one_call(self):
        def slow(call):
            time.sleep(1.0)
            return "a"

        calls, end = self.played(CHAT + """
from openai import OpenAI
client = OpenAI(timeout=0.7, max_retries=5)
first = client.chat.completions.create(model="m", messages=[user("1")])
second = client.chat.completions.create(model="m", messages=[user("1"), {"role": "assistant", "content": first.choices[0].message.content}, user("2")])
print(1)
""", slow)
        self.assertEqual((end.get("reward"), len(calls), calls[1].get("on")), (1, 2, calls[0]["id"]), end)


class Streams(Door):
    TOOLS = """
schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
"""

    def read(self, program):
        calls, end = self.played(CHAT + self.TOOLS + program, lambda call: "Text. " + tool_calls(("f", {"a": 1}), ("f", {"a": 2})))
        self.assertEqual(end.get("reward"), 1, end)
        return calls

    @needs("openai")
    def test_openai_reads_chat_completions(self):
        self.read("""
from openai import OpenAI
text, calls, finish, usage = "", {}, None, None
stream = OpenAI().chat.completions.create(model="m", messages=[user("1")], stream=True, stream_options={"include_usage": True},
    tools=[{"type": "function", "function": {"name": "f", "parameters": schema}}])
for chunk in stream:
    usage = chunk.usage or usage
    for choice in chunk.choices:
        text += choice.delta.content or ""
        finish = choice.finish_reason or finish
        for call in choice.delta.tool_calls or []:
            calls[call.index] = (call.function.name, json.loads(call.function.arguments))
assert (text, calls, finish) == ("Text.", {0: ("f", {"a": 1}), 1: ("f", {"a": 2})}, "tool_calls"), (text, calls, finish)
assert usage.total_tokens == 13
print(1)
""")

    @needs("openai")
    def test_openai_reads_responses_and_goes_on_from_one(self):
        first, second, third = self.read("""
from openai import OpenAI
client, tools = OpenAI(), [{"type": "function", "name": "f", "parameters": schema, "strict": False}]
with client.responses.stream(model="m", input="1", tools=tools, instructions="be") as stream:
    kinds = [event.type for event in stream]
    whole = stream.get_final_response()
assert whole.output_text == "Text." and [json.loads(item.arguments)["a"] for item in whole.output if item.type == "function_call"] == [1, 2], whole
assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
results = [{"type": "function_call_output", "call_id": item.call_id, "output": "r"} for item in whole.output if item.type == "function_call"]
second = client.responses.create(model="m", input=results, tools=tools, previous_response_id=whole.id, instructions="be")
third = client.responses.create(model="m", tools=tools, instructions="be", input=[user("1"), *({"type": "item_reference", "id": item.id} for item in whole.output), *results, user("2")])
print(1)
""")
        self.assertEqual((second["on"], second["since"], third["on"], third["since"]), (first["id"], 3, first["id"], 3))
        self.assertEqual([message["role"] for message in third["messages"]], ["system", "user", "assistant", "tool", "tool", "user"])

    @needs("anthropic")
    def test_anthropic_reads_messages(self):
        self.read("""
from anthropic import Anthropic
client = Anthropic()
with client.messages.stream(model="m", max_tokens=9, messages=[user("1")], tools=[{"name": "f", "input_schema": schema}]) as stream:
    text = "".join(stream.text_stream)
    whole = stream.get_final_message()
assert text == "Text." and [block.input for block in whole.content[1:]] == [{"a": 1}, {"a": 2}] and whole.stop_reason == "tool_use", whole
assert (whole.usage.input_tokens, whole.usage.output_tokens) == (10, 3)
assert client.messages.count_tokens(model="m", messages=[user("1")]).input_tokens > 1
assert client.models.list().data[0].id == "flow"
print(1)
""")
