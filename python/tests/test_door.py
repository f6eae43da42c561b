"""Any program as an environment: real programs that call the door over HTTP, and a scripted policy on flow's side."""

import contextlib
import importlib.util
import io
import json
import os
import socket
import sys
import tempfile
import time
import unittest
from pathlib import Path

from flow_env.check import check
from flow_env.client import serving
from flow_env.door.settings import ProgramSettings, Wrong
from flow_env.door.tasks import Tasks
from tests.door_driver import Flow, tool_calls

CHAT = """
import json, os, sys, urllib.error, urllib.request
def post(path, body, **headers):
    url = os.environ["OPENAI_BASE_URL"] + path
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"], **headers}
    try:
        return json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)))
    except urllib.error.HTTPError as error:
        return {"status": error.code, **json.load(error)}
def ask(messages, **more):
    return post("/chat/completions", {"model": "m", "messages": messages, **more})
def said(messages, **more):
    return ask(messages, **more)["choices"][0]["message"]
def user(text):
    return {"role": "user", "content": text}
"""
LOOP = CHAT + """
task = json.loads(sys.stdin.readline())
assert task == json.loads(os.environ["FLOW_TASK"])
messages = [user("turn 0?")]
for turn in range(1, 3):
    answer = ask(messages)["choices"][0]["message"]
    messages += [answer, user(f"turn {turn}?")]
last = ask(messages)["choices"][0]["message"]["content"]
print("noise")
print(json.dumps({"reward": 0.75, "won": last == "left", "info": {"turns": 3}}))
"""


@unittest.skipUnless(importlib.util.find_spec("aiohttp"), "the package aiohttp isn't here")
class Door(unittest.TestCase):
    def flow(self, program, **settings):
        flow = Flow(program, **settings)
        self.addCleanup(lambda: flow.child.poll() is None and flow.end())
        return flow

    def played(self, program, policy=lambda call: "left", **settings):
        return self.flow(program, **settings).play(policy)[0]

    def each(self, programs, policy=lambda call: "left", **settings):
        """Episodes of several programs at once, in one door."""
        tasks = [{"id": str(place), "code": program} for place, program in enumerate(programs)]
        return self.flow("import json, os\nexec(json.loads(os.environ['FLOW_TASK'])['code'])", tasks=tasks, **settings).play(policy, [task["id"] for task in tasks])


def gone(path):
    """Whether a folder is removed before long: nothing waits for that."""
    deadline = time.monotonic() + 20
    while os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not os.path.exists(path)


def ids(calls):
    return {(call["id"], call.get("on"), json.dumps(call["messages"][call.get("since", 0):])) for call in calls}


class Talking(Door):
    def test_a_chat_goes_on_from_call_to_call(self):
        flow = self.flow(LOOP)
        self.assertEqual((flow.hello["protocol"], flow.hello["splits"], flow.hello["parallel"]), (3, {"train": ["one"]}, False))
        calls, end = flow.play(lambda call: "left")[0]
        self.assertEqual([call.get("since") for call in calls], [None, 2, 4])
        self.assertEqual([call.get("on") for call in calls], [None, calls[0]["id"], calls[1]["id"]])
        self.assertEqual([call["view"]["observation"] for call in calls], ["turn 0?", "turn 1?", "turn 2?"])
        self.assertEqual(calls[1]["messages"], [{"role": "user", "content": "turn 0?"}, {"role": "assistant", "content": "left"},
                                                {"role": "user", "content": "turn 1?"}])
        self.assertEqual({name: end[name] for name in ("reward", "done", "won", "score", "info")},
                         {"reward": 0.75, "done": True, "won": True, "score": 0.75, "info": {"turns": 3}})
        self.assertEqual(flow.end()[0], 0)

    def test_equal_programs_ask_equal_calls(self):
        # The folder's name, the key and the port stand in the question, and differ.
        program = CHAT + """
said([user(f"I am in {os.environ['FLOW_FOLDER']} of {os.environ['OPENAI_BASE_URL']}")])
print(1)
"""
        played = self.flow(program).play(lambda call: "left", ["one"] * 3)
        self.assertEqual(len({str([(call["id"], call["view"]["state"]) for call in calls]) for calls, _ in played}), 1)
        self.assertEqual(len({calls[0]["messages"][0]["content"] for calls, _ in played}), 3)

    def test_what_the_answer_says(self):
        program = CHAT + """
whole = ask([user("a")], model="gpt-4o")
print(json.dumps(whole), file=open(os.environ["OUT"], "w"))
print(0)
"""
        with tempfile.NamedTemporaryFile("r") as file:
            os.environ["OUT"] = file.name
            self.addCleanup(os.environ.pop, "OUT")
            calls, _ = self.played(program, lambda call: {"action": "b", "cut": True, "usage": [5, 1]}, **{"pass": ["OUT"]})
            whole = json.loads(file.read())
        self.assertEqual((whole["id"], whole["model"]), ("chatcmpl-" + calls[0]["id"], "gpt-4o"))
        self.assertEqual(whole["choices"][0]["finish_reason"], "length")
        self.assertEqual(whole["usage"], {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6})


