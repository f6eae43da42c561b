"""The model: one of transformers, with PEFT's adapters or trained whole, sharded by FSDP2 where there are several ranks."""
import contextlib, json, os, pathlib
import torch
import torch.distributed as dist
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_outputs import BaseModelOutputWithPast

from .attention import Attention
from .lora import quicken
from .masters import Masters
from .memory import to_host

# A critic's head, as flow's files have it; here it takes the place of the model's output matrix.
VALUE_HEAD = "value_head.weight"
CONFIG, ADAPTER = "adapter_config.json", "adapter_model.safetensors"
# Dropout of a base model changes what a token's probability is, so none is left; that of an adapter is asked for by name.
DROPOUTS = ("attention_dropout", "hidden_dropout", "attn_pdrop", "resid_pdrop", "embd_pdrop", "dropout", "activation_dropout")


def full(tensor):
    """The whole of a tensor, on every rank."""
    tensor = tensor.detach()
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def head_in(folder):
    """The value head in a folder, if there is one."""
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            if VALUE_HEAD in file.keys():
                return file.get_tensor(VALUE_HEAD).float()
    return None


def module_name(model, module):
    """What a module of a model is called."""
    return next(name for name, own in model.named_modules() if own is module)


class States(torch.nn.Module):
    """Stands in for the blocks of a model, so that its own head computes the logits of states that are there already."""

    def forward(self, *_, **__):
        return BaseModelOutputWithPast(last_hidden_state=self.states)


