"""Programs, tools and tasks in a sandbox: what one tries is held, and an ordinary one has the same episodes as without."""

import importlib.util
import json
import os
import socket
import sys
import tempfile
import time
import unittest
from pathlib import Path

from flow_env.door import bubblewrap, sandboxes
from flow_env.door.settings import ProgramSettings, Wrong
from tests import test_harbor, test_mcp
from tests.door_driver import Flow, python, tool_calls
from tests.test_door import CHAT, LOOP, Door

BOX = {"sandbox": "bubblewrap"}
TRIED = """
def tried(do):
    try:
        return str(do())
    except BaseException as error:
        return type(error).__name__ + " " + str(getattr(error, "errno", ""))
"""


def unusable():
    """Why bubblewrap can't be used here; nothing if it can."""
    if importlib.util.find_spec("aiohttp") is None:
        return "the package aiohttp isn't here"
    try:
        bubblewrap.Bubblewrap(ProgramSettings(command=["true"], tasks="-", **BOX), [], None)
    except Wrong as wrong:
        return str(wrong)[:200]
    return ""


WHY = unusable()


class Boxed(Door):
    box = BOX
    covered = "PermissionError 13"
    """What a program gets for a file that is hidden from it."""
    open_to_root = ()
    held = "0"

    @classmethod
    def setUpClass(cls):
        if WHY:
            raise unittest.SkipTest(WHY)

    def tell(self, code, policy=lambda call: "left", **settings):
        """What a program in a sandbox says to the policy, as JSON, and how its episode ends."""
        program = CHAT + TRIED + code + "\nsaid([user(json.dumps(found))])\nprint(1)"
        calls, end = self.played(program, policy, **self.box, **settings)
        self.assertEqual(end.get("reward"), 1, end)
        return json.loads(calls[0]["messages"][0]["content"])

    def error(self, code, **settings):
        _, end = self.played(CHAT + "said([user('1')])\n" + code, **self.box, **settings)
        return end.get("error", str(end))


class Alike(Boxed):
    def test_an_ordinary_program_has_the_same_episodes(self):
        def episodes(**settings):
            flow = self.flow(LOOP, **settings)
            return [([(call["id"], call["view"]) for call in calls], end) for calls, end in flow.play(lambda call: "left", ["one"] * 4)]

        self.assertEqual(episodes(), episodes(**self.box))

    def test_all_ways_of_a_reward(self):
        check = "import json, os\nprint(json.dumps({'reward': len(open(os.environ['FLOW_OUTPUT']).read()) + len(open(os.environ['FLOW_FOLDER'] + '/a').read()), "
        check += "'won': json.load(open(os.environ['FLOW_TASK_FILE']))['id'] == 'one'}))"
        program = CHAT + "said([user('1')])\nopen(os.environ['FLOW_FOLDER'] + '/a', 'w').write('0.5')\nprint('four', end='')\n"
        for reward, more, wanted in [("post", "post('/reward', {'reward': 3})", 3), ({"file": "a"}, "", 0.5), ({"command": [python(self.box), "-c", check]}, "", 7)]:
            _, end = self.played(program + more, reward=reward, **self.box)
            self.assertEqual((end.get("reward"), end.get("won")), (wanted, wanted >= 1), end)

    def test_the_checking_command_sees_what_is_hidden_from_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            program = CHAT + TRIED + "said([user(tried(lambda: open('answers').read()))])"
            for name, text in (("agent.py", program), ("answers", "secret"), ("check.py", "print(int(open('answers').read() == 'secret'))")):
                Path(folder, name).write_text(text)
            flow = self.flow([python(self.box), "agent.py"], folder=os.path.relpath(folder), reward={"command": [python(self.box), "check.py"]}, hide=["answers", "check.py"], **self.box)
            [(calls, end)] = flow.play(lambda call: "a")
        self.assertEqual((calls[0]["messages"][0]["content"], end.get("reward")), (self.covered, 1), end)

    def test_calls_may_overlap_and_be_large(self):
        program = CHAT + """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    got = list(pool.map(lambda n: said([user(str(n) + "x" * 2_000_000)])["content"], range(8)))
print(sum(len(text) for text in got))
"""
        calls, end = self.played(program, lambda call: "y" * 500_000, parallel=True, **self.box)
        self.assertEqual((len(calls), end.get("reward")), (8, 4_000_000), end)

    def test_many_connections_at_once(self):
        found = self.tell("""
import socket
port = int(os.environ["OPENAI_BASE_URL"].split(":")[2].split("/")[0])
connections = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(300)]
found = [str(len(connections))]
""")
        self.assertEqual(found, ["300"])

    def test_ends_are_told_as_of_any_program(self):
        for code, wanted in [("sys.exit(3)", "ended with exit status 3 after 1 call"), ("os.kill(os.getpid(), 9)", "was killed by signal 9 after 1 call"),
                             ("raise ValueError('mine')", "(?s)exit status 1 .*it last said: ValueError: mine")]:
            self.assertRegex(self.error(code), wanted)


