"""Programs and tools in containers of Docker and of Podman. They need a daemon, or Podman, and an image with Python 3 and bash that FLOW_TEST_IMAGE names.
What a client says of a fault is tested with false clients, everywhere."""

import importlib.util
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from flow_env.door import folders, sandbox
from flow_env.door.container import mount
from flow_env.door.engine import Engine
from flow_env.door.settings import ProgramSettings, Wrong
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

    def gone(self, seconds=30):
        """Whether no container is left before long."""
        until = time.monotonic() + seconds
        while self.running() and time.monotonic() < until:
            time.sleep(0.1)
        return self.running() == []

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


class Said(unittest.TestCase):
    """What needs no container: false clients that say what real ones do."""

    def client(self, script, name="docker"):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        if script is not None:
            Path(folder.name, name).write_text("#!/bin/sh\n" + script)
            Path(folder.name, name).chmod(0o755)
        before = os.environ["PATH"]
        os.environ["PATH"] = f"{folder.name}:/bin:/usr/bin" if script is not None else folder.name
        self.addCleanup(os.environ.__setitem__, "PATH", before)
        return folder.name

    def made(self, **settings):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        given = {"command": ["python3", "agent.py"], "tasks": "-", "folder": folder.name, "sandbox": "docker", "image": "a:1", **settings}
        settings = ProgramSettings.of(given)
        box = sandbox.of(settings, [settings.command], settings.folder)
        self.addCleanup(box.close)
        return box

    def wrong(self, **settings):
        with self.assertRaises(Wrong) as caught:
            self.made(**settings)
        return str(caught.exception)

    def test_settings_that_mean_nothing(self):
        for settings, wanted in [({"image": ""}, "`sandbox: docker` needs `image`"), ({"image": "--privileged"}, "`image` is '--privileged', which names no image"), ({"image": "a b"}, "names no image"),
                                 ({"sandbox": "none"}, "`image` is a setting of a container: say `sandbox: docker`"), ({"start": "fork"}, "`start: fork` isn't possible in a sandbox"), ({"memory_mb": 0}, "`memory_mb` is 0")]:
            self.assertIn(wanted, self.wrong(**settings))

    def test_a_machine_without_a_client_a_daemon_or_an_image(self):
        self.client(None)
        self.assertRegex(self.wrong(), "^`sandbox: docker` needs the program `docker`, and it isn't installed. Install Docker Engine .*Or say `sandbox: bubblewrap`")
        self.client("echo 'Cannot connect to the Docker daemon at unix:///run/docker.sock. Is the docker daemon running?' >&2; exit 1")
        self.assertRegex(self.wrong(), "^`sandbox: docker` doesn't work here. `docker version` failed: Cannot connect .*systemctl start docker")
        os.environ["DOCKER_HOST"], before = "ssh://user@host", os.environ.get("DOCKER_HOST")
        self.addCleanup(lambda: os.environ.update(DOCKER_HOST=before) if before else os.environ.pop("DOCKER_HOST", None))
        self.assertRegex(self.wrong(), "^`sandbox: docker` needs a daemon on this machine, .*set to ssh")
        os.environ["DOCKER_HOST"] = "unix:///none"
        self.client('case "$1" in image) echo "Error: No such image: a:1" >&2; exit 1;; esac')
        self.assertEqual(self.wrong(), "the image a:1 isn't on this machine. flow pulls none: say `docker pull a:1`")

    def test_the_command_of_a_container(self):
        self.client('case "$1" in image) echo "sha256:1 {\\"/data\\":{}}";; info) echo "[]";; esac')
        box = self.made(memory_mb=100, max_processes=10, disk_mb=5)
        command = box.wrapped(["python3", "agent.py"], box.folder, [("/a,b", "/a,b")], ["/tmp/task"], (5, "/tmp/socket"), owner="x", names=["OPENAI_API_KEY", "PATH"])
        words = " ".join(command)
        for wanted in ["run --name flow-", f"--label flow.door={folders.own()}", "--interactive --pull never --read-only --cap-drop ALL --security-opt no-new-privileges --network none --hostname sandbox",
                       "--log-driver none", f"--user {os.getuid()}:{os.getgid()}", "--memory 164m --memory-swap 164m --pids-limit 74 --shm-size 5m", "--tmpfs /data:rw,exec,nosuid,nodev,size=5m,mode=1777",
                       '--mount type=bind,"source=/a,b","target=/a,b" ', "--mount type=bind,source=/tmp/task,target=/tmp/task,readonly", "target=/tmp/socket,readonly", "--env OPENAI_API_KEY ",
                       "--entrypoint python3 sha256:1 -I -S /.sandbox.py {"]:
            self.assertIn(wanted, words)
        self.assertNotIn("--env PATH", words)
        self.assertEqual((json.loads(command[-3])["socket"], command[-2:]), ("/tmp/socket", ["python3", "agent.py"]))
        connected = self.made(network=True).wrapped(["x"], "/", [], door=(5, "/tmp/socket"))
        self.assertIn("--network host", " ".join(connected))
        self.assertNotIn("/tmp/socket", " ".join(connected))

    def test_what_would_show_the_sockets_of_the_daemon(self):
        self.client('case "$1" in image) echo "sha256:1 null";; esac')
        self.assertRegex(self.wrong(read=["/run"]), "a sandbox would show /run, and with it the sockets of docker: by them a program is master of this machine")
        with self.assertRaisesRegex(Wrong, "control character"):
            mount("/a\nb", "/a")

    @unittest.skipUnless(importlib.util.find_spec("aiohttp"), "the package aiohttp isn't here")
    def test_a_daemon_that_stops_fails_the_episode(self):
        folder = self.client('case "$1" in image) echo "sha256:1 null";; run) [ -e $(dirname $0)/tried ] || { touch $(dirname $0)/tried; exit 0; }; echo "error waiting for container: unexpected EOF" >&2; exit 125;; esac')
        flow = Flow(["python3", "agent.py"], sandbox="docker", image="a:1")
        self.addCleanup(lambda: flow.child.poll() is None and flow.end())
        self.assertTrue(os.path.exists(f"{folder}/tried"))
        [(calls, end)] = flow.play(lambda call: "a")
        self.assertEqual((calls, set(end)), ([], {"episode", "error"}))
        self.assertRegex(end["error"], "ended with exit status 125 after 0 calls\n  it last said: error waiting for container")

    def test_a_trial_that_fails_names_what_the_client_said(self):
        self.client('case "$1" in image) echo "sha256:1 null";; run) echo "docker: Error response from daemon: no cgroups" >&2; exit 125;; esac')
        self.assertRegex(self.wrong(), "`sandbox: docker` doesn't work with the image a:1: docker: Error response from daemon: no cgroups. Or say")
