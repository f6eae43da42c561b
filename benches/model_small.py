"""Makes the small model of `cargo bench --bench model`: a Llama of 3.2 million random weights, with the tokenizer of a test's.

    .venv-parity/bin/python benches/model_small.py models/llama-3m
    FLOW_MODEL=models/llama-3m BENCH_PYTHON=.venv-parity/bin/python cargo bench --bench model
"""

import shutil
import sys
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SHAPE = dict(vocab_size=4096, hidden_size=192, intermediate_size=512, num_hidden_layers=6, num_attention_heads=6, num_key_value_heads=2)


def main():
    folder = Path(sys.argv[1])
    rope = dict(rope_type="default", rope_theta=10000.0)
    config = LlamaConfig(max_position_embeddings=512, tie_word_embeddings=True, rope_parameters=rope, eos_token_id=2, bos_token_id=0, **SHAPE)
    torch.manual_seed(1)
    model = LlamaForCausalLM(config).to(torch.float32)
    model.save_pretrained(folder)
    tokenizer = Path(__file__).parent.parent / "tests/golden/models/llama-tied"
    for name in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"]:
        shutil.copy(tokenizer / name, folder / name)
    print(folder, sum(p.numel() for p in model.parameters()), "weights")


if __name__ == "__main__":
    main()