class Held(Boxed):
    def test_writes_outside_its_folder(self):
        with tempfile.TemporaryDirectory(dir=os.path.expanduser("~")) as other:
            found = self.tell(f"""
paths = ["/usr/x", "/etc/x", "/x", "agent.py", {other!r} + "/x", os.environ["FLOW_TASK_FILE"], os.environ["FLOW_FOLDER"] + "/x"]
found = [tried(lambda: open(path, "a").write("x")) for path in paths]
open("/tmp/kept", "w"), open(os.path.expanduser("~/kept"), "w"), open("/dev/shm/kept", "w")
""")
            self.assertEqual(os.listdir(other), [])
        self.assertEqual(found, ["OSError 30"] * 4 + ["FileNotFoundError 2", "OSError 30", "1"])
        self.assertFalse(any(os.path.exists(path) for path in ("/tmp/kept", os.path.expanduser("~/kept"), "/dev/shm/kept")))

    def test_its_working_folder_may_be_written_to_if_a_setting_says_so(self):
        flow = self.flow(CHAT + "said([user('1')])\nopen('mine', 'w').write('x')\nprint(1)", write_folder=True, **self.box)
        self.assertEqual(flow.play(lambda call: "a")[0][1].get("reward"), 1)
        self.assertEqual(Path(flow.folder.name, "mine").read_text(), "x")

    def test_secrets_cannot_be_read(self):
        with tempfile.TemporaryDirectory(dir=os.path.expanduser("~")) as home, tempfile.TemporaryDirectory() as folder:
            Path(home, "key").write_text("secret")
            for name in (".env", "runs/a/rows", "answers"):
                Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
                Path(folder, name).write_text("secret")
            Path(folder, "agent.py").write_text("")
            os.environ["A_SECRET"] = "secret"
            self.addCleanup(os.environ.pop, "A_SECRET")
            code = f"""
paths = [{home!r} + "/key", {folder!r} + "/.env", {folder!r} + "/runs/a/rows", {folder!r} + "/answers", "/etc/shadow", "/proc/1/environ", f"/proc/{os.getpid()}/environ"]
found = [tried(lambda: open(path).read()) for path in paths] + [str(sorted(os.listdir(os.path.expanduser("~")))), str(len(os.listdir("/run")) if os.path.exists("/run") else 0)]
found += [tried(lambda: os.kill({os.getpid()}, 0))]
"""
            Path(folder, "agent.py").write_text(CHAT + TRIED + code + "\nsaid([user(json.dumps(found))])\nprint(1)")
            # The folder is one that `Flow` doesn't make, and so is the program.
            [(calls, end)] = self.flow([python(self.box), "agent.py"], folder=folder, hide=["answers"], **self.box).play(lambda call: "a")
        self.assertEqual(end.get("reward"), 1, end)
        found = json.loads(calls[0]["messages"][0]["content"])
        self.assertNotIn("secret", str(found))
        self.assertEqual((found[0], found[2], found[-3:][1:]), ("FileNotFoundError 2", "FileNotFoundError 2", ["0", "ProcessLookupError 3"]), found)
        self.assertNotIn(os.path.basename(home), found[-3])

    def test_listeners_of_this_machine_cannot_be_reached(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            code = f"""
import socket
found = [tried(lambda: socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), 5)), tried(lambda: socket.create_connection(("192.0.2.1", 80), 5))]
"""
            self.assertEqual(self.tell(code), ["ConnectionRefusedError 111", "OSError 101"])
            found = self.tell(code.replace('tried(lambda: socket.create_connection(("192.0.2.1", 80), 5))', "0"), network=True)
            self.assertIn("raddr", found[0])

    def test_it_gains_no_rights(self):
        found = self.tell("""
import subprocess
found = [line.split()[1] for line in open("/proc/self/status") if line.startswith(("CapEff", "CapBnd", "NoNewPrivs"))]
found.append(subprocess.run(["unshare", "-Ur", "true"], capture_output=True).returncode)
found.append(tried(lambda: os.kill(1, 9)))
# What root owns in /proc and /dev is the machine's, whatever namespaces there are.
def opens(path, how):
    try:
        os.close(os.open(path, how | os.O_NONBLOCK))
        return os.stat(path).st_rdev != os.stat("/dev/null").st_rdev
    except OSError:
        return False
for top in os.listdir("/proc"):
    if not top.isdigit() and top not in ("self", "thread-self", "net", "mounts", "pressure"):
        files = [(path, name) for path, _, names in os.walk("/proc/" + top) for name in names] if os.path.isdir("/proc/" + top) else [("/proc", top)]
        found += [os.path.join(*each) for each in files if opens(os.path.join(*each), os.O_WRONLY)]
found += [path for path in ("/proc/kcore", "/proc/kmsg", "/proc/slabinfo", "/proc/timer_list") if opens(path, os.O_RDONLY)]
""")
        self.assertEqual([path for path in found[5:] if path not in self.open_to_root], [])
        self.assertEqual(found[:3], ["0" * 16, "0" * 16, "1"])
        self.assertEqual(found[4], "None", "a signal that process 1 doesn't see")
        if not self.nests():
            self.assertNotEqual(found[3], 0)

    def nests(self):
        """Whether a program may make namespaces of its own."""
        return "--disable-userns" not in bubblewrap.Bubblewrap(ProgramSettings(command=["true"], tasks="-", **BOX), [], None).options

    def test_forks_without_end(self):
        row = "import time\nfor n in range(2000):\n    try:\n        child = not os.fork()\n    except OSError:\n        sys.exit(f'held at {n // 50}')\n    if child:\n        time.sleep(60)"
        # The kernel's limit doesn't hold for root; process 1 of the sandbox sees how many there are.
        self.assertRegex(self.error(row, max_processes=50), r"\d+ processes and threads, and `max_processes` is 50|held at " + self.held)
        began = time.monotonic()
        bomb = "import time\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        time.sleep(0.01)"
        self.assertRegex(self.error(bomb, max_processes=50, episode_seconds=5.0), "`max_processes` is 50|longer than `episode_seconds`")
        self.assertLess(time.monotonic() - began, 20)

    def test_too_much_memory(self):
        self.assertRegex(self.error("x = bytearray(400 << 20)", memory_mb=256), "MemoryError")
        together = "import time\nfor _ in range(6):\n    if not os.fork():\n        x = b'1' * (100 << 20)\n        time.sleep(30)\ntime.sleep(30)"
        self.assertRegex(self.error(together, memory_mb=256), r"\d+ MB of memory, and `memory_mb` is 256")
        shared = "import mmap, time\nx = mmap.mmap(-1, 400 << 20)\nfor _ in range(400):\n    x.write(b'1' * (1 << 20))\ntime.sleep(30)"
        self.assertRegex(self.error(shared, memory_mb=256), r"\d+ MB of memory, and `memory_mb` is 256")

    def test_a_full_disk(self):
        found = self.tell("""
def fill(path):
    with open(path, "wb") as file:
        for _ in range(200):
            file.write(b"1" * (1 << 20))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
found = [tried(lambda: fill(folder + "/x")) for folder in ("/tmp", "/dev/shm", os.path.expanduser("~"), os.environ["FLOW_FOLDER"])]
""", disk_mb=20)
        self.assertTrue(set(found) <= {"OSError 28", "OSError 27"}, found)
        many = "import time\nfor n in range(100):\n    open(os.environ['FLOW_FOLDER'] + f'/{n}', 'wb').write(b'1' * (1 << 20))\ntime.sleep(30)"
        self.assertRegex(self.error(many, disk_mb=20), r"\d+ MB in its folders, and `disk_mb` is 20")

    def test_too_much_cpu_time(self):
        self.assertRegex(self.error("while True: pass", cpu_seconds=1), "`cpu_seconds` is 1")
        together = "import time\nfor _ in range(2): os.fork()\nwhile True: pass"
        self.assertRegex(self.error(together, cpu_seconds=3), r"\d s of CPU time, and `cpu_seconds` is 3")

    def test_nothing_outlives_its_episode(self):
        name = f"outlives-{os.getpid()}"
        program = CHAT + f"""
import subprocess
for _ in range(2):
    if not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        os.execve("/bin/sh", ["{name}", "-c", "sleep 600; sleep 600"], {{}})  # without the variable that marks it
import time
time.sleep(0.5)
said([user("1")])
"""
        alive = lambda: [entry for entry in Path("/proc").glob("[0-9]*/cmdline") if cmdline(entry).startswith(name)]
        for more, policy in [("print(1)", lambda call: "a"), ("time.sleep(600)", lambda call: "a")]:
            flow = self.flow(program + more, episode_seconds=3.0, **self.box)
            seen = []
            [(calls, _)] = flow.play(lambda call: seen.extend(alive()) or "a")
            self.assertEqual((len(calls), len(seen)), (1, 2))
            deadline = time.monotonic() + 10
            while alive() and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertEqual(alive(), [])
            self.assertEqual(flow.end()[0], 0)

    def test_a_door_that_is_killed_takes_its_sandboxes_along(self):
        flow = self.flow(CHAT + "said([user('1')])\n", **self.box)
        self.assertIn("call", flow.ask({"request": "reset", "episode": 0, "split": "train", "task": "one", "seed": 7}))
        self.assertTrue(self.running(flow))
        flow.child.kill()
        flow.child.wait()
        deadline = time.monotonic() + 20
        while self.running(flow) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.running(flow), [])

    def running(self, flow):
        """What runs of a door's sandboxes."""
        return [entry for entry in Path("/proc").glob("[0-9]*/cmdline") if flow.folder.name in cmdline(entry) and "bwrap" in cmdline(entry)]


