"""What a program sends, prints or leaves in its folder costs its own episode, and no other one."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from flow_env.door import folders, reward, strict
from flow_env.door.removal import remove
from flow_env.limits import wrong_view
from tests.test_door import CHAT, Door, gone

ONE = CHAT + 'said([user("1")])\n'
FINE = CHAT + 'import time\nsaid([user("1")]); time.sleep(1); said([user("2")])\nprint(1)'


class Numbers(unittest.TestCase):
    def test_json_beyond_the_limits_is_refused(self):
        for depth, fits in [(100, True), (101, False), (900, False), (100_000, False)]:
            for text in ("[" * depth + "]" * depth, '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)):
                try:
                    strict.loads(text)
                    self.assertTrue(fits, depth)
                except ValueError as error:
                    self.assertFalse(fits)
                    self.assertRegex(str(error), "nested more than 100 deep")
        for text in (str(2**64 - 1), str(-2**63), "1e308", "-0.0", "5e-324", '"1e999"'):
            self.assertEqual(strict.loads(text), json.loads(text))
        for text in (str(2**64), str(-2**63 - 1), "9" * 400, "9" * 5000, "1e309", "-1e999", "NaN", "Infinity", "-Infinity"):
            with self.assertRaisesRegex(ValueError, "is no (integer of 64 bits|finite number)"):
                strict.loads(f'{{"a": [{text}]}}')

    def test_a_reward_of_a_view_has_32_bits(self):
        view = {"observation": "x", "done": True}
        for value, wanted in [(3.4e38, []), (-3.4e38, []), (1e39, ["`reward` is too large: 1e+39 is beyond 32 bits"]), (-10**39, ["`reward` is too large: -1e+39 is beyond 32 bits"]),
                              (10**400, ["`reward` is no finite number"]), (float("nan"), ["`reward` is no finite number"])]:
            self.assertEqual(wrong_view({**view, "reward": value}, True, False), wanted)
        self.assertEqual(len(wrong_view({**view, "reward": 0, "score": 1e39, "info": {"a": 10**400}}, True, False)), 2)

    def test_a_reward_at_the_end_of_a_line_is_found(self):
        for text, wanted in [('drawn {"reward": 0.5}', 0.5), ('a\n{"x": 1} and {"reward": 1, "info": {"a": 2}}\n', 1), ('{"reward": 2}', 2), ("7", 7),
                             ("x" * 100_000 + '{"reward": 3}', 3), ("{" * 100_000 + '{ "reward": 3}', 3)]:
            self.assertEqual(reward.of_text(text, "here")["reward"], wanted)
        for text in ("so 5", '{"reward": 1} was said', '"reward": 1}', 'is {"won": true}', "drawn [1]", '{"reward": 1}\ndone', "9" * 400, "[" * 5000, 'x {"reward": 1}}'):
            self.assertIsNone(reward.of_text(text, "here"), text[:60])
        for text in ('{"reward": "1"}', 'x{"reward": null}', '{"reward": 1e39}', '{"reward": 1, "score": -1e39}'):
            with self.assertRaises(reward.NoReward):
                reward.of_text(text, "here")


class Folders(unittest.TestCase):
    def deep(self, folder, depth):
        """Folders in one another, with files, a link and a FIFO, some without rights."""
        here = os.open(folder, os.O_RDONLY)
        for level in range(depth):
            os.mkdir("d" * 200, dir_fd=here)
            below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
            if level % 100 == 0:
                os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=below))
                os.symlink("/etc", "link", dir_fd=below)
                os.mkfifo("fifo", dir_fd=below)
                os.fchmod(below, 0)
            os.close(here)
            here = below
        os.close(here)

    def test_a_folder_is_removed_however_deep(self):
        for depth in (1, 3000):
            folder = tempfile.mkdtemp()
            self.deep(folder, depth)
            os.mkdir(os.path.join(folder, "beside"))
            os.chmod(folder, 0)
            self.assertTrue(remove(folder))
            self.assertFalse(os.path.exists(folder))
        self.assertTrue(os.path.isdir("/etc"), "a link isn't followed")
        self.assertTrue(remove(folder), "what is gone is no fault")

    def test_a_link_or_a_file_in_the_place_of_a_folder_goes_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = Path(folder, "kept")
            kept.mkdir()
            (kept / "file").write_text("")
            Path(folder, "link").symlink_to(kept)
            Path(folder, "file").write_text("")
            os.mkfifo(Path(folder, "fifo"))
            for name in ("link", "file", "fifo"):
                self.assertTrue(remove(os.path.join(folder, name)))
            self.assertEqual(([path.name for path in Path(folder).iterdir()], (kept / "file").exists()), (["kept"], True))

    def test_removal_ends_in_time(self):
        folder = tempfile.mkdtemp()
        self.deep(folder, 50)
        self.assertFalse(remove(folder, -1.0))
        self.assertTrue(remove(folder))

    def test_old_folders_of_any_kind_hold_up_no_door(self):
        with tempfile.TemporaryDirectory() as place:
            before, tempfile.tempdir = tempfile.tempdir, place
            try:
                for name in ("fifo", "link", "folder", "none", "deep"):
                    os.mkdir(os.path.join(place, f"flow-door-{name}"))
                lock = {name: os.path.join(place, f"flow-door-{name}", "lock") for name in ("fifo", "link", "folder", "deep")}
                os.mkfifo(lock["fifo"])
                os.symlink("/etc/passwd", lock["link"])
                os.mkdir(lock["folder"])
                Path(lock["deep"]).write_text("")
                Path(place, "flow-door-file").write_text("")
                self.deep(os.path.dirname(lock["deep"]), 2000)
                folders.remove_stale()
                self.assertTrue(gone(os.path.dirname(lock["deep"])))
                self.assertEqual(len(os.listdir(place)), 5, "what has no lock of a door isn't one's")
            finally:
                tempfile.tempdir = before


class Requests(Door):
    def test_a_request_that_flow_could_not_read_is_refused(self):
        program = CHAT + """
