"""Tasks in Harbor's format in plain folders."""

import importlib.util
import tempfile
import time
import unittest
from pathlib import Path

from tests.door_driver import Flow, tool_calls

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tools" / "harbor"


def bash(command):
    return tool_calls(("bash", {"command": command}))


@unittest.skipUnless(importlib.util.find_spec("tomllib"), "Python 3.11 isn't here")
class Harbor(unittest.TestCase):
    def flow(self, folder=EXAMPLE, more=""):
        flow = Flow.of(f"harbor:{folder}{more}")
        self.addCleanup(lambda: flow.child.poll() is None and flow.end())
        return flow

    def task(self, test="echo 1 > /logs/verifier/reward.txt", toml="", docker=None, name="task"):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name, name)
        (path / "tests").mkdir(parents=True)
        (path / "environment").mkdir()
        (path / "instruction.md").write_text("Do it.")
        (path / "task.toml").write_text(toml)
        (path / "tests" / "test.sh").write_text(test)
        (path / "environment" / "data.txt").write_text("seen from /app/data.txt\n")
        if docker is not None:
            (path / "environment" / "Dockerfile").write_text(docker)
        return path

    def test_the_solution_wins_and_an_empty_answer_does_not(self):
        flow = self.flow()
        self.assertEqual((flow.hello["splits"], flow.hello["abilities"]), ({"train": ["count-words"], "test": ["fix-sum"]}, ["expert"]))
        for split, task, info in [("train", "count-words", {}), ("test", "fix-sum", {"right": 3})]:
            view = flow.ask({"request": "reset", "episode": 0, "split": split, "task": task, "seed": 1})
            while "call" in view:
                view = flow.ask({"request": "step", "episode": 0, "action": flow.ask({"request": "expert", "episode": 0})["action"]})
            self.assertEqual((view.get("reward"), view.get("won"), view.get("info")), (1, True, info), view)
            flow.ask({"request": "close", "episode": 0})
            self.assertEqual(flow.play(lambda call: "Done.", [task], split=split)[0][1]["reward"], 0)
        self.assertEqual(flow.end()[0], 0)

    def test_what_the_policy_sees(self):
        path = self.task(docker="# a comment\nFROM ubuntu\nWORKDIR /srv/place\nCOPY . .\n")
        commands = ["pwd; ls; echo $HOME; echo $OPENAI_API_KEY; env | grep -c TASK", "echo here > /srv/place/a; cat a /srv/place/a; ls /tests", "exit 3", "sleep 60 & echo off",
                    "sleep 60", "head -c 5000000 /dev/zero | tr '\\0' x"]
        said = [*map(bash, commands), tool_calls(("fly", {})), tool_calls(("bash", {"command": 3})), tool_calls(("bash", {"cmd": "ls"}))]
        flow = self.flow(path, ",call_seconds=2,characters=100")
        played = flow.play(lambda call: said[len(call["messages"]) // 2] if len(call["messages"]) // 2 < len(said) else "Done.", ["task"] * 2)
        for calls, end in played:
            results = [call["messages"][-1]["content"] for call in calls[1:]]
            self.assertEqual(results[0], "/srv/place\ndata.txt\n/root\n\n0\n[exit status 1]")
            self.assertEqual(results[1], "here\nhere\nls: cannot access '/tests': No such file or directory\n[exit status 2]")
            self.assertEqual(results[2:5], ["\n[exit status 3]", "off", "\n[killed after 2 s]"])
            self.assertEqual((results[5][:50], len(results[5]) < 200), ("x" * 50, True))
            self.assertTrue(results[6].startswith("Error: there is no tool `fly`; there are bash"))
            self.assertEqual(results[7:], ["Error: the argument `command` is no string", "Error: the argument `command` is missing"])
            self.assertEqual([call["view"].get("valid", True) for call in calls], [True] * 7 + [False] * 3)
            self.assertEqual(end.get("reward"), 1, end)
        # Equal episodes in folders of their own are equal calls.
        self.assertEqual(*([(call["id"], call["messages"]) for call in calls] for calls, _ in played))

    def test_tests_come_late_and_paths_are_rewritten(self):
        path = self.task("cat /tests/wanted /app/data.txt; grep -q /app/data.txt /app/data.txt && cmp /tests/wanted /app/mine && echo 0.5 > /logs/verifier/reward.txt")
        (path / "tests" / "wanted").write_text("yes\n")
        flow = self.flow(path)
        calls, end = flow.play(lambda call: "Done." if len(call["messages"]) > 1 else bash("mkdir -p /logs/verifier; echo 9 > /logs/verifier/reward.txt; cat $(head -c 9 data.txt >/dev/null; "
                                                                                           "awk '{print $3}' data.txt); echo yes > mine"), ["task"])[0]
        self.assertEqual(calls[1]["messages"][-1]["content"], "seen from /app/data.txt")
        self.assertEqual((end.get("reward"), end.get("won")), (0.5, False), end)

    def test_a_failure_is_never_a_reward(self):
        for test, toml, wanted in [("echo why; exit 1", "", "tests/test.sh ended with exit status 1 and wrote no reward .* it printed: why"),
                                   ("sleep 60", "[verifier]\ntimeout_sec = 0.5", r"tests/test.sh took longer than 0.5 s"),
                                   ("echo none > /logs/verifier/reward.txt", "", "has no reward: 'none"),
                                   ("echo '{\"a\": 1, \"b\": 2}' > /logs/verifier/reward.json", "", "reward.json has no number `reward`")]:
            _, end = self.flow(self.task(test, toml)).play(lambda call: "", ["task"])[0]
            self.assertEqual(set(end), {"episode", "error"}, end)
            self.assertRegex(end["error"], wanted)

    def test_what_needs_a_container_is_refused_with_the_reason(self):
        from flow_env.adapters.harbor import Harbor as World
        from flow_env.door.settings import Wrong

        for changed, wanted in [
            ({"docker": "FROM ubuntu\nRUN apt-get update && \\\n  apt-get install -y git\n"}, r"task: environment/Dockerfile has `RUN apt-get update &&.*`: only FROM, WORKDIR"),
            ({"docker": "FROM ubuntu\nCOPY a.txt /etc/a.txt\n"}, "has `COPY a.txt /etc/a.txt`"), ({"toml": "[environment]\ndocker_image = 'x'"}, "names an image"),
            ({"toml": "[[steps]]\nname = 'a'"}, "several steps"), ({"toml": "[verifier.env]\nKEY = '${KEY}'"}, "aren't plain texts: KEY"), ({"toml": "a ="}, "task: task.toml or instruction.md can't be read: Invalid"),
            ({"name": "a b"}, "its name isn't of"),
        ]:
            with self.assertRaisesRegex(Wrong, "(?s)can't be played without a container:.*" + wanted):
                World(str(self.task(**changed)))
        for text, wanted in [(str(EXAMPLE / "none"), "names a folder"), (f"{EXAMPLE},turn=3", r"there are no settings \['turn'\]"), (str(EXAMPLE.parent / "mcp"), "has no task")]:
            with self.assertRaisesRegex(Wrong, wanted):
                World(text)

    def test_children_end_with_their_episode(self):
        flow = self.flow(self.task())
        flow.ask({"request": "reset", "episode": 0, "split": "train", "task": "task", "seed": 1})
        flow.send({"request": "step", "episode": 0, "action": bash("setsid sleep 9873 & sleep 9873")})
        deadline = time.monotonic() + 10
        while len(self.alive("9873")) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(len(self.alive("9873")), 2)
        flow.send({"request": "close", "episode": 0})
        self.assertEqual(flow.next()["error"], "the episode was closed")
        self.assertEqual(flow.end()[0], 0)
        self.assertEqual(self.alive("9873"), [])

    def alive(self, argument):
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found += [entry] if entry.read_text().split("\0")[:2] == ["sleep", argument] else []
            except OSError:
                continue
        return found
