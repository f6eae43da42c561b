"""The other side of `cargo bench --bench model`: transformers and PEFT reading the same folder, driven over standard input.

A line names a case, a number of rows, the tokens of a prompt, those that are written, and how many rows share a prompt; the answer is seconds
for all of it, of the CPU where BENCH_CLOCK is `cpu`.
"""

import functools
import os
import resource
import sys
import time
from pathlib import Path

# Tensors are told one by one otherwise.
os.environ.setdefault("TQDM_DISABLE", "1")

import peft
import torch
import transformers
from transformers import AutoModelForCausalLM

transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def main():
    torch.set_num_threads(int(os.environ.get("BENCH_THREADS", "2")))
    torch.manual_seed(1)
    path = Path(os.environ.get("FLOW_MODEL", "models/smollm2-135m-instruct"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if os.environ.get("BENCH_DTYPE") == "bf16" else torch.float32
    plain = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="sdpa").eval().to(device)

    @functools.cache
    def learner():
        # Only once something learns: what reads and writes alone has no adapter around its matrices.
        config = peft.LoraConfig(task_type="CAUSAL_LM", r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"])
        adapted = peft.get_peft_model(plain, config)
        return adapted, torch.optim.AdamW([p for p in adapted.parameters() if p.requires_grad], lr=1e-6)

    def read(ids, _):
        with torch.no_grad():
            plain(ids, use_cache=True, logits_to_keep=1)

    def write(ids, tokens):
        with torch.no_grad():
            plain.generate(ids, do_sample=True, temperature=3.0, top_k=0, min_new_tokens=tokens, max_new_tokens=tokens, pad_token_id=0)

    def learn(ids, tokens):
        adapted, optimiser = learner()
        optimiser.zero_grad()
        for part in ids.split(16):
            logits = adapted(part, use_cache=False, logits_to_keep=tokens + 1).logits[:, :-1]
            chosen = logits.log_softmax(-1).gather(-1, part[:, -tokens:, None]).squeeze(-1)
            ratio = (chosen - chosen.detach()).exp()
            (-ratio.sum() / (len(ids) * tokens)).backward()
        torch.nn.utils.clip_grad_norm_(adapted.parameters(), 1.0)
        optimiser.step()

    clock = time.process_time if os.environ.get("BENCH_CLOCK") == "cpu" else time.perf_counter
    cases = {"read": read, "write": write, "learn": learn}
    print("ready", torch.__version__, transformers.__version__, sum(p.numel() for p in plain.parameters()), flush=True)
    for line in sys.stdin:
        name, rows, tokens, written, samples = line.split()
        if name == "memory":
            on_card = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0
            print(on_card or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, flush=True)
            continue
        ids = torch.randint(100, plain.config.vocab_size, (int(rows), int(tokens)), device=device)
        if int(samples) > 1:
            prompt = int(tokens) - int(written)
            ids[:, :prompt] = ids[:: int(samples), :prompt].repeat_interleave(int(samples), 0)
        start = clock()
        cases[name](ids, int(written))
        if device == "cuda":
            torch.cuda.synchronize()
        print(clock() - start, flush=True)


if __name__ == "__main__":
    main()
