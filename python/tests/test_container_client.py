"""The command line of a container, and what is said of a client, a daemon or an image that fails: with false clients, everywhere."""

import asyncio
import importlib.util
import json
import os
import subprocess
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

from flow_env.door import folders, sandboxes
from flow_env.door.container import mount, read_only
from flow_env.door.engine import SAID, Engine
from flow_env.door.settings import ProgramSettings, Wrong
from tests.door_driver import Flow


class Clients(unittest.TestCase):
    """False clients that say what real ones do."""

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

    def set(self, name, value):
        """Sets a variable, or unsets it, for this test."""
        before = os.environ.pop(name, None)
        self.addCleanup(lambda: os.environ.update({name: before}) if before is not None else os.environ.pop(name, None))
        if value is not None:
            os.environ[name] = value


class Said(Clients):
    def made(self, **settings):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        given = {"command": ["python3", "agent.py"], "tasks": "-", "folder": folder.name, "sandbox": "docker", "image": "a:1", **settings}
        settings = ProgramSettings.of(given)
        box = sandboxes.of(settings, [settings.command], settings.folder)
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
        self.set("DOCKER_HOST", "ssh://user@host")
        self.assertRegex(self.wrong(), "^`sandbox: docker` needs a daemon on this machine, .*set to ssh")
        self.set("DOCKER_HOST", None)
        self.client('case "$1" in context) echo tcp://10.0.0.1:2376;; image) echo "sha256:1 null";; esac')
        self.assertRegex(self.wrong(), "^`sandbox: docker` needs a daemon on this machine, .*set to tcp")
        self.set("DOCKER_HOST", "unix:///none")
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

    def test_what_is_mounted_below_a_place_is_read_only_too(self):
        self.client('case "$1" in image) echo "sha256:1 {\\"/data\\":{}}";; esac')
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a b", "b/c", "d"):
                os.makedirs(f"{folder}/{name}")
            box = self.made(folder=folder, hide=["b"])
            folder = box.folder
            points = [folder, f"{folder}/a\\040b", f"{folder}/b/c", f"{folder}/gone", "/usr", f"{folder}2"]
            with unittest.mock.patch("flow_env.door.container.open", unittest.mock.mock_open(read_data="".join(f"36 35 98:0 / {one} rw - ext4 /dev/x rw\n" for one in points)), create=True):
                self.assertEqual(read_only("/usr"), mount("/usr", "/usr"))
                self.assertEqual(read_only(folder, [folder, f"{folder}/d"]), [each for one in (folder, f"{folder}/a b", f"{folder}/b/c") for each in mount(one, one)])
                for checks, wanted in ((False, [folder, f"{folder}/a b", f"{folder}/b"]), (True, [folder, f"{folder}/a b", f"{folder}/b/c"])):
                    words = box.wrapped(["x"], folder, [], checks=checks)
                    self.assertEqual([word.partition("target=")[2] for word in words if word.startswith("type=bind") and folder in word], [f"{one},readonly" for one in wanted])

    def test_what_would_show_the_sockets_of_the_daemon(self):
        self.client('case "$1" in image) echo "sha256:1 null";; esac')
        words = "a sandbox would show {}, and {} is for sockets of Docker, Podman or containerd: by them a program is master of this machine"
        self.assertEqual(self.wrong(read=["/run"]), words.format("/run", "/run/docker.sock"))
        self.assertEqual(self.wrong(read=["/run"], sandbox="bubblewrap", image=""), words.format("/run", "/run/docker.sock"))
        with tempfile.TemporaryDirectory() as folder:
            own = os.path.realpath(folder)
            self.set("CONTAINER_HOST", f"unix://{own}/deep/podman.sock")
            self.assertEqual(self.wrong(read=[folder], sandbox="bubblewrap", image=""), words.format(own, f"{own}/deep/podman.sock"))
            self.set("CONTAINER_HOST", None)
            self.client(f'case "$1" in image) echo "sha256:1 null";; context) echo unix://{own}/docker.sock;; esac')
            for box in ({}, {"sandbox": "bubblewrap", "image": ""}):
                self.assertEqual(self.wrong(read=[folder], **box), words.format(own, f"{own}/docker.sock"))
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

    def test_what_a_client_says_is_bounded(self):
        """A policy that is root in its container may make any program of it write for ever."""
        self.client('case "$1" in exec) exec yes;; cp) exec yes >&2;; build) head -c 9000000 /dev/zero | tr "\\0" x; echo why >&2; exit 3;; ps) exec sleep 60;; esac')
        engine, began = Engine("docker"), time.monotonic()
        for verb in ("exec", "cp"):
            said = engine.say(verb)
            self.assertEqual((said.returncode, said.stdout, said.stderr), (125, "", "it has written more than 1 MiB"))
        said = engine.say("build", end=True)
        self.assertEqual((said.returncode, said.stdout, said.stderr), (3, "x" * SAID, "why\n"))
        said = engine.say("ps", seconds=0.2)
        self.assertEqual((said.returncode, said.stderr), (125, "it hasn't answered within 0.2 s"))
        self.assertLess(time.monotonic() - began, 20)

    def test_a_door_whose_folder_cannot_be_looked_into_may_live(self):
        """Its containers are another user's, and not removed."""
        with tempfile.TemporaryDirectory() as folder:
            self.assertFalse(folders.lives(f"{folder}/closed/flow-door-1"))
            os.makedirs(f"{folder}/closed/flow-door-1")
            os.chmod(f"{folder}/closed", 0)
            user = os.geteuid()
            try:
                os.seteuid(user or 65534)
                self.assertTrue(folders.lives(f"{folder}/closed/flow-door-1"))
            finally:
                os.seteuid(user)
                os.chmod(f"{folder}/closed", 0o700)

    def test_a_trial_that_fails_names_what_the_client_said(self):
        self.client('case "$1" in image) echo "sha256:1 null";; run) echo "docker: Error response from daemon: no cgroups" >&2; exit 125;; esac')
        self.assertRegex(self.wrong(), "`sandbox: docker` doesn't work with the image a:1: docker: Error response from daemon: no cgroups. Or say")


