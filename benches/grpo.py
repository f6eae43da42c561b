"""One iteration of GRPO by `flow run` and by TRL's GRPOTrainer: the same model, prompts, number of samples and tokens, one optimiser step each.

    .venv-parity/bin/pip install --no-deps -r benches/grpo.txt
    .venv-parity/bin/python benches/model_small.py models/llama-3m
    .venv-parity/bin/python benches/grpo.py models/llama-3m

The environment is MineSweeper, of which one turn is played with free text: a model of random weights says nothing that opens a cell, so every reward is the
same and every advantage 0, which changes nothing of what is computed. The prompts that TRL gets are those that `flow` has logged. All weights are
learnt, in f32, on one thread. Seconds are those of the CPU; with `--clock wall` those of the clock. What comes before the first iteration and in
it isn't counted: of `flow` two runs are taken from one another, of TRL the first step is left out.

With `--beside own` or `--beside f32` the peer is `flow` itself: the same adapters on a base in f32, by libtorch or row by row. Playing and learning
are told apart then, in seconds of the clock.

TRL is given its faster way of those in `WAYS`: all rows in one pass, or two passes of a half. `--prompt` names another prompt than the rules and the
board. With `--base int8` both learn adapters (rank 16, `q_proj` and `v_proj`), and `flow` keeps the base in 8 bits, TRL in f32.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

TASKS, SAMPLES, TOKENS = 4, 8, 32
# Passes that the rows of an optimiser step are read in.
WAYS = [1, 2]

PIPELINE = """flow: grpo
iterations: 1
seed: {seed}
models: {{ actor: {{ load: {model}{learns} }} }}
nodes:
  tasks: {{ op: tasks, with: {{ env: minesweeper, size: 4, mines: 3, batch: {tasks} }} }}
  rollout:
    op: rollout
    inputs: {{ tasks: tasks, weights: {{ after: update }} }}
    with: {{ agent: {{ model: actor, max_turns: 1, decode: free, prompt: "{prompt}", max_tokens: {tokens} }}, samples: {samples} }}
  group: {{ op: group, inputs: rollout, with: {{ by: [task] }} }}
  advantage: {{ op: advantage, inputs: group, with: {{ of: episode_return }} }}
  update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor, lr: 1.0e-6 }} }}
