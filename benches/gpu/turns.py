#!/usr/bin/env python3
"""One update on conversations: flow_train in its layouts beside a plain loop of transformers and PEFT on the same rows.

    .venv-parity/bin/python benches/gpu/turns.py --shape nano          # a CPU: to see that it works
    python benches/gpu/turns.py --shape 0.5b                           # a GPU

Episodes of some turns on a prompt that the episodes of a group share; a row is a turn, and reads all turns before it, as `rollout` logs it. The plain loop is
given the rows (`plain`: padded, longest first) or each episode once (`plain-packed`: what a careful loop does; `plain-alone` beside `packed-alone`: the same
with one turn an episode and no shared prompt). `trl` is TRL's GRPOTrainer on the rows, where trl is installed. A model of Qwen2.5's shape with random weights, an adapter of rank 16, bf16 on a GPU and f32 elsewhere.
`--old FOLDER` measures another flow_train. Seconds are the median of the rounds after the first one; a mode has its own process.
"""
import argparse, importlib.util, json, os, pathlib, statistics, subprocess, sys, tempfile, time

import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python/tests"), str(ROOT / "benches")]
GPU = torch.cuda.is_available()
DEVICE, DTYPE = ("cuda", torch.bfloat16) if GPU else ("cpu", torch.float32)


def episodes(a, alone=False):
    """Token lists of each episode: its prompt, then answer and observation by turns."""
    g = torch.Generator().manual_seed(1)
    draw = lambda n: torch.randint(3, 250, (n,), generator=g).tolist()
    made = []
    for number in range(a.episodes):
        if alone or number % a.group == 0:
            prompt = draw(a.prompt)
        made.append((prompt, [(draw(a.answer), draw(a.seen)) for _ in range(1 if alone else a.turns)]))
    return made


def rows(all_episodes):
    """A pair of prompt and response a turn."""
    made = []
    for prompt, turns in all_episodes:
        read = list(prompt)
        for answer, seen in turns:
            made.append((list(read), answer))
            read += answer + seen
    return made


def whole(all_episodes):
    """Each episode once: its tokens, and which of them were answers."""
    made = []
    for prompt, turns in all_episodes:
        tokens, answered = list(prompt), [False] * len(prompt)
        for answer, seen in turns:
            tokens += answer + seen
            answered += [True] * len(answer) + [False] * len(seen)
        made.append((tokens, answered))
    return made


def plain(base, adapter, a, sequences):
    """What a careful user would write: the head on answers alone, right padding, longest first, batches by tokens."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    net = AutoModelForCausalLM.from_pretrained(base, dtype=DTYPE, attn_implementation="sdpa").to(DEVICE)
    net = PeftModel.from_pretrained(net, adapter, is_trainable=True)
    net.train()
    own = net.get_base_model()
    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-6, fused=GPU or None)
    sequences = sorted(sequences, key=lambda s: -len(s[0]))
    batches = []
    for s in sequences:
        if batches and len(batches[-1][0][0]) * (len(batches[-1]) + 1) <= a.tokens:
            batches[-1].append(s)
        else:
            batches.append([s])
    count = sum(sum(answered) for _, answered in sequences)

    def step():
        begun = time.perf_counter()
        for batch in batches:
            pad = lambda lists: torch.nn.utils.rnn.pad_sequence([torch.tensor(x) for x in lists], batch_first=True).to(DEVICE)
            ids, answered = pad([s for s, _ in batch]), pad([w for _, w in batch])
            attention = pad([[True] * len(s) for s, _ in batch])
            if attention.all():
                attention = None
            with torch.autocast(DEVICE, DTYPE, enabled=GPU):
                states = own.model(input_ids=ids, attention_mask=attention, use_cache=False).last_hidden_state
                logits = own.lm_head(states[:, :-1][answered[:, 1:]])
            logprobs = F.log_softmax(logits.float(), -1).gather(-1, ids[:, 1:][answered[:, 1:]][:, None])
            (-logprobs.sum() / count).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if GPU:
            torch.cuda.synchronize()
        return time.perf_counter() - begun, {}

    measured(a, step, lambda: torch.cuda.max_memory_allocated() if GPU else peak(os.getpid()))


def peak(pid):
    """The most memory of this machine that a process has had, in bytes."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def trainer(base, adapter, a, own, layout, package):
    import trainer_client

    if package:
        trainer_client.PYTHON = pathlib.Path(package)
    client = trainer_client.Client(1, threads=int(os.environ.get("OMP_NUM_THREADS", "1")))
    options = {} if package else {"layout": layout, "gradient_checkpointing": None}
    client.open(base, adapter=str(adapter), tokens=a.tokens, vocabulary=a.words, dtype="bf16" if GPU else "f32", **options)
    count = sum(len(r) for _, r in own)
    # An old trainer keeps a whole pass for the way back.
    size = 16 if package else len(own)

    def step():
        begun, parts = time.perf_counter(), {}
        client.ask("zero")
        for i in range(0, len(own), size):
            logprobs = client.trace(own[i : i + size])[0]
            client.back(torch.full_like(logprobs, -1 / count))
        parts = client.step(1e-6)
        figures = {"computed": client.traced.get("computed"), "layout": client.traced.get("layout"), "peak": parts.get("peak_bytes")}
        return time.perf_counter() - begun, {**parts.get("seconds", {}), **figures}

    ranks = pathlib.Path(f"/proc/{client.process.pid}/task/{client.process.pid}/children").read_text().split()
    measured(a, step, lambda: None if GPU else peak(int(ranks[0])))
    client.close()


