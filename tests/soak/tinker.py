#!/usr/bin/env python3
"""A run on a server of Tinker's protocol whose server is killed: in a forward, in a backward, between a step and its saving, and while flow generates; and
flow killed. The server is started again, `flow resume` goes on, and nothing is lost or learnt twice.

    SERVER="command that serves MODEL at FLOW_TINKER_URL" FLOW_TINKER_URL=http://127.0.0.1:18321 MODEL=FOLDER python3 tests/soak/tinker.py

The moments come from the calls that reach the server, by its access log on standard output (`SERVER_LOG`, a file that the command writes to).
"""
import json, os, pathlib, signal, subprocess, tempfile, time, urllib.request

ROOT = pathlib.Path(__file__).parent.parent.parent
FLOW = str(pathlib.Path(os.environ.get("FLOW", ROOT / "target/release/flow")).absolute())
URL, MODEL, SERVER, LOG = (os.environ[name] for name in ("FLOW_TINKER_URL", "MODEL", "SERVER", "SERVER_LOG"))
LETTERS = '''
from flow_env import View, World


class Letters(World):
    words = []

    def tasks(self, split):
        return {"train": 64}.get(split, 0)

    def reset(self, task, seed):
        return f"Word {task}:"

    def step(self, action):
        return View("done", reward=sum("a" <= letter <= "z" for letter in action) / 8, done=True)
'''
PIPELINE = """flow: hosted
iterations: 4
seed: 5
models:
  actor: {{ load: {model}, lora: {{ rank: 8, alpha: 32, targets: [all-linear] }}, train: {{ tinker: "{url}", timeout: 400 }} }}
nodes:
  tasks: {{ op: tasks, with: {{ env: process, name: letters, command: [python3, -m, flow_env, serve, {world}], batch: 4 }} }}
  rollout: {{ op: rollout, inputs: {{ tasks: tasks, weights: {{ after: update }} }}, with: {{ agent: {{ model: actor, max_turns: 1, decode: free, answer: [], max_tokens: 8 }}, samples: 8 }} }}
  group: {{ op: group, inputs: rollout, with: {{ by: [task] }} }}
  advantage: {{ op: advantage, inputs: group, with: {{ of: episode_return }} }}
  update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor, lr: 3.0e-3, max_grad_norm: 0, weight_decay: 0 }} }}
log: [rollout, advantage, update]
keep: {{ every: 1 }}
"""
# A call, the how manieth of a run, the seconds after it, and what is killed then. The measurement at `open` makes 26 calls of forward_backward, forwards
# among them, and 12 of optim_step; each iteration two and one.
MOMENTS = [
    ("forward_backward", 29, 0.02, "server"),
    ("forward_backward", 30, 0.02, "server"),
    ("optim_step", 14, 0.02, "server"),
    ("save_weights_for_sampler", 4, 0.0, "server"),
    ("save_weights ", 3, 0.0, "server"),
    ("optim_step", 14, 0.02, "flow"),
    ("save_weights ", 3, 0.0, "flow"),
]


class Server:
    def __init__(self):
        self.process = None

    def start(self):
        self.process = subprocess.Popen(SERVER, shell=True, start_new_session=True)
        end = time.monotonic() + 180
        while time.monotonic() < end:
            try:
                urllib.request.urlopen(f"{URL}/api/v1/healthz", timeout=2)
                time.sleep(15)
                return
            except OSError:
                time.sleep(1)
        raise SystemExit("the server doesn't start")

    def kill(self):
        if self.process:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def flow(*arguments, **options):
    return subprocess.Popen([FLOW, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def ended(process):
    out, err = process.communicate(timeout=500)
    return process.returncode, out + err


def query(run, sql):
    code, text = ended(flow("query", run, sql, "--format", "json"))
    assert code == 0, text
    return json.loads(text)


def made(run):
    return query(run, "select iteration, task, sample, response_tokens, reward from rollout order by all"), query(run, "select iteration, version, count(*) as n, sum(ratio) as r from update group by all order by all")


def seen(call, number, process):
    """Waits until the server has logged this call so many times from now on."""
    with open(LOG) as log:
        log.seek(0, os.SEEK_END)
        count = 0
        while count < number and process.poll() is None:
            line = log.readline()
            count += f"/api/v1/{call}" in line
            if not line:
                time.sleep(0.005)


def main():
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "letters.py").write_text(LETTERS)
    (folder / "pipeline.yaml").write_text(PIPELINE.format(model=MODEL, url=URL, world=folder / "letters.py"))
    server = Server()
    try:
        check(server, folder)
    finally:
        server.kill()


def check(server, folder):
    server.start()
    code, text = ended(flow("run", folder / "pipeline.yaml", "--out", folder / "whole"))
    assert code == 0, text
    expected = made(folder / "whole")
    for i, (call, number, wait, what) in enumerate(MOMENTS):
        run = folder / f"run-{i}"
        process = flow("run", folder / "pipeline.yaml", "--out", run)
        seen(call, number, process)
        time.sleep(wait)
        if what == "server":
            server.kill()
        else:
            process.kill()
        code, text = ended(process)
        assert code != 0, "it should have ended"
        why = next((line for line in text.splitlines() if line.startswith("error")), "")
        if what == "server":
            server.start()
        code, text = ended(flow("resume", run))
        assert code == 0, text
        found = made(run)
        assert found[0] == expected[0], f"{call}: other rows"
        assert [(row["iteration"], row["version"], row["n"]) for row in found[1]] == [(row["iteration"], row["version"], row["n"]) for row in expected[1]]
        print(f"{what} killed {wait} s after call {number} of {call.strip()}: the rows of the run that nothing happened to. {why}", flush=True)


if __name__ == "__main__":
    main()
