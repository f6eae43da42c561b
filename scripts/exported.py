"""What `flow model export` writes, loaded by transformers and PEFT from PyPI: a run with adapters on a tiny published model, merged and not.

    .venv-parity/bin/python scripts/exported.py [FLOW] [MODEL]

FLOW is the binary (target/release/flow), MODEL a Hugging Face folder (tests/golden/models/qwen3). `make interop-models` makes the virtual
environment and runs this.
"""
import pathlib, subprocess, sys, tempfile
import torch
from peft import AutoPeftModelForCausalLM
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

ROOT = pathlib.Path(__file__).resolve().parent.parent
PIPELINE = """
flow: exported
iterations: 2
seed: 5
models:
  actor: { load: MODEL, lora: { rank: 4, alpha: 16, targets: [all-linear] } }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 3, batch: 4 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 2 }, samples: 4 } }
  group: { op: group, inputs: rollout, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 2.0e-2 } }
log: [rollout, update]
"""
TALK = [{"role": "user", "content": "Row 1: # # _ O\nwhere is the box?"}]


def main(flow, base):
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        (place / "pipeline.yaml").write_text(PIPELINE.replace("MODEL", base))
        say = lambda *words: subprocess.run([flow, *map(str, words)], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        say("run", place / "pipeline.yaml", "--out", place / "run")
        say("model", "export", place / "run", "--out", place / "alone")
        say("model", "export", place / "run", "--merge", "--out", place / "merged")
        load = dict(dtype=torch.float32, attn_implementation="eager")
        plain = AutoModelForCausalLM.from_pretrained(ROOT / base, **load)
        merged = AutoModelForCausalLM.from_pretrained(place / "merged", attn_implementation="eager")
        assert merged.dtype == torch.float32, merged.dtype
        adapted = AutoPeftModelForCausalLM.from_pretrained(place / "alone", **load)
        fast, was = AutoTokenizer.from_pretrained(place / "merged"), AutoTokenizer.from_pretrained(ROOT / base)
        text = fast.apply_chat_template(TALK, tokenize=False, add_generation_prompt=True)
        assert text == was.apply_chat_template(TALK, tokenize=False, add_generation_prompt=True)
        ids = torch.tensor([fast.encode(text, add_special_tokens=False)])
        assert ids.tolist()[0] == was.encode(text, add_special_tokens=False)
        ends = GenerationConfig.from_pretrained(place / "merged").eos_token_id
        assert ends == plain.generation_config.eos_token_id, ends
        with torch.no_grad():
            before, one, two = plain(ids).logits, merged(ids).logits, adapted(ids).logits
        apart = float((one - two).abs().max())
        learnt = float((one - before).abs().max())
        print(f"{ids.shape[1]} tokens, logits up to {float(one.abs().max()):.1f}: merged and adapted differ by {apart:.1e}, from the base by {learnt:.1e}")
        assert apart < 1e-4 and learnt > 1e-2
        theirs, ours = adapted.merge_and_unload().state_dict(), merged.state_dict()
        assert theirs.keys() == ours.keys(), theirs.keys() ^ ours.keys()
        weights = max(float((theirs[name] - ours[name]).abs().max()) for name in ours)
        print(f"merged by PEFT and by flow the weights differ by {weights:.1e}")
        assert weights < 1e-5
        written = merged.generate(ids, max_new_tokens=16, do_sample=False)
        assert written.tolist() == adapted.generate(ids, max_new_tokens=16, do_sample=False).tolist()
        print("transformers generates from the exported folder, PEFT from the adapter: the same", written.shape[1] - ids.shape[1], "tokens")


if __name__ == "__main__":
    main(*sys.argv[1:2] or [str(ROOT / "target/release/flow")], *sys.argv[2:3] or ["tests/golden/models/qwen3"])
