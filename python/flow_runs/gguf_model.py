"""`python -m flow_runs.gguf_model FILE FOLDER` writes the model of a GGUF file, llama.cpp's format, as the Hugging Face folder that it was made
from: `config.json`, `tokenizer.json` and weights in f32. `flow model convert` starts it.

Anything in the file that may change what the model computes, and that the folder can't say, is refused by its name.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# The classes of transformers, which vLLM needs named.
FAMILIES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
# ggml's names of the tensors, and those of transformers.
TENSORS = {"token_embd": "model.embed_tokens", "output": "lm_head", "output_norm": "model.norm"}
BLOCK = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
# What llama.cpp divides the rotary frequencies by; part of the configuration elsewhere.
FACTORS = "rope_freqs.weight"
Rule = Callable[[Any], bool]


def empty(value: Any) -> bool:
    return value is None or value == "" or value == []


def off(value: Any) -> bool:
    return empty(value) or value == 0


def one(value: Any) -> bool:
    return value is None or value == 1


def whatever(value: Any) -> bool:
    return True


def rules(named: Mapping[Rule, str]) -> dict[str, Rule]:
    return {name: rule for rule, names in named.items() for name in names.split()}


# The values that change nothing, by the key. Those of a key that is read are checked where it is.
CONFIG_RULES = rules({
    whatever: "embedding_length feed_forward_length block_count attention.head_count attention.head_count_kv attention.key_length "
    "attention.value_length attention.layer_norm_rms_epsilon context_length rope.freq_base rope.dimension_count rope.scaling.type "
    "rope.scaling.factor rope.scale_linear vocab_size tensor_data_layout pooling_type rope.scaling.original_context_length rope.scaling.finetuned",
    one: "rope.scaling.attn_factor",
    lambda causal: causal is True: "attention.causal",
    off: "attention.sliding_window attention.scale attention.clamp_kqv expert_count expert_used_count use_parallel_residual",
    lambda scale: off(scale) or one(scale): "logit_scale",
})  # fmt: skip
# A text never gets a closing token; which tokens end an answer the chat template and `eos_token_id` say.
TOKENIZER_RULES = rules({
    whatever: "model pre tokens merges token_type add_bos_token bos_token_id eos_token_id unknown_token_id padding_token_id scores "
    "token_type_count add_eos_token add_sep_token eot_token_id eom_token_id seperator_token_id separator_token_id cls_token_id mask_token_id "
    "prefix_token_id suffix_token_id middle_token_id fim_pre_token_id fim_suf_token_id fim_mid_token_id fim_pad_token_id fim_rep_token_id "
    "fim_sep_token_id",
    off: "add_space_prefix remove_extra_whitespaces",
})  # fmt: skip
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# How text is cut before pairs are merged: by the expression of transformers' tokenizers of that name, or as GPT-2 does.
CUTS = {"default": None, "gpt-2": None, "smollm": None, "llama-bpe": WORDS % "{1,3}", "qwen2": WORDS % ""}
# ggml's types of tokens that aren't made of merges.
CONTROL, ADDED = 3, 4


class Refused(Exception):
    """Why the file can't be converted."""


def check(metadata: Mapping[str, Any], prefix: str, known: Mapping[str, Rule]) -> None:
    for key, value in metadata.items():
        name = key.removeprefix(prefix)
        if name != key and not known.get(name, empty)(value):
            raise Refused(f"`{name}: {json.dumps(value)[:60]}`, which may change what the model computes; if it doesn't, take it out of the file")


def tensor_name(name: str) -> str:
    found = re.fullmatch(r"(?:blk\.(\d+)\.)?(.+)\.(weight|bias)", name)
    block, part, kind = found.groups() if found else (None, name, "")
    own = (TENSORS if block is None else BLOCK).get(part)
    return name if own is None else f"{own}.{kind}" if block is None else f"model.layers.{block}.{own}.{kind}"


