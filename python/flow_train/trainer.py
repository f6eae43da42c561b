"""What flow asks of a model: trace, back, step, save, load. The messages are those of docs/protocol.md, section "Trainers"."""
import os, pathlib
import torch
import torch.distributed as dist
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter, load, save
from torch.distributed.device_mesh import init_device_mesh
from safetensors.torch import save_file

from .attention import Attention
from .clock import Clock
from .layout import Batch, Layout, sent
from .memory import Memory, local, to_host
from .net import Net
from .probe import Probe
from .rows import Rows

MOMENTS = {"first": "exp_avg", "second": "exp_avg_sq"}


class Trainer:
    def __init__(self, device):
        self.rank, self.ranks, self.device = dist.get_rank(), dist.get_world_size(), device
        self.net = self.optimizer = None
        self.traced, self.start, self.decays = [], None, None
        self.clock = Clock(device)
        self.layout = self.cost = None
        self.steps = 0

    def answer(self, message, payload):
        """The answer to a request, and its payload."""
        name = message["request"]
        if name not in ("open", "zero", "trace", "back", "step", "export", "save", "load") or (self.net is None) != (name == "open"):
            raise ValueError(f"`{name}` isn't what is to be asked now")
        return getattr(self, name)(message, payload)

    def open(self, message, _):
        self.net = Net(message, self.device).shard(init_device_mesh(self.device.type, (self.ranks,)))
        self.tokens, self.seed, self.share, self.yields = message["tokens"], message["seed"], message.get("memory"), message.get("yields")
        self.checkpointing, self.wanted = message.get("gradient_checkpointing"), Layout(message.get("layout") or "tree")
        self.opened = self.folder = message.get("adapter") or message["base"]
        trained = self.net.trained()
        self.fused = self.device.type == "cuda" and not self.net.sharded
        self.optimizer = torch.optim.AdamW(trained.values(), lr=0.0, fused=self.fused or None)
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

    def give(self):
        """Gives cached memory back, where servers that slept wake up in it."""
        if self.yields and self.device.type == "cuda":
            torch.cuda.empty_cache()

    def zero(self, *_):
        """Forgets what was traced and the gradient: a step begins."""
        self.traced = []
        self.clear()
        self.clock.forget()
        return {}, b""

    def clear(self):
        self.optimizer.zero_grad()
        self.net.masters.zero()

    def trace(self, message, payload):
        rows, learns, entropy = Rows(message, payload), message["gradient"], message["entropy"]
        # Rows of the run decide, not a server's proof; and servers that started beside this trainer have their memory by then.
        if self.layout is None and learns:
            self.choose(rows)
        layout = self.layout or Layout("padded")
        figures = torch.zeros(5, rows.count, device=self.device)
        if learns:
            self.traced = []
        shares = rows.batches(self.ranks, self.tokens, layout)
        most = [max(rows.computed(share[i], layout) for share in shares) for i in range(len(shares[0]))]
        kept = self.memory.kept(most, self.cost) if learns else 0
        with self.reference() if message["reference"] else torch.set_grad_enabled(learns):
            if self.net.training != learns:
                self.net.train(learns)
            for number, which in enumerate(shares[self.rank]):
                with self.clock.part("forward"):
                    batch, keeps = Batch(rows, which, layout, self.device), number < kept
                    with torch.set_grad_enabled(keeps):
                        out = self.drawn(number, batch, entropy, keeps)
                    figures[:, batch.place] = out.detach()[:, : len(batch.choices)]
                if learns:
                    self.traced.append((number, batch, out if keeps else None))
        with self.clock.part("forward"):
            figures = figures.cpu()
        if self.ranks > 1:
            # Each choice is one rank's, so the others add zeros.
            dist.reduce(figures, 0)
        if not learns and not self.traced:
            self.give()
        computed = sum(rows.computed(which, layout) for share in shares for which in share)
        return {"computed": computed, "layout": layout.name}, figures[: 5 if entropy else 3].contiguous().numpy().tobytes()

    def drawn(self, number, batch, entropy, learns):
        """The figures of a batch. Where an adapter has dropout the batch draws the same masks each time that it is computed in this step."""
        if self.net.training:
            torch.manual_seed(hash((self.seed, self.steps, number, self.rank)) & (2**63 - 1))
        return self.net(batch, entropy, learns)

    def choose(self, rows):
        """Checks on rows of this run that tokens side by side get the states that they get alone, and decides what is kept for the way back."""
        self.memory = Memory(self.device, [local(p) for p in self.net.trained().values()], self.share)
        if self.device.type == "cuda":
            # Larger parts of the logits, for fewer kernels: 1 GB where there is room.
            self.net.logits_at_once = int(min(1 << 28, max(1 << 24, self.memory.budget / 64)))
        probe = Probe(self.net, rows, self.device)
        self.layout = self.wanted
        if not self.layout.padded and not probe.holds(self.layout):
            self.layout = Layout("padded")
        if self.layout.padded:
            self.net.attention("sdpa")
        if self.rank == 0 and self.layout.name != self.wanted.name:
            print(f"flow_train: {type(self.net.base()).__name__} isn't computed as `{self.wanted.name}` but padded: {probe.why}", flush=True)
        self.net.train()
        with torch.enable_grad():
            whole = self.memory.cost(lambda: probe.states(self.layout, probe.rows), probe.rows.computed(probe.rows.leaves, self.layout), list(self.net.parameters()))
        # One block's input a layer and token.
        cut = 2 * (self.net.config.num_hidden_layers + 1) * self.net.config.hidden_size * (1 if self.net.bf16 else 2)
        if self.checkpointing is None:
            self.checkpointing = whole * self.tokens > self.memory.budget
        self.net.checkpointing(self.checkpointing)
        self.cost = cut if self.checkpointing else whole

    def back(self, message, payload):
        by = sent(torch.frombuffer(bytearray(payload), dtype=torch.float32).view(message["entropy"] + 1, -1), self.device)
        # FSDP takes the mean over the ranks, and the loss is a sum over them.
        by = by * (self.ranks if self.net.sharded else 1)
        # Graphs go as they came, the last one first, so that each is let go as soon as it is done with.
        while self.traced:
            number, batch, out = self.traced.pop()
            with self.clock.part("backward"):
                if out is None:
                    with torch.enable_grad():
                        out = self.drawn(number, batch, bool(message["entropy"]), True)
                weights = torch.zeros(5, out.shape[1], device=self.device)
                weights[: len(by), : len(batch.choices)] = by[:, batch.place]
                # Blocks that are computed again attend as this batch does.
                Attention.segments = batch.segments
                out.backward(weights)
                self.net.masters.collect()
        return {}, b""

    @torch.no_grad()
    def step(self, message, _):
        with self.clock.part("optimizer"):
            answer = self.stepped(message)
        seconds = self.clock.read()
        if self.device.type == "cuda":
            answer["peak_bytes"] = torch.cuda.max_memory_allocated(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
        return {**answer, "seconds": seconds}, b""

    def stepped(self, message):
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
            self.net.masters.publish()
            self.steps += 1
            finite = self.norm(list(named.values())) < float("inf")
        self.clear()
        return {"grad_norm": norm if norm == norm and norm != float("inf") else None, "finite": finite}

    def norm(self, tensors):
        """The Euclidean norm over all ranks, summed in double precision over the tensors' own norms."""
        square = torch.stack(torch._foreach_norm([local(t) for t in tensors])).double().square().sum().cpu()
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
        return Swapped(self.net, list(trained), self.start, now)

    # On disk.

    def moments(self):
        state = self.optimizer.state
        named = self.net.trained().items()
        return {f"{prefix}.{name}": state[p][key] for name, p in named for prefix, key in MOMENTS.items() if p in state}

    def export(self, message, _):
        self.net.export(message["folder"])
        return self.written(message)

    def save(self, message, _):
        moments, folder = self.moments(), os.path.join(message["folder"], "optimizer")
        if moments and self.net.sharded:
            save(moments, storage_writer=HuggingFaceStorageWriter(path=folder, save_distributed=True))
        elif moments:
            # The same file as torch.distributed.checkpoint's, in a twentieth of its time.
            os.mkdir(folder)
            save_file(to_host(moments), os.path.join(folder, "model.safetensors"))
        return self.export(message, None)

    def written(self, message):
        """Once every rank has written, rank 0 sees to it that what a run keeps is on the disk."""
        if self.ranks > 1:
            dist.barrier()
        self.give()
        if self.rank == 0 and message["request"] == "save":
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
        self.folder, self.steps = folder, steps
        self.optimizer.state.clear()
        if steps:
            for p in self.net.trained().values():
                zeros = {key: torch.zeros_like(p) for key in MOMENTS.values()}
                self.optimizer.state[p] = {"step": torch.tensor(float(steps), device=local(p).device if self.fused else None), **zeros}
            load(self.moments(), storage_reader=HuggingFaceStorageReader(path=os.path.join(folder, "optimizer")))
        return {}, b""


class Swapped:
    """The weights of a model are others for a while."""

    def __init__(self, net, parameters, weights, back):
        self.net, self.parameters, self.weights, self.back = net, parameters, weights, back

    def put(self, weights):
        with torch.no_grad():
            for p, tensor in zip(self.parameters, weights):
                local(p).copy_(tensor)
            self.net.masters.publish()

    def __enter__(self):
        self.put(self.weights)
        self.before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)

    def __exit__(self, *_):
        torch.set_grad_enabled(self.before)
        self.put(self.back)
