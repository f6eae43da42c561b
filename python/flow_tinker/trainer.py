"""What flow asks of a model: trace, back, step, save, load. The messages are those of docs/protocol.md, section "Trainers"."""
import json, os, time

import numpy

from . import files
from .calls import Refused
from .reduction import Measured, encode
from .rows import Rows

STATE = "tinker.json"
REQUESTS = ("open", "zero", "trace", "back", "step", "export", "save", "load")


class Trainer:
    def __init__(self, server):
        self.server = server
        self.client = self.reference = self.traced = None
        # Sequences with their gradient, until the step sends them.
        self.batch = []
        # Why its weights are those of no version.
        self.lost = None
        self.seconds = {}
        # Tokens that were sent since the last step: for log-probabilities, and with a gradient.
        self.tokens = {"read": 0, "trained": 0}

    def answer(self, message, payload):
        """The answer to a request, and its payload."""
        name = message["request"]
        if name not in REQUESTS or (self.client is None) != (name == "open"):
            raise Refused(f"`{name}` isn't what is to be asked now")
        if self.lost and name != "load":
            raise Refused(self.lost)
        return getattr(self, name)(message, payload)

    def open(self, message, _):
        adapter = message.get("adapter")
        self.begun = files.described(adapter) if adapter else {}
        self.rank, alpha = wanted(message, self.begun)
        self.base, self.seed, self.vocabulary = message["base"], message["seed"], message["vocabulary"]
        models = self.server.models()
        self.named = named(message.get("named") or os.environ.get("FLOW_TINKER_BASE"), self.base, models)
        scratch = self.server.create(self.named, self.rank, self.seed)
        measured = Measured(self.server, scratch, self.vocabulary)
        if measured.encoding is None:
            raise Refused("the server computes no linear loss that is known here, so its gradients would be false:\n  " + "\n  ".join(measured.report))
        self.encoding, self.clips = measured.encoding, measured.clips()
        found = self.server.archive(self.server.sampler(scratch))
        self.server.release(scratch)
        own = json.loads(found[files.CONFIG])
        for field, asked, there in (("alpha", alpha, own.get("lora_alpha")), ("rank", self.rank, own.get("r"))):
            if there is not None and float(there) != float(asked):
                raise Refused(f"`lora: {{ {field}: {asked:g} }}`, and the server's adapters have {there}: it takes no other, so write `{field}: {there:g}`")
        self.state = self.state_of(adapter) if adapter else None
        self.client = self.start()
        with open(os.path.join(self.base, "config.json")) as file:
            config = json.load(file)
        config = config.get("text_config") or config
        return {
            "model": self.named,
            "context": min(n for n in (models.get(self.named), config.get("max_position_embeddings"), 1 << 20) if n),
            "width": config["hidden_size"],
            "parameters": 0,
            "trained": sum(numbers.size for numbers in files.tensors(found[files.WEIGHTS]).values()),
            "entropy": False,
            "reduction": self.encoding,
            "clips": self.clips,
        }, b""

    def start(self):
        """A client with the weights that it begins with."""
        return self.server.restore(self.state, moments=False) if self.state else self.server.create(self.named, self.rank, self.seed)

    def state_of(self, adapter):
        """Where the server has an adapter; nothing of one that has learnt nothing."""
        path = os.path.join(adapter, "optimizer", STATE)
        if os.path.exists(path):
            return self.placed(path)["state"]
        if not files.untrained(adapter):
            raise Refused(f"the adapter in {adapter} has learnt already, and no weights can be sent to such a server")
        return None

    def placed(self, path):
        """What a file says of a state on this server."""
        with open(path) as file:
            state = json.load(file)
        if state["server"] != self.server.url:
            raise Refused(f"{path} names a state of {state['server']}, and this is {self.server.url}: its weights and moments can't be sent, so go on with that server")
        return state

    def zero(self, *_):
        """Forgets what was traced, and gradients, which haven't been sent yet."""
        self.traced, self.batch, self.seconds = None, [], {}
        return {}, b""

    def trace(self, message, payload):
        if message["entropy"]:
            raise Refused("an entropy bonus or an entropy in the loss: a server of Tinker's protocol has log-probabilities alone")
        rows = Rows(message, payload, self.vocabulary)
        client = self.client
        if message["reference"]:
            # A second client, which never makes a step.
            self.reference = self.reference or self.start()
            client = self.reference
        sequences, begun = list(rows.sequences.values()), time.monotonic()
        logprobs = self.server.forward(client, sequences)
        self.tokens["read"] += sum(map(len, sequences))
        if message["gradient"]:
            self.traced = rows
            self.took("forward", begun)
        return {"computed": sum(map(len, sequences))}, rows.gather(logprobs).tobytes()

    def back(self, message, payload):
        if message["entropy"] or self.traced is None:
            raise Refused("a gradient by entropies, or of nothing that was traced")
        by = numpy.frombuffer(payload, "<f4")
        if not numpy.isfinite(by).all():
            raise Refused("a gradient with numbers that are none: nothing was sent")
        sequences = self.traced.scatter(by)
        self.batch += [sequence for sequence in sequences if sequence.gradient.any()] or sequences[:1]
        self.traced = None
        return {}, b""

    def step(self, message, _):
        if message["weight_decay_of"]:
            raise Refused("`weight_decay_of`: a server of Tinker's protocol has one `weight_decay`")
        if message["max_grad_norm"] and not self.clips:
            raise Refused(f"`max_grad_norm: {message['max_grad_norm']:g}`, which this server ignores without a word: write `max_grad_norm: 0`")
        if not self.batch:
            raise Refused("a step without a gradient")
        begun = time.monotonic()
        adam = dict(learning_rate=message["lr"], beta1=message["betas"][0], beta2=message["betas"][1], eps=message["eps"], weight_decay=message["weight_decay"])
        if message["max_grad_norm"]:
            adam["grad_clip_norm"] = message["max_grad_norm"]
        # Until the answer is there nobody knows whether the step was made.
        self.lost = "an update failed, and nobody knows whether the server made its step: `flow resume` goes on from the last version that was saved"
        norm, finite = self.server.step(self.client, encode(self.encoding, [self.batch]), adam)
        self.tokens["trained"] += sum(map(len, self.batch))
        self.batch = []
        if norm is None or not numpy.isfinite(norm) or not finite:
            # It has made its step all the same.
            self.lost = "the server made a step with a gradient that is no number: `flow resume` goes on from the last version that was saved"
            return {"grad_norm": None, "finite": False}, b""
        self.lost = None
        self.took("step", begun)
        tokens, self.tokens = self.tokens, {"read": 0, "trained": 0}
        return {"grad_norm": norm, "finite": True, "seconds": self.seconds, "tokens": tokens}, b""

    def took(self, part, begun):
        self.seconds[part] = self.seconds.get(part, 0.0) + time.monotonic() - begun

    # On the server, and on disk what leads there.

    def exported(self, client):
        path = self.server.sampler(client)
        return files.mended(self.server.archive(path), self.base, self.begun, {"server": self.server.url, "base": self.named, "weights": path})

    def export(self, message, _):
        for name, data in self.exported(self.client).items():
            write(os.path.join(message["folder"], name), data)
        return {}, b""

    def save(self, message, _):
        state = {"server": self.server.url, "base": self.named, "state": self.server.save(self.client)}
        folder = os.path.join(message["folder"], "optimizer")
        os.mkdir(folder)
        write(os.path.join(folder, STATE), json.dumps(state, indent=2).encode())
        return self.export(message, None)

    def load(self, message, _):
        self.zero()
        path = os.path.join(message["folder"], "optimizer", STATE)
        if os.path.exists(path):
            state = self.placed(path)
            # First, since a server has so many places.
            self.server.release(self.client)
            try:
                self.client = self.server.restore(state["state"])
            except Refused as why:
                raise Refused(f"the state {state['state']} of version {version(message['folder'])} can't be opened on {self.server.url}: {why}") from None
        elif message["steps"]:
            raise Refused(f"{path} isn't there: what was learnt so far lies on a server, and nothing says where")
        else:
            self.server.release(self.client)
            self.client = self.start()
        self.lost = None
        return {}, b""

    def close(self):
        """Frees its places on the server."""
        for client in (self.client, self.reference):
            if client is not None:
                self.server.release(client)


