"""SmolLM2 learns here while vLLM servers on this CPU generate, and the servers misbehave: `make servers`.

    python3 tests/soak/servers.py [learns] [killed] [model] [adapter] [stalled] [rates]

- learns: three iterations of GRPO with LoRA by two servers. Each server proves every version, and each row has the version of its iteration.
- killed: a server is killed while it answers, and started again. The others answer its calls, and it takes part again once it has proved the adapters.
- model: a server with another base model is left out; alone it ends the run.
- adapter: a server that has an old adapter under the name of the newest is left out.
- stalled: a server stands still for 30 s (SIGSTOP), longer than a request may take. Nothing takes longer than the limits add up to.
- rates: tokens a second through flow beside a bare asynchronous client that sends the same tokens with the same adapter, and two servers beside one.

VLLM names the command of vLLM, .venv-vllm/bin/vllm unless given; MODEL the folder of SmolLM2 that `flow model fetch` makes.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from runs import ENV, FLOW, ask, call, hosts, load

VLLM = Path(os.environ.get("VLLM", ".venv-vllm/bin/vllm")).resolve()
MODEL = Path(os.environ.get("MODEL", "models/smollm2-135m-instruct")).resolve()
# vLLM takes some minutes to start where other programs work as well.
START, RUN = 600, 900
PIPELINE = """
flow: servers
iterations: ITERATIONS
seed: 5
models:
  actor: { load: MODEL, lora: { rank: 8, alpha: 16, targets: [q_proj, v_proj] }, serve: { vllm: [SERVERS], SETTINGS } }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 3, mines: 2, batch: BATCH } }
  rollout:
    op: rollout
    inputs: { tasks: tasks, weights: { after: update } }
    with: { agent: { model: actor, prompt: PROMPT, max_turns: TURNS, decode: free, max_tokens: TOKENS, stop: STOP }, samples: 4, max_failed: 0 }
  # The shorter an answer the better, so that there is something to learn.
  reward: { op: reward, inputs: rollout, with: { overlong: { max: 24, buffer: 24 } } }
  group: { op: group, inputs: reward, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3, epochs: 1 } }
log: [rollout, update]
keep: { every: 1 }
"""


class Server:
    """A vLLM, which ends with the script."""

    def __init__(self, folder, home, rows=16):
        self.folder, self.rows = folder, rows
        self.port = int(hosts(home / f"port-{time.monotonic_ns()}", 1).read_text().split(":")[1])
        self.log = home / f"vllm-{self.port}.log"
        self.begin()

    def begin(self):
        env = {**ENV, "VLLM": str(VLLM), "MAX_ROWS": str(self.rows), "VLLM_SERVER_DEV_MODE": "1"}
        command = ["scripts/serve-vllm.sh", str(self.folder), str(self.port)]
        # A group of its own: its engine is a process of its own, too.
        self.process = subprocess.Popen(command, env=env, stdout=self.log.open("ab"), stderr=subprocess.STDOUT, start_new_session=True)

    def wait(self):
        until = time.monotonic() + START
        while time.monotonic() < until:
            if self.process.poll() is not None:
                break
            try:
                return self.get("/health") and self
            except OSError:
                time.sleep(1)
        raise SystemExit(f"a vLLM didn't start\n{self.log.read_text()[-3000:]}")

    def get(self, path):
        with urllib.request.urlopen(self.address + path, timeout=10) as answer:
            return answer.read().decode() or "ok"

    def post(self, path, body):
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(), {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{path}: {error}: {error.read().decode()}")

    def number(self, name):
        """A counter or gauge of /metrics, summed over its labels."""
        lines = [line for line in self.get("/metrics").splitlines() if line.startswith(f"vllm:{name}")]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def adapters(self):
        return {model["id"] for model in json.loads(self.get("/v1/models"))["data"]} - {str(self.folder)}

    def signal(self, number):
        os.killpg(self.process.pid, number)

    def kill(self):
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)
        self.process.wait()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"


def pipeline(home, name, servers, iterations=3, settings="timeout: 60, tries: 3, max_gap: 0.001", batch=2, turns=2, tokens=16, prompt="full", stop='[".", ","]'):
    given = dict(MODEL=MODEL, ITERATIONS=iterations, SETTINGS=settings, BATCH=batch, TURNS=turns, TOKENS=tokens, PROMPT=prompt, STOP=stop)
    text = PIPELINE.replace("SERVERS", ", ".join(f'"{server.address}"' for server in servers))
    for key, value in given.items():
        text = text.replace(key, str(value))
    (home / f"{name}.yaml").write_text(text)
    return home / f"{name}.yaml"


class Run:
    """A run of flow, which something may be done to meanwhile."""

    def __init__(self, home, name, servers, **settings):
        self.out, self.begun = home / name, time.monotonic()
        command = [FLOW, "run", pipeline(home, name, servers, **settings), "--out", self.out]
        self.process = subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True)
        self.reader.start()

    def end(self, expected=0):
        """Waits for its end: seconds, and what it said."""
        try:
            code = self.process.wait(RUN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise SystemExit(f"{self.out.name} didn't end in {RUN} s\n{''.join(self.lines)}")
        self.reader.join(10)
        said = "".join(self.lines)
        if code != expected:
            raise SystemExit(f"{self.out.name} ended with {code}\n{said}")
        return time.monotonic() - self.begun, said

    def figures(self, name):
        sql = f"select iteration, value from metrics where node = 'rollout' and name = '{name}' order by iteration"
        return {row["iteration"]: row["value"] for row in ask(self.out, sql)}

    def rows(self, episodes):
        """Insists that no episode is missing and that each row has the version of its iteration; the number of rows."""
        sql = "select iteration, count(distinct (task, sample)) as episodes, count(*) as n, min(weights) as a, max(weights) as b from rollout group by iteration"
        found = ask(self.out, sql)
        insist(found and all(r["episodes"] == episodes and r["a"] == r["b"] == r["iteration"] for r in found), f"{self.out.name}: {found}")
        insist(ask(self.out, "select count(*) as n from errors")[0]["n"] == 0, f"{self.out.name}: an episode failed")
        # The token that completes the text may go on a little.
        longer = ask(self.out, "select response from rollout where regexp_matches(response, '[.,].{12}')")
        insist(not longer, f"{self.out.name}: an answer that went on after the text that ends it: {longer}")
        return sum(row["n"] for row in found)


def insist(right, what):
    if not right:
        raise SystemExit(f"wrong: {what}")


def when(condition, seconds, what):
    """Waits until the condition holds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if condition():
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise SystemExit(f"wrong: {what} never happened")


