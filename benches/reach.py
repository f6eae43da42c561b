"""How far one flow reaches: rows, tokens and bytes a second from servers through the graph to the log, where generation costs nothing.

    python3 benches/reach.py [TOKENS...]      prompts of 1000 and 30000 tokens unless given

Four servers that answer at once with 300 tokens stand in for vLLM, for this measurement alone. They share the CPUs with flow, and their own seconds are
taken off in the last column. The model is random and small, with SmolLM2's tokenizer: it proves the servers, and computes nothing else. Needs `make build` and
`flow model fetch smollm2-135m-instruct`. PROCESSES=2 plays in two processes of flow.
"""

import json
import os
import random
import resource
import socketserver
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/soak"))
from runs import FLOW, QUIET, ask, call, committed, hosts, load  # noqa: E402

MODEL = Path(os.environ.get("MODEL", "models/smollm2-135m-instruct")).resolve()
PROCESSES = int(os.environ.get("PROCESSES", 1))
SERVERS, ANSWER, TURNS, SAMPLES, ITERATIONS = 4, 300, 4, 8, 4
# Of an iteration: some two to eight million tokens of prompts.
TASKS = {1000: 64, 30000: 8}
PIPELINE = """
flow: reach
iterations: ITERATIONS
models:
  actor: { load: MODEL, lora: { rank: 4, targets: [q_proj, v_proj] }, serve: { vllm: [SERVERS], max_gap: 1000, timeout: 120 } }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 6, mines: 3, batch: TASKS } }
  rollout:
    op: rollout
    inputs: tasks
    with: { agent: { model: actor, prompt: PROMPT, max_turns: TURNS, decode: free, max_tokens: ANSWER }, samples: SAMPLES }
  group: { op: group, inputs: rollout, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
log: [rollout, advantage]
"""


class AtOnce(socketserver.StreamRequestHandler):
    """Answers what vLLM answers, without a model."""

    disable_nagle_algorithm = True
    written = []

    def handle(self):
        while line := self.rfile.readline():
            path, length = line.split()[1], 0
            while (header := self.rfile.readline()) not in (b"\r\n", b""):
                if header.lower().startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
            body = self.rfile.read(length)
            answer = b"Success"
            if path == b"/v1/completions":
                answer = random.choice(self.written)
                if b'"prompt_logprobs"' in body:
                    prompt = json.loads(body)["prompt"]
                    told = [None] + [{str(token): {"logprob": -1.0}} for token in prompt[1:]]
                    answer = json.dumps({"choices": [{"prompt_logprobs": told, "text": "", "finish_reason": "length"}]}).encode()
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer) + answer)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads, request_queue_size = True, 256


def serve(vocab):
    """A server, and what it answers: tokens and log-probabilities without any order, which no log makes smaller."""
    draw = random.Random(1)
    for _ in range(4096 - len(AtOnce.written)):
        tokens = [draw.randrange(100, vocab) for _ in range(ANSWER)]
        told = {"tokens": [], "token_logprobs": [-draw.random() * 4 for _ in tokens], "top_logprobs": [None] * ANSWER, "text_offset": [0] * ANSWER}
        choice = {"index": 0, "text": "x", "token_ids": tokens, "logprobs": told, "finish_reason": "length"}
        AtOnce.written.append(json.dumps({"id": "cmpl", "choices": [choice]}).encode())
    server = Server(("127.0.0.1", 0), AtOnce)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f'"http://127.0.0.1:{server.server_address[1]}"'


def small(home, context):
    """A random model with SmolLM2's tokenizer, as a Hugging Face folder; answers the size of its vocabulary."""
    call("model", "export", MODEL, "--out", home / "model")
    config = json.loads((home / "model/config.json").read_text())
    sizes = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, head_dim=8)
    config.update(sizes, max_position_embeddings=context)
    (home / "model/config.json").write_text(json.dumps(config))
    layer = "model.layers.0."
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], 16), "model.norm.weight": (16,)}
    shapes |= {layer + f"self_attn.{name}_proj.weight": shape for name, shape in dict(q=(16, 16), k=(8, 16), v=(8, 16), o=(16, 16)).items()}
    shapes |= {layer + f"mlp.{name}_proj.weight": (16, 16) for name in ("gate", "up", "down")}
    shapes |= {layer + f"{name}_layernorm.weight": (16,) for name in ("input", "post_attention")}
    draw, header, data = random.Random(2), {}, bytearray()
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = struct.pack(f"<{count}f", *(draw.gauss(0, 0.05) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    (home / "model/model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return config["vocab_size"]


def reach(home, tokens, addresses):
    tasks, words = TASKS.get(tokens, 16), random.Random(3)
    lexicon = "the agent opens a door and reads what is written there before it goes on to another room of this house".split()
    prompt = home / f"prompt-{tokens}.txt"
    prompt.write_text(" ".join(words.choice(lexicon) for _ in range(tokens)) + "\n{{ observation }}")
    settings = dict(ITERATIONS=ITERATIONS, MODEL=home / "model", SERVERS=", ".join(addresses), TASKS=tasks, PROMPT=prompt, TURNS=TURNS, ANSWER=ANSWER, SAMPLES=SAMPLES)
    text = PIPELINE
    for key, value in settings.items():
        text = text.replace(key, str(value))
    file, out = home / f"reach-{tokens}.yaml", home / f"reach-{tokens}"
    file.write_text(text)
    own = time.process_time()
    more = ["--hosts", hosts(home / f"hosts-{tokens}", PROCESSES)] if PROCESSES > 1 else []
    begun = [subprocess.Popen([FLOW, "run", file, "--out", out, *map(str, more), *(["--process", str(i)] if more else [])], **QUIET) for i in range(PROCESSES)]
    if any(process.wait(900) for process in begun):
        raise SystemExit("a run failed")
    own = time.process_time() - own
    # The first iteration loads, and proves the servers.
    [row] = ask(out, "select count(*) as rows, sum(len(prompt_tokens)) as read, sum(len(response_tokens)) as written from rollout where iteration > 0")
    seconds = sum(line["seconds"] for line in committed(out)[1:])
    bytes_ = sum(path.stat().st_size for path in out.rglob("*.parquet"))
    return row, seconds, bytes_ / ITERATIONS * (ITERATIONS - 1), own


def main():
    lengths = [int(given) for given in sys.argv[1:]] or [1000, 30000]
    print(load(), f"- {PROCESSES} of flow")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        vocab = small(home, max(lengths) + 2000)
        addresses = [serve(vocab) for _ in range(SERVERS)]
        for tokens in lengths:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            row, seconds, size, servers = reach(home, tokens, addresses)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            rate = {key: value / seconds for key, value in row.items()}
            print(
                f"prompts of {row['read'] / row['rows']:.0f} tokens: {rate['rows']:.0f} rows, {rate['read']:.0f} tokens read and {rate['written']:.0f} written a second; "
                f"log {size / row['rows'] / 1000:.1f} kB a row, {size / seconds * 3600 / 1e9:.1f} GB an hour; "
                f"{seconds:.1f} s, {cpu:.1f} s of flow's and {servers:.1f} s of the servers' CPUs"
            )
    print(load())


if __name__ == "__main__":
    main()