import json
deep = {}
for _ in range(400): deep = {"a": deep}
def tool(parameters): return [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
def arguments(value): return [user("1"), {"role": "assistant", "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": value}}]}, user("2")]
def raw(path, text):
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + path, text.encode(), {"content-type": "application/json"})
    try: return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error: return json.load(error)["error"] and error.code
statuses = [ask([user("1")], tools=tool(deep))["status"], ask([user("1")], max_tokens=10**30)["status"],
            post("/responses", {"model": "m", "input": "1", "tools": [{"type": "function", "name": "f", "parameters": deep}]})["status"],
            post("/messages", {"model": "m", "max_tokens": 9, "messages": [user("1")], "tools": [{"name": "f", "input_schema": deep}]})["status"],
            post("/messages", {"model": "m", "max_tokens": 9, "messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "f", "input": {"n": 10**400}}]}, user("1")]})["status"],
            raw("/chat/completions", '{"model": "m", "temperature": 1e999, "messages": [{"role": "user", "content": "1"}]}'),
            raw("/chat/completions", '{"model": "m", "messages": [{"role": "user", "content": "1"}], "metadata": ' + "[" * 50000 + "]" * 50000 + "}"),
            raw("/reward", '{"reward": ' + "9" * 400 + "}"), raw("/reward", '{"reward": 1e39}'), raw("/reward", '{"reward": 1, "info": {"a": ' + "9" * 400 + "}}")]
fine = said(arguments('{"n": ' + "9" * 400 + "}"))["content"]
print(json.dumps({"reward": statuses.count(400), "won": fine == "left" and len(statuses) == 10}))
"""
        for calls, end in self.each([program, FINE]):
            self.assertIn((end.get("reward"), end.get("won")), [(10, True), (1, True)], end)
        self.assertEqual(len(calls), 2)

    def test_half_requests_print_nothing(self):
        flow = self.flow(CHAT + """
import socket, time
host, port = os.environ["OPENAI_BASE_URL"].split("/")[2].split(":")
head = f"POST /v1/chat/completions HTTP/1.1\\r\\nhost: x\\r\\nauthorization: Bearer {os.environ['OPENAI_API_KEY']}\\r\\n"
for text in ("content-length: 100\\r\\n\\r\\n{", "transfer-encoding: chunked\\r\\n\\r\\nzz\\r\\n{", "transfer-encoding: chunked\\r\\n\\r\\n5\\r\\n{",
             "content-encoding: gzip\\r\\ncontent-length: 5\\r\\n\\r\\n{aaaa", "x: " + "y" * 100000, "\\x00: \\x01\\r\\n\\r\\n"):
    for shut in (True, False):
        with socket.create_connection((host, int(port))) as each:
            each.sendall((head + text).encode())
            if shut: each.shutdown(socket.SHUT_WR)
            time.sleep(0.1)
said([user("1")])
print(1)
""")
        self.assertEqual(flow.play(lambda call: "a")[0][1].get("reward"), 1)
        flow.end()
        flow.listening.join(5)
        self.assertEqual(b"".join(flow.complaints), b"")

    def test_a_call_that_the_policy_writes_too_large_is_text(self):
        program = CHAT + """
tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
message = said([user("1")], tools=tools)
said([user("1"), message, user("2")], tools=tools)
print(int("tool_calls" not in message))
"""
        for arguments in ('{"n": ' + "9" * 400 + "}", '{"n": ' + "[" * 400 + "]" * 400 + "}", '{"n": 1e999}'):
            said = f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>'
            calls, end = self.played(program, lambda call: said if "on" not in call else "")
            self.assertEqual((end.get("reward"), calls[1]["view"].get("valid"), calls[1]["messages"][1]["content"]), (1, False, said), end)

    def test_a_reward_that_is_no_number_is_said(self):
        for printed, wanted in [("9" * 400, "printed no reward.*the last line of its output is '9999"), ('{"reward": 1e39}', "is no reward"), ("1e999", "printed no reward")]:
            _, end = self.played(ONE + f"print({printed!r})")
            self.assertRegex(end.get("error", ""), wanted)

    def test_a_reward_behind_what_was_drawn_without_a_line_is_found(self):
        _, end = self.played(ONE + """sys.stdout.write("\\x1b[2Kdrawing ... "); print(json.dumps({"reward": 0.5, "info": {"a": 1}}))""")
        self.assertEqual((end.get("reward"), end.get("info")), (0.5, {"a": 1}), end)


class Leaving(Door):
    CHECK = """import json, os, sys
told = [sys.stdin.readline(), open(os.environ["FLOW_TASK_FILE"]).readline(), os.environ["FLOW_TASK"]]
answer = {json.loads(each)["answer"] for each in told}
print(float(answer == {open(os.environ["FLOW_OUTPUT"]).read().strip()}))"""

    def checked(self, program):
        flow = self.flow(ONE + program, tasks=[{"id": "one", "answer": "right"}], reward={"command": [sys.executable, "-c", self.CHECK]}, episode_seconds=8.0)
        return flow.play(lambda call: "a")[0][1]

    def test_a_checking_command_is_told_the_task_that_flow_gave(self):
        self.assertEqual(self.checked("print('right')").get("reward"), 1)
        mine = """
task = json.dumps({"id": "one", "answer": "mine"}) + "\\n"
path = os.environ["FLOW_TASK_FILE"]
"""
        fifo = "\nos.unlink(path); os.mkfifo(path); os.mkfifo(os.path.dirname(path) + '/output')"
        for program in (mine + "open(path, 'w').write(task)", mine + "os.unlink(path); os.symlink('/dev/stdin', path)", mine + fifo,
                        mine + "open('/proc/self/fd/0', 'r+').write(task)", mine + "import shutil; shutil.rmtree(os.path.dirname(path))"):
            self.assertEqual(self.checked(program + "\nprint('mine')").get("reward"), 0, program)

    def test_an_output_that_is_a_link_overwrites_nothing(self):
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write("kept")
            file.flush()
            self.checked(f"\nos.symlink({file.name!r}, os.path.dirname(os.environ['FLOW_TASK_FILE']) + '/output')\nprint('right')")
            self.assertEqual(Path(file.name).read_text(), "kept")

    def test_a_reward_that_is_no_plain_file_fails_its_episode_alone(self):
        path = "path = os.environ['FLOW_FOLDER'] + '/r.json'\n"
        programs = [path + "os.mkfifo(path)", path + "os.mkdir(path)", path + "os.symlink('/dev/zero', path)", path + "os.symlink('/dev/stdin', path)",
                    path + "import socket; socket.socket(socket.AF_UNIX).bind(path)", path + "open(path, 'w').write('[' * 60000)", path + "open(path, 'w').write('9' * 60000)"]
        wrong = ["is no plain file", "is no plain file", "is a link", "is a link", "can't be read", "has no reward", "has no reward"]
        began = time.monotonic()
        *ends, fine = [end for _, end in self.each([*(ONE + program for program in programs), FINE + "\n" + path + "open(path, 'w').write('1')"], reward={"file": "r.json"})]
        self.assertEqual(fine.get("reward"), 1, fine)
        self.assertLess(time.monotonic() - began, 20)
        for end, wanted in zip(ends, wrong):
            self.assertRegex(end.get("error", ""), wanted)

    def test_a_thousand_folders_in_one_another_are_removed_with_their_episode(self):
        flow = self.flow(CHAT + """
said([user(os.environ["FLOW_FOLDER"])])
os.chdir(os.environ["FLOW_FOLDER"])
for _ in range(3000): os.mkdir("d"); os.chdir("d")
print(1)
""")
        calls, end = flow.play(lambda call: "a")[0]
        self.assertEqual(end.get("reward"), 1, end)
        self.assertTrue(gone(Path(calls[0]["messages"][0]["content"]).parent))
        self.assertEqual(flow.end()[0], 0)

    def test_a_folder_that_cannot_be_made_fails_its_episode_and_no_other(self):
        # As where a program has filled the disk: the door's own folder takes no other.
        flow = self.flow(CHAT + "said([user(os.environ['FLOW_FOLDER'])])\nprint(1)")
        view = flow.ask({"request": "reset", "episode": 0, "split": "train", "task": "one", "seed": 0})
        door = Path(view["call"]["messages"][0]["content"]).parents[1]
        os.rename(door, f"{door}-gone")
        self.addCleanup(remove, f"{door}-gone")
        self.assertIn("folder can't be made", flow.ask({"request": "reset", "episode": 1, "split": "train", "task": "one", "seed": 0})["error"])
        os.rename(f"{door}-gone", door)
        self.assertEqual(flow.ask({"request": "step", "episode": 0, "action": "a"}).get("reward"), 1)