class Graphs(Door):
    def forks(self, body, policy=lambda call: "a"):
        calls, end = self.played(CHAT + body + "\nprint(1)", policy)
        self.assertEqual(end.get("reward"), 1, end)
        return calls, [call.get("fork") for call in calls], [call.get("on") and [each["id"] for each in calls].index(call["on"]) for call in calls]

    def test_a_changed_message_is_edited(self):
        _, forks, on = self.forks("""
one = said([user("1")])
two = said([user("1"), one, user("2")])
said([user("1"), one, user("2"), {**two, "content": "mine"}, user("3")])
said([user("other"), one, user("2")])
""")
        self.assertEqual((forks, on), ([None, None, "edited", "edited"], [None, 0, 0, None]))

    def test_a_shortened_history_is_compacted(self):
        _, forks, _ = self.forks("""
messages = [{"role": "system", "content": "s"}, user("1")]
for turn in range(3):
    messages += [said(messages), user(str(turn))]
said(messages[:2] + [user("so far: nothing")])
said([messages[0], user("so far: nothing")])
""")
        self.assertEqual(forks, [None, None, None, "compacted", "compacted"])

    def test_the_same_question_is_asked_again(self):
        calls, forks, on = self.forks("""
one, two, three = (said([user("1")]) for _ in range(3))
said([user("1"), two, user("go on")])
""", lambda call: f"answer {call['id']}")
        self.assertEqual((forks, on), ([None, "again", "again", None], [None, None, None, 1]))
        self.assertEqual(len({call["id"] for call in calls}), 4)

    def test_another_system_message_or_other_tools_are_a_sub_agent(self):
        _, forks, on = self.forks("""
def tools(name): return [{"type": "function", "function": {"name": name, "parameters": {}}}]
main = said([{"role": "system", "content": "main"}, user("1")])
sub = said([{"role": "system", "content": "sub"}, user("2")])
said([{"role": "system", "content": "sub"}, user("2"), sub, user("3")])
said([{"role": "system", "content": "main"}, user("4")], tools=tools("a"))
said([{"role": "system", "content": "main"}, user("1"), main, user("5")])
""")
        self.assertEqual((forks, on), ([None, "sub_agent", None, "sub_agent", None], [None, None, 1, None, 0]))

    def test_two_answers_that_go_on_from_one_call_are_a_fork(self):
        _, forks, on = self.forks("""
one = said([user("1")])
said([user("1"), one, user("2")])
said([user("1"), one, user("3")])
""")
        self.assertEqual((forks, on), ([None, None, "edited"], [None, 0, 0]))

    def test_what_clients_do_to_an_answer_is_no_fork(self):
        tools = 'tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]\n'
        two = tool_calls(("f", {"x": 1, "y": 2}), ("f", {"x": 2}))
        cases = [
            # Arguments written anew, no content beside them.
            ('[{**one, "content": "", "tool_calls": [{**c, "function": {"name": "f", "arguments": json.dumps(json.loads(c["function"]["arguments"]), '
             'indent=2)}} for c in one["tool_calls"]]}]', "So: " + two),
            # Text and calls as two messages.
            ('[{"role": "assistant", "content": one["content"]}, {**one, "content": None}]', "So: " + two),
            # Calls with ids of the client's own.
            ('[{**one, "tool_calls": [{**c, "id": f"x{n}"} for n, c in enumerate(one["tool_calls"])]}]', two),
            # Each call with its result.
            ('[{**one, "tool_calls": one["tool_calls"][:1]}, {"role": "tool", "tool_call_id": one["tool_calls"][0]["id"], "content": "r"},'
             '{**one, "tool_calls": one["tool_calls"][1:]}]', two),
            # Only the first call.
            ('[{**one, "tool_calls": one["tool_calls"][:1]}]', two),
            # Calls written as text, as smolagents does.
            ('[{"role": "assistant", "content": [{"type": "text", "text": "Calling tools:\\n" + str(one["tool_calls"])}]}]', two),
            # Blanks and thoughts gone.
            ('[{**one, "content": "left"}]', "<think>hm</think>\n\nleft\n"),
        ]
        for place, (echo, said) in enumerate(cases):
            cases[place] = (CHAT + tools + f'one = said([user("{place}")], tools=tools)\nsaid([user("{place}"), *{echo}, user("2")], tools=tools)\nprint(1)', said)
        played = self.each([program for program, _ in cases], lambda call: cases[int(call["messages"][0]["content"])][1])
        for (program, said), (calls, end) in zip(cases, played):
            self.assertEqual(end.get("reward"), 1, end)
            self.assertEqual([(call.get("fork"), call.get("on"), call.get("since")) for call in calls], [(None, None, None), (None, calls[0]["id"], 2)], program)
            # The answer stands there as it was given.
            given = calls[1]["messages"][1]
            self.assertEqual((given["content"], len(given.get("tool_calls", []))),
                             ("So:" if said.startswith("So") else "" if said == two else said, 0 if said.startswith("<think>") else 2))

    def test_parallel_sub_agents_ask_the_same_calls_whoever_is_first(self):
        program = CHAT + """
import random, threading, time
main = said([user("main")])
def sub(name):
    messages = [{"role": "system", "content": name}, user("go")]
    for turn in range(3):
        time.sleep(random.random() / 50)
        messages += [said(messages), user(str(turn))]
threads = [threading.Thread(target=sub, args=(name,)) for name in ("a", "b")]
for thread in threads: thread.start()
for thread in threads: thread.join()
said([user("main"), main, user("done?")])
print(1)
"""
        played = self.flow(program, parallel=True).play(lambda call: f"said to {call['id']}", ["one"] * 20)
        sets = [ids(calls) for calls, end in played]
        self.assertEqual([len(each) for each in sets], [8] * 20)
        self.assertTrue(all(each == sets[0] for each in sets))
        self.assertGreater(len({tuple(call["id"] for call in calls) for calls, _ in played}), 1, "all came in one order")
        forks = {tuple(sorted((call["id"], call.get("fork") or "") for call in calls)) for calls, _ in played}
        self.assertEqual(len(forks), 1)


    def test_equal_questions_at_the_same_time_are_two_calls(self):
        program = CHAT + """
import threading
said = []
threads = [threading.Thread(target=lambda: said.append(ask([user("1")])["choices"][0]["message"]["content"])) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps({"reward": 1, "won": sorted(said) == ["again", "first"]}))
"""
        played = self.flow(program, parallel=True).play(lambda call: "again" if call.get("fork") else "first", ["one"] * 4)
        self.assertEqual({(len(calls), len({call["id"] for call in calls}), end.get("won")) for calls, end in played}, {(2, 2, True)})
        self.assertEqual(len({str(sorted(call["id"] for call in calls)) for calls, _ in played}), 1)