def config_of(metadata: Mapping[str, Any], vocab: int, tied: bool, factors: list[float] | None) -> dict[str, Any]:
    """What `config.json` says."""
    family = metadata.get("general.architecture")
    if family not in FAMILIES:
        raise Refused(f"the architecture `{family}` isn't supported; {', '.join(FAMILIES)} are")
    check(metadata, f"{family}.", CONFIG_RULES)

    def must(name: str) -> Any:
        if (value := metadata.get(f"{family}.{name}")) is None:
            raise Refused(f"there is no `{family}.{name}`")
        return value

    def get(*names: str) -> Any:
        return next((value for name in names if (value := metadata.get(f"{family}.{name}")) is not None), None)

    heads, base = must("attention.head_count"), get("rope.freq_base")
    config = {
        "architectures": [FAMILIES[family]], "model_type": family, "vocab_size": vocab, "hidden_size": must("embedding_length"),
        "intermediate_size": must("feed_forward_length"),
        "num_hidden_layers": must("block_count"), "num_attention_heads": heads,
        "num_key_value_heads": get("attention.head_count_kv") or heads, "max_position_embeddings": must("context_length"),
        "rms_norm_eps": must("attention.layer_norm_rms_epsilon"), "hidden_act": "silu", "tie_word_embeddings": tied,
        "rope_theta": 10_000.0 if base is None else base,
    }  # fmt: skip
    widths = {name: get(name) for name in ("attention.key_length", "attention.value_length", "rope.dimension_count") if get(name) is not None}
    if len(set(widths.values())) > 1:
        raise Refused(f"heads of several widths aren't supported: {widths}")
    if widths:
        config["head_dim"] = next(iter(widths.values()))
    for name in ("eos_token_id", "bos_token_id"):
        if (token := metadata.get(f"tokenizer.ggml.{name}")) is not None:
            config[name] = token
    # The second is the first one's old name. A factor without a type is linear, and 0 and 1 scale nothing.
    factor, scaling = get("rope.scaling.factor", "rope.scale_linear"), get("rope.scaling.type") or "linear"
    factor = None if off(factor) or one(factor) else factor
    scaled = scaling != "none" and (scaling != "linear" or factor is not None)
    if scaled and factors is not None:
        raise Refused(f"rope scaling of type `{scaling}` beside `{FACTORS}` isn't supported")
    if scaled or factors is not None:
        config["rope_scaling"] = {"rope_type": scaling, "factor": factor} if scaled else {"rope_type": "factors", "factors": factors}
    return config


