#!/usr/bin/env python3
"""flow_train beside a plain loop of transformers and PEFT on the same rows: tokens a second and the peak of memory, one process; and what each of two
processes holds.

    .venv-parity/bin/python benches/train.py

A random Llama (what is computed depends on no weight), whole and by an adapter: in f32 on as many threads as OMP_NUM_THREADS says, in bf16 on the first GPU
where PyTorch finds one (`--shape 0.5b --rows 32 --prompt 768 --response 256` suits it; weights that are trained stay in f32). The two take turns, each round
one step; the medians count. Both keep the states between blocks alone (gradient checkpointing), and read the rows longest first.
"""
import argparse, json, os, pathlib, statistics, subprocess, sys, tempfile, time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python/tests"))
from trainer_client import Client

SHAPES = {
    "25m": dict(hidden_size=384, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=6, num_key_value_heads=2, vocab_size=16384),
    "0.5b": dict(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, vocab_size=151936),
}
GPUS = torch.cuda.device_count()
DEVICE, DTYPE = ("cuda", torch.bfloat16) if GPUS else ("cpu", torch.float32)


def rows(count, prompt, response):
    g = torch.Generator().manual_seed(1)
    lengths = lambda most: torch.randint(most // 2, most + 1, (count,), generator=g).tolist()
    draw = lambda n: torch.randint(3, 16000, (n,), generator=g).tolist()
    made = [(draw(p), draw(r)) for p, r in zip(lengths(prompt), lengths(response))]
    return sorted(made, key=lambda row: -len(row[0]) - len(row[1]))


def peak(pid):
    """The most memory of this machine (not of a GPU) that a process has had, in bytes."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10


def plain(base, adapter, batch, own):
    """What anybody would write. Each line of input is a step; answers how long it took."""
    from transformers import AutoModelForCausalLM

    kept = DTYPE if adapter else torch.float32
    net = AutoModelForCausalLM.from_pretrained(base, dtype=kept, attn_implementation="sdpa").to(DEVICE)
    if adapter:
        from peft import PeftModel

        net.enable_input_require_grads()
        net = PeftModel.from_pretrained(net, adapter, is_trainable=True)
    net.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    net.train()
    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-6)
    for _ in sys.stdin:
        begun = time.perf_counter()
        for i in range(0, len(own), batch):
            part = own[i : i + batch]
            sequences = [torch.tensor(p + r) for p, r in part]
            ids = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
            attention = torch.nn.utils.rnn.pad_sequence([torch.ones_like(s) for s in sequences], batch_first=True)
            written = torch.zeros_like(ids, dtype=torch.bool)
            for row, (p, r) in enumerate(part):
                written[row, len(p) : len(p) + len(r)] = True
            ids, attention, written = ids.to(DEVICE), attention.to(DEVICE), written.to(DEVICE)
            with torch.autocast(DEVICE, DTYPE, enabled=DTYPE != torch.float32):
                logits = net(input_ids=ids, attention_mask=attention, use_cache=False).logits[:, :-1]
            logprobs = F.log_softmax(logits.float(), -1).gather(-1, ids[:, 1:, None])[..., 0]
            (-logprobs[written[:, 1:]].sum() / len(own)).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if GPUS:
            torch.cuda.synchronize()
        print(json.dumps([time.perf_counter() - begun, peak(os.getpid())]), flush=True)


class Plain:
    def __init__(self, base, adapter, arguments):
        words = [sys.executable, "-W", "ignore", __file__, "--plain", str(base), "--adapter", str(adapter or ""), *arguments]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Elsewhere:
    def __init__(self, ranks, base, adapter, batch, own, vocabulary, threads):
        self.client, self.batch, self.own = Client(ranks, threads=threads), batch, own
        tokens = batch * max(len(p) + len(r) for p, r in own)
        self.opened = self.client.open(base, adapter=str(adapter) if adapter else None, tokens=tokens, vocabulary=vocabulary, dtype="bf16" if DTYPE == torch.bfloat16 else "f32")
        children = pathlib.Path(f"/proc/{self.client.process.pid}/task/{self.client.process.pid}/children").read_text().split()
        self.ranks = [int(child) for child in children]

    def step(self):
        begun = time.perf_counter()
        self.client.ask("zero")
        for i in range(0, len(self.own), self.batch):
            logprobs = self.client.trace(self.own[i : i + self.batch])[0]
            self.client.back(torch.full_like(logprobs, -1 / len(self.own)))
        self.client.step(1e-6)
        return time.perf_counter() - begun, max(map(peak, self.ranks))

    def close(self):
        self.client.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plain")
    parser.add_argument("--adapter")
    parser.add_argument("--shape", choices=SHAPES, default="25m")
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=192)
    parser.add_argument("--response", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    own = rows(arguments.rows, arguments.prompt, arguments.response)
    if arguments.plain:
        return plain(arguments.plain, arguments.adapter, arguments.batch, own)
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    tokens = sum(len(p) + len(r) for p, r in own)
    sizes = SHAPES[arguments.shape]
    os.environ.setdefault("FLOW_TRAIN_DEVICE", DEVICE)
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        torch.manual_seed(0)
        net = LlamaForCausalLM(LlamaConfig(**sizes, max_position_embeddings=2048))
        net.save_pretrained(folder / "base")
        get_peft_model(net, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")).save_pretrained(folder / "adapter")
        print(f"{sum(p.numel() for p in net.parameters()) / 1e6:.0f}M parameters, {tokens} tokens a step, {torch.cuda.get_device_name() if GPUS else f'{threads} threads'}, load {os.getloadavg()[0]:.1f}")
        words = [f"--{name}={getattr(arguments, name)}" for name in ("rows", "prompt", "response", "batch")]
        for what, adapter in [("whole", None), ("an adapter", folder / "adapter")]:
            sides = {"plain": Plain(folder / "base", adapter, words), "flow_train": Elsewhere(1, folder / "base", adapter, arguments.batch, own, sizes["vocab_size"], threads)}
            times, memory = {name: [] for name in sides}, {}
            for round in range(arguments.rounds + 1):
                for name, side in sides.items():
                    took, memory[name] = side.step()
                    times[name] += [took] if round else []
            for side in sides.values():
                side.close()
            speed = {name: tokens / statistics.median(all) for name, all in times.items()}
            ratios = [a / b for a, b in zip(times["plain"], times["flow_train"])]
            print(f"{what}: plain {speed['plain']:.0f} tokens/s and {memory['plain'] / 1e6:.0f} MB; flow_train {speed['flow_train']:.0f} and {memory['flow_train'] / 1e6:.0f} MB")
            print(f"  ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), memory {memory['flow_train'] / memory['plain']:.2f}, load {os.getloadavg()[0]:.1f}")
            # A GPU is one process's own.
            for ranks in (1, 2) if GPUS != 1 else (1,):
                side = Elsewhere(ranks, folder / "base", adapter, arguments.batch, own, sizes["vocab_size"], threads)
                took = statistics.median(side.step()[0] for _ in range(3))
                print(f"  {ranks} ranks: each holds {side.opened['here']} of {side.opened['trained']} trained parameters; {tokens / took:.0f} tokens/s, peak {side.step()[1] / 1e6:.0f} MB a rank")
                side.close()


if __name__ == "__main__":
    main()
