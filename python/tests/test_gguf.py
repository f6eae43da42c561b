"""A GGUF file as a Hugging Face folder: names, configuration and tokenizer; and its numbers, where the package gguf is."""

import contextlib
import importlib.util
import json
import struct
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from flow_runs import gguf_model

SIZES = {"embedding_length": 32, "feed_forward_length": 48, "block_count": 2, "attention.head_count": 4, "context_length": 256, "attention.layer_norm_rms_epsilon": 1e-5}


def config(changes, factors=None):
    metadata = {"general.architecture": "llama", **{f"llama.{key}": value for key, value in {**SIZES, **changes}.items()}}
    return gguf_model.config_of(metadata, 318, True, factors)


def tokenizer(**changes):
    own = {"model": "gpt2", "tokens": ["<s>", "a", "<tool>"], "merges": [], "bos_token_id": 0, "token_type": [3, 1, 4], **changes}
    return gguf_model.tokenizer_of({f"tokenizer.ggml.{key}": value for key, value in own.items()})["tokenizer.json"]


class Config(unittest.TestCase):
    def test_a_factor_scales_under_either_name_with_and_without_a_type(self):
        linear = {"rope_type": "linear", "factor": 4.0}
        for said in ({"rope.scale_linear": 4.0}, {"rope.scaling.factor": 4.0}, {"rope.scaling.factor": 4.0, "rope.scaling.type": "linear"}):
            self.assertEqual(config(said)["rope_scaling"], linear)
        for said in ({"rope.scale_linear": 0.0}, {"rope.scaling.factor": 1.0}, {"rope.scaling.factor": 4.0, "rope.scaling.type": "none"}):
            self.assertNotIn("rope_scaling", config(said))
        self.assertEqual(config({}, [1.0, 2.0])["rope_scaling"], {"rope_type": "factors", "factors": [1.0, 2.0]})

    def test_the_class_is_named_for_programs_that_find_a_model_by_it(self):
        for family, named in gguf_model.FAMILIES.items():
            metadata = {"general.architecture": family, **{f"{family}.{key}": value for key, value in SIZES.items()}}
            self.assertEqual(gguf_model.config_of(metadata, 318, True, None)["architectures"], [named])

    def test_what_may_change_the_result_is_refused_by_name(self):
        for key, value in {"attention.sliding_window": 64, "expert_count": 4, "logit_scale": 0.5, "some_new_key": 7, "attention.causal": False}.items():
            with self.assertRaisesRegex(gguf_model.Refused, key):
                config({key: value})
        for key, value in {"attention.sliding_window": 0, "logit_scale": 1.0, "some_new_key": "", "attention.causal": True, "pooling_type": 3}.items():
            config({key: value})
        for said, what in [
            ({"general.architecture": "mamba"}, "`mamba`.*llama, qwen2, qwen3"),
            ({"general.architecture": "llama"}, "llama.attention.head_count"),
        ]:
            with self.assertRaisesRegex(gguf_model.Refused, what):
                gguf_model.config_of(said, 1, True, None)
        for said, factors, what in [
            ({"attention.key_length": 8, "rope.dimension_count": 4}, None, "several widths"),
            ({"rope.scale_linear": 4.0}, [1.0], "beside"),
        ]:
            with self.assertRaisesRegex(gguf_model.Refused, what):
                config(said, factors)


class Faults(unittest.TestCase):
    def test_a_full_disk_is_said_with_the_folder(self):
        # The first is Python's flush, the second numpy's `tofile`, the third names its file.
        for error, what in [
            (OSError(28, "No space left on device"), "to: No space left on device"),
            (OSError("12 requested and 3 written"), "to: 12 requested and 3 written"),
            (FileNotFoundError(2, "No such file or directory", "a.gguf"), "a.gguf: No such file or directory"),
        ]:
            with contextlib.ExitStack() as patched, self.assertRaises(SystemExit) as ended:
                patched.enter_context(mock.patch.dict(sys.modules, {"gguf": mock.Mock()}))
                patched.enter_context(mock.patch.object(sys, "argv", ["gguf_model", "--", "a.gguf", "to"]))
                patched.enter_context(mock.patch.object(gguf_model, "convert", side_effect=error))
                gguf_model.main()
            self.assertEqual(ended.exception.code, what)


