"""A GPU's decoding and training by flow and by transformers, for models of three sizes with random weights, and what share that is of
what it can do: of its bandwidth when decoding, of its matrix rate when training. The GPU is measured in the same run.

    make bench-gpu                      ARGS="--shapes 0.5b --folder /tmp/models" for some, elsewhere
    python benches/gpu.py --shapes nano   a tiny one, also on a CPU: to see that everything works
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import tokenizers
import torch
import transformers

ROOT = Path(__file__).resolve().parent.parent
# Qwen2.5's shapes: width, blocks, heads, heads of keys and values, width inside the feed-forward part, vocabulary, tied embeddings.
SHAPES = {
    "nano": (64, 2, 4, 2, 128, 512, True),
    "0.5b": (896, 24, 14, 2, 4864, 151_936, True),
    "1.5b": (1536, 28, 12, 2, 8960, 151_936, True),
    "135m": (576, 30, 9, 3, 1536, 49_152, True),
    "7b": (3584, 28, 28, 4, 18_944, 152_064, False),
}
GPU = torch.cuda.is_available()


def made(folder, shape):
    """A Hugging Face folder of a model of this shape, with random weights in bf16 and a tokenizer of bytes."""
    if (folder / "model.safetensors.index.json").exists() or (folder / "model.safetensors").exists():
        return folder
    width, blocks, heads, kv_heads, hidden, vocab, tied = shape
    config = transformers.Qwen2Config(
        hidden_size=width, num_hidden_layers=blocks, num_attention_heads=heads, num_key_value_heads=kv_heads, intermediate_size=hidden,
        vocab_size=vocab, tie_word_embeddings=tied, max_position_embeddings=4096, eos_token_id=0, bos_token_id=None, dtype="bfloat16")
    torch.manual_seed(1)
    with torch.device("cuda" if GPU else "cpu"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    words = {"<end>": 0, **{letter: 1 + i for i, letter in enumerate(letters)}}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(words, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>"}))
    return folder


def parameters(shape):
    """Of all matrices, and of those that every token passes: a table of embeddings is only looked up."""
    width, blocks, heads, kv_heads, hidden, vocab, tied = shape
    head = width // heads
    block = width * (heads + 2 * kv_heads) * head + heads * head * width + 3 * width * hidden
    passed = blocks * block + vocab * width
    return passed + (0 if tied else vocab * width), passed


def rate(work, of):
    """`of` a second, from the quickest of ten."""
    def seconds():
        if GPU:
            torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        if GPU:
            torch.cuda.synchronize()
        return time.perf_counter() - start
    return of / min([seconds() for _ in range(12)][2:])


def device_rates():
    """Bytes and bf16 operations a second."""
    device = "cuda" if GPU else "cpu"
    size = 8192 if GPU else 1024
    left = torch.randn(2**31 if GPU else 2**24, dtype=torch.bfloat16, device=device)
    right = torch.empty_like(left)
    bandwidth = rate(lambda: right.copy_(left), 2 * 2 * left.numel())
    del left, right
    a, b = (torch.randn(size, size, dtype=torch.bfloat16, device=device) for _ in range(2))
    return bandwidth, rate(lambda: a @ b, 2 * size**3)


class Watch(threading.Thread):
    """The most memory of the GPU that has been in use, by whomever."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.over = 0, threading.Event()

    def run(self):
        while GPU and not self.over.wait(0.05):
            free, all_of_it = torch.cuda.mem_get_info()
            self.most = max(self.most, all_of_it - free)

    def ended(self):
        self.over.set()
        self.join()
        return self.most


def measured(folder, peer, *cases):
    """What `cargo bench --bench model` says of these cases, and the most memory of the GPU meanwhile."""
    env = {**os.environ, "FLOW_MODEL": str(folder), "BENCH_DTYPE": "bf16", "BENCH_SCALE": "gpu", "BENCH_RUNS": os.environ.get("BENCH_RUNS", "3"),
           "BENCH_PYTHON": sys.executable if peer else "/none"}
    if GPU:
        # The libtorch that PyPI's torch brings along knows CUDA.
        env["LD_LIBRARY_PATH"] = f"{Path(torch.__file__).parent / 'lib'}:{env.get('LD_LIBRARY_PATH', '')}"
    watch = Watch()
    watch.start()
    # A machine with a GPU may have no Rust: then the program was built elsewhere.
    built = os.environ.get("BENCH_PROGRAM")
    program = [built] if built else [os.environ.get("CARGO", "cargo"), "bench", "--quiet", "--bench", "model", "--"]
    run = subprocess.run([*program, *cases], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    most = watch.ended()
    print(run.stdout, flush=True)
    if run.returncode:
        sys.exit(f"the benchmark ended with exit status {run.returncode}")
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")], most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="0.5b,1.5b,7b")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "bench-gpu")
    parser.add_argument("--cases", nargs="*", default=["decode", "training"])
    asked = parser.parse_args()
    unknown = [shape for shape in asked.shapes.split(",") if shape not in SHAPES]
    if unknown:
        sys.exit(f"no shape is called {unknown[0]}: there are {', '.join(SHAPES)}")
    if not GPU and asked.shapes != "nano":
        sys.exit("torch finds no GPU here: `--shapes nano` tries everything on the CPU")
    bandwidth, operations = device_rates()
    name = torch.cuda.get_device_name() if GPU else "the CPU"
    print(f"{name}: {bandwidth / 1e9:,.0f} GB/s, {operations / 1e12:,.2f} Tflop/s in bf16", flush=True)
    rows = []
    for which in asked.shapes.split(","):
        folder = made(asked.folder / which, SHAPES[which])
        if GPU:
            torch.cuda.empty_cache()
        weights, passed = parameters(SHAPES[which])
        found, _ = measured(folder, True, *asked.cases)
        for case in found:
            if case["case"].startswith("decode"):
                # Every step reads all weights once; keys and values come on top and don't count.
                share = lambda tokens: tokens / int(case["case"].split()[-1]) * 2 * passed / bandwidth
            else:
                # Forward, and backward through what is frozen: two operations a weight and token each; adapters are small.
                share = lambda tokens: tokens * 4 * passed / operations
            rows.append((which, case["case"], case["ours"], share(case["ours"]), case["peer"], share(case["peer"]), case["ratio"]))
        if GPU and any("training" in case for case in asked.cases):
            base = torch.cuda.mem_get_info()
            _, most = measured(folder, False, "training")
            print(f"{which}: a training step took {(most - (base[1] - base[0])) / 1e9:.1f} GB of the GPU ({weights / 1e9:.2f} billion weights)", flush=True)
    print("\n| model | case | flow, tokens/s | share of the GPU | transformers | share of the GPU | ratio |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for which, case, ours, share, peer, peers, ratio in rows:
        print(f"| {which} | {case} | {ours:,.0f} | {share:.0%} | {peer:,.0f} | {peers:.0%} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
