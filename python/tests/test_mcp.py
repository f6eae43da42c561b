"""Tools of MCP servers: real ones over standard input and output and over HTTP, and such as fail."""

import asyncio
import importlib.util
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from tests.door_driver import Flow, tool_calls

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tools" / "mcp"
SERVER = """
import os, sys, time
from mcp.server.mcpserver import MCPServer
server = MCPServer("bad")
@server.tool()
def slow(seconds: float) -> str:
    time.sleep(seconds)
    return "x" * 1000
@server.tool()
def die() -> str:
    print("I die", file=sys.stderr, flush=True)
    os._exit(3)
server.run()
"""


class Serving(unittest.TestCase):
    def file(self, **changed):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name, "here")
        shutil.copytree(EXAMPLE, path)
        (path / "bad.py").write_text(SERVER)
        given = json.loads((path / "stock.json").read_text())
        given["reward"] = {"command": [sys.executable, "check.py"]}
        given["servers"] = {"stock": {"command": [sys.executable, "server.py"]}}
        (path / "stock.json").write_text(json.dumps({**given, **changed}))
        return str(path / "stock.json")

    def flow(self, **changed):
        flow = Flow.of(f"mcp:{self.file(**changed)}")
        self.addCleanup(lambda: flow.child.poll() is None and flow.end())
        return flow