@unittest.skipUnless(importlib.util.find_spec("tomllib"), "Python 3.11 isn't here")
class Builds(unittest.TestCase):
    def test_a_failed_build_shows_its_step(self):
        from flow_env.adapters.harbor_images import printed

        output = "".join(f"line {i}\n" for i in range(20)) + "Step 2/2 : RUN pip install nothing\nERROR: no such package\n"
        errors = "DEPRECATED: The legacy builder is deprecated.\n            Install the buildx component.\n\nThe command returned a non-zero code: 1\n"
        said = printed(output, errors)
        self.assertTrue(said.endswith("Step 2/2 : RUN pip install nothing / ERROR: no such package / The command returned a non-zero code: 1"), said)
        self.assertNotIn("buildx", said)
        self.assertEqual(len(said.split(" / ")), 10)
        self.assertEqual(printed("", ""), "")


class Tasks(Clients):
    """Tasks in containers of their own, with false clients."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.task = Path(self.folder.name, "task")
        for name, text in [("task.toml", ""), ("instruction.md", "Do it."), ("tests/test.sh", ""), ("environment/Dockerfile", "FROM a:1")]:
            (self.task / name).parent.mkdir(parents=True, exist_ok=True)
            (self.task / name).write_text(text)

    def world(self, more=""):
        from flow_env.adapters.harbor import Harbor

        world = Harbor(f"{self.task},sandbox=docker{more}")
        self.addCleanup(world.sandbox.close)
        return world

    def test_a_start_that_is_cancelled_leaves_no_container(self):
        folder = self.client('''cd $(dirname $0); case "$1" in image) echo "sha256:1 null";; run) sleep 0.7; touch container;; rm) [ -e container ] || { echo "Error: No such container: x" >&2; exit 1; }
            [ -e busy ] || { touch busy; echo "Error: it is busy" >&2; exit 1; }; rm container;; esac''')

        async def begun(world, task):
            start = asyncio.ensure_future(world.containers.begun(task, 1, "owner"))
            await asyncio.sleep(0.2)
            start.cancel()
            await world.containers.ended("owner")
            self.assertTrue(os.path.exists(f"{folder}/container"))
            self.assertEqual(len(world.containers.engine.names["owner"]), 1, "a container that can't be removed is still known")
            await world.containers.ended("owner")

        world = self.world()
        asyncio.run(begun(world, world.tasks.splits["train"]["task"]))
        self.assertFalse(os.path.exists(f"{folder}/container"))
        self.assertEqual(world.containers.engine.names, {})

    def test_what_task_toml_says_has_the_right_type(self):
        self.client('case "$1" in image) echo "sha256:1 null";; esac')
        for toml, wanted in [("[environment]\ndocker_image = 1", "`docker_image` of task.toml is 1, which names no image"), ("environment = 1", "`environment` of task.toml is 1 and no table"),
                             ("[environment]\nbuild_timeout_sec = 'a'", "`build_timeout_sec` of task.toml is 'a'; it is a number of seconds, above 0"), ("[environment]\nbuild_timeout_sec = nan", "is nan; "),
                             ("[verifier]\ntimeout_sec = true", "`timeout_sec` of task.toml is True; "), ("[verifier]\ntimeout_sec = -1", "is -1; "), ("[verifier]\nenv = ['A']", r"`env` of task.toml is \['A'\] and no table"),
                             ("[verifier.env]\n'A=B' = '1'", "variables that aren't plain texts: A=B"), ("[environment.env]\nA = \"1\\u0000\"", "variables that aren't plain texts: A")]:
            (self.task / "task.toml").write_text(toml)
            with self.assertRaisesRegex(Wrong, "(?s)can't be played in a container:.*" + wanted):
                self.world()

    def test_a_task_is_shown_no_socket(self):
        self.client('case "$1" in image) echo "sha256:1 null";; esac')
        from flow_env.adapters.harbor_images import TaskContainers
        from flow_env.adapters.harbor_shell import HarborSettings

        with self.assertRaisesRegex(Wrong, "a sandbox would show /run, and /run/docker.sock is for sockets"):
            TaskContainers(HarborSettings.of({"sandbox": "docker", "read": ["/run"]}))

    def test_variables_of_the_tests_are_not_in_a_command_line(self):
        (self.task / "task.toml").write_text("[verifier.env]\nKEY = \"a secret\\nof lines\"\nLD_PRELOAD = '/no'\n'a-b' = 'c'")
        self.client('case "$1" in image) echo "sha256:1 null";; esac')
        world = self.world()

        async def commands():
            episode = world.episode(world.tasks.splits["train"]["task"], 1)
            given = episode.about["verifier_env"]
            try:
                return episode.boxed(["env", "-0"], "/", given), episode.environment(given), episode.environment()
            finally:
                await episode.clean_up()

        command, environment, without = asyncio.run(commands())
        self.assertNotIn("secret", " ".join(command))
        self.assertEqual((environment.get("LD_PRELOAD"), set(environment) - set(without)), (os.environ.get("LD_PRELOAD"), {"FLOW_GIVEN_KEY", "FLOW_GIVEN_LD_PRELOAD", "a-b"}))
        self.assertEqual([command[place + 1] for place, word in enumerate(command) if word == "--env"], ["FLOW_GIVEN_KEY", "FLOW_GIVEN_LD_PRELOAD", "a-b"])
        inside = subprocess.run(command[command.index("bash"):], env={**environment, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True).stdout.split("\0")
        self.assertLess({"KEY=a secret\nof lines", "LD_PRELOAD=/no", "a-b=c"}, set(inside))
        self.assertNotIn("FLOW_GIVEN", " ".join(inside))

    def test_a_build_ends_with_its_door(self):
        """With its commands, which are Podman's children, in an environment of their own."""
        folder = self.client('case "$1-$5" in image-a:1) echo "sha256:1 null";; image-*) echo "No such image" >&2; exit 1;; build-*) env -i /bin/sleep 60 & echo $! > $(dirname $0)/new; mv $(dirname $0)/new $(dirname $0)/pid; wait;; esac')
        for how in ("killed", "ended", "late"):
            (self.task / "task.toml").write_text("[environment]\nbuild_timeout_sec = 1" if how == "late" else "")
            flow = Flow.of(f"harbor:{self.task},sandbox=docker")
            flow.send({"request": "reset", "episode": 0, "split": "train", "task": "task", "seed": 1})
            self.assertTrue(soon(lambda: os.path.exists(f"{folder}/pid")))
            pid = Path(folder, "pid").read_text().strip()
            os.unlink(f"{folder}/pid")
            if how == "killed":
                flow.child.kill()
                flow.child.wait()
            elif how == "ended":
                flow.end()
            self.assertTrue(soon(lambda: not running(pid)), how)
        self.assertRegex(flow.next()["error"], "can't be built: it hasn't answered within 1 s")
        flow.end()


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def soon(so, seconds=10):
    until = time.monotonic() + seconds
    while not so() and time.monotonic() < until:
        time.sleep(0.05)
    return so()
