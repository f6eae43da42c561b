#!/usr/bin/env python3
"""What `transformers` computes with tiny random models of every architecture, written down for `cargo test`: tests/golden/models/.

    make parity-models

Each folder is an ordinary Hugging Face folder, and `golden.safetensors` and `golden.json` say what came out of it: logits, the gradient
of the loss of every parameter, 64 tokens written greedily, and tokens of texts. Also: adapters as PEFT computes and merges them,
and chat templates as `apply_chat_template` renders them. With `--smollm2 FILE.gguf` the same of SmolLM2, with `--minilm FOLDER` MiniLM's vectors
of some sentences are printed in JSON, to compare with `flow`'s.
"""
import argparse, json, pathlib, shutil, sys
import peft, torch, transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, BertConfig, BertModel, LlamaConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen3Config

HERE = pathlib.Path(__file__).parent.parent / "tests/golden/models"
SIZES = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
# Name, configuration, type of the file's numbers, most bytes of a shard.
MODELS = [
    ("llama-tied", lambda v: LlamaConfig(vocab_size=v, tie_word_embeddings=True, rms_norm_eps=1e-5, rope_parameters=dict(rope_type="default", rope_theta=100000.0), **SIZES), torch.bfloat16, None),
    ("llama3-scaled", lambda v: LlamaConfig(vocab_size=v, rope_parameters=LLAMA3, **SIZES), torch.float32, 60_000),
    ("llama-biases", lambda v: LlamaConfig(vocab_size=v, attention_bias=True, mlp_bias=True, rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.0), **{**SIZES, "num_key_value_heads": 4}), torch.float32, None),
    ("qwen2", lambda v: Qwen2Config(vocab_size=v, rope_parameters=dict(rope_type="default", rope_theta=1000000.0), **SIZES), torch.float16, None),
    ("qwen3", lambda v: Qwen3Config(vocab_size=v, head_dim=16, tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=1000000.0), **SIZES), torch.float32, None),
]
TEXTS = ["Hello, world!", "Row 1: # # _ O\n  you're at 12345.", "Grüße, 漢字 ✓ \t\n\n end", "<|im_start|>user\nno text<|im_end|>", "", "   three   spaces "]
CORPUS = ["the wall is to the north and the box is to the south of the door", "you are in the room, you see a box; go up, down, left, right", "row 1: # # _ _ #"] * 4
TEMPLATE = (
    "{%- if messages[0].role == 'system' %}{{ '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{% endif %}\n"
    "{%- for message in messages %}\n"
    "    {%- if message.role not in ['system', 'user', 'assistant'] %}{{ raise_exception('no such role: ' + message.role) }}{% endif %}\n"
    "    {%- if message.role != 'system' %}\n"
    "        {{- '<|im_start|>' + message.role + '\\n' + (message.content | trim) + '<|im_end|>\\n' }}\n"
    "    {%- endif %}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
CONVERSATIONS = [
    [("user", "Hi")],
    [("system", "Be brief."), ("user", " Hi \n")],
    [("user", "Row 1: # _ #\nWhere?"), ("assistant", "up"), ("user", "And now?")],
    [("system", ""), ("user", "x")],
    [("user", "<b>&amp;\"'</b>")],
    [("user", "Grüße 漢字 ✓")],
    [("user", "a\n\nb"), ("assistant", " c "), ("user", "d"), ("assistant", "e"), ("user", "f")],
    [("user", "{{ not a template }} {% if %}")],
    [("user", "")],
    [("system", "You act by <action>.</action>"), ("user", "tabs\tand  spaces"), ("assistant", "<action>go</action>"), ("user", "next")],
]


def tokenizer():
    """A byte-level BPE with a few merges, the same on every run."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    made.decoder = decoders.ByteLevel()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    made.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=320, special_tokens=specials, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    fast = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", bos_token="<|endoftext|>", pad_token="<|endoftext|>")
    fast.chat_template = TEMPLATE
    return fast


def compute(model, prompt, response, trained=False):
    """Logits [places, vocab], the gradient of the mean cross-entropy of the response by parameter, and 64 greedy tokens (none of what is only
    being trained)."""
    model.zero_grad()
    ids = torch.tensor([prompt + response])
    logits = model(ids).logits[0]
    at = torch.arange(len(prompt) - 1, len(prompt) + len(response) - 1)
    loss = torch.nn.functional.cross_entropy(logits[at], ids[0, at + 1])
    loss.backward()
    gradients = {name: p.grad.detach().clone() for name, p in model.named_parameters() if p.requires_grad}
    written, seen = [], ids[:, : len(prompt)]
    with torch.no_grad():
        for _ in range(0 if trained else 64):
            token = int(model(seen).logits[0, -1].argmax())
            written.append(token)
            seen = torch.cat([seen, torch.tensor([[token]])], 1)
    return logits.detach(), float(loss), gradients, written


def folders(fast):
    vocab = len(fast)
    for seed, (name, config, dtype, shard) in enumerate(MODELS):
        torch.manual_seed(seed)
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        model = AutoModelForCausalLM.from_config(config(vocab), attn_implementation="eager")
        with torch.no_grad():
            for p in model.parameters():
                # Wide enough that logits differ, and norms and biases that aren't where they begin.
                p.copy_((p + torch.randn_like(p) * 0.15).to(dtype).float())
        model.generation_config.eos_token_id = fast.eos_token_id
        prompt, response = fast.encode("Row 1: # # _ O\nwhere is the box?"), fast.encode(" to the north<|im_end|>")
        logits, loss, gradients, written = compute(model, prompt, response)
        model.to(dtype).save_pretrained(folder, **({"max_shard_size": shard} if shard else {}))
        fast.save_pretrained(folder)
        save_file({"logits": logits.contiguous(), **{f"gradient.{k}": v.contiguous() for k, v in gradients.items()}}, str(folder / "golden.safetensors"))
        golden = {"prompt": prompt, "response": response, "loss": loss, "greedy": written, "ends": [fast.eos_token_id],
                  "texts": [{"text": t, "tokens": fast.encode(t), "decoded": fast.decode(fast.encode(t), skip_special_tokens=True)} for t in TEXTS]}
        (folder / "golden.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")
        print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, loss {loss:.4f}")


# Name, the model it adapts, its configuration.
ADAPTERS = [
    ("plain", "llama-biases", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])),
    ("stabilised", "qwen3", dict(r=3, lora_alpha=5, use_rslora=True, target_modules="all-linear")),
    ("one-layer", "llama3-scaled", dict(r=2, lora_alpha=4, target_modules=["o_proj", "down_proj"], layers_to_transform=[1])),
]


def adapters():
    """Adapters with random weights as PEFT saves them, what it computes with them, and what it merges them to."""
    for seed, (name, of, config) in enumerate(ADAPTERS):
        torch.manual_seed(100 + seed)
        folder = HERE / "adapters" / name
        shutil.rmtree(folder, ignore_errors=True)
        golden = json.loads((HERE / of / "golden.json").read_text())
        base = AutoModelForCausalLM.from_pretrained(HERE / of, dtype=torch.float32, attn_implementation="eager")
        model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", **config))
        begins = {k: (float(p.abs().max()), p.shape[-1]) for k, p in model.named_parameters() if p.requires_grad}
        with torch.no_grad():
            for k, p in model.named_parameters():
                if p.requires_grad:
                    p.add_(torch.randn_like(p) * 0.2)
        logits, loss, gradients, _ = compute(model, golden["prompt"], golden["response"], trained=True)
        model.peft_config["default"].base_model_name_or_path = f"../../{of}"
        model.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        plain = {k.replace(".default.", "."): v for k, v in gradients.items()}
        merged = model.merge_and_unload().state_dict()
        matrices = {k: v.clone().contiguous() for k, v in merged.items() if k.endswith("_proj.weight")}
        save_file({"logits": logits.contiguous(), **{f"gradient.{k}": v.contiguous() for k, v in plain.items()},
                   **{f"merged.{k}": v for k, v in matrices.items()}}, str(folder / "golden.safetensors"))
        # How PEFT begins: B at 0, A within a bound that follows from its inputs.
        starts = [{"name": k.replace(".default.", "."), "largest": largest, "inputs": inputs} for k, (largest, inputs) in begins.items()]
        (folder / "golden.json").write_text(json.dumps({"of": of, "loss": loss, "starts": starts}) + "\n")
        print(f"{name}: {sum(v.numel() for v in plain.values())} parameters beside {of}, loss {loss:.4f}")


SENTENCES = ["the box is to the north", "The box is to the NORTH.", "", "you are in the room", "a wall, a door: up and down! " * 30, "Grüße aus dem Norden, 漢字", "north"]


def vectors(folder):
    """The vectors of sentences: the mean of the final states of a sentence's tokens, of length 1, as sentence-transformers computes it."""
    fast, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    most = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
    found = []
    for text in SENTENCES:
        read = fast(text, return_tensors="pt", truncation=True, max_length=most)
        with torch.no_grad():
            states = model(**read).last_hidden_state[0]
        found.append({"text": text, "tokens": read["input_ids"].shape[1], "vector": torch.nn.functional.normalize(states.mean(0), dim=0).tolist()})
    return found


def encoder():
    """A tiny BERT with random weights, and a vocabulary of its own."""
    torch.manual_seed(200)
    folder = HERE / "encoder"
    shutil.rmtree(folder, ignore_errors=True)
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=120, special_tokens=specials))
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    # As the published one has it: what the file says of padding and cutting isn't what is done.
    made.enable_truncation(8)
    made.enable_padding(length=8)
    model = BertModel(BertConfig(vocab_size=made.get_vocab_size(), hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40, max_position_embeddings=64))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.2)
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]").save_pretrained(folder)
    made.save(str(folder / "tokenizer.json"))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 48, "do_lower_case": False}) + "\n")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 24, "pooling_mode_mean_tokens": True}) + "\n")
    (folder / "golden.json").write_text(json.dumps(vectors(folder), ensure_ascii=False) + "\n")
    print(f"encoder: {sum(p.numel() for p in model.parameters())} parameters")


