"""Tasks in Harbor's format in real containers of their own images, built from the image that FLOW_TEST_IMAGE names."""

import time
import unittest
from pathlib import Path

from flow_env.adapters.harbor import Harbor as World
from flow_env.adapters.harbor_images import bases, content
from flow_env.door.settings import Wrong
from tests import test_harbor
from tests.test_container import IMAGE, Docker, Podman
from tests.test_harbor import bash


class Tasks(test_harbor.Harbor):
    """An image a task, a container an episode."""

    def flow(self, folder, more=""):
        return super().flow(folder, f",sandbox={self.kind}{more}")

    def task(self, test="echo 1 > /logs/verifier/reward.txt", toml="", docker=(), name="task"):
        path = super().task(test, toml, "\n".join([f"FROM {IMAGE}", *docker]) if docker is not None else None, name)
        if docker is not None:
            self.addCleanup(self.remove, f"flow-harbor:{content(path / 'environment')}")
        return path

    def remove(self, image):
        try:
            self.client("rmi", "--force", image)
        except OSError:
            pass

    def talk(self, path, *commands, more="", tasks=1):
        """What commands gave, and how the episodes ended."""
        said = [*map(bash, commands)]
        flow = self.flow(path, more)
        self.addCleanup(lambda: self.assertTrue(self.gone()))
        self.addCleanup(lambda: flow.child.poll() is None and flow.end())
        played = flow.play(lambda call: said[len(call["messages"]) // 2] if len(call["messages"]) // 2 < len(said) else "Done.", ["task"] * tasks)
        return [([call["messages"][-1]["content"] for call in calls[1:]], end) for calls, end in played]

    def test_the_solution_wins_and_an_empty_answer_does_not(self):
        path = self.task("[ $(cat /srv/place/answer) = 42 ] && echo '{\"right\": 1, \"reward\": 1}' > /logs/verifier/reward.json || echo 0 > /logs/verifier/reward.txt",
                         docker=["WORKDIR /srv/place", "COPY data.txt ./", "RUN echo built > /etc/built"])
        (path / "solution").mkdir()
        (path / "solution" / "solve.sh").write_text("[ $(cat /etc/built) = built ] && echo 42 > answer")
        flow = self.flow(path)
        view = flow.ask({"request": "reset", "episode": 0, "split": "train", "task": "task", "seed": 1})
        while "call" in view:
            view = flow.ask({"request": "step", "episode": 0, "action": flow.ask({"request": "expert", "episode": 0})["action"]})
        self.assertEqual((view.get("reward"), view.get("info")), (1, {"right": 1}), view)
        flow.ask({"request": "close", "episode": 0})
        self.assertEqual(flow.play(lambda call: "Done.", ["task"])[0][1].get("reward"), 0)
        self.assertEqual(flow.end()[0], 0)
        self.assertTrue(self.gone())

    def test_what_the_policy_sees(self):
        path = self.task(docker=["ENV MINE=image", "WORKDIR /srv/place", "COPY . ."], toml="[environment.env]\nGIVEN = 'a b'")
        commands = ["pwd; ls; echo $HOME $MINE $GIVEN; env | grep -c -e TASK -e KEY", "echo here > a; cat a /srv/place/a; ls /tests /solution", "exit 3", "(sleep 30; echo late) >/dev/null 2>&1 & echo $! > pid; touch /usr/x",
                    "kill -0 $(cat pid) && ls /usr/x", "sleep 60", "kill -0 $(cat pid) || echo killed; cat a", "head -c 5000000 /dev/zero | tr '\\0' x"]
        for results, end in self.talk(path, *commands, more=",call_seconds=4,characters=200", tasks=2):
            self.assertEqual(results[0], "/srv/place\nDockerfile\ndata.txt\n/root image a b\n0\n[exit status 1]")
            self.assertRegex(results[1], "^here\nhere\n.*cannot access '/tests'(?s:.*)cannot access '/solution'")
            self.assertEqual(results[2:6], ["\n[exit status 3]", "(no text)", "/usr/x", "\n[killed after 4 s]"])
            self.assertRegex(results[6], "No such process\nkilled\nhere")
            self.assertIn("characters are left out", results[7])
            self.assertEqual(end.get("reward"), 1, end)

    def test_tests_come_late_and_paths_are_rewritten(self):
        """Tests come late, whatever is in their place; no path is rewritten."""
        path = self.task("cmp /tests/wanted /tests/link && [ ! -e /logs/verifier/old ] && grep -q /app/data.txt /etc/data && [ \"$LD_PRELOAD$KEY\" = '/a b' ] && echo 0.5 > /logs/verifier/reward.txt",
                         toml="[verifier.env]\nKEY = 'a b'\nLD_PRELOAD = '/'", docker=["COPY data.txt /etc/data"])
        (path / "tests" / "wanted").write_text("yes\n")
        (path / "tests" / "link").symlink_to("wanted")
        [(_, end)] = self.talk(path, "mkdir -p /tests/deep; ln -s /etc /tests/wanted; echo 9 > /logs/verifier/reward.txt; touch /logs/verifier/old; rmdir /logs/agent; ln -s / /logs/agent")
        self.assertEqual((end.get("reward"), end.get("won")), (0.5, False), end)

    def test_a_failure_is_never_a_reward(self):
        for test, toml, docker, wanted in [
            ("echo why; exit 1", "", (), "tests/test.sh ended with exit status 1 and wrote no reward .* it printed: why"), ("sleep 60", "[verifier]\ntimeout_sec = 0.5", (), r"tests/test.sh took longer than 0.5 s"),
            ("ln -s /etc/shadow /logs/verifier/reward.txt", "", (), "reward.txt is no plain file"), ("mkfifo /logs/verifier/reward.txt", "", (), "reward.txt is no plain file"),
            ("", "", ["RUN echo broken here && exit 7"], "environment/Dockerfile can't be built: .*(broken here|returned a non-zero code: 7|exit status 7)"),
            ("", "", ["RUN rm -f $(which -a bash)"], "its container can't be started: .*bash"),
        ]:
            [(_, end)] = self.talk(self.task(test, toml, docker))
            self.assertEqual(set(end), {"episode", "error"}, end)
            self.assertRegex(end["error"], wanted)
        self.assertTrue(self.gone())

    def test_what_needs_a_container_is_refused_with_the_reason(self):
        compose = self.task()
        (compose / "environment" / "docker-compose.yaml").write_text("")
        for path, more, wanted in [
            (compose, "", "environment/ has several containers"), (self.task(toml="[[steps]]\nname = 'a'"), "", "several steps"), (self.task(toml="[verifier.environment]\na = 1"), "", "environment of its own for the tests"),
            (self.task(docker=["COPY --from=no-such:1 /a /a"]), "", f"the image no-such:1 isn't on this machine. flow pulls none: say `{self.kind} pull no-such:1`"), (self.task(docker=None), "", "say which one by `image=NAME`"),
            (self.task(docker=None, toml="[environment]\ndocker_image = 'no-such:2'"), "", "pull no-such:2"), (self.task(docker=None, toml="[environment]\ndocker_image = '-v'"), "", "`-v` names no image"),
        ]:
            with self.assertRaisesRegex(Wrong, "(?s)can't be played in a container:.*" + wanted):
                World(f"{path},sandbox={self.kind}{more}")
        for more, wanted in [(",write_folder=true", "see nothing of this machine"), (",image=no-such:3", "the image no-such:3 isn't")]:
            with self.assertRaisesRegex(Wrong, wanted):
                World(f"{self.task()},sandbox={self.kind}{more}")

    def test_an_image_of_its_own_or_of_the_settings(self):
        [(results, _)] = self.talk(self.task(docker=None, toml=f"[environment]\ndocker_image = '{IMAGE}'"), "ls /app")
        self.assertIn("No such file", results[0])
        [(results, end)] = self.talk(self.task(docker=None), "pwd; ls", more=f",image={IMAGE}")
        self.assertEqual((results, end.get("reward")), (["/app\ndata.txt"], 1))

    def test_limits_hold(self):
        commands = ["for n in $(seq 200); do sleep 9 & done 2>&1 | tail -1", "python3 -c 'x = b\"1\" * (400 << 20)'", "head -c 20000000 /dev/zero > /big; ls -l /big | cut -d ' ' -f 5", "ulimit -t 1; while :; do :; done",
                    "kill 1; kill -9 1; kill -STOP 1; exec 3<>/dev/tcp/192.0.2.1/80", "ls /var/run/docker.sock; mount -t tmpfs x /mnt; mknod /dev/y b 8 0; grep -E 'NoNewPrivs' /proc/self/status; chown 1 /root && su nobody -s /bin/sh -c id"]
        [(results, end)] = self.talk(self.task(), *commands, more=",max_processes=60,memory_mb=128,disk_mb=10,call_seconds=20")
        self.assertRegex(results[0], "(?i)resource temporarily unavailable|cannot fork|fork: |killed after")
        self.assertRegex(results[1], "(?i)killed|exit status")
        self.assertRegex(results[2], "10485760")
        self.assertRegex(results[3], "(?i)exit status|killed")
        self.assertRegex(results[4], "Network is unreachable")
        self.assertRegex(results[5], "(?s)No such file.*permission denied.*(Operation not permitted|read-only).*NoNewPrivs:\t1.*uid=65534")
        self.assertEqual(end.get("reward"), 1, end)

    def test_children_end_with_their_episode(self):
        flow = self.flow(self.task())
        flow.ask({"request": "reset", "episode": 0, "split": "train", "task": "task", "seed": 1})
        flow.send({"request": "step", "episode": 0, "action": bash("setsid sleep 9873 & sleep 9873")})
        until = time.monotonic() + 20
        while len(self.alive("9873")) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(len(self.alive("9873")), 2)
        flow.child.kill()
        flow.child.wait()
        self.assertTrue(self.gone())
        self.assertEqual(self.alive("9873"), [])


class DockerTasks(Docker, Tasks):
    pass


class PodmanTasks(Podman, Tasks):
    pass


del Tasks


class Read(unittest.TestCase):
    def test_what_a_dockerfile_is_built_from(self):
        for text, wanted in [("FROM a\n", ["a"]), ("# FROM x\nARG V='2'\nFROM --platform=linux/amd64 r.io/a:${V} AS one\nfrom one\nCOPY --chown=1 --from=b:1 \\\n /a /a\nCOPY --from=0 /a /b", ["r.io/a:2", "b:1"]),
                             ("FROM scratch\nRUN --mount=type=bind,from=c,target=/c ls", ["c"]), ("ARG NAME\nFROM $NAME", ["$NAME"])]:
            self.assertEqual(bases(text), wanted)

    def test_an_image_has_another_name_when_a_file_changes(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            seen = [content(Path(folder))]
            for change in (lambda: Path(folder, "a").write_text("1"), lambda: Path(folder, "a").write_text("2"), lambda: Path(folder, "a").chmod(0o755), lambda: Path(folder, "b").symlink_to("/x"), lambda: Path(folder, "c").mkdir()):
                change()
                seen.append(content(Path(folder)))
        self.assertEqual(len(set(seen)), 6)