class Names(unittest.TestCase):
    def test_tensors_have_the_names_of_transformers(self):
        for theirs, ours in {
            "token_embd.weight": "model.embed_tokens.weight",
            "output.weight": "lm_head.weight",
            "blk.3.attn_q.bias": "model.layers.3.self_attn.q_proj.bias",
            "blk.0.ffn_norm.weight": "model.layers.0.post_attention_layernorm.weight",
            "blk.0.weird.weight": "blk.0.weird.weight",
            "attn_q.weight": "attn_q.weight",
            "a": "a",
        }.items():
            self.assertEqual(gguf_model.tensor_name(theirs), ours)

    def test_the_files_of_a_model_are_known_by_the_name_of_one(self):
        self.assertEqual([str(part) for part in gguf_model.parts(Path("m/a-b-00002-of-00002.gguf"))], ["m/a-b-00001-of-00002.gguf", "m/a-b-00002-of-00002.gguf"])
        for whole in ("m/a.gguf", "m/one-of-two.gguf", "m/a-1-of-3.gguf", "m/a-00001-of-0000x.gguf"):
            self.assertEqual(gguf_model.parts(Path(whole)), [Path(whole)])


class Tokenizer(unittest.TestCase):
    def test_a_text_opens_as_in_llama_cpp(self):
        for cut, said, opens in [("llama-bpe", None, True), ("qwen2", None, False), ("qwen2", True, True), ("llama-bpe", False, False)]:
            made = tokenizer(pre=cut, **({} if said is None else {"add_bos_token": said}))["post_processor"]
            self.assertEqual(bool(made) and made["special_tokens"]["<s>"]["ids"] == [0], opens)

    def test_control_tokens_are_special_and_added_ones_are_not(self):
        self.assertEqual([(token["content"], token["special"]) for token in tokenizer()["added_tokens"]], [("<s>", True), ("<tool>", False)])

    def test_what_may_change_the_tokens_is_refused(self):
        for changes, what in [
            ({"add_space_prefix": True}, "`add_space_prefix: true`"),
            ({"precompiled_charsmap": [1, 2]}, "precompiled_charsmap"),
            ({"model": "llama"}, "of kind `llama`"),
            ({"pre": "new"}, "as `new`.*qwen2"),
            ({"merges": None}, "merges"),
        ]:
            with self.assertRaisesRegex(gguf_model.Refused, what):
                tokenizer(**changes)
        tokenizer(add_space_prefix=False, eot_token_id=0, scores=[0.0])


@unittest.skipUnless(importlib.util.find_spec("gguf"), "needs the package gguf")
class Numbers(unittest.TestCase):
    def test_numbers_are_those_of_the_file_and_heads_lie_in_halves(self):
        import gguf
        import numpy

        kind = gguf.GGMLQuantizationType.Q4_1
        with tempfile.TemporaryDirectory() as home:
            path, folder = Path(home, "a.gguf"), Path(home, "a")
            writer = gguf.GGUFWriter(str(path), "llama")
            for key, value in SIZES.items():
                (writer.add_float32 if isinstance(value, float) else writer.add_uint32)(f"llama.{key}", value)
            writer.add_tokenizer_model("gpt2")
            writer.add_token_list(["a", "é"])
            writer.add_token_merges(["a é"])
            random = numpy.random.default_rng(1)
            given = {}
            for name in ("token_embd.weight", "blk.0.attn_q.weight", "blk.0.ffn_up.weight"):
                packed = gguf.quants.quantize(random.standard_normal((32, 32)).astype(numpy.float32), kind)
                writer.add_tensor(name, packed, raw_dtype=kind)
                given[gguf_model.tensor_name(name)] = gguf.quants.dequantize(packed, kind)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            gguf_model.convert(path, folder)
            raw = (folder / "model.safetensors").read_bytes()
            (length,) = struct.unpack("<Q", raw[:8])
            header = json.loads(raw[8 : 8 + length])
            del header["__metadata__"]
            found = {}
            for name, tensor in header.items():
                begin, end = (8 + length + at for at in tensor["data_offsets"])
                found[name] = numpy.frombuffer(raw[begin:end], "<f4").reshape(tensor["shape"])
            self.assertEqual(sorted(found), sorted(given))
            rows = [8 * head + 2 * pair + half for head in range(4) for half in range(2) for pair in range(4)]
            for name, values in given.items():
                self.assertTrue((found[name] == (values[rows] if "q_proj" in name else values)).all(), name)
            self.assertEqual(json.loads((folder / "config.json").read_text())["vocab_size"], 32)
            path.write_bytes(path.read_bytes()[:-900])
            with self.assertRaises((ValueError, IndexError)):
                gguf_model.convert(path, Path(home, "b"))


if __name__ == "__main__":
    unittest.main()
