"""Any program as an environment: real programs that call the door over HTTP, and a scripted policy on flow's side."""

import importlib.util
import unittest

from tests.door_driver import Flow

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
        played = self.flow(LOOP).play(lambda call: "left", many=4)
        self.assertEqual(len({str([(call["id"], call["view"]["state"]) for call in calls]) for calls, _ in played}), 1)
