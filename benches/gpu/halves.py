"""What the demonstrations share that have both halves on one machine: models of random weights whose tokenizer has a token for each row of the output matrix (else
a server could answer with what the learner doesn't have), a pipeline, and a vLLM of their own. On a machine without a GPU all of it is computed by CPUs, in f32.
"""
import json, os, pathlib, socket, subprocess, sys, time, urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benches")]
GPU = os.path.exists("/dev/nvidia0")
FLOW = os.environ.get("FLOW", "flow")
VLLM = os.environ.get("FLOW_VLLM_PYTHON", "/tmp/vllm-python")
# Beside those of benches/gpu.py: one that vLLM computes on a CPU, and Qwen2.5's larger ones.
SHAPES = {
    "tiny": (128, 2, 2, 1, 256, 300, True),
    "3b": (2048, 36, 16, 2, 11_008, 151_936, True),
    "14b": (5120, 48, 40, 8, 13_824, 152_064, False),
    "32b": (5120, 64, 40, 8, 27_648, 152_064, False),
}
PIPELINE = """flow: NAME
iterations: ITERATIONS
seed: 5
models:
  actor:
    load: MODEL
    dtype: DTYPE
    lora: { rank: 16, alpha: 32, targets: [all-linear] }
    serve: { vllm: SERVERS, parallel: PARALLEL, timeout: 300, max_gap: 1.0 }TRAIN
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 5, mines: 4, batch: BATCH } }
  rollout:
    op: rollout
    inputs: { tasks: tasksWEIGHTS }
    with: { agent: { model: actor, prompt: board, max_turns: 1, decode: free, max_tokens: TOKENS, stop: [] }, samples: 4 }
"""
# Its rewards are all alike, so that an advantage would leave nothing to learn: it learns what it wrote.
UPDATE = "  update: { op: gpu-update, inputs: rollout, with: { model: actor, objective: sft, lr: 1.0e-6 } }\n"


def shapes():
    import gpu

    return {**gpu.SHAPES, **SHAPES}


def model(folder, name, context):
    """A folder with a model of this shape that reads so many tokens."""
    import gpu

    shape = shapes()[name]
    folder = gpu.made(pathlib.Path(folder) / f"{name}-whole", shape)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": context}))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    words = tokenizer["model"]["vocab"]
    words.update({f"token{i}": i for i in range(len(words), shape[5])})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


def pipeline(path, trains, **values):
    text = PIPELINE.replace("TRAIN", f"\n    train: {trains}" if trains else "").replace("WEIGHTS", ", weights: { after: update }" if trains else "")
    for key, value in {"DTYPE": "bf16" if GPU else "f32", **values}.items():
        text = text.replace(key, str(value))
    path.write_text(text + (UPDATE + "log: [rollout, update]\n" if trains else "log: [rollout]\n"))
    return path


def run(*words, **options):
    """`flow` with these words; on a GPU where there is one."""
    words = [FLOW, *map(str, words), *(["--device", "cuda" if GPU else "cpu"] if words[0] in ("run", "resume") else [])]
    return subprocess.run(words, capture_output=True, text=True, cwd=ROOT, **options)


def ask(out, sql):
    done = run("query", out, sql, "--format", "json")
    return json.loads(done.stdout) if done.returncode == 0 else sys.exit(done.stderr)


def figures(out):
    """By node, name and iteration."""
    return {(r["node"], r["name"], r["iteration"]): r["value"] for r in ask(out, "select node, name, iteration, value from metrics")}


class Vllm:
    """A vLLM that is started and ended as flow starts one."""

    def __init__(self, folder, *words):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        command = [VLLM, "-m", "flow_train.servers", str(folder), "--port", str(port), "--dtype", "bf16" if GPU else "f32", *words]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})

    def __enter__(self):
        for _ in range(600):
            try:
                urllib.request.urlopen(self.address + "/health", timeout=2)
                return self
            except OSError:
                if self.process.poll() is not None:
                    sys.exit("the server ended before it answered")
                time.sleep(1)
        sys.exit("the server did not answer in ten minutes")

    def post(self, path):
        urllib.request.urlopen(urllib.request.Request(self.address + path, b"", method="POST"), timeout=60).read()

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(60)
