"""A server of Tinker's protocol without the network: an adapter on a table of bigrams, computed by NumPy. Its gradient is written out by hand, so it
is a known answer. Saved weights and states lie in a folder, so that another process finds them.

What the same call means is a parameter: `sum` is the SDK's text, `mean` is what SkyRL's JAX backend computes, `sequences` fits neither.
"""
import io, json, os, pathlib, secrets, struct, tarfile

import numpy

VOCABULARY, RANK, ALPHA = 318, 8, 32.0
NAMES = {"a": "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", "b": "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"}


class Machine:
    def __init__(self, folder, reduction="sum", clips=True, alpha=ALPHA):
        self.folder, self.reduction, self.clips, self.alpha = pathlib.Path(folder), reduction, clips, alpha
        self.base = numpy.random.default_rng(0).normal(size=(VOCABULARY, VOCABULARY)) * 0.5
        self.clients = {}

    def create(self, rank, seed, state=None):
        name = f"model-{secrets.token_hex(4)}"
        a = numpy.random.default_rng(seed).normal(size=(rank, VOCABULARY)) / 4
        zeros = {"a": numpy.zeros_like(a), "b": numpy.zeros((VOCABULARY, rank))}
        self.clients[name] = {"a": a, "b": zeros["b"].copy(), "m": dict(zeros), "v": dict(zeros), "steps": 0, "rank": rank, "told": []}
        if state:
            saved = numpy.load(self.folder / f"{state}.npz")
            client = self.clients[name]
            client.update(a=saved["a"], b=saved["b"], steps=int(saved["steps"]))
            client.update(m={"a": saved["ma"], "b": saved["mb"]}, v={"a": saved["va"], "b": saved["vb"]})
        return name

    def client(self, name):
        if name not in self.clients:
            raise KeyError(f"Model {name} not loaded")
        return self.clients[name]

    def logs(self, weights, tokens):
        logits = self.base[tokens] + self.alpha / len(weights["a"]) * weights["a"][:, tokens].T @ weights["b"].T
        logits -= logits.max(-1, keepdims=True)
        return logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))

    def forward(self, name, data):
        """`data`: tokens, targets and further inputs of each sequence."""
        return [self.logs(self.client(name), tokens)[numpy.arange(len(tokens)), targets].astype("f4") for tokens, targets, _ in data]

    def forward_backward(self, name, data, loss, config):
        found, told = self.forward(name, data), []
        for (tokens, targets, inputs), logprobs in zip(data, found):
            if loss == "cross_entropy":
                by = -inputs["weights"].astype("f8")
                by /= max(inputs["weights"].sum(), 1e-9) if self.reduction != "sum" else 1.0
            elif loss == "cispo" and self.reduction != "sum":
                ratio = numpy.clip(numpy.exp(logprobs - inputs["logprobs"]), config["clip_low_threshold"], config["clip_high_threshold"])
                by = -ratio * inputs["advantages"].astype("f8") / (len(tokens) if self.reduction == "mean" else 1)
            else:
                raise ValueError(f"Unknown loss function {loss}")
            told.append((tokens, targets, by))
        self.client(name)["told"].append(told)
        return found

    def gradient(self, client):
        """Of all that was told since the last step."""
        grads = {"a": numpy.zeros_like(client["a"]), "b": numpy.zeros_like(client["b"])}
        told = [one for call in client["told"] for one in call]
        scale = self.alpha / len(client["a"])
        for tokens, targets, by in told:
            back = -numpy.exp(self.logs(client, tokens)) * by[:, None]
            back[numpy.arange(len(tokens)), targets] += by
            grads["b"] += scale * back.T @ client["a"][:, tokens].T
            numpy.add.at(grads["a"].T, tokens, scale * back @ client["b"])
        if self.reduction != "sum" and told:
            grads = {key: grad / len(told) for key, grad in grads.items()}
        return grads

    def optim_step(self, name, lr, beta1, beta2, eps, decay, clip):
        client = self.client(name)
        grads, client["told"] = self.gradient(client), []
        norm = float(numpy.sqrt(sum((grad**2).sum() for grad in grads.values())))
        if clip and self.clips and norm > clip:
            grads = {key: grad * clip / norm for key, grad in grads.items()}
        client["steps"] += 1
        for key, grad in grads.items():
            client["m"][key] = beta1 * client["m"][key] + (1 - beta1) * grad
            client["v"][key] = beta2 * client["v"][key] + (1 - beta2) * grad**2
            first, second = client["m"][key] / (1 - beta1 ** client["steps"]), client["v"][key] / (1 - beta2 ** client["steps"])
            client[key] = client[key] - lr * (first / (numpy.sqrt(second) + eps) + decay * client[key])
        return norm

    def save(self, name, under):
        path = self.folder / f"{name}--{under}.npz"
        if path.exists():
            raise FileExistsError(f"{under} exists")
        client = self.client(name)
        moments = {f"{kind}{key}": client[kind][key] for kind in "mv" for key in "ab"}
        numpy.savez(path, a=client["a"], b=client["b"], steps=client["steps"], **moments)
        return f"tinker://{name}/{under}"

    def saved(self, path):
        return path.removeprefix("tinker://").replace("/", "--")

    def archive(self, path):
        saved = numpy.load(self.folder / f"{self.saved(path)}.npz")
        tensors = {NAMES[key]: saved[key].astype("<f4") for key in "ab"}
        head, at = {}, 0
        for name, tensor in tensors.items():
            head[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at := at + tensor.nbytes]}
        text = json.dumps(head).encode()
        files = {"adapter_model.safetensors": struct.pack("<Q", len(text)) + text + b"".join(tensor.tobytes() for tensor in tensors.values())}
        files["adapter_config.json"] = json.dumps({"r": len(saved["a"]), "lora_alpha": self.alpha, "target_modules": None}).encode()
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as tar:
            for name, data in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        return out.getvalue()

    def sample(self, path, prompt, most, temperature, seed, stop):
        weights, random = numpy.load(self.folder / f"{self.saved(path)}.npz"), numpy.random.default_rng(seed)
        tokens, logprobs, last = [], [], prompt[-1]
        while len(tokens) < most and not (tokens and last in stop):
            logs = self.logs(weights, [last])[0]
            shares = numpy.exp(logs / temperature) if temperature else numpy.eye(VOCABULARY)[logs.argmax()]
            last = int(random.choice(VOCABULARY, p=shares / shares.sum()))
            tokens.append(last)
            logprobs.append(float(logs[last]))
        return tokens, logprobs, "stop" if last in stop else "length"

    def weigh(self, path, prompt):
        weights = numpy.load(self.folder / f"{self.saved(path)}.npz")
        return [None, *self.logs(weights, prompt[:-1])[numpy.arange(len(prompt) - 1), prompt[1:]].tolist()]
