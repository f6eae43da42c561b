"""flow's side of the protocol for trainers, for the tests of flow_train and for measurements."""
import json, os, pathlib, socket, struct, subprocess, sys
import torch

PYTHON = pathlib.Path(__file__).parent.parent


class Client:
    """A trainer of so many ranks, started here."""

    def __init__(self, ranks, python=sys.executable, threads=1, budget=None):
        server = socket.create_server(("127.0.0.1", 0))
        environment = {**os.environ, "PYTHONPATH": str(PYTHON), "FLOW_TRAIN_SECRET": "s", "OMP_NUM_THREADS": str(threads), "GLOO_SOCKET_IFNAME": "lo"}
        if budget is not None:
            environment["FLOW_TRAIN_BUDGET"] = str(budget)
        command = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m", "flow_train"]
        self.process = subprocess.Popen([*command, "--connect", f"127.0.0.1:{server.getsockname()[1]}", "--device", os.environ.get("FLOW_TRAIN_DEVICE", "cpu")], env=environment)
        server.settimeout(120)
        self.stream = server.accept()[0].makefile("rwb")
        assert self.read()[0] == {"secret": "s"}
        self.hello = self.ask("hello", protocol=1)

    def read(self):
        message = json.loads(self.stream.readline())
        return message, self.stream.read(message.get("bytes", 0))

    def ask(self, request, payload=b"", **fields):
        self.stream.write(json.dumps({"request": request, **fields, "bytes": len(payload)}).encode() + b"\n" + payload)
        self.stream.flush()
        message, self.payload = self.read()
        if "error" in message:
            raise RuntimeError(message["error"])
        return message

    def open(self, base, **options):
        ask = dict(dtype="f32", gradient_checkpointing=True, tokens=64, seed=1, vocabulary=300)
        return self.ask("open", base=str(base), **{**ask, **options})

    def trace(self, rows, gradient=True, entropy=False, reference=False, temperature=1.0, allowed=None):
        """`rows` are pairs of a prompt and a response. The figures [3 or 5, tokens of all responses]."""
        sequences = [[*prompt, *response[:-1]] for prompt, response in rows]
        at = [(i, len(prompt) + j - 1, token) for i, (prompt, response) in enumerate(rows) for j, token in enumerate(response)]
        numbers = [x for s in sequences for x in s] + [a[0] for a in at] + [a[1] for a in at] + [a[2] for a in at]
        payload = struct.pack(f"<{len(numbers)}I", *numbers) + struct.pack(f"<{len(at)}f", *[temperature] * len(at))
        fields = {}
        if allowed:
            fields["allowed"] = [len(a) for a in allowed]
            payload += struct.pack(f"<{sum(map(len, allowed))}I", *[x for a in allowed for x in a])
        self.traced = self.ask("trace", payload, sequences=[len(s) for s in sequences], choices=len(at), gradient=gradient, entropy=entropy, reference=reference, **fields)
        return torch.frombuffer(bytearray(self.payload), dtype=torch.float32).view(5 if entropy else 3, -1)

    def back(self, *by):
        self.ask("back", b"".join(b.contiguous().numpy().tobytes() for b in by), entropy=len(by) > 1)

    def step(self, lr, **settings):
        return self.ask("step", **{**dict(lr=lr, betas=[0.9, 0.999], eps=1e-8, weight_decay=0.01, weight_decay_of={}, max_grad_norm=1.0), **settings})

    def close(self):
        self.stream.close()
        return self.process.wait(30)