def wanted(message, begun):
    """The rank and alpha of a model that a server of Tinker's protocol can train; `begun` describes an adapter that is there."""
    lora = message.get("lora")
    if message.get("head") == "value":
        raise Refused("a critic (`head: value`): a server of Tinker's protocol has language models alone")
    if begun:
        return begun["r"], begun["lora_alpha"]
    if not lora:
        raise Refused("all weights: a server of Tinker's protocol trains adapters alone, so write `lora: { rank: 32, alpha: 32 }`")
    if lora.get("dropout"):
        raise Refused(f"`dropout: {lora['dropout']:g}`, which a server of Tinker's protocol doesn't have")
    if list(lora.get("targets") or ["all-linear"]) != ["all-linear"]:
        raise Refused(f"`targets: {lora['targets']}`: such a server chooses the layers itself, so write `targets: [all-linear]`")
    return lora["rank"], lora["alpha"]


def named(wanted, base, models):
    """The name that the server has for the model."""
    for name in (wanted, base, os.path.basename(base)):
        if name in models:
            return name
    alike = [name for name in models if name.rsplit("/", 1)[-1] == os.path.basename(base)]
    if not wanted and len(alike) == 1:
        return alike[0]
    raise Refused(f"the server has no model `{wanted or os.path.basename(base)}`, but {', '.join(sorted(models)) or 'none'}: name one by `named` of `train`")


def version(folder):
    try:
        with open(os.path.join(folder, "trained.json")) as file:
            return json.load(file)["version"]
    except (OSError, ValueError, KeyError):
        return os.path.basename(folder)


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
