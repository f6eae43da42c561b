"""`start: fork`: programs in Python that are forked from a process which has imported their packages."""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from flow_env.door.settings import ProgramSettings, Wrong
from tests.door_driver import Flow
from tests.test_door import CHAT, Door

SLOW = "import time\ntime.sleep(1.0)\nSTATE = []\nimport os\nSEEN = os.environ.get('FLOW_SEED')\n"


class Forks(Door):
    def forked(self, program, policy=lambda call: "a", tasks=("one",), before=None, command=None, **settings):
        """Episodes by forks, in a folder that also has these files."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in {"agent.py": program, **(before or {})}.items():
            Path(folder.name, name).parent.mkdir(exist_ok=True)
            Path(folder.name, name).write_text(text)
        flow = Flow([sys.executable, *(command or ["agent.py"])], start="fork", folder=folder.name, **settings)
        self.addCleanup(lambda: flow.child.poll() is None and flow.end())
        self.begun = time.monotonic()
        return flow, flow.play(policy, tasks)

    def test_an_episode_is_as_if_its_program_had_been_started(self):
        program = CHAT + """
import random, subprocess
given = json.loads(sys.stdin.readline())
said([user("1")])
state = [os.environ["FLOW_FOLDER"], os.getcwd(), os.getsid(0) == os.getpid(), __name__, sys.argv, os.path.basename(__file__), random.random(), sorted(globals().get("seen", [])),
         given == json.loads(os.environ["FLOW_TASK"]), "OPENAI_API_KEY" in os.environ, open(os.environ["FLOW_FOLDER"] + "/mine", "x").write("x"), sorted(os.listdir("/proc/self/fd")) < ["5"],
         subprocess.run(["sh", "-c", "echo $FLOW_SEED"], capture_output=True, text=True).stdout]
seen = ["left behind"]
json.seen = 1
said([user(json.dumps(state))])
print(json.dumps({"reward": 1, "info": {"left": int(hasattr(json, "again"))}}))
json.again = 1
"""
        flow, played = self.forked(program, tasks=["one"] * 5, command=["agent.py", "x"])
        for calls, end in played:
            self.assertEqual((end.get("reward"), end.get("info")), (1, {"left": 0}), end)
        states = [json.loads(calls[1]["messages"][0]["content"]) for calls, _ in played]
        self.assertEqual(len({state[0] for state in states}), 5)
        self.assertEqual(len({state[6] for state in states}), 5, "each draws numbers of its own")
        for state in states:
            self.assertEqual(state[2:6] + state[7:], [True, "__main__", ["agent.py", "x"], "agent.py", [], True, True, 1, True, "7\n"])
        self.assertEqual(flow.end()[0], 0)

    def test_packages_are_imported_once_and_own_modules_by_each_episode(self):
        with tempfile.TemporaryDirectory() as site:
            packages = Path(site, "site-packages")
            packages.mkdir()
            (packages / "slow_package.py").write_text(SLOW)
            os.environ["PYTHONPATH"], before = str(packages), os.environ.get("PYTHONPATH")
            self.addCleanup(lambda: os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before))
            program = CHAT + """
import helper, slow_package
said([user("1")])
slow_package.STATE.append(1)
print(json.dumps({"reward": len(slow_package.STATE), "won": helper.SEED == "7" and slow_package.SEEN is None}))
"""
            helper = "import os\nimport slow_package\nSEED = os.environ['FLOW_SEED']\n"
            _, played = self.forked(program, tasks=["one"] * 8, before={"helper.py": helper})
            self.assertEqual([(end.get("reward"), end.get("won")) for _, end in played], [(1, True)] * 8, played[0][1])
            self.assertLess(time.monotonic() - self.begun, 6, "the package's second was paid once")

    def test_a_module_may_be_named(self):
        program = CHAT + "said([user(sys.argv[1])])\nprint(1)"
        _, [(calls, end)] = self.forked("", before={"package/__main__.py": program, "package/__init__.py": ""}, command=["-m", "package", "given"])
        self.assertEqual((end.get("reward"), calls[0]["messages"][0]["content"]), (1, "given"), end)

    def test_ends_are_told_as_of_any_program(self):
        for code, wanted in [("sys.exit(3)", "ended with exit status 3 after 1 call"), ("os.kill(os.getpid(), 9)", "was killed by signal 9"), ("os._exit(4)", "exit status 4"),
                             ("raise ValueError('mine')", "(?s)exit status 1 .*it last said: ValueError: mine"), ("import no_such", "No module named 'no_such'"), ("(", "(?s)exit status 1.*SyntaxError")]:
            _, [(_, end)] = self.forked(CHAT + "said([user('1')])\n" + code)
            self.assertRegex(end.get("error", ""), wanted if code != "(" else "(?s)exit status 1.*SyntaxError")
        _, played = self.forked(CHAT + "import time\nsaid([user('1')])\ntime.sleep(60)", episode_seconds=1.0, tasks=["one"] * 2)
        self.assertEqual(["episode_seconds" in end["error"] for _, end in played], [True] * 2)

    def test_children_end_with_their_episode_and_all_with_the_door(self):
        program = CHAT + """
import subprocess
for n in range(2): subprocess.Popen(["sleep", "9874"], start_new_session=n > 0)
said([user("1")])
print(1)
"""
        flow, [(_, end)] = self.forked(program)
        self.assertEqual((end.get("reward"), self.alive("9874")), (1, []), end)
        view = flow.ask({"request": "reset", "episode": 5, "split": "train", "task": "one", "seed": 0})
        self.assertIn("call", view)
        self.assertEqual(len(self.alive("9874")), 2)
        self.assertEqual(flow.end()[0], 0)
        self.assertEqual((self.alive("9874"), self.alive("zygote.py")), ([], []))

    def test_what_forks_is_begun_again_when_it_has_ended(self):
        flow, [(_, end)] = self.forked(CHAT + "said([user('1')])\nprint(1)")
        self.assertEqual(end.get("reward"), 1)
        for pid in self.alive("zygote.py"):
            os.kill(pid, 9)
        time.sleep(0.5)
        self.assertEqual(flow.play(lambda call: "a")[0][1].get("reward"), 1)

    def alive(self, mark):
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found += [int(entry.parent.name)] if mark in entry.read_text() else []
            except OSError:
                continue
        return found

    def test_what_is_no_python_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            tasks = Path(folder, "tasks.jsonl")
            tasks.write_text("{}")
            for command, start, wanted in [(["sh", "-c", "true"], "fork", "needs a `command` such as"), ([sys.executable], "fork", "needs a `command`"), ([sys.executable, "-m"], "fork", "needs a `command`"),
                                           ([sys.executable, "-c", "1"], "fork", "needs a `command`"), (["sh"], "forked", "`start` is 'forked'")]:
                with self.assertRaisesRegex(Wrong, wanted):
                    ProgramSettings.of_json(json.dumps({"command": command, "tasks": str(tasks), "start": start}))