def chats(fast, template=None):
    found = []
    for talk in CONVERSATIONS:
        messages = [{"role": role, "content": content} for role, content in talk]
        text = fast.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **({"chat_template": template} if template else {}))
        found.append({"messages": messages, "text": text, "tokens": fast.encode(text, add_special_tokens=False)})
    return found


def smollm2(path):
    path = pathlib.Path(path)
    fast = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager")
    # Its padding is the token that ends a turn, of whose embedding PyTorch would leave the gradient out wherever it is read.
    model.get_input_embeddings().padding_idx = None
    prompt = fast.encode(chats(fast)[2]["text"], add_special_tokens=False)
    response = fast.encode(" The box is north.", add_special_tokens=False)
    logits, loss, gradients, written = compute(model, prompt, response)
    norms = {name: float(g.norm()) for name, g in gradients.items()}
    print(json.dumps({"prompt": prompt, "response": response, "loss": loss, "greedy": written, "logits": logits[-1].tolist(), "norms": norms,
                      "chats": chats(fast), "texts": [{"text": t, "tokens": fast.encode(t, add_special_tokens=False)} for t in TEXTS]}))


if __name__ == "__main__":
    asked = argparse.ArgumentParser()
    asked.add_argument("--smollm2")
    asked.add_argument("--minilm")
    asked = asked.parse_args()
    torch.set_num_threads(1)
    if asked.smollm2:
        smollm2(asked.smollm2)
        sys.exit()
    if asked.minilm:
        print(json.dumps(vectors(pathlib.Path(asked.minilm)), ensure_ascii=False))
        sys.exit()
    HERE.mkdir(parents=True, exist_ok=True)
    fast = tokenizer()
    folders(fast)
    adapters()
    encoder()
    (HERE / "chats.json").write_text(json.dumps(chats(fast), ensure_ascii=False) + "\n")
    print(f"transformers {transformers.__version__}, torch {torch.__version__} -> {HERE}")