class Retrying(Door):
    def test_an_sdk_that_tries_again_gets_the_same_answer(self):
        program = CHAT + """
import http.client
host, port = os.environ["OPENAI_BASE_URL"].split("/")[2].split(":")
def hang_up(body):
    connection = http.client.HTTPConnection(host, int(port), timeout=0.3)
    try:
        connection.request("POST", "/v1/chat/completions", body, {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
        connection.getresponse()
    except TimeoutError:
        connection.close()
body = {"model": "m", "messages": [user("1")]}
hang_up(json.dumps(body))                                         # while it is answered
first = post("/chat/completions", body)["id"]                     # the same body: its client is gone
again = [post("/chat/completions", body, **{"x-stainless-retry-count": "1"})["id"], post("/chat/completions", body)["id"]]
print(json.dumps({"reward": 1, "info": {"joined": int(again[0] == first), "anew": int(again[1] != first)}}))
"""

        def slow(call):
            time.sleep(0.6)
            return "a"

        calls, end = self.played(program, slow)
        self.assertEqual((len(calls), [call.get("fork") for call in calls]), (2, [None, "again"]), end)
        self.assertEqual(end["info"], {"joined": 1, "anew": 1})


class Tools(Door):
    TOOLS = """
tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "s": {"type": "string"}}}}}]
"""

    def test_calls_are_parsed_and_what_is_none_stays_text(self):
        program = CHAT + self.TOOLS + """
message = said([user("1")], tools=tools)
second = said([user("1"), message, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "3"}], tools=tools)
print(json.dumps({"reward": len(message["tool_calls"]), "info": {"text": int(second["content"].startswith("<tool_call>{"))}}))
"""
        calls, end = self.played(program, lambda call: "<tool_call>{broken</tool_call>" if "on" in call else "Hm." + tool_calls(("add", {"a": 1}), ("add", {})))
        self.assertEqual((end["reward"], end["info"]), (2, {"text": 1}))
        self.assertEqual(calls[1]["messages"][1]["tool_calls"][0],
                         {"id": f"call_{calls[0]['id']}_0", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}})
        self.assertEqual(calls[1]["messages"][2]["name"], "add")
        self.assertEqual(calls[0]["tools"][0]["function"]["name"], "add")

    def test_a_call_that_cannot_be_parsed_is_marked(self):
        program = CHAT + self.TOOLS + """
for turn in range(3): said([user(str(turn))], tools=tools)
print(1)
"""
        texts = iter(["<tool_call>{broken</tool_call>", "plain", '<tool_call>{"name": "fly"}</tool_call>'])
        calls, end = self.played(program, lambda call: next(texts))
        self.assertEqual([each.get("valid", True) for each in [*(call["view"] for call in calls), end]], [True, False, True, False])

    def test_no_tools_where_none_may_be_called_and_one_call_where_one_is_wanted(self):
        program = CHAT + self.TOOLS + """
none = said([user("1")], tools=tools, tool_choice="none")
one = said([user("2")], tools=tools, parallel_tool_calls=False)
print(json.dumps({"reward": len(one["tool_calls"]), "won": "tool_calls" in none}))
"""
        calls, end = self.played(program, lambda call: tool_calls(("add", {}), ("add", {})))
        self.assertEqual((end["reward"], end["won"], "tools" in calls[0]), (1, False, False))