@unittest.skipUnless(importlib.util.find_spec("mcp"), "the package mcp isn't here")
class Mcp(Serving):
    def policy(self, call):
        """Asks how many there are and orders the rest."""
        task, last = call["messages"][1]["content"], call["messages"][-1]
        item, wanted = task.split()[3], int(task.split()[2])
        if last["role"] == "user":
            return tool_calls(("count", {"item": item}))
        return tool_calls(("order", {"item": item, "number": wanted - int(last["content"])})) if last["content"].isdigit() else "Done."

    def test_each_episode_has_a_server_of_its_own(self):
        flow = self.flow()
        self.assertEqual(flow.hello["splits"], {"train": ["pears", "plums"], "test": ["apples"]})
        for calls, end in flow.play(self.policy, ["pears", "plums", "pears"]):
            self.assertEqual((end.get("reward"), end.get("won"), end.get("info")), (1, True, {"calls": 2}), end)
            self.assertEqual(sorted(tool["function"]["name"] for tool in calls[0]["tools"]), ["count", "order"])
            self.assertEqual([message["role"] for message in calls[-1]["messages"]], ["system", "user", "assistant", "tool", "assistant", "tool"])
        self.assertEqual(flow.play(lambda call: "Done.", ["pears"])[0][1]["reward"], 0)
        self.assertEqual(flow.end()[0], 0)

    def test_a_server_over_http(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        server = subprocess.Popen([sys.executable, str(EXAMPLE / "server.py"), str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        calls, end = self.flow(servers={"stock": {"url": f"http://127.0.0.1:{port}/mcp"}}).play(self.policy, ["pears"])[0]
        self.assertEqual([message["content"] for message in calls[-1]["messages"] if message["role"] == "tool"], ["5", "15 pears ordered: now 20"])
        self.assertEqual((end.get("reward"), end.get("info")), (0, {"calls": 2}), end)  # the server knows no folder of the episode

    def test_what_is_wrong_goes_back_to_the_policy(self):
        said = iter([tool_calls(("fly", {})), tool_calls(("count", {})), tool_calls(("order", {"item": "pears", "number": "one"})), "<tool_call>{}</tool_call>",
                     tool_calls(("count", {"item": "figs"})), tool_calls(("slow", {"seconds": 0}))])
        calls, end = self.flow(servers={"stock": {"command": [sys.executable, "server.py"]}, "bad": {"command": [sys.executable, "bad.py"]}}, characters=100).play(
            lambda call: next(said, "Done."), ["pears"])[0]
        results = [call["messages"][-1]["content"] for call in calls[1:]]
        self.assertEqual(results[:3], ["Error: there is no tool `fly`; there are count, die, order, slow", "Error: the argument `item` is missing", "Error: the argument `number` is no integer"])
        self.assertIn("there are no figs", results[4])
        self.assertEqual(results[5], "x" * 50 + "\n[900 characters are left out]\n" + "x" * 50)
        self.assertEqual([call["view"].get("valid", True) for call in calls], [True] + [False] * 4 + [True] * 2)
        self.assertEqual((end["reward"], end.get("truncated")), (0, None))

    def test_a_limit_of_turns_is_scored_but_a_command_that_says_nothing_is_a_failure(self):
        check = "import sys; 'pears' in sys.stdin.read() or sys.exit(1); print(0.5)"
        (calls, end), (_, other) = self.flow(turns=2, reward={"command": [sys.executable, "-c", check]}).play(self.policy, ["pears", "plums"])
        self.assertEqual((len(calls), end["reward"], end["truncated"]), (2, 0.5, True))
        self.assertRegex(other["error"], "the checking command ended with exit status 1 and printed no reward")

    def test_without_a_sandbox_the_command_finds_what_tools_left_running(self):
        leaves = "import os, subprocess\nopen(os.environ['FLOW_FOLDER'] + '/pid', 'w').write(str(subprocess.Popen(['sleep', '60'], start_new_session=True, stdin=-3, stdout=-3, stderr=-3).pid))\n"
        check = "import os\npid = open(os.environ['FLOW_FOLDER'] + '/pid').read()\nprint(int('sleep' in open(f'/proc/{pid}/cmdline').read()))"
        flow = self.flow(servers={"odd": {"command": [sys.executable, "-c", leaves + ODD, "[]"]}}, reward={"command": [sys.executable, "-c", check]})
        self.assertEqual(flow.play(lambda call: "Done.", ["pears"])[0][1].get("reward"), 1)

    def test_a_server_that_fails_is_never_a_reward(self):
        flow = self.flow(servers={"bad": {"command": [sys.executable, "bad.py"]}}, call_seconds=5)
        said = {"20": tool_calls(("die", {})), "7": tool_calls(("slow", {"seconds": 30}))}
        played = flow.play(lambda call: said[call["messages"][1]["content"].split()[2]], ["pears", "plums"])
        for (_, end), wanted in zip(played, [r"(?s)the server `bad` failed in `die`: .*it last said: I die", r"the tool `slow` took longer than `call_seconds` \(5 s\)"]):
            self.assertEqual(set(end), {"episode", "error"}, end)
            self.assertRegex(end["error"], wanted)
        self.assertEqual(flow.end()[0], 0)

    def test_a_server_that_cannot_be_used_fails_the_episode(self):
        from flow_env.adapters.mcp import Mcp as World

        async def played(**changed):
            world = World(self.file(**changed))
            episode = world.episode(world.tasks.splits["train"]["pears"], 1)
            episode.start()
            await episode.view()
            await episode.clean_up()
            return episode.outcome["error"]

        for changed, wanted in [
            ({"servers": {"no": {"command": [sys.executable, "-c", "raise SystemExit('gone')"]}}}, "(?s)the server `no` can't be used: .*gone"),
            ({"servers": {"no": {"command": ["sleep", "60"]}}, "call_seconds": 0.5}, r"the server `no` didn't list its tools within `call_seconds` \(0.5 s\)"),
            ({"servers": {"no": {"url": "http://127.0.0.1:9/mcp"}}}, "the server `no` can't be used: "),
        ]:
            self.assertRegex(asyncio.run(played(**changed)), wanted)

    def test_wrong_files_are_told_before_anything_runs(self):
        from flow_env.adapters.mcp import Mcp as World
        from flow_env.door.settings import Wrong

        for changed, wanted in [({"servers": {}}, "`servers` names no server"), ({"servers": {"a": {"command": ["no-such-program"]}}}, "`no-such-program` isn't found"),
                                ({"servers": {"a": {"path": "x"}}}, "the server `a` is neither"), ({"reward": "output"}, "`reward` is 'output'"), ({"turns": 0}, "`turns` is 0"),
                                ({"tasks": "server.py"}, "server.py:1: no JSON"), ({"task": 1}, r"there are no settings \['task'\]")]:
            with self.assertRaisesRegex(Wrong, wanted):
                World(self.file(**changed))
        with self.assertRaisesRegex(RuntimeError, "the file can't be read"):
            Flow.of("mcp:none.json")


ODD = """
import json, sys
tools = [{"name": "fine", "description": "d", "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}}}, *json.loads(sys.argv[1])]
for line in sys.stdin:
    asked = json.loads(line)
    result = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}},
              "tools/list": {"tools": tools}, "tools/call": {"content": [{"type": "text", "text": "called " + json.dumps(asked.get("params", {}).get("arguments"))}]}}.get(asked["method"])
    if "id" in asked:
        answer = {"result": result} if result else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


@unittest.skipUnless(importlib.util.find_spec("mcp"), "the package mcp isn't here")
class OddTools(Serving):
    def odd(self, *tools):
        return {"odd": {"command": [sys.executable, "-c", ODD, json.dumps(tools)]}}

    def names(self, flow):
        calls, end = flow.play(lambda call: tool_calls(("fine", {"a": 1, "more": True})) if len(call["messages"]) == 2 else "Done.", ["pears"])[0]
        self.assertEqual(calls[1]["messages"][-1]["content"], 'called {"a": 1, "more": true}')
        self.assertEqual(end.get("reward"), 0, end)
        return [tool["function"]["name"] for tool in calls[0]["tools"]]

    def test_a_tool_that_cannot_be_used_is_left_out_and_named(self):
        deep = {"type": "object"}
        for _ in range(60):  # 121 deep; the client library takes no line of more than 200
            deep = {"properties": {"a": deep}}
        for odd, wanted in [({"name": "null", "inputSchema": None}, "`null`"), ({"name": "none"}, "`none`"), ({"name": "text", "inputSchema": "x"}, "`text`"), ({"inputSchema": {"type": "object"}}, "number 2"),
                            ({"name": "deep", "inputSchema": deep}, "nested more than 100 deep"), ({"name": "huge", "inputSchema": {"type": "object", "maxProperties": 10**30}}, "no integer of 64 bits")]:
            flow = self.flow(servers=self.odd(odd, {"name": "also", "inputSchema": {"type": "object"}}))
            self.assertEqual(self.names(flow), ["fine", "also"])
            flow.end()
            self.assertRegex(b"".join(flow.complaints).decode(), f"(?s)the tool .*of the server `odd` is left out: .*")
            self.assertIn(wanted, b"".join(flow.complaints).decode())

    def test_open_and_composed_schemas_can_be_called(self):
        composed = {"type": "object", "anyOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"required": ["b"]}]}
        flow = self.flow(servers=self.odd({"name": "open", "inputSchema": {"type": "object"}}, {"name": "either", "inputSchema": composed}))
        said = iter([tool_calls(("open", {"anything": [1]})), tool_calls(("either", {"b": 1})), tool_calls(("either", {"c": 1})), tool_calls(("either", {"a": "1"}))])
        calls, _ = flow.play(lambda call: next(said, "Done."), ["pears"])[0]
        results = [call["messages"][-1]["content"] for call in calls[1:]]
        self.assertEqual(results[:2], ['called {"anything": [1]}', 'called {"b": 1}'])
        self.assertTrue(all(result.startswith("Error: the argument") for result in results[2:]), results)