def by_trl(base, adapter, a, own):
    import trl_peer

    times = trl_peer.step_of(base, adapter, own, a.group, a.tokens, a.rounds, GPU)
    memory = torch.cuda.max_memory_allocated() if GPU else peak(os.getpid())
    print(json.dumps({"seconds": statistics.median(times), "parts": {}, "memory": memory}), flush=True)


def measured(a, step, memory):
    times, parts = [], {}
    for round in range(a.rounds + 1):
        took, parts = step()
        times += [took] if round or not a.rounds else []
    print(json.dumps({"seconds": statistics.median(times), "parts": parts, "memory": memory() or parts.get("peak")}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    for name, value in dict(episodes=64, turns=10, answer=300, seen=20, prompt=1000, group=8, tokens=16384, rounds=2, limit=120).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--shape", default="0.5b")
    parser.add_argument("--modes", default="tree,packed,padded,plain,plain-packed,packed-alone,plain-alone")
    parser.add_argument("--old")
    parser.add_argument("--folder")
    parser.add_argument("--mode")
    parser.add_argument("--words", type=int)
    a = parser.parse_args()
    folder = pathlib.Path(a.folder or tempfile.mkdtemp())
    base, adapter = folder / a.shape, folder / f"{a.shape}-adapter"
    if a.mode:
        made = episodes(a, a.mode.endswith("-alone"))
        if a.mode.startswith("plain"):
            apart = [([*p, *r], [False] * len(p) + [True] * len(r)) for p, r in rows(made)]
            return plain(base, adapter, a, apart if a.mode == "plain" else whole(made))
        if a.mode == "trl":
            return by_trl(base, adapter, a, rows(made))
        return trainer(base, adapter, a, rows(made), a.mode.split("-")[0], a.old if a.mode == "old" else None)
    import gpu
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    gpu.made(base, gpu.SHAPES[a.shape])
    if not adapter.exists():
        net = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
        get_peft_model(net, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")).save_pretrained(adapter)
    made = rows(episodes(a))
    read, distinct = sum(len(p) + len(r) for p, r in made), sum(len(s) for s, _ in whole(episodes(a))) - (a.episodes - a.episodes // a.group) * a.prompt
    name = torch.cuda.get_device_name() if GPU else f"{os.environ.get('OMP_NUM_THREADS', 1)} threads"
    print(f"{a.shape}, {a.episodes} episodes of {a.turns} turns, groups of {a.group}: {read} tokens in rows, {distinct} distinct; {name}", flush=True)
    environment = {**os.environ, "FLOW_TRAIN_DEVICE": DEVICE}
    results = {}
    for mode in a.modes.split(",") + (["old"] if a.old else []):
        if mode == "trl" and not importlib.util.find_spec("trl"):
            print("trl: skipped, since trl isn't installed", flush=True)
            continue
        words = [f"--{k}={v}" for k, v in vars(a).items() if v is not None and k not in ("mode", "words", "folder")]
        command = [sys.executable, "-W", "ignore", __file__, *words, "--mode", mode, "--folder", str(folder), f"--words={gpu.SHAPES[a.shape][5]}"]
        begun = time.perf_counter()
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=a.limit)
            results[mode] = json.loads(done.stdout.strip().splitlines()[-1]) if done.returncode == 0 else None
            failed = done.stderr[-1500:]
        except subprocess.TimeoutExpired:
            results[mode], failed = None, f"more than {a.limit} s"
        found = results[mode]
        parts = {k: round(v, 3) if isinstance(v, float) else v for k, v in (found or {}).get("parts", {}).items()}
        text = f"{found['seconds']:.3f} s, {(found['memory'] or 0) / 1e9:.1f} GB {parts}" if found else f"failed: {failed}"
        print(f"{mode}: {text} (whole process {time.perf_counter() - begun:.0f} s)", flush=True)
    for one, other in [("tree", "plain"), ("tree", "plain-packed"), ("packed-alone", "plain-alone"), ("tree", "padded"), ("tree", "trl"), ("tree", "old")]:
        if results.get(one) and results.get(other):
            print(f"{one} is {results[other]['seconds'] / results[one]['seconds']:.2f} times as fast as {other}", flush=True)


if __name__ == "__main__":
    main()