class Refusing(Door):
    def statuses(self, program, policy=lambda call: "a", **settings):
        """What the program has printed before its reward, as JSON."""
        calls, end = self.played(CHAT + "out = []\n" + program + """
print(json.dumps({"reward": 1, "info": {"n": len(out)}}), flush=True)
open(os.path.join(os.environ["HERE"], "out.json"), "w").write(json.dumps(out))
""", policy, **settings)
        return calls, end

    def refused(self, program, policy=lambda call: "a"):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["HERE"] = folder
            self.addCleanup(os.environ.pop, "HERE", None)
            calls, end = self.statuses(program, policy, **{"pass": ["HERE"]})
            self.assertEqual(end.get("reward"), 1, end)
            return calls, json.loads(Path(folder, "out.json").read_text())

    def test_what_would_change_the_meaning_is_refused(self):
        calls, out = self.refused("""
ask([user("1")], user="u", metadata={}, store=True, temperature=0.1, top_p=1, seed=3, n=1, presence_penalty=0, response_format={"type": "text"})
image = {"type": "image_url", "image_url": {"url": "data:"}}
tools = [{"type": "function", "function": {"name": "f"}}]
for more in [{"n": 2}, {"tool_choice": "required"}, {"tool_choice": {"type": "function", "function": {"name": "g"}}, "tools": tools},
             {"logit_bias": {"1": 2}}, {"presence_penalty": 0.5}, {"frequency_penalty": 1}, {"response_format": {"type": "json_object"}},
             {"logprobs": True}, {"max_tokens": 0}, {"messages": []}, {"messages": [{"role": "user", "content": [image]}]}, {"messages": "hi"},
             {"tools": [{"type": "web_search"}]}, {"functions": [{"name": "f"}]}, {"model": 3}, {"messages": [{"role": "owner", "content": "x"}]}]:
    out.append(ask(**{"messages": [user("1")], **more}))
for path, more in [("/responses", {"tool_choice": "required"}), ("/responses", {"text": {"format": {"type": "json_schema"}}}), ("/responses", {"background": True}),
                   ("/responses", {"input": [{"role": "user", "content": [{"type": "input_image"}]}]}), ("/responses", {"tools": [{"type": "web_search"}]}),
                   ("/responses", {"previous_response_id": "resp_x"}), ("/responses", {"include": ["message.output_text.logprobs"]})]:
    out.append(post(path, {"model": "m", "input": "1", **more}))
""")
        self.assertEqual(len(calls), 1)
        self.assertEqual([each["status"] for each in out], [400] * 23)
        self.assertEqual(out[0]["error"], {"message": "`n` isn't supported here: leave it out", "type": "invalid_request_error", "param": "n", "code": None})

    def test_a_call_may_be_forced(self):
        calls, out = self.refused("""
chat = [{"type": "function", "function": {"name": name}} for name in "fg"]
flat = [{"type": "function", "name": name} for name in "fg"]
claude = [{"name": name, "input_schema": {}} for name in "fg"]
for choice in ["required", {"type": "function", "function": {"name": "g"}}, "auto",
               {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [chat[1]]}}]:
    ask([user(str(choice))], tools=chat, tool_choice=choice)
for choice in ["required", {"type": "function", "name": "f"}, {"type": "allowed_tools", "mode": "required", "tools": flat}]:
    post("/responses", {"model": "m", "input": str(choice), "tools": flat, "tool_choice": choice})
for choice in [{"type": "any"}, {"type": "tool", "name": "g"}, {"type": "auto"}, {"type": "none"}]:
    post("/messages", {"model": "m", "max_tokens": 9, "messages": [user(str(choice))], "tools": claude, "tool_choice": choice})
for path, more in [("/chat/completions", {"messages": [user("1")], "tools": chat, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}}),
                   ("/chat/completions", {"messages": [user("1")], "tools": chat, "tool_choice": ["required"]}),
                   ("/responses", {"input": "1", "tools": flat, "tool_choice": {"type": "web_search_preview"}}),
                   ("/responses", {"input": "1", "tools": flat, "tool_choice": {"type": "function"}})]:
    out.append(post(path, {"model": "m", **more})["status"])
""")
        both = ["f", "g"]
        self.assertEqual([call.get("must_call") for call in calls], [both, ["g"], None, ["g"], both, ["f"], both, both, ["g"], None, None])
        self.assertEqual(out, [400] * 4)

    def test_an_answer_may_be_bound_to_choices(self):
        calls, out = self.refused("""
out.append(ask([user("1")], structured_outputs={"choice": ["left", "right"]})["model"])
out.append(ask([user("2")], guided_choice=["up"])["model"])
out.append(ask([user("3")])["model"])
for more in [{"structured_outputs": {"choice": ["a", "a"]}}, {"structured_outputs": {"regex": "a"}}, {"guided_choice": []}, {"guided_choice": [3]},
             {"guided_choice": "left"}, {"guided_choice": [""]}, {"guided_choice": ["x" * 5000]}, {"guided_choice": [str(n) for n in range(10001)]},
             {"guided_choice": ["a"], "structured_outputs": {"choice": ["a"]}}, {"guided_regex": "a+"}, {"guided_json": {}}]:
    out.append(ask([user("1")], **more))
""")
        self.assertEqual([call["view"].get("actions") for call in calls], [["left", "right"], ["up"], None])
        self.assertEqual([each if isinstance(each, str) else each["status"] for each in out], ["m"] * 3 + [400] * 11)
        self.assertEqual(out[3]["error"]["message"], "the list of choices has an action twice")

    def test_anthropic_refuses_in_its_own_form(self):
        calls, out = self.refused("""
image = {"type": "image", "source": {}}
for more in [{"tool_choice": {"type": "any"}}, {"tool_choice": {"type": "tool", "name": "f"}}, {"messages": [{"role": "user", "content": [image]}]},
             {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, {"output_config": {"format": {}}}, {"messages": [{"role": "assistant", "content": "I"}]},
             {"messages": [{"role": "user", "content": [{"type": "document"}]}]}, {"messages": []}]:
    out.append(post("/messages", {"model": "m", "max_tokens": 9, "messages": [user("1")], **more}))
out.append(post("/messages?beta=true", {"model": "m", "max_tokens": 9, "messages": [user("1")], "thinking": {"type": "adaptive"}, "metadata": {}, "top_k": 3}))
out.append(post("/messages/count_tokens", {"model": "m", "messages": [user("12345678")]}))
""")
        self.assertEqual([each.get("status") for each in out], [400] * 8 + [None] * 2)
        self.assertEqual((out[0]["type"], out[0]["error"]["type"]), ("error", "invalid_request_error"))
        self.assertEqual((out[8]["id"], out[8]["stop_reason"]), ("msg_" + calls[0]["id"], "end_turn"))
        self.assertIn(out[9]["input_tokens"], range(5, 20))

    def test_a_prompt_that_is_too_long_is_refused_as_agents_know_it(self):
        calls, out = self.refused("""
out.append(ask([user("1")]))
out.append(post("/responses", {"model": "m", "input": "1"}))
out.append(post("/messages", {"model": "m", "max_tokens": 9, "messages": [user("2")]}))
out.append(ask([user("short")]))
""", lambda call: "a" if call["messages"][0]["content"] == "short" else {"request": "refuse", "reason": "too_long", "tokens": 9000, "limit": 8192})
        self.assertEqual(len(calls), 4)
        self.assertEqual([each.get("status") for each in out], [400, 400, 400, None])
        for each in out[:2]:
            self.assertEqual(each["error"]["code"], "context_length_exceeded")
            self.assertTrue(each["error"]["message"].startswith("This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."))
        self.assertEqual(out[2]["error"]["message"], "prompt is too long: 9000 tokens > 8192 maximum")

    def test_keys_paths_and_bodies(self):
        calls, out = self.refused("""
key = os.environ["OPENAI_API_KEY"]
out.append(ask([user("1")], **{})["model"])
out.append(post("/chat/completions", {"model": "m", "messages": [user("1")]}, authorization="Bearer wrong"))
base = os.environ["OPENAI_BASE_URL"]
os.environ["OPENAI_BASE_URL"] = base.split("/e/")[0] + "/v1"
out.append(post("/chat/completions", {"model": "m", "messages": [user("1")]}, authorization="Bearer 0123"))
out.append(post("/chat/completions", {"model": "m", "messages": [user("1")]}, authorization="", **{"x-api-key": key})["model"])
out.append(post("/nothing", {}))
out.append(post("/chat/completions", [1]))
out.append(post("/chat/completions", {"model": "m", "messages": [user("x" * (17 << 20))]}))
out.append(ask([user("\\ud800 lone")])["model"])
out.append(post("/chat/completions", {"model": "m", "messages": [user("1")], "tools": [{"type": "function", "function": {"name": "f", "parameters": float("nan")}}]}))
deep = "x"
for _ in range(900): deep = [deep]
out.append(post("/chat/completions", {"model": "m", "messages": [user("deep")], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": deep}}}]}).get("status", 200))
os.environ["OPENAI_BASE_URL"] = base
url = urllib.request.Request(base.replace("/v1", "/"), method="HEAD")
out.append(urllib.request.urlopen(url).status)
out.append(json.load(urllib.request.urlopen(urllib.request.Request(base + "/models", headers={"x-api-key": key})))["data"][0]["id"])
""")
        found = [each if not isinstance(each, dict) else each["status"] for each in out]
        self.assertEqual(found[:9], ["m", 401, 401, "m", 404, 400, 413, "m", 400])
        self.assertIn(found[9], (200, 400))
        self.assertEqual(found[10:], [200, "flow"])
        self.assertEqual(calls[-1]["messages"][0]["content"] if found[9] == 400 else "? lone", "? lone")

    def test_what_is_late_is_told_so(self):
        flow = self.flow(CHAT + """
said([user(os.environ["OPENAI_BASE_URL"])])
print(1)
""")
        (calls, end), = flow.play(lambda call: "a")
        base = calls[0]["messages"][0]["content"]
        host, key = base.split("/")[2], base.split("/")[4]
        for path, status in [(f"/e/{key}/v1/chat/completions", 409), (f"/e/{key}/v1/messages", 409), (f"/e/{key}/v1/reward", 409), ("/e/00/v1/chat/completions", 401)]:
            with socket.create_connection(host.split(":")) as connection:
                connection.sendall(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{{}}".encode())
                self.assertIn(str(status), connection.recv(100).decode().split("\r\n")[0])


class Ending(Door):
    def error(self, program, policy=lambda call: "a", **settings):
        _, end = self.played(CHAT + program, policy, **settings)
        self.assertEqual(set(end), {"episode", "error"}, end)
        return end["error"]

    def test_a_failure_is_never_a_reward(self):
        one = 'said([user("1")])\n'
        cases = [
            ("raise ValueError('first')", r"(?s)ended with exit status 1 after 0 calls\n  it last said: ValueError: first\n  and before that:.*Traceback"),
            (one + "print(1); sys.exit(3)", "ended with exit status 3 after 1 call$"),
            (one + "os.kill(os.getpid(), 9)", "was killed by signal 9 after 1 call"),
            ("print(1)", "without a call of the model: it must use OPENAI_BASE_URL"),
            ("ask([user('1')], n=2); print(1)", "without a call of the model; its last request was refused: `n` isn't supported here"),
            ("post('/chat/completions', {}, authorization='Bearer wrong'); print(1)", "was refused: the key names no episode, or path and key differ"),
            (one + "import threading; threading.Thread(target=said, args=([user('2')],), daemon=True).start(); print('no')", r"printed no reward, .*: the last line of its output is 'no'"),
            (one, "printed no reward, .*: its output is empty$"),
            (one + "print('{\"reward\": NaN}')", "printed no reward, .*: the last line of its output is '{\"reward\": NaN}'"),
            (one + "print('{\"reward\": 1, \"loss\": 2}')", r"unknown fields \['loss'\]"),
            (one + "print('{\"reward\": \"1\"}')", "is no reward"),
            (one + "post('/reward', {'reward': 0.5}); print(1)", "two rewards that differ: 1 was printed, 0.5 posted"),
        ]
        for (program, wanted), (_, end) in zip(cases, self.each([CHAT + program for program, _ in cases])):
            self.assertEqual(set(end), {"episode", "error"}, program)
            self.assertRegex(end["error"], wanted)
        self.assertRegex(self.error(one + "import time; time.sleep(60)", episode_seconds=1.0), r"longer than `episode_seconds` \(1 s\) after 1 call")
        self.assertRegex(self.error("for n in range(9): said([user(str(n))])", calls=2), "more than the 2 calls that the setting `calls` allows")
        self.assertRegex(self.error(one + "print(1)", reward="post"), "posted no reward: the last line of its output is '1'")
        too_long = {"request": "refuse", "reason": "too_long", "tokens": 9000, "limit": 8192}
        self.assertRegex(self.error("ask([user('1')]); print(1)", lambda call: too_long),
                         "ended after 1 call, and no call was answered; its last request was refused: prompt is too long: 9000 tokens > 8192 maximum")
        self.assertRegex(self.error(one + "print(1)", reward={"file": "r.json"}), "wrote no reward to r.json")
        self.assertRegex(self.error(one + "open('r.json', 'w').write('7')", reward={"file": "r.json"}), "wrote no reward to r.json in FLOW_FOLDER")
        self.assertRegex(self.error(one + "sys.exit(3)", reward={"command": ["echo", "2"]}), "ended with exit status 3")
        self.assertRegex(self.error(one, reward={"command": ["sh", "-c", "echo 2; exit 1"]}), "checking command ended with exit status 1")
        self.assertRegex(self.error(one + "print(1)", reward={"command": ["false"]}), "checking command ended with exit status 1 and printed no reward")

    def test_rewards_come_by_post_file_and_command(self):
        one = 'first = ask([user("1")])\n'
        for program, settings, wanted in [
            (one + "post('/reward', {'reward': 0.25}); post('/reward', {'reward': 0.5, 'won': True})", {"reward": "post"}, (0.5, True)),
            (one + "post('/reward', {'reward': 0.5}); print(0.5)", {}, (0.5, False)),
            (one + "post('/reward', {'reward': 0.5}); print('done')", {}, (0.5, False)),
            (one + "open(os.environ['FLOW_FOLDER'] + '/r.json', 'w').write('{\"reward\": 2}')", {"reward": {"file": "r.json"}}, (2, True)),
            (one + "open(os.environ['FLOW_FOLDER'] + '/r.json', 'w').write('0.5\\n')", {"reward": {"file": "r.json"}, "won_at": 0.5}, (0.5, True)),
            (one + "print('seven')", {"reward": {"command": ["sh", "-c", "read -r task; grep -q seven \"$FLOW_OUTPUT\" && echo 0.75"]}}, (0.75, False)),
        ]:
            _, end = self.played(CHAT + program, **settings)
            self.assertEqual((end.get("reward"), end.get("won")), wanted, end)

    def test_a_reward_names_its_call(self):
        calls, end = self.played(CHAT + """
ids = [ask([user("1")])["id"], post("/responses", {"model": "m", "input": "2"})["id"],
       post("/messages", {"model": "m", "max_tokens": 9, "messages": [user("3")]})["id"]]
post("/reward", {"reward": 1, "call": ids[0]})  # which the next one replaces
for id in ids: post("/reward", {"reward": 0.5, "call": id})
wrong = post("/reward", {"reward": 0.5, "call": "chatcmpl-x"})
print(json.dumps({"reward": 1, "info": {"wrong": wrong["status"]}}))
""")
        self.assertEqual(end["credit"], sorted([call["id"], 0.5] for call in calls))
        self.assertEqual(end["info"], {"wrong": 404})

    def test_a_program_gets_the_listed_variables_only(self):
        # By FLOW_PROGRAM flow finds what a door that was killed has left.
        names = ("FLOW_TEST_SECRET", "FLOW_TEST_PASSED", "FLOW_PROGRAM")
        os.environ.update(dict.fromkeys(names, "p"))
        self.addCleanup(lambda: [os.environ.pop(name) for name in names])
        _, end = self.played(CHAT + """
said([user("1")])
wanted = ["FLOW_TASK", "FLOW_SEED", "FLOW_FOLDER", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "NO_PROXY", "FLOW_TEST_PASSED", "FLOW_PROGRAM"]
print(int(all(name in os.environ for name in wanted) and "FLOW_TEST_SECRET" not in os.environ and os.environ["FLOW_SEED"] == "7"))
""", **{"pass": ["FLOW_TEST_PASSED"]})
        self.assertEqual(end["reward"], 1)

    def alive(self, mark):
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found += [int(entry.parent.name)] if mark in entry.read_text() else []
            except OSError:
                continue
        return found

    FORKS = CHAT + """
import subprocess
for n in range(3): subprocess.Popen(["sleep", MARK], start_new_session=n > 0)
said([user("1")])
"""

    def test_a_long_task_comes_on_the_input_and_as_a_file(self):
        program = CHAT + """
given = sys.stdin.read()
said([user("1")])
print(int("FLOW_TASK" not in os.environ and given == open(os.environ["FLOW_TASK_FILE"]).read() and len(json.loads(given)["text"]) == 200000))
"""
        flow = self.flow(program, tasks=[{"id": "one", "text": "x" * 200_000}])
        _, end = flow.play(lambda call: "a")[0]
        self.assertEqual(end.get("reward"), 1, end)

    TWO = CHAT + """
import threading
threads = [threading.Thread(target=said, args=([user(name)],)) for name in "ab"]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(1)
"""

    def test_calls_that_overlap_have_to_be_announced(self):
        def slow(call):
            time.sleep(0.3)
            return "a"

        _, end = self.played(self.TWO, slow)
        self.assertRegex(end.get("error", ""), "two of its calls overlap.*say `parallel: true`")
        calls, end = self.played(self.TWO, slow, parallel=True)
        self.assertEqual((end.get("reward"), len(calls)), (1, 2), end)

    def test_a_call_that_is_open_when_the_program_ends_is_named_as_unread(self):
        program = CHAT + """
import threading, time
said([user("1")])
threading.Thread(target=said, args=([user("2")],), daemon=True).start()
time.sleep(0.5)
print(1, flush=True)
os._exit(0)
"""
        flow = self.flow(program)
        view = flow.ask({"request": "reset", "episode": 0, "split": "train", "task": "one", "seed": 0})
        view = flow.ask({"request": "step", "episode": 0, "action": "a"})
        time.sleep(1)  # its program has ended before the answer comes
        end = flow.ask({"request": "step", "episode": 0, "action": "b"})
        self.assertEqual((end.get("reward"), end.get("unread")), (1, [view["call"]["id"]]), end)

    def test_a_call_whose_client_has_hung_up_is_unread_and_no_overlap(self):
        program = CHAT + """
import socket
host, port = os.environ["OPENAI_BASE_URL"].split("/")[2].split(":")
body = json.dumps({"model": "m", "messages": [user("left alone")]})
with socket.create_connection((host, int(port))) as each:
    each.sendall(f"POST /v1/chat/completions HTTP/1.1\\r\\nhost: x\\r\\nauthorization: Bearer {os.environ['OPENAI_API_KEY']}\\r\\ncontent-length: {len(body)}\\r\\n\\r\\n{body}".encode())
    import time; time.sleep(0.3)
time.sleep(0.3)
said([user("2")])
print(1)
"""
        calls, end = self.played(program, lambda call: time.sleep(0.8) or "a")
        self.assertEqual((end.get("reward"), end.get("unread")), (1, [calls[0]["id"]]), end)

    def test_what_a_killed_door_left_is_removed_by_the_next(self):
        program = CHAT + "said([user(os.environ['FLOW_FOLDER'])])"
        flows = [self.flow(program), self.flow(program)]
        killed, living = [flow.ask({"request": "reset", "episode": 0, "split": "train", "task": "one", "seed": 0})["call"]["messages"][0]["content"]
                          for flow in flows]
        flows[0].child.kill()
        flows[0].child.wait()
        self.assertTrue(os.path.isdir(killed))
        self.flow(program)
        self.assertTrue(gone(Path(killed).parents[1]))
        self.assertTrue(os.path.isdir(living))
        flows[1].end()
        self.assertFalse(os.path.exists(Path(living).parents[1]))

    def test_children_end_with_their_episode(self):
        program = self.FORKS.replace("MARK", '"9871"') + "print(1)"
        _, end = self.played(program)
        self.assertEqual(end.get("reward"), 1, end)
        self.assertEqual(self.alive("9871"), [])

    def test_when_the_input_ends_all_children_end(self):
        flow = self.flow(self.FORKS.replace("MARK", '"9872"'))
        view = flow.ask({"request": "reset", "episode": 0, "split": "train", "task": "one", "seed": 0})
        self.assertIn("call", view)
        self.assertEqual(len(self.alive("9872")), 3)
        status, seconds = flow.end()
        self.assertEqual((status, self.alive("9872")), (0, []))
        self.assertLess(seconds, 4)

    def test_a_closed_episode_answers_what_is_open_and_leaves_no_folder(self):
        flow = self.flow(CHAT + "import time; said([user(os.environ['FLOW_FOLDER'])]); time.sleep(60)")
        view = flow.ask({"request": "reset", "episode": 0, "split": "train", "task": "one", "seed": 0})
        folder = view["call"]["messages"][0]["content"]
        self.assertTrue(os.path.isdir(folder))
        flow.send({"request": "step", "episode": 0, "action": "a"})
        answers = [flow.ask({"request": "close", "episode": 0}), flow.next()]
        self.assertEqual(answers, [{"episode": 0, "error": "the episode was closed"}, {"episode": 0, "closed": True}])
        flow.end()
        self.assertFalse(os.path.exists(folder))

    def test_an_episode_that_thinks_holds_up_no_other(self):
        flow = self.flow(CHAT + "import time; said([user('1')]); time.sleep(0.5); said([user('2')]); print(1)")
        begun = time.monotonic()
        played = flow.play(lambda call: "a", ["one"] * 16)
        self.assertEqual({end.get("reward") for _, end in played}, {1})
        self.assertLess(time.monotonic() - begun, 6)


class Checking(Door):
    def checked(self, program, **settings):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "agent.py").write_text(program)
            Path(folder, "tasks.jsonl").write_text('{"id": "a"}\n{"id": "b"}\n')
            told = {"command": [sys.executable, "agent.py"], "tasks": str(Path(folder, "tasks.jsonl")), "folder": folder, "live": 4, **settings}
            with contextlib.redirect_stdout(io.StringIO()) as out:
                status = check(serving("program:" + json.dumps(told)), 2, 6, [])
        return status, out.getvalue()

    def test_a_program_passes_the_check(self):
        status, out = self.checked(LOOP)
        self.assertEqual(status, 0, out)
        self.assertIn("ok      deterministic: the same rows when played again", out)
        self.assertIn("ok      another process: the same rows, 4 at a time and in the reverse order", out)

    def test_a_program_that_draws_by_itself_does_not(self):
        status, out = self.checked(CHAT + "import random\nsaid([user(str(random.random()))])\nprint(1)")
        self.assertEqual(status, 1, out)
        self.assertRegex(out, "FAILED  deterministic: train/[ab], turn 0: `observation` is")