def learns(home, a, b):
    run = Run(home, "learns", [a, b])
    seconds, _ = run.end()
    rows, gaps = run.rows(8), [max(run.figures(f"gap_{server.host}").values()) for server in (a, b)]
    insist(all(len(run.figures(f"gap_{server.host}")) == 3 for server in (a, b)), "a proof a version")
    answered = [server.number("request_success_total") for server in (a, b)]
    insist(min(answered) > 3, f"both answer: {answered}")
    gap = [row["value"] for row in ask(run.out, "select value from metrics where node = 'update' and name = 'logprob_gap' order by iteration")]
    print(f"learns: 3 iterations, {rows} rows, {seconds:.0f} s; requests {answered}; gap of the servers {gaps[0]:.1e} and {gaps[1]:.1e},")
    print(f"  logprob_gap of the updates {', '.join(f'{g:.1e}' for g in gap)}", flush=True)


def killed(home, a, b):
    run = Run(home, "killed", [a, b], iterations=5)
    when(lambda: b.number("num_requests_running") > 0 and (run.out / "weights/1").exists(), RUN, "a request in the second iteration")
    b.kill()
    b.begin()
    seconds, said = run.end()
    rows = run.rows(8)
    insist(f"{b.host} is left out" in said, f"it is left out\n{said}")
    back = "and came back" if f"{b.host} has proved itself" in said else "and the run ended before it was back"
    gaps = run.figures(f"gap_{b.host}")
    print(f"killed: 5 iterations, {rows} rows, {seconds:.0f} s, {back}; it proved itself in iterations {sorted(gaps)}", flush=True)
    b.wait()


def other_model(home, a):
    folder = home / "other"
    # The same sizes and words, other weights: a twentieth of each matrix is noise.
    noise = (
        "import sys, shutil, torch\nfrom safetensors.torch import load_file, save_file\n"
        "shutil.copytree(sys.argv[1], sys.argv[2])\nfile = sys.argv[2] + '/model.safetensors'\ntorch.manual_seed(1)\n"
        "save_file({n: t + 0.3 * t.std() * torch.randn_like(t) if t.dim() > 1 else t for n, t in load_file(file).items()}, file, {'format': 'pt'})"
    )
    subprocess.run([VLLM.parent / "python", "-c", noise, a.folder, folder], check=True)
    other = Server(folder, home).wait()
    try:
        run = Run(home, "model", [a, other], iterations=2, settings="timeout: 60, tries: 3")
        seconds, said = run.end()
        insist(f"{other.host} is left out" in said and "isn't the model that learns" in said, said)
        rows = run.rows(8)
        alone = Run(home, "model-alone", [other], iterations=2, settings="timeout: 60, tries: 3")
        ended, message = alone.end(1)
        insist("isn't the model that learns" in message, message)
        gap = message.split("log-probabilities are ")[1].split(" ")[0]
        print(f"model: {rows} rows by the other server in {seconds:.0f} s; alone it ends the run after {ended:.0f} s (gap {gap})", flush=True)
    finally:
        other.kill()