class Said(Boxed):
    def wrong(self, **settings):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "tasks.jsonl").write_text('{"id": "one"}\n')
            with self.assertRaises(Wrong) as caught:
                given = {"command": [sys.executable, "-c", ""], "tasks": f"{folder}/tasks.jsonl", "folder": folder, **settings}
                settings = ProgramSettings.of(given)
                sandboxes.of(settings, [settings.command], settings.folder)
        return str(caught.exception)

    def test_settings_that_mean_nothing(self):
        for settings, wanted in [({"sandbox": "lxc"}, '`sandbox` is \'lxc\'; it is "none", "bubblewrap", "docker" or "podman"'), ({"memory_mb": 5}, "`memory_mb` is a setting of a sandbox, and there is none"),
                                 ({**BOX, "start": "fork", "command": [sys.executable, "a.py"]}, "`start: fork` isn't possible in a sandbox"),
                                 ({**BOX, "read": ["/no/such"]}, "`read` names /no/such, which isn't there"), ({**BOX, "hide": ["anwsers"]}, "`hide` names anwsers, which isn't in"), ({**BOX, "disk_mb": 0}, "`disk_mb` is 0"),
                                 ({**BOX, "folder": os.path.expanduser("~")}, "a sandbox shows a program its folder, and your home is in")]:
            self.assertIn(wanted, self.wrong(**settings))

    def test_a_machine_without_it_says_what_failed_and_what_to_do(self):
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        with tempfile.TemporaryDirectory() as folder:
            os.environ["PATH"] = folder
            self.assertRegex(self.wrong(**BOX), "needs the program `bwrap`, and it isn't installed.*apt install bubblewrap")
            fake = Path(folder, "bwrap")
            fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
            fake.chmod(0o755)
            self.assertRegex(self.wrong(**BOX), "^`sandbox: bubblewrap` doesn't work here. `.*bwrap --unshare-all .*` failed: bwrap: No permissions to create a new namespace. Install bubblewrap .*sandbox: none")