class Attacks(Door):
    def test_half_open_slow_and_many_connections_hold_up_nothing(self):
        program = CHAT + """
import socket
host, port = os.environ["OPENAI_BASE_URL"].split("/")[2].split(":")
head = f"POST /v1/chat/completions HTTP/1.1\\r\\nhost: x\\r\\nauthorization: Bearer {os.environ['OPENAI_API_KEY']}\\r\\n"
sockets = []
def connect(text, shut=False):
    each = socket.create_connection((host, int(port)))
    each.sendall(text.encode())
    if shut: each.shutdown(socket.SHUT_WR)
    each.settimeout(3)
    sockets.append(each)
    return each
for n in range(100): connect("")
for n in range(50): connect(head)                                           # headers that never end
for n in range(50): connect(head + "content-length: 100\\r\\n\\r\\n{")    # bodies that never end
for n in range(20): connect(head + "content-length: 100\\r\\n\\r\\n{", shut=True)
answers = [connect("GARBAGE\\r\\n\\r\\n").recv(100), connect(head + "x: " + "y" * 100000 + "\\r\\n\\r\\n").recv(100),
           connect(head + "content-length: 20000000\\r\\nexpect: 100-continue\\r\\n\\r\\n").recv(100)]
text = said([user('"}\\n{"episode":0,"error":"mine"}\\r\\n\\x00\u2028')])["content"]
print(json.dumps({"reward": text == "left", "info": {"bad": sum(b" 400 " in each for each in answers)}}).replace("true", "1"))
"""
        calls, end = self.played(program)
        self.assertEqual((end.get("reward"), len(calls)), (1, 1), end)
        self.assertGreaterEqual(end["info"]["bad"], 2)

    def test_a_program_that_prints_without_end_is_bounded(self):
        program = CHAT + """
said([user("1")])
for _ in range(300): print("x" * 100000); print("y" * 100000, file=sys.stderr)
print(0.5)
"""
        flow = self.flow(program)
        _, end = flow.play(lambda call: "a")[0]
        self.assertEqual(end.get("reward"), 0.5, end)
        peak = int(next(line for line in Path(f"/proc/{flow.child.pid}/status").read_text().splitlines() if line.startswith("VmHWM")).split()[1])
        self.assertLess(peak, 150_000)