def old_adapter(home, a, b):
    settings = "timeout: 60, tries: 3, max_gap: 0.0001"
    run = Run(home, "adapter", [a, b], iterations=2, settings=settings)
    run.end()
    kept = home / "kept"
    subprocess.run(["cp", "-r", run.out, kept], check=True)
    # What the newest adapter will be called follows from the weights and the folder: one server alone is asked first.
    further = [FLOW, "resume", run.out, "--iterations", "3"]
    subprocess.run(further, env={**ENV, "FLOW_SERVERS": a.address}, check=True, capture_output=True)
    newest = next(path.name for path in (run.out / "lent").iterdir() if path.name.startswith("actor-2-"))
    a.post("/v1/unload_lora_adapter", {"lora_name": newest})
    old = next(path for path in (kept / "lent").iterdir() if path.name.startswith("actor-1-"))
    b.post("/v1/load_lora_adapter", {"lora_name": newest, "lora_path": str(old)})
    subprocess.run(["rm", "-r", run.out], check=True)
    subprocess.run(["mv", kept, run.out], check=True)
    again = subprocess.run(further, env=ENV, capture_output=True, text=True)
    insist(again.returncode == 0 and f"{b.host} is left out" in again.stderr and "another adapter under that name" in again.stderr, again.stderr)
    gap = again.stderr.split("log-probabilities are ")[1].split(" ")[0]
    gaps = run.figures(f"gap_{a.host}")
    print(f"adapter: {run.rows(8)} rows; the server with an older adapter under the newest name is left out (gap {gap}, of the other one {gaps[2]:.1e})", flush=True)
    b.post("/v1/unload_lora_adapter", {"lora_name": newest})


def stalled(home, a, b):
    run = Run(home, "stalled", [a, b], iterations=3, settings="timeout: 15, tries: 3, max_gap: 0.001")
    when(lambda: b.number("num_requests_running") > 0 and (run.out / "weights/1").exists(), RUN, "a request in the second iteration")
    b.signal(signal.SIGSTOP)
    stopped = time.monotonic()
    threading.Timer(30, lambda: b.signal(signal.SIGCONT)).start()
    seconds, said = run.end()
    rows = run.rows(8)
    slowest = max(run.figures("seconds").values())
    print(f"stalled: 3 iterations, {rows} rows, {seconds:.0f} s; the longest rollout took {slowest:.0f} s", flush=True)
    insist("left out" not in said or f"{b.host} is left out" in said, said)
    time.sleep(max(0.0, 31 - (time.monotonic() - stopped)))


def rates(home, a, b):
    """One turn of 24 episodes, eight at a time at a server, whose tokens a bare client then asks for again: the same prompts, lengths, adapter and bound."""
    few = "timeout: 120, tries: 3, max_gap: 0.001, parallel: 8"
    for servers in ([a], [a, b]):
        for server in servers:
            server.post("/reset_prefix_cache", {})
        run = Run(home, f"rates-{len(servers)}", servers, iterations=1, batch=6, turns=1, tokens=32, prompt="board", stop="[]", settings=few)
        flights = []
        while run.process.poll() is None:
            flights.append([int(server.number("num_requests_running")) for server in servers])
            time.sleep(0.5)
        run.end()
        rows = ask(run.out, "select prompt_tokens, response_tokens from rollout order by task, sample")
        ready, whole = run.figures("adapter_seconds")[0], run.figures("seconds")[0]
        tokens, seconds = sum(len(row["response_tokens"]) for row in rows), whole - ready
        adapter = next(path for path in (run.out / "lent").iterdir() if path.name.startswith("actor-0-"))
        asked = home / "asked.json"
        asked.write_text(json.dumps({"servers": [s.address for s in servers], "adapter": adapter.name, "rows": rows, "parallel": 8}))
        for server in servers:
            server.post("/reset_prefix_cache", {})
        bare = json.loads(subprocess.run([VLLM.parent / "python", "benches/servers_client.py", asked], check=True, capture_output=True, text=True).stdout)
        rate, peer = tokens / seconds, bare["tokens"] / bare["seconds"]
        print(f"rates: {len(servers)} server(s), {len(rows)} answers, {tokens} tokens: flow {rate:.1f} a second ({seconds:.1f} s, and {ready:.1f} s for the adapter and its proof),")
        print(f"  bare client {peer:.1f} ({bare['seconds']:.1f} s): ratio {rate / peer:.2f}; in flight at the servers, each half second, as vLLM's gauge shows it:")
        print(f"  {[flight if len(servers) > 1 else flight[0] for flight in flights]}", flush=True)
    print(f"  {load()}", flush=True)


def main():
    wanted = sys.argv[1:] or ["learns", "killed", "model", "adapter", "stalled", "rates"]
    print(load(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        call("model", "export", MODEL, "--out", home / "hf")
        a, b = Server(home / "hf", home, 32), Server(home / "hf", home, 32)
        try:
            a.wait(), b.wait()
            cases = dict(learns=(learns, a, b), killed=(killed, a, b), model=(other_model, a), adapter=(old_adapter, a, b), stalled=(stalled, a, b), rates=(rates, a, b))
            for name in wanted:
                case, *servers = cases[name]
                case(home, *servers)
        finally:
            a.kill(), b.kill()
    print(load())


if __name__ == "__main__":
    main()
