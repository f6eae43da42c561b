"""What flow asks of a model: trace, back, step, save, load. The messages are those of docs/protocol.md, section "Trainers"."""
import os, pathlib
import torch
import torch.distributed as dist
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter, load, save
from torch.distributed.device_mesh import init_device_mesh

from .net import Net
from .rows import Rows

MOMENTS = {"first": "exp_avg", "second": "exp_avg_sq"}


class Trainer:
    def __init__(self, device):
        self.rank, self.ranks, self.device = dist.get_rank(), dist.get_world_size(), device
        self.net = self.optimizer = None
        self.traced, self.start, self.decays = [], None, None

    def answer(self, message, payload):
        """The answer to a request, and its payload."""
        name = message["request"]
        if name not in ("open", "zero", "trace", "back", "step", "export", "save", "load") or (self.net is None) != (name == "open"):
            raise ValueError(f"`{name}` isn't what is to be asked now")
        return getattr(self, name)(message, payload)

    def open(self, message, _):
        self.net = Net(message, self.device).shard(init_device_mesh(self.device.type, (self.ranks,)))
        self.tokens = message["tokens"]
        self.opened = self.folder = message.get("adapter") or message["base"]
        trained = self.net.trained()
        self.optimizer = torch.optim.AdamW(trained.values(), lr=0.0)
        if self.net.learns_adapter:
            self.start = [local(p).detach().clone() for p in trained.values()]
        # Through `forward`, so that the parameters are there; on a GPU FSDP2 breaks at a call without arguments.
        check, self.net.forward = self.net.forward, self.net.check
        self.net(torch.arange(8, device=self.device)[None] % self.net.vocabulary)
        self.net.forward = check
        config = self.net.config
        return {
            "model": type(self.net.base()).__name__,
            "architecture": config.model_type,
            "vocabulary": config.vocab_size,
            "context": getattr(config, "max_position_embeddings", None) or message.get("context") or 1 << 20,
            "width": config.hidden_size,
            "parameters": sum(p.numel() for p in self.net.parameters()),
            "trained": sum(p.numel() for p in trained.values()),
            "here": sum(p.numel() for p in map(local, trained.values())),
        }, b""

    def zero(self, *_):
        """Forgets what was traced and the gradient."""
        self.traced = []
        self.optimizer.zero_grad()
        return {}, b""

    def trace(self, message, payload):
        rows, learns, entropy = Rows(message, payload), message["gradient"], message["entropy"]
        figures = torch.zeros(5, rows.count)
        self.traced = []
        with self.reference() if message["reference"] else torch.set_grad_enabled(learns):
            self.net.train(learns)
            for which in rows.batches(self.ranks, self.tokens)[self.rank]:
                ids, choices, at = rows.batch(which, self.device)
                if len(choices):
                    token, temperature = rows.token[choices].long(), rows.temperature[choices]
                    mask = rows.mask(choices, self.net.vocabulary)
                else:
                    at, token, temperature, mask = torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long), torch.ones(1), None
                out = self.net(ids, at.to(self.device), token.to(self.device), temperature.to(self.device), mask, entropy, learns)
                figures[:, choices] = out.detach()[:, : len(choices)].cpu()
                if learns:
                    self.traced.append((out, choices))
        # Each choice is one rank's, so the others add zeros.
        dist.reduce(figures, 0)
        return {}, figures[: 5 if entropy else 3].contiguous().numpy().tobytes()

    def back(self, message, payload):
        by = torch.frombuffer(bytearray(payload), dtype=torch.float32).view(message["entropy"] + 1, -1)
        # Graphs go as they came, the last one first, so that each is let go as soon as it is done with.
        while self.traced:
            out, choices = self.traced.pop()
            weights = torch.zeros(5, out.shape[1])
            # FSDP takes the mean over the ranks, and the loss is a sum over them.
            weights[: len(by), : len(choices)] = by[:, choices] * (self.ranks if self.net.sharded else 1)
            out.backward(weights.to(out.device))
        return {}, b""

    @torch.no_grad()
    def step(self, message, _):
        named = self.net.trained()
        for p in named.values():
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        gradients = [p.grad for p in named.values()]
        norm = self.norm(gradients)
        finite = norm == norm and norm != float("inf")
        if finite:
            most = message["max_grad_norm"]
            if most > 0 and norm + 1e-6 > most:
                torch._foreach_mul_(gradients, most / (norm + 1e-6))
            self.regroup(named, message)
            for group in self.optimizer.param_groups:
                group.update(lr=message["lr"], betas=tuple(message["betas"]), eps=message["eps"])
            self.optimizer.step()
            finite = self.norm(list(named.values())) < float("inf")
        self.optimizer.zero_grad()
        return {"grad_norm": norm if norm == norm and norm != float("inf") else None, "finite": finite}, b""

    def norm(self, tensors):
        """The Euclidean norm over all ranks, in double precision."""
        square = torch.stack([local(t).double().square().sum() for t in tensors]).sum().cpu()
        if self.net.sharded:
            dist.all_reduce(square)
        return square.sqrt().item()

    def regroup(self, named, message):
        """Matrices decay by `weight_decay`, vectors not at all, and what `weight_decay_of` names as that says: the longest name counts."""
        wanted = (message["weight_decay"], message["weight_decay_of"])
        if self.decays == wanted:
            return
        self.decays, groups = wanted, {}
        for name, p in named.items():
            parts = [part for part in wanted[1] if part in name]
            decay = wanted[1][max(parts, key=len)] if parts else wanted[0] if p.dim() > 1 else 0.0
            groups.setdefault(decay, []).append(p)
        rest = {k: v for k, v in self.optimizer.param_groups[0].items() if k not in ("params", "weight_decay")}
        self.optimizer.param_groups = [{**rest, "params": params, "weight_decay": decay} for decay, params in groups.items()]

    def reference(self):
        """Has the weights that the model was opened with, while it lasts, in place of those it has."""
        trained = self.net.trained().values()
        now = [local(p).clone() for p in trained]
        if self.start is None:
            # All weights of a model are kept twice only where a reference is asked for.
            if self.folder != self.opened or self.decays is not None:
                self.net.load(self.opened)
            self.start = [local(p).clone() for p in trained]
        return Swapped(list(trained), self.start, now)

    # On disk.

    def moments(self):
        state = self.optimizer.state
        named = self.net.trained().items()
        return {f"{prefix}.{name}": state[p][key] for name, p in named for prefix, key in MOMENTS.items() if p in state}

    def export(self, message, _):
        self.net.export(message["folder"])
        return self.written(message)

    def save(self, message, _):
        moments = self.moments()
        if moments:
            save(moments, storage_writer=HuggingFaceStorageWriter(path=os.path.join(message["folder"], "optimizer"), save_distributed=True))
        return self.export(message, None)

    def written(self, message):
        """Once every rank has written, rank 0 sees to it that all of it is on the disk."""
        dist.barrier()
        if self.rank == 0:
            for path in pathlib.Path(message["folder"]).rglob("*"):
                descriptor = os.open(path, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)
        return {}, b""

    @torch.no_grad()
    def load(self, message, _):
        folder, steps = message["folder"], message["steps"]
        self.zero()
        self.net.load(folder)
        self.folder = folder
        self.optimizer.state.clear()
        if steps:
            for p in self.net.trained().values():
                zeros = {key: torch.zeros_like(p) for key in MOMENTS.values()}
                self.optimizer.state[p] = {"step": torch.tensor(float(steps)), **zeros}
            load(self.moments(), storage_reader=HuggingFaceStorageReader(path=os.path.join(folder, "optimizer")))
        return {}, b""


class Swapped:
    def __init__(self, parameters, weights, back):
        self.parameters, self.weights, self.back = parameters, weights, back

    def put(self, weights):
        with torch.no_grad():
            for p, tensor in zip(self.parameters, weights):
                local(p).copy_(tensor)

    def __enter__(self):
        self.put(self.weights)
        self.before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)

    def __exit__(self, *_):
        torch.set_grad_enabled(self.before)
        self.put(self.back)


def local(tensor):
    """A rank's own part of a tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
