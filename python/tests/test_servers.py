"""The program that starts a vLLM for flow, with a stand-in for vLLM that answers `/health` and ends when it is told to."""
import os, pathlib, signal, socket, subprocess, sys, tempfile, time, unittest, urllib.request

PYTHON = pathlib.Path(__file__).parent.parent
STAND_IN = """
import http.server, os, sys
port = int(sys.argv[sys.argv.index("--port") + 1])
print("arguments:", *sys.argv[1:], file=sys.stderr, flush=True)
if "--refuse" in sys.argv:
    sys.exit("there is no room for this model")
if os.fork() == 0:  # an engine of its own, as vLLM has
    import time
    open(os.environ["ENGINE"], "w").write(str(os.getpid()))
    time.sleep(600)
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
open(os.environ["SERVER"], "w").write(str(os.getpid()))
http.server.HTTPServer(("127.0.0.1", port), Health).serve_forever()
"""


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Servers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        site = pathlib.Path(self.folder.name)
        package = site / "vllm/entrypoints/cli"
        package.mkdir(parents=True)
        for part in (site / "vllm", site / "vllm/entrypoints", package):
            (part / "__init__.py").touch()
        (package / "main.py").write_text(STAND_IN)
        (site / "vllm-9.9.dist-info").mkdir()
        (site / "vllm-9.9.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 9.9+cpu\n")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.server, self.engine = site / "server", site / "engine"
        self.environment = {**os.environ, "PYTHONPATH": f"{PYTHON}:{site}", "SERVER": str(self.server), "ENGINE": str(self.engine)}

    def tearDown(self):
        self.folder.cleanup()

    def start(self, *words):
        command = [sys.executable, "-m", "flow_train.servers", "/a/model", "--port", str(self.port), *words]
        return subprocess.Popen(command, env=self.environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def until(self, what):
        end = time.time() + 60
        while time.time() < end:
            try:
                if what():
                    return
            except (OSError, ValueError):
                pass
            time.sleep(0.05)
        self.fail("nothing came of it in a minute")

    def healthy(self):
        return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2).status == 200

    def pids(self):
        return [int(path.read_text()) for path in (self.server, self.engine)]

    def test_it_starts_a_server_again_and_ends_all_of_it_with_flow(self):
        program = self.start("--lora", "12", "--length", "99", "--dtype", "f32", "--", "--extra")
        self.until(self.healthy)
        self.until(lambda: all(map(alive, self.pids())))
        first = self.pids()
        time.sleep(1)  # it looks twice a second whether the server answers
        os.kill(first[0], signal.SIGKILL)
        self.until(lambda: self.healthy() and not set(first) & set(self.pids()) and all(map(alive, self.pids())))
        self.assertFalse(any(map(alive, first)), "the engine of a server that died is ended, too")
        second = self.pids()
        program.stdin.close()
        self.assertEqual(program.wait(30), 0)
        self.until(lambda: not any(map(alive, second)))
        said = program.stderr.read()
        program.stderr.close()
        self.assertIn("--enable-lora --max-lora-rank 16 --max-loras 4", said)
        self.assertIn("--dtype float32 --max-model-len 99", said)
        self.assertIn("--extra", said)
        self.assertIn("it is started again in 1 s", said)

    def test_what_has_a_hosted_server_generate_is_started_again_too(self):
        tests = pathlib.Path(__file__).parent
        self.environment["PYTHONPATH"] = os.pathsep.join(map(str, [PYTHON, tests / "tinker_stand_in", PYTHON.parent / ".pyarrow"]))
        self.environment |= {"TINKER_STAND_IN": self.folder.name, "TINKER_STAND_IN_MODEL": "tiny"}
        program = self.start("--tinker", "http://127.0.0.1:1")
        self.until(self.healthy)
        time.sleep(1)
        child = int(pathlib.Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()[0])
        os.kill(child, signal.SIGKILL)
        self.until(lambda: not alive(child) and self.healthy())
        program.stdin.close()
        self.assertEqual(program.wait(30), 0)
        self.assertIn("it is started again in 1 s", program.stderr.read())
        program.stderr.close()

    def test_a_front_ends_where_the_program_that_watches_it_is_killed(self):
        tests = pathlib.Path(__file__).parent
        self.environment["PYTHONPATH"] = os.pathsep.join(map(str, [PYTHON, tests / "tinker_stand_in", PYTHON.parent / ".pyarrow"]))
        self.environment |= {"TINKER_STAND_IN": self.folder.name, "TINKER_STAND_IN_MODEL": "tiny"}
        program = self.start("--tinker", "http://127.0.0.1:1")
        self.until(self.healthy)
        child = int(pathlib.Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()[0])
        program.kill()
        program.wait()
        self.until(lambda: not alive(child))
        program.stdin.close()
        program.stderr.close()

    def test_a_flow_that_is_killed_leaves_nothing(self):
        parent = subprocess.Popen([sys.executable, "-c", f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-m", "flow_train.servers", "/a/model", "--port", "{self.port}"], stdin=subprocess.PIPE)
time.sleep(600)
"""], env=self.environment, stderr=subprocess.DEVNULL)
        self.until(self.healthy)
        self.until(lambda: all(map(alive, self.pids())))
        parent.kill()
        parent.wait()
        self.until(lambda: not any(map(alive, self.pids())))

    def test_it_may_sleep_on_a_gpu(self):
        program = self.start("--sleep")
        self.assertEqual(program.wait(60), 2)
        self.assertIn("a vLLM for CPUs has no sleep mode", program.stderr.read())
        program.stderr.close()
        program.stdin.close()
        about = pathlib.Path(self.folder.name) / "vllm-9.9.dist-info/METADATA"
        about.write_text(about.read_text().replace("+cpu", ""))
        program = self.start("--sleep", "--lora", "8")
        self.until(self.healthy)
        program.stdin.close()
        self.assertEqual(program.wait(30), 0)
        said = program.stderr.read()
        program.stderr.close()
        self.assertIn("--enable-lora --max-lora-rank 8 --max-loras 4 --enable-sleep-mode --gpu-memory-utilization 0.4", said)

    def test_a_server_that_never_answers_ends_with_its_words(self):
        program = self.start("--", "--refuse")
        self.assertEqual(program.wait(60), 1)
        self.assertIn("there is no room for this model", program.stderr.read())
        program.stdin.close()
        program.stderr.close()


if __name__ == "__main__":
    unittest.main()
