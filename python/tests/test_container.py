"""Programs and tools in containers of Docker and of Podman. They need a daemon, or Podman, and an image with Python 3 and bash that FLOW_TEST_IMAGE names."""

import importlib.util
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from flow_env.door.engine import Engine
from flow_env.door.settings import Wrong
from tests import test_mcp, test_sandbox
from tests.door_driver import Flow, tool_calls
from tests.test_door import CHAT

IMAGE = os.environ.get("FLOW_TEST_IMAGE", "")
WANTED = os.environ.get("FLOW_TEST_ENGINES", "").split()
"""Of these a test that can't run is a failure."""
RESET = {"request": "reset", "episode": 0, "split": "train", "task": "one", "seed": 7}


def unusable(name):
    """Why containers can't be tested here; nothing if they can."""
    if importlib.util.find_spec("aiohttp") is None:
        return "the package aiohttp isn't here"
    if not IMAGE:
        return "FLOW_TEST_IMAGE names no image"
    try:
        Engine(name).image(IMAGE)
    except Wrong as wrong:
        return str(wrong)[:200]
    return ""


WHY = {name: unusable(name) for name in ("docker", "podman")}


class Contained:
    @classmethod
    def setUpClass(cls):
        why = WHY[cls.kind]
        if why and cls.kind in WANTED:
            raise RuntimeError(why)
        if why:
            raise unittest.SkipTest(why)

    covered = ""
    open_to_root = ("/proc/slabinfo",) if not os.getuid() else ()

    @property
    def box(self):
        return {"sandbox": self.kind, "image": IMAGE}

    def client(self, *arguments):
        return subprocess.run([self.kind, *arguments], capture_output=True, text=True, check=True).stdout

    def running(self, flow=None):
        """The containers of all doors, whatever their state."""
        return self.client("ps", "--all", "--filter", "label=flow.door", "--format", "{{.Names}}").split()

    held = "[0-2]"  # times 50 processes: the kernel holds 64 more

    def nests(self):
        return False

    def gone(self, seconds=30):
        """Whether no container is left before long, and no process of one."""
        until = time.monotonic() + seconds
        left = lambda: self.running() + [words for words in map(test_sandbox.cmdline, Path("/proc").glob("[0-9]*/cmdline")) if "/.sandbox.py {" in words or "sleep 3600 & wait" in words]
        while left() and time.monotonic() < until:
            time.sleep(0.1)
        return left() == []

    def built(self, *lines):
        """An image made from the one that is tested with."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "Dockerfile").write_text("\n".join([f"FROM {IMAGE}", *lines]))
            name = f"flow-test-{os.getpid()}-{time.monotonic_ns()}"
            self.client("build", "--quiet", "--tag", name, folder)
        self.addCleanup(self.client, "rmi", "--force", name)
        return name


class Docker(Contained):
    kind = "docker"


class Podman(Contained):
    kind = "podman"


class DockerAlike(Docker, test_sandbox.Alike):
    pass


class PodmanAlike(Podman, test_sandbox.Alike):
    pass


class DockerHeld(Docker, test_sandbox.Held):
    pass


class PodmanHeld(Podman, test_sandbox.Held):
    pass


class More(test_sandbox.Boxed):
    """What is a container's alone."""

    def test_paths_with_commas_spaces_quotes_and_colons(self):
        with tempfile.TemporaryDirectory(dir=os.path.expanduser("~")) as other:
            folder, more = Path(other, 'a b,c:d"e'), Path(other, "x,readonly=false,y")
            folder.mkdir(), more.mkdir()
            (more / "text").write_text("seen")
            (folder / "agent.py").write_text(CHAT + test_sandbox.TRIED + f"said([user(tried(lambda: open({str(more / 'text')!r}).read()) + ' ' + tried(lambda: open({str(more / 'text')!r}, 'w')))])\nprint(1)")
            [(calls, end)] = self.flow(["python3", "agent.py"], folder=str(folder), read=[str(more)], **self.box).play(lambda call: "a")
        self.assertEqual((calls[0]["messages"][0]["content"], end.get("reward")), ("seen OSError 30", 1), end)

    def test_links_in_its_folder_lead_nowhere(self):
        with tempfile.TemporaryDirectory(dir=os.path.expanduser("~")) as folder, tempfile.TemporaryDirectory() as other:
            Path(other, "key").write_text("secret")
            Path(folder, "link").symlink_to(Path(other, "key"))
            Path(folder, "whole").symlink_to(other)
            Path(folder, "real").write_text("secret")
            Path(folder, "hidden").symlink_to("real")
            Path(folder, "runs").symlink_to(other)
            names = ["link", "whole/key", "hidden", "real", "runs/key"]
            Path(folder, "agent.py").write_text(CHAT + test_sandbox.TRIED + f"found = [tried(lambda: open(name).read()) for name in {names}]\nsaid([user(json.dumps(found))])\nprint(1)")
            [(calls, end)] = self.flow(["python3", "agent.py"], folder=folder, hide=["hidden"], **self.box).play(lambda call: "a")
        self.assertEqual(json.loads(calls[0]["messages"][0]["content"]), ["FileNotFoundError 2", "FileNotFoundError 2", "", "", "FileNotFoundError 2"], end)

    def test_the_sockets_of_the_machine_are_out_of_reach(self):
        found = self.tell("found = [str(os.path.exists(path)) for path in ('/var/run/docker.sock', '/run/docker.sock', '/run/podman', '/run/containerd', '/.flow')]")
        self.assertEqual(found, ["False"] * 5)

    def test_memory_that_no_process_maps_counts(self):
        for code in ("fd = os.memfd_create('x')\nfor _ in range(400): os.write(fd, b'1' * (1 << 20))", "for n in range(400): open(f'/tmp/{n}', 'wb').write(b'1' * (1 << 20))"):
            self.assertRegex(self.error(code, memory_mb=128), r"`memory_mb`, which is 128: the kernel killed|MB of memory, and `memory_mb` is 128|killed by signal 9|exit status 137")

    def test_an_image_has_no_say(self):
        box = {**self.box, "image": self.built("VOLUME /data", 'ENTRYPOINT ["false"]', 'ENV OPENAI_BASE_URL=elsewhere', "USER nobody", "WORKDIR /nowhere")}
        program = CHAT + test_sandbox.TRIED + "said([user(json.dumps([os.getcwd(), os.getuid(), os.statvfs('/data').f_blocks * os.statvfs('/data').f_frsize >> 20]))])\nprint(1)"
        flow = self.flow(program, disk_mb=50, **box)
        [(calls, end)] = flow.play(lambda call: "a")
        self.assertEqual((json.loads(calls[0]["messages"][0]["content"]), end.get("reward")), ([flow.folder.name, os.getuid(), 50], 1), end)

    def test_an_image_that_lacks_something(self):
        for image, command, wanted in [("no-such-image:1", ["python3"], f"the image no-such-image:1 isn't on this machine. flow pulls none: say `{self.kind} pull no-such-image:1`"),
                                       (self.built("RUN rm -f $(which -a python3)"), ["python3"], "has no `python3`, which process 1 of a sandbox needs"),
                                       (IMAGE, ["no-such-program"], "it has no program `no-such-program`")]:
            with self.assertRaises(RuntimeError) as caught:
                self.flow(command, sandbox=self.kind, image=image)
            self.assertIn(wanted, str(caught.exception))
        self.assertTrue(self.gone())

    def test_a_door_that_is_killed_as_a_container_begins(self):
        for wait in (0.0, 0.1, 0.3):
            flow = self.flow(CHAT + "said([user('1')])\n", **self.box)
            flow.send(RESET)
            time.sleep(wait)
            flow.child.kill()
            flow.child.wait()
        time.sleep(2)
        self.assertTrue(self.gone())

    def test_what_outlives_door_and_watcher_the_next_door_removes(self):
        flow = self.flow(CHAT + "said([user('1')])\n", **self.box)
        self.assertIn("call", flow.ask(RESET))
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            words = test_sandbox.cmdline(entry)
            if "watch.py" in words and "flow.door=" in words:
                os.kill(int(entry.parent.name), signal.SIGKILL)
        flow.child.kill()
        flow.child.wait()
        self.assertEqual(len(self.running()), 1)
        flow = self.flow(CHAT + "said([user('1')])\nprint(1)", **self.box)
        self.assertTrue(self.gone())
        self.assertEqual(flow.play(lambda call: "a")[0][1].get("reward"), 1)

    def test_nothing_is_left_of_episodes(self):
        flow = self.flow(CHAT + "said([user('1')])\nimport time\ntime.sleep(600)", episode_seconds=2.0, **self.box)
        flow.play(lambda call: "a", ["one"] * 2)
        self.assertEqual(flow.end()[0], 0)
        self.assertTrue(self.gone())

    @unittest.skipUnless(importlib.util.find_spec("mcp"), "the package mcp isn't here")
    def test_servers_of_tools(self):
        serving = test_mcp.Serving()
        path = Path(serving.file(servers={"odd": {"command": ["python3", "-c", test_mcp.ODD.replace('"called "', 'f"{os.getpid() < 10} {os.path.exists(os.path.expanduser(\'~/.bashrc\'))} "').replace("import json", "import os, json"), "[]"]}},
                                 reward={"command": ["python3", "check.py"]}, **self.box))
        self.addCleanup(serving.doCleanups)
        (path.parent / "check.py").write_text("import os\nprint(int(os.getpid() < 10 and len(open(os.environ['FLOW_TRANSCRIPT']).readlines()) > 2))")
        flow = Flow.of(f"mcp:{path}")
        self.addCleanup(lambda: flow.child.poll() is None and flow.end())
        [(calls, end)] = flow.play(lambda call: "Done." if call["messages"][-1]["role"] == "tool" else tool_calls(("fine", {"a": 1})), ["pears"])
        self.assertRegex(calls[-1]["messages"][-1]["content"], "^True False ")
        self.assertEqual(end.get("reward"), 1, end)
        self.assertEqual(flow.end()[0], 0)
        self.assertTrue(self.gone())


class DockerMore(Docker, More):
    pass


class PodmanMore(Podman, More):
    pass


del More
