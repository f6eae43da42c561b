//! The tokenizer of a GGUF file as the `tokenizer.json` and `tokenizer_config.json` that it was made from.

use crate::gguf::reader::Metadata;
use flow_model::harmless::{any, check, empty, off, Rule};
use flow_model::FileFault;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

/// How text is cut before pairs are merged: llama.cpp's name, and the expression that `transformers` has in the
/// tokenizers of that name. `None`: the expression of GPT-2, which the library has built in.
const CUTS: &[(&str, Option<&str>, bool)] = &[
    ("default", None, false),
    ("gpt-2", None, false),
    // Digits are cut one by one first.
    ("smollm", None, true),
    (
        "llama-bpe",
        Some(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
        false,
    ),
    (
        "qwen2",
        Some(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
        false,
    ),
];

/// ggml's types of tokens that aren't made of merges: control, and added by hand.
const CONTROL: u64 = 3;
const ADDED: u64 = 4;

/// The keys of a tokenizer that [`files`] reads.
const READ: &str = "model pre tokens merges token_type add_bos_token bos_token_id eos_token_id unknown_token_id padding_token_id";

/// The values of its other keys that don't change how a text is cut into tokens: it never gets a closing token, and
/// which tokens end an answer the chat template and `eos_token_id` say.
const RULES: &[Rule] = &[
    (
        "scores token_type_count add_eos_token add_sep_token eot_token_id eom_token_id seperator_token_id \
      separator_token_id cls_token_id mask_token_id prefix_token_id suffix_token_id middle_token_id \
      fim_pre_token_id fim_suf_token_id fim_mid_token_id fim_pad_token_id fim_rep_token_id \
      fim_sep_token_id",
        any,
    ),
    ("add_space_prefix remove_extra_whitespaces", off),
];

/// The tokenizer's files, by name.
///
/// # Errors
/// If it is of a kind that isn't known here, or incomplete.
pub fn files(metadata: &Metadata) -> Result<BTreeMap<String, String>, FileFault> {
    let get = |name: &str| metadata.get(&format!("tokenizer.ggml.{name}"));
    let list = |name: &str| {
        get(name).and_then(Value::as_array).ok_or_else(|| FileFault::Unusable(format!("there is no list `tokenizer.ggml.{name}`")))
    };
    let model = get("model").and_then(Value::as_str).unwrap_or_default();
    if model != "gpt2" {
        return Err(FileFault::Unsupported(format!("a tokenizer of kind `{model}`; `gpt2` (merged pairs of bytes) is")));
    }
    let cut = get("pre").and_then(Value::as_str).unwrap_or("default");
    let Some((_, expression, digits)) = CUTS.iter().find(|(name, ..)| *name == cut) else {
        let known: Vec<_> = CUTS.iter().map(|(name, ..)| *name).collect();
        return Err(FileFault::Unsupported(format!("a tokenizer that cuts text as `{cut}`; {} are", known.join(", "))));
    };
    check(metadata.iter().filter_map(|(key, value)| Some((key.strip_prefix("tokenizer.ggml.")?, value))), READ, RULES, empty)?;
    let (tokens, merges) = (list("tokens")?, list("merges")?);
    let kind = |i: usize| get("token_type").and_then(|kinds| kinds[i].as_u64()).unwrap_or(1);
    let text = |token: &Value| token.as_str().unwrap_or_default().to_owned();
    let vocab: Map<String, Value> = tokens.iter().enumerate().map(|(i, token)| (text(token), i.into())).collect();
    let added = |(i, token): (usize, &Value)| {
        let special = kind(i) == CONTROL;
        let flags = json!({ "single_word": false, "lstrip": false, "rstrip": false, "normalized": false });
        (special || kind(i) == ADDED).then(|| {
            let mut added = json!({ "id": i, "content": text(token), "special": special });
            flags.as_object().into_iter().flatten().for_each(|(key, value)| added[key] = value.clone());
            added
        })
    };
    let bytes = |regex: bool| json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex });
    let mut cuts = Vec::new();
    if *digits {
        cuts.push(json!({ "type": "Digits", "individual_digits": true }));
    }
    if let Some(expression) = expression {
        cuts.push(json!({ "type": "Split", "pattern": { "Regex": expression }, "behavior": "Isolated", "invert": false }));
    }
    cuts.push(bytes(expression.is_none()));
    let opening = || {
        // llama.cpp opens texts of this kind unless the file says otherwise.
        get("add_bos_token").and_then(Value::as_bool).unwrap_or(cut == "llama-bpe").then_some(())?;
        let id = get("bos_token_id").and_then(Value::as_u64)?;
        let token = tokens.get(id as usize)?;
        let sequence = |name: &str| json!({ "Sequence": { "id": name, "type_id": 0 } });
        let begin = json!({ "SpecialToken": { "id": token, "type_id": 0 } });
        let known = Map::from_iter([(text(token), json!({ "id": token, "ids": [id], "tokens": [token] }))]);
        let (single, pair) = (json!([begin, sequence("A")]), json!([begin, sequence("A"), sequence("B")]));
        Some(json!({ "type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": known }))
    };
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": tokens.iter().enumerate().filter_map(added).collect::<Vec<_>>(),
        "normalizer": if cut == "qwen2" { json!({ "type": "NFC" }) } else { Value::Null },
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": cuts },
        "post_processor": opening(),
        "decoder": bytes(true),
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": false, "byte_fallback": false, "ignore_merges": cut == "llama-bpe", "vocab": vocab, "merges": merges,
        },
    });
    let special = |name: &str| {
        let token = get(&format!("{name}_token_id")).and_then(Value::as_u64);
        token.and_then(|token| tokens.get(token as usize)).cloned().unwrap_or(Value::Null)
    };
    let template = metadata.get("tokenizer.chat_template").cloned().unwrap_or(Value::Null);
    let config = json!({
        "bos_token": special("bos"), "eos_token": special("eos"), "unk_token": special("unknown"), "pad_token": special("padding"),
        "chat_template": template, "tokenizer_class": "PreTrainedTokenizerFast",
    });
    Ok(BTreeMap::from([("tokenizer.json".into(), tokenizer.to_string()), ("tokenizer_config.json".into(), config.to_string())]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a text begins with `<s>`, by what the file says of it, or by its kind.
    #[test]
    fn a_text_opens_as_in_llama_cpp() {
        let opens = |cut: &str, says: Option<bool>| {
            let mut metadata = Metadata::from_iter([
                ("tokenizer.ggml.model".into(), json!("gpt2")),
                ("tokenizer.ggml.pre".into(), json!(cut)),
                ("tokenizer.ggml.tokens".into(), json!(["<s>", "a"])),
                ("tokenizer.ggml.merges".into(), json!([])),
                ("tokenizer.ggml.bos_token_id".into(), json!(0)),
            ]);
            metadata.extend(says.map(|says| ("tokenizer.ggml.add_bos_token".to_string(), json!(says))));
            let file: Value = serde_json::from_str(&files(&metadata).unwrap()["tokenizer.json"]).unwrap();
            let first = &file["post_processor"]["single"][0]["SpecialToken"]["id"];
            first == "<s>" && file["post_processor"]["special_tokens"]["<s>"]["ids"] == json!([0])
        };
        let of = |says| ["llama-bpe", "qwen2"].map(|cut| opens(cut, says));
        assert_eq!((of(None), of(Some(true)), of(Some(false))), ([true, false], [true, true], [false, false]));
    }

    #[test]
    fn a_key_that_may_change_the_tokens_is_refused() {
        let said = |key: &str, value: Value| {
            let all = [("model", json!("gpt2")), ("tokens", json!(["a"])), ("merges", json!([])), (key, value)];
            let metadata = all.into_iter().map(|(key, value)| (format!("tokenizer.ggml.{key}"), value)).collect();
            files(&metadata).map(drop).map_err(|fault| fault.to_string())
        };
        for (key, value) in
            [("add_space_prefix", json!(true)), ("precompiled_charsmap", json!([1, 2])), ("remove_extra_whitespaces", json!(true))]
        {
            let error = said(key, value).unwrap_err();
            assert!(error.contains(&format!("`{key}: ")), "{error}");
        }
        for (key, value) in [("add_space_prefix", json!(false)), ("eot_token_id", json!(0)), ("scores", json!([0.0]))] {
            assert_eq!(said(key, value), Ok(()));
        }
    }
}
