"""TRL's GRPOTrainer on rows that are recorded already: the peer of `turns.py`, mode `trl`."""
import time

import torch


class Recorded:
    """Gives TRL the rows in turn, whatever it asks."""

    def __init__(self, rows):
        self.rows, self.next = rows, 0

    def __call__(self, prompts, trainer):
        some = [self.rows[(self.next + i) % len(self.rows)] for i in range(len(prompts))]
        self.next += len(prompts)
        return {"prompt_ids": [p for p, _ in some], "completion_ids": [r for _, r in some], "logprobs": None}


def step_of(base, adapter, rows, group, tokens, rounds, gpu):
    """The seconds of each optimiser step of all `rows` but the first one. Rewards are alike and advantages 0, which changes nothing of what is computed."""
    from datasets import Dataset
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    longest = max(len(p) + len(r) for p, r in rows)
    # As many rows a pass as there is room for, where all passes have as many.
    size = next(n for n in range(max(1, tokens // longest), 0, -1) if len(rows) % n == 0)
    kind = torch.bfloat16 if gpu else torch.float32
    net = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype=kind), adapter, is_trainable=True)
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.pad_token = tokenizer.eos_token
    times = []

    class Steps(TrainerCallback):
        def on_step_end(self, *_, **__):
            if gpu:
                torch.cuda.synchronize()
            times.append(time.perf_counter())

    config = GRPOConfig(
        output_dir="/tmp/trl", per_device_train_batch_size=size, gradient_accumulation_steps=len(rows) // size, num_generations=group, max_steps=rounds + 1,
        max_completion_length=max(len(r) for _, r in rows), learning_rate=1e-6, beta=0.0, bf16=gpu, use_cpu=not gpu, gradient_checkpointing=False,
        save_strategy="no", report_to=[], disable_tqdm=True, logging_strategy="no")
    data = Dataset.from_dict({"prompt": [f"row {i}" for i in range(len(rows) // group * (rounds + 1))]})
    trainer = GRPOTrainer(
        model=net, reward_funcs=lambda completions, **_: [0.0] * len(completions), args=config, train_dataset=data, processing_class=tokenizer,
        rollout_func=Recorded(rows), callbacks=[Steps()])
    begun = time.perf_counter()
    trainer.train()
    ends = [begun, *times]
    return [b - a for a, b in zip(ends, ends[1:])][1 if rounds else 0 :]