def tokenizer_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What `tokenizer.json` and `tokenizer_config.json` say, by the file."""
    own = {key.removeprefix("tokenizer.ggml."): value for key, value in metadata.items() if key.startswith("tokenizer.ggml.")}
    if own.get("model") != "gpt2":
        raise Refused(f"a tokenizer of kind `{own.get('model')}` isn't supported; `gpt2` (merged pairs of bytes) is")
    cut = own.get("pre", "default")
    if cut not in CUTS:
        raise Refused(f"a tokenizer that cuts text as `{cut}` isn't supported; {', '.join(CUTS)} are")
    check(metadata, "tokenizer.ggml.", TOKENIZER_RULES)
    for name in ("tokens", "merges"):
        if not isinstance(own.get(name), list):
            raise Refused(f"there is no list `tokenizer.ggml.{name}`")
    tokens, kinds = own["tokens"], own.get("token_type", [])
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": i, "content": tokens[i], "special": kind == CONTROL, **plain} for i, kind in enumerate(kinds) if kind in (CONTROL, ADDED)]
    by_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    steps: list[dict[str, Any]] = [{"type": "Digits", "individual_digits": True}] if cut == "smollm" else []
    if CUTS[cut] is not None:
        steps.append({"type": "Split", "pattern": {"Regex": CUTS[cut]}, "behavior": "Isolated", "invert": False})
    steps.append({**by_bytes, "use_regex": CUTS[cut] is None})

    def special(name: str) -> Any:
        token = own.get(f"{name}_token_id")
        return tokens[token] if token is not None and token < len(tokens) else None

    # llama.cpp opens texts of one kind unless the file says otherwise.
    opening, begin = None, special("bos")
    if own.get("add_bos_token", cut == "llama-bpe") and begin is not None:
        first, (a, b) = {"SpecialToken": {"id": begin, "type_id": 0}}, ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
        known = {begin: {"id": begin, "ids": [own["bos_token_id"]], "tokens": [begin]}}
        opening = {"type": "TemplateProcessing", "single": [first, a], "pair": [first, a, b], "special_tokens": known}
    model = {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
        "byte_fallback": False, "ignore_merges": cut == "llama-bpe", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": own["merges"],
    }  # fmt: skip
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": {"type": "NFC"} if cut == "qwen2" else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}, "post_processor": opening, "decoder": {**by_bytes, "use_regex": True},
        "model": model,
    }  # fmt: skip
    names = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    config = {key: special(name) for key, name in names.items()}
    template = {"chat_template": metadata.get("tokenizer.chat_template"), "tokenizer_class": "PreTrainedTokenizerFast"}
    return {"tokenizer.json": tokenizer, "tokenizer_config.json": {**config, **template}}


def parts(path: Path) -> list[Path]:
    """The files of the model that `path` is a part of, as its name says."""
    found = re.fullmatch(r"(.+)-\d{5}-of-(\d{5})", path.stem)
    return [path.with_name(f"{found[1]}-{n + 1:05}-of-{found[2]}{path.suffix}") for n in range(int(found[2]))] if found else [path]


def convert(path: Path, folder: Path) -> None:
    import gguf
    import numpy

    with open(path, "rb") as file:
        if file.read(19) == b"version https://git":
            raise Refused("this is a Git LFS pointer in place of the file: `git lfs pull` fetches it")
    readers = [gguf.GGUFReader(part) for part in parts(path)]
    metadata = {name: field.contents() for name, field in readers[0].fields.items()}
    tensors = {tensor_name(tensor.name): tensor for reader in readers for tensor in reader.tensors}

    def numbers(name: str) -> Any:
        tensor = tensors[name]
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype("<f4", copy=False).reshape(tensor.shape[::-1])
        part = name.split(".")[-2:][0]
        if config.get("model_type") != "llama" or part not in ("q_proj", "k_proj"):
            return values
        # llama.cpp turns neighbours where transformers turns halves, so it stores the rows of a head pair by pair.
        heads = config["num_attention_heads" if part == "q_proj" else "num_key_value_heads"]
        return values.reshape(heads, -1, 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)

    config: dict[str, Any] = {}
    factors = [float(x) for x in numbers(FACTORS).flatten()] if FACTORS in tensors else None
    vocab = int(tensors["model.embed_tokens.weight"].shape[-1]) if "model.embed_tokens.weight" in tensors else 0
    config = config_of(metadata, vocab, "lm_head.weight" not in tensors, factors)
    files = {**tokenizer_of(metadata), "config.json": config}
    folder.mkdir(parents=True, exist_ok=True)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at, names = 0, sorted(name for name in tensors if name != FACTORS)
    for name in names:
        size = [int(n) for n in tensors[name].shape[::-1]]
        header[name] = {"dtype": "F32", "shape": size, "data_offsets": [at, at := at + 4 * int(numpy.prod(size))]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            numpy.ascontiguousarray(numbers(name)).tofile(out)
    # The configuration comes last: a folder without one is no model.
    for name, contents in files.items():
        (folder / name).write_text(json.dumps(contents, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    path, folder = map(Path, sys.argv[-2:])
    with tempfile.TemporaryDirectory() as packages:
        try:
            import gguf  # noqa: F401
        except ImportError:
            pinned = Path(__file__).with_name("gguf.txt")
            install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--target", packages]
            if subprocess.run([sys.executable, *install, "-r", str(pinned)], stdout=sys.stderr).returncode != 0:
                sys.exit(f"{sys.executable} has no package gguf, and pip can't fetch it: `pip install gguf` first")
            sys.path.append(packages)
        try:
            convert(path, folder)
        except Refused as error:
            sys.exit(f"{path}: {error}")
        except OSError as error:
            # numpy's errors of writing have neither.
            sys.exit(f"{error.filename or folder}: {error.strerror or error}")
        except (ValueError, IndexError, KeyError, TypeError, NotImplementedError) as error:
            sys.exit(f"{path}: it can't be read as GGUF, or is cut off: {error}")


if __name__ == "__main__":
    main()