class Net(torch.nn.Module):
    """Figures of tokens. Its `forward` is the root of the sharding: every parameter is used inside of it."""

    def __init__(self, ask, device):
        super().__init__()
        self.ask, self.device, self.vocabulary = ask, device, ask["vocabulary"]
        self.bf16 = ask["dtype"] == "bf16"
        self.learns_adapter = bool(ask.get("adapter") or ask.get("lora"))
        self.values = ask.get("head") == "value"
        self.head_states = [States()]  # in a list, so that it is no submodule
        self.logits_at_once, self.learning = 1 << 24, None
        self.net = self.made()
        self.config = self.base().config.get_text_config()
        self.attention("sdpa")

    def attention(self, name):
        """Has all layers attend by this function of transformers' interface; whether they do."""
        base = self.base()
        try:
            base.set_attn_implementation(name)
        except (ValueError, NotImplementedError):
            return False
        return all(part._attn_implementation == name for part in (base.config, base.config.get_text_config()))

    def checkpointing(self, on):
        """Whether blocks keep their inputs alone, and compute the rest again on the way back."""
        base = self.base()
        if not on:
            return
        enable = getattr(base, "activation_checkpointing_enable", base.gradient_checkpointing_enable)
        enable({"use_reentrant": False})
        if self.learns_adapter:
            base.enable_input_require_grads()

    def base(self):
        return self.net.get_base_model() if self.learns_adapter else self.net

    def made(self):
        """The model with its weights on rank 0, and without them on the others: these get them from rank 0 once they are sharded."""
        ask, whole = self.ask, dist.get_rank() == 0
        config = AutoConfig.from_pretrained(ask["base"])
        for part in {id(part): part for part in (config, config.get_text_config())}.values():
            for name in DROPOUTS:
                if isinstance(getattr(part, name, None), float):
                    setattr(part, name, 0.0)
        config.use_cache = False
        if self.values:
            config.get_text_config().tie_word_embeddings = config.tie_word_embeddings = False
        # What is trained is kept in f32; a frozen base as it is computed in.
        kept = torch.bfloat16 if self.bf16 and self.learns_adapter else torch.float32
        options = dict(dtype=kept, attn_implementation="sdpa")
        torch.manual_seed(ask["seed"])
        with contextlib.nullcontext() if whole else torch.device("meta"):
            if whole:
                net = AutoModelForCausalLM.from_pretrained(ask["base"], config=config, use_safetensors=True, **options)
            else:
                net = AutoModelForCausalLM.from_config(config, **options)
            for module in net.modules():
                if isinstance(module, torch.nn.Dropout):
                    module.p = 0.0
            if self.values:
                head = torch.nn.Linear(net.config.get_text_config().hidden_size, 1, bias=False, dtype=torch.float32)
                begun = head_in(self.ask["base"]) if whole else None
                torch.nn.init.zeros_(head.weight) if begun is None else head.weight.data.copy_(begun)
                net.set_output_embeddings(head)
            if self.learns_adapter:
                net = self.adapted(net, whole)
                quicken(net)
            if self.values:
                head.weight.requires_grad_(True)
            return net

    def adapted(self, net, whole):
        from peft import LoraConfig, PeftModel, get_peft_model, set_peft_model_state_dict

        folder = self.ask.get("adapter")
        if folder and whole and not self.values:
            return PeftModel.from_pretrained(net, folder, is_trainable=True)
        if folder:
            config = LoraConfig.from_pretrained(folder)
            config.inference_mode, config.modules_to_save = False, None
            net = get_peft_model(net, config)
            if whole:
                weights = load_file(os.path.join(folder, ADAPTER))
                head = weights.pop(f"base_model.model.{VALUE_HEAD}")
                set_peft_model_state_dict(net, weights)
                net.get_base_model().get_output_embeddings().weight.data.copy_(head)
            return net
        lora = dict(self.ask["lora"])
        targets = lora["targets"] if lora["targets"] != ["all-linear"] else "all-linear"
        return get_peft_model(
            net, LoraConfig(r=lora["rank"], lora_alpha=lora["alpha"], lora_dropout=lora["dropout"], target_modules=targets, task_type="CAUSAL_LM")
        )

    def shard(self, mesh):
        """Over the ranks of `mesh`. One rank needs none of it: where it computes in bf16, what is trained has a copy in f32, which learns."""
        self.sharded = mesh.size() > 1
        self.masters = Masters([])
        if not self.sharded:
            self.to(self.device)
            if self.bf16:
                for p in self.parameters():
                    if not p.requires_grad:
                        p.data = p.data.to(torch.bfloat16)
                self.masters = Masters([p for p in self.parameters() if p.requires_grad])
            return self
        weights = {name: p.detach() for name, p in self.state_dict().items()} if dist.get_rank() == 0 else {}
        blocks = set(getattr(self.base(), "_no_split_modules", None) or [])
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if self.bf16 else MixedPrecisionPolicy()
        for module in list(self.net.modules()):
            if type(module).__name__ in blocks:
                fully_shard(module, mesh=mesh, mp_policy=policy)
        # The root too is put away after each pass: what a reference or an export is computed with is never a stale copy.
        fully_shard(self, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
        self.to_empty(device=self.device) if dist.get_rank() else self.to(self.device)
        set_model_state_dict(self, weights, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
        # Tables that aren't saved with a model.
        for _, buffer in sorted(self.named_buffers()):
            dist.broadcast(buffer, 0)
        return self

    def trained(self):
        """The parameters that learn, by the names that a file has them under."""
        if self.learning is None:
            named = ((name.removeprefix("net."), self.masters.of(p)) for name, p in self.named_parameters() if p.requires_grad)
            self.learning = {self.name_in_file(name.replace(".default.", ".")): p for name, p in named}
        return self.learning

    def name_in_file(self, name):
        """The name that a file has a parameter under: of a critic's head it is flow's."""
        head = self.values and module_name(self.base(), self.base().get_output_embeddings()) + ".weight"
        return name.removesuffix(head) + VALUE_HEAD if head and (name == head or name.endswith("." + head)) else name

    def forward(self, batch, entropy, learns):
        """Of each choice its log-probability, the entropy, the slope and, where the loss has an entropy in it, cross and square: [5, choices]."""
        states = self.states(batch)[batch.at]
        # A part of the logits at a time, which are computed again on the way back.
        size = max(1, self.logits_at_once // self.vocabulary)
        parts = []
        for i in range(0, len(batch.at), size):
            part = slice(i, i + size)
            own = (states[part], batch.token[part], None if batch.temperature is None else batch.temperature[part], batch.restricted(i, i + size), entropy)
            parts.append(checkpoint(self.figures, *own, use_reentrant=False) if learns else self.figures(*own))
        return torch.cat(parts, 1)

    def states(self, batch):
        """The last states of all tokens that a batch computes, `[tokens, width]`."""
        options = {} if batch.positions is None else {"position_ids": batch.positions}
        Attention.segments = batch.segments
        states = getattr(self.base(), self.base().base_model_prefix)(input_ids=batch.ids, use_cache=False, **options).last_hidden_state
        return states.reshape(-1, states.shape[-1])

    def logits(self, states):
        """By the model's own head, whatever it does beside its matrix, of states `[n, width]`."""
        base, stub = self.base(), self.head_states[0]
        blocks = base._modules[base.base_model_prefix]
        stub.states = states[None]
        base._modules[base.base_model_prefix] = stub
        try:
            return type(base).forward(base, input_ids=None, use_cache=False, return_dict=True).logits[0]
        finally:
            base._modules[base.base_model_prefix], stub.states = blocks, None

    def figures(self, states, token, temperature, mask, entropy):
        if self.values:
            head = self.base().get_output_embeddings()
            value = head(states.to(head.weight.dtype))[:, 0].float()
            return torch.stack([value, *torch.tensor([0.0, 1.0, 0.0, 0.0], device=value.device)[:, None].expand(4, len(value))])
        # Few passes over the logits: on a GPU their number is what the head costs.
        logits = self.logits(states)[:, : self.vocabulary].float()
        if temperature is not None:
            logits = logits / temperature[:, None]
        if mask is not None:
            logits = logits + self.forbidden(mask, logits)
        logs = torch.log_softmax(logits, -1)
        chosen = logs.gather(1, token[:, None])[:, 0]
        if entropy:
            entropies = -(logs.exp() * logs).sum(-1)
        with torch.no_grad():
            divisor = 1.0 if temperature is None else temperature
            shares = logs.exp()
            cross = square = torch.zeros_like(chosen)
            if entropy:
                bends = -shares * (logs + entropies[:, None])
                mean = (shares * bends).sum(-1)
                cross = (bends.gather(1, token[:, None])[:, 0] - mean) / divisor**2
                square = bends.square().sum(-1) / divisor**2
            else:
                entropies = -torch.linalg.vecdot(shares, logs)
            others = shares.scatter_(1, token[:, None], 0.0).square_().sum(-1)
            slopes = (torch.expm1(chosen).square() + others).sqrt() / divisor
        return torch.stack([chosen, entropies, slopes, cross, square])

    def forbidden(self, mask, logits):
        """Added to logits: minus infinity on tokens that weren't allowed, where a choice was restricted."""
        some, rows, tokens = mask
        added = torch.zeros_like(logits)
        added[some] = -1e30
        return added.index_put_((rows, tokens), torch.zeros((), device=logits.device))

    @torch.no_grad()
    def check(self, ids):
        """Refuses a model whose logits, of these tokens, aren't what its head makes of its last states."""
        if self.values:
            return
        base = self.base()
        states = getattr(base, base.base_model_prefix)(input_ids=ids, use_cache=False).last_hidden_state[0]
        whole, parts = base(input_ids=ids, use_cache=False).logits[0].float(), self.logits(states).float()
        if not torch.allclose(whole, parts, rtol=1e-3, atol=1e-3):
            raise ValueError(f"{type(base).__name__} makes its logits of more than its last states, which flow_train doesn't know how to cut")

    # Weights on disk.

    def whole(self):
        """All of what is trained, by its names in files, on rank 0."""
        if not self.sharded:
            return to_host({name: p.detach() for name, p in self.trained().items()})
        whole = {}
        for name, p in self.trained().items():
            tensor = full(p)
            if dist.get_rank() == 0:
                whole[name] = tensor.cpu().contiguous()
        return whole

    @torch.no_grad()
    def export(self, folder):
        """Writes the weights as transformers or PEFT have them."""
        whole = self.whole()
        if dist.get_rank():
            return
        folder = pathlib.Path(folder)
        if not self.learns_adapter and self.values:
            save_file(whole, folder / "model.safetensors", metadata={"format": "pt"})
            return
        if not self.learns_adapter:
            self.net.save_pretrained(folder, state_dict=whole)
            return
        save_file(whole, folder / ADAPTER, metadata={"format": "pt"})
        if self.ask.get("adapter"):
            (folder / CONFIG).write_text((pathlib.Path(self.ask["adapter"]) / CONFIG).read_text())
        else:
            config = json.loads(json.dumps(self.net.peft_config["default"].to_dict(), default=lambda x: sorted(x) if isinstance(x, set) else str(x)))
            config["base_model_name_or_path"], config["inference_mode"] = self.ask["base"], True
            config["modules_to_save"] = [VALUE_HEAD.removesuffix(".weight")] if self.values else None
            (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n")

    @torch.no_grad()
    def load(self, folder):
        """Takes the trained weights from a folder that `export` wrote, or that the model was opened with."""
        weights = {}
        if dist.get_rank() == 0:
            if self.learns_adapter:
                found = load_file(os.path.join(folder, ADAPTER))
            else:
                found = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, use_safetensors=True).state_dict()
                if self.values:
                    begun = head_in(folder)
                    found[VALUE_HEAD] = torch.zeros(1, self.config.hidden_size) if begun is None else begun
            own = {self.name_in_file(name.removeprefix("net.").replace(".default.", ".")): name for name, _ in self.named_parameters()}
            named = {name: own.get(name, "net." + name) for name in found}
            weights = {named[name]: tensor for name, tensor in found.items()}
            missing = {name for name, p in self.named_parameters() if p.requires_grad} - set(weights)
            if missing:
                raise ValueError(f"{folder} has no `{sorted(missing)[0]}`")
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True, strict=False)
        if self.sharded:
            set_model_state_dict(self, weights, options=options)
        else:
            own = dict(self.named_parameters())
            for name in set(weights) & set(own):
                self.masters.of(own[name]).copy_(weights[name])
            self.load_state_dict(weights, strict=False)