log: [rollout, advantage, update]
"""


# What is added to the model's settings where only adapters learn.
ADAPTERS = ", base: {base}, lora: {{ rank: 16, alpha: 32, targets: [q_proj, v_proj] }}"


def spent(clock):
    """Seconds so far: of this process and of the children that have ended, or of the clock."""
    if clock == "wall":
        return time.perf_counter()
    return sum(u.ru_utime + u.ru_stime for u in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)))


class Flow:
    def __init__(self, flow, model, prompt, folder, clock, base):
        self.flow, self.folder, self.clock, self.runs = flow, folder, clock, 0
        self.pipeline = folder / "grpo.yaml"
        learns = ADAPTERS.format(base=base) if base else ""
        text = PIPELINE.format(model=model.absolute(), learns=learns, prompt=prompt, tasks=TASKS, samples=SAMPLES, tokens=TOKENS, seed=1)
        self.pipeline.write_text(text)

    def run(self, iterations):
        out = self.folder / f"run-{self.runs}"
        self.runs += 1
        start = spent(self.clock)
        asked = [self.flow, "run", self.pipeline, "--set", f"iterations={iterations}", "--out", out]
        subprocess.run(asked, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return spent(self.clock) - start, out

    def rows(self, run):
        sql = "select prompt_tokens, len(response_tokens) as said from rollout order by iteration, task, sample"
        return json.loads(subprocess.run([self.flow, "query", run, sql, "--format", "json"], check=True, capture_output=True).stdout)

    def measured(self, iterations):
        one, _ = self.run(1)
        more, out = self.run(1 + iterations)
        rows = self.rows(out)[TASKS * SAMPLES :]
        return (more - one) / iterations, sum(row["said"] for row in rows) / iterations

    def parts(self, iterations):
        """Seconds of the clock of an iteration behind the first, in playing and in learning."""
        _, out = self.run(1 + iterations)
        sql = "select node, avg(value) as seconds from metrics where name = 'seconds' and iteration > 0 group by node"
        found = json.loads(subprocess.run([self.flow, "query", out, sql, "--format", "json"], check=True, capture_output=True).stdout)
        seconds = {row["node"]: row["seconds"] for row in found}
        return seconds["rollout"], seconds["update"]


def beside(given, folder):
    """`flow` with `--base` and with the base named by `--beside`, in turn."""
    sides = []
    for name in (given.base, given.beside):
        place = folder / name
        place.mkdir()
        sides.append(Flow(given.flow, given.model, given.prompt, place, given.clock, name))
    ratios = {"playing": [], "learning": [], "both": []}
    for _ in range(given.rounds):
        mine, theirs = (side.parts(given.iterations) for side in sides)
        found = [peer / ours for peer, ours in zip((*theirs, sum(theirs)), (*mine, sum(mine)))]
        for kept, ratio in zip(ratios.values(), found):
            kept.append(ratio)
        print(f"{given.base} {mine[0]:.2f} + {mine[1]:.2f} s, {given.beside} {theirs[0]:.2f} + {theirs[1]:.2f} s, ratios " + ", ".join(f"{ratio:.2f}" for ratio in found), flush=True)
    result = {name: [statistics.median(found), min(found), max(found)] for name, found in ratios.items()}
    print(json.dumps({"bench": "grpo", "base": given.base, "beside": given.beside} | result))


def trl(model, texts, steps, passes, clock, adapters):
    """Seconds of one step of TRL's, and the tokens that it wrote."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    rows = TASKS * SAMPLES
    said, begun, ended = [], [], []

    def reward(completion_ids, **_):
        said.append(sum(len(ids) for ids in completion_ids))
        return [0.0] * len(completion_ids)

    class Watch(TrainerCallback):
        def on_step_begin(self, *_, **__):
            begun.append(spent(clock))

        def on_step_end(self, *_, **__):
            ended.append(spent(clock))

    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            per_device_train_batch_size=rows // passes,
            gradient_accumulation_steps=passes,
            num_generations=SAMPLES,
            max_completion_length=TOKENS,
            temperature=1.0,
            beta=0.0,
            loss_type="grpo",
            learning_rate=1e-6,
            lr_scheduler_type="constant",
            max_steps=1 + steps,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=False,
            shuffle_dataset=False,
        )
        tokenizer = AutoTokenizer.from_pretrained(model)
        tokenizer.chat_template = None
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        lora = None
        if adapters:
            import peft

            lora = peft.LoraConfig(task_type="CAUSAL_LM", r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"])
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
            reward_funcs=reward,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": texts}),
            processing_class=tokenizer,
            callbacks=[Watch()],
            peft_config=lora,
        )
        trainer.train()
    # A step begins before its rows are generated or behind it, as versions have it: from one end to the next is all of it.
    return (ended[-1] - ended[0]) / steps, sum(said[-steps:]) / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--flow", default="target/release/flow")
    parser.add_argument("--prompt", default="{{ rules }}\\n\\n{{ observation }}\\n")
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--base", choices=["int8"])
    parser.add_argument("--beside", choices=["own", "f32"])
    parser.add_argument("--ways", type=int, nargs="+", default=WAYS)
    parser.add_argument("--clock", choices=["cpu", "wall"], default="cpu")
    given = parser.parse_args()
    if given.beside:
        with tempfile.TemporaryDirectory() as folder:
            return beside(given, Path(folder))
    from importlib.metadata import version

    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(given.model)
    with tempfile.TemporaryDirectory() as folder:
        flow = Flow(given.flow, given.model, given.prompt, Path(folder), given.clock, given.base)
        _, out = flow.run(1 + given.iterations)
        prompts = [row["prompt_tokens"] for row in flow.rows(out)[:: SAMPLES]]
        texts = [tokenizer.decode(prompt, skip_special_tokens=False) for prompt in prompts]
        again = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        lengths = [len(prompt) for prompt in prompts]
        same = sum(a == b for a, b in zip(prompts, again))
        print(f"TRL {version('trl')}, transformers {version('transformers')}, torch {version('torch')}; {TASKS} prompts of {min(lengths)} to {max(lengths)} tokens,")
        print(f"{same} of {len(prompts)} the same tokens read back; {SAMPLES} answers each of {TOKENS} tokens")
        ratios, ours, theirs = [], [], []
        for _ in range(given.rounds):
            mine, written = flow.measured(given.iterations)
            peers = [trl(given.model, texts, given.iterations, passes, given.clock, given.base) for passes in given.ways]
            best, wrote = min(peers)
            ours.append(mine)
            theirs.append(best)
            ratios.append(best / mine)
            shown = ", ".join(f"{passes} pass(es) {seconds:.2f} s" for passes, (seconds, _) in zip(given.ways, peers))
            print(f"flow {mine:.2f} s ({written:.0f} tokens), TRL {shown} ({wrote:.0f} tokens), ratio {best / mine:.2f}", flush=True)
        result = {"bench": "grpo", "ours": statistics.median(ours), "peer": statistics.median(theirs), "ratio": statistics.median(ratios)}
        print(json.dumps(result | {"least": min(ratios), "most": max(ratios)}))


if __name__ == "__main__":
    main()