@unittest.skipIf(WHY, WHY)
class HarborBoxed(test_harbor.Harbor):
    """All that holds without a sandbox."""

    def flow(self, folder=test_harbor.EXAMPLE, more=""):
        return super().flow(folder, more + ",sandbox=bubblewrap")

    def test_the_machine_is_out_of_reach(self):
        with tempfile.TemporaryDirectory() as other, socket.create_server(("127.0.0.1", 0)) as server:
            commands = [f"touch {other}/x; ls {other}", f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}", "echo x > /root/a; cat ~/a; ls -A /root", "cat /solution/solve.sh"]
            said = [*map(test_harbor.bash, commands)]
            calls, end = self.flow(self.task()).play(lambda call: said[len(call["messages"]) // 2] if len(call["messages"]) // 2 < len(said) else "Done.", ["task"])[0]
            results = [call["messages"][-1]["content"] for call in calls[1:]]
            self.assertEqual(os.listdir(other), [])
        self.assertRegex(results[0], "No such file or directory")
        self.assertRegex(results[1], "Connection refused")
        self.assertEqual(results[2], "x\na")
        self.assertRegex(results[3], "No such file or directory")
        self.assertEqual(end.get("reward"), 1, end)


@unittest.skipIf(WHY or not importlib.util.find_spec("mcp"), WHY or "the package mcp isn't here")
class McpBoxed(test_mcp.Serving):
    def test_servers_and_the_checking_command_are_in_it(self):
        server = test_mcp.SERVER.replace("server.run()", """@server.tool()
def look() -> str:
    return f"{os.getpid()} {os.path.exists(os.path.expanduser('~/.ssh'))}"
server.run()""")
        path = Path(self.file(servers={"own": {"command": [sys.executable, "own.py"]}}, **BOX))
        (path.parent / "own.py").write_text(server)
        (path.parent / "check.py").write_text("import json, os\nprint(json.dumps({'reward': int(os.getpid() < 10 and len(open(os.environ['FLOW_TRANSCRIPT']).readlines()) > 2)}))")
        flow = Flow.of(f"mcp:{path}")
        self.addCleanup(lambda: flow.child.poll() is None and flow.end())
        [(calls, end)] = flow.play(lambda call: "Done." if call["messages"][-1]["role"] == "tool" else tool_calls(("look", {})), ["pears"])
        self.assertRegex(calls[-1]["messages"][-1]["content"], r"^\d False$")
        self.assertEqual(end.get("reward"), 1, end)


def cmdline(entry):
    try:
        return entry.read_text().replace("\0", " ")
    except OSError:
        return ""