class Reading(unittest.TestCase):
    def read(self, tasks=({"id": "one"},), **more):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "tasks.jsonl")
            path.write_text("".join(json.dumps(task) + "\n" for task in tasks))
            settings = {"command": ["sh"], "tasks": str(path), "folder": folder, **more}
            return Tasks.of_file(ProgramSettings.of_json(json.dumps(settings)).tasks)

    def test_wrong_settings_and_tasks_are_told_before_anything_runs(self):
        for settings, wanted in [
            ({"comand": 1}, "there are no settings \\['comand'\\]"), ({"reward": "none"}, "`reward` is 'none'"), ({"live": 0}, "`live` is 0"),
            ({"command": ["no-such-program"]}, "the program `no-such-program` isn't found"), ({"folder": "/none"}, "there is no folder /none"),
            ({"reward": {"command": ["no-such-program"]}}, "the program `no-such-program` isn't found"), ({"command": "sh"}, "`command` and `pass` are lists"),
            ({"tasks": [{"id": "a b"}]}, r"tasks.jsonl:1: the `id` 'a b'"), ({"tasks": [{"split": "A"}]}, "tasks.jsonl:1: the `split` 'A'"),
            ({"tasks": [{"id": "a"}, {"id": "a"}]}, r"tasks.jsonl:2: the task a stands in line 1"),
            ({"tasks": [{"x": 1}, {"x": 1, "split": "test"}]}, r"tasks.jsonl:2: the task \w{16} stands"), ({"tasks": []}, "has no task"),
            ({"tasks": [[1]]}, "tasks.jsonl:1: a task is a JSON object"),
        ]:
            with self.assertRaisesRegex(Wrong, wanted):
                self.read(**settings)
        with self.assertRaisesRegex(Wrong, "stands no JSON"):
            ProgramSettings.of_json("{")

    def test_tasks_have_names_splits_and_words(self):
        tasks = self.read([{"id": "a", "question": "add the numbers"}, {"split": "test", "question": "x"}])
        self.assertEqual({split: len(some) for split, some in tasks.splits.items()}, {"train": 1, "test": 1})
        self.assertIn(" numbers", tasks.words())

    @unittest.skipUnless(importlib.util.find_spec("aiohttp"), "the package aiohttp isn't here")
    def test_a_door_that_cannot_open_says_why(self):
        with self.assertRaisesRegex(RuntimeError, "flow-env: the program `no-such-program` isn't found"):
            Flow(["no-such-program"])
