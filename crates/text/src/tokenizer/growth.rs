//! How much longer a tokenizer's normalizers may make a text: a file from anywhere could turn each letter into a
//! billion.

use super::charsmap;
use serde_json::Value;

/// How many bytes may come of one. Normalizers of published models make a few: a space becomes the three of `\u{2581}`,
/// a ligature its letters.
const MOST: usize = 256;

/// How many bytes the normalizers of a `tokenizer.json` may make of one.
///
/// # Errors
/// If these are more than [`MOST`], or the decoders may make more of one, or if a normalizer can't be used.
pub(super) fn factor(file: &Value) -> Result<usize, String> {
    let mut factor = 1;
    for part in ["normalizer", "pre_tokenizer"] {
        grow(&file[part], &mut factor)?;
    }
    let mut decoded = 1;
    grow(&file["decoder"], &mut decoded)?;
    for (what, factor) in [("normalizers", factor), ("decoders", decoded)] {
        if factor > MOST {
            return Err(format!("its {what} may make {factor} bytes of one, which is more than {MOST}"));
        }
    }
    Ok(factor)
}

/// Multiplies `factor` by the growth that the steps under `step` allow. Old files leave out the type of a step, so that
/// its fields count.
fn grow(step: &Value, factor: &mut usize) -> Result<(), String> {
    let fields = match step {
        Value::Array(steps) => return steps.iter().try_for_each(|step| grow(step, factor)),
        Value::Object(fields) => fields,
        _ => return Ok(()),
    };
    for list in ["normalizers", "pretokenizers", "decoders"] {
        fields.get(list).map_or(Ok(()), |steps| grow(steps, factor))?;
    }
    let text = |field: &str| fields.get(field).and_then(Value::as_str);
    // Unicode's normal forms make three bytes of one at most, the compatible ones eleven.
    let own = match text("type") {
        Some("NFKC" | "NFKD") => 11,
        Some("NFC" | "NFD") => 3,
        Some("BertNormalizer") => 6,
        // A byte that is no letter becomes a letter of two.
        Some("ByteLevel") => 2,
        Some("Lowercase") => 2,
        _ => 1,
    };
    let replaced = match (text("content"), &step["pattern"]) {
        (Some(content), pattern) if !pattern.is_null() => match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
            (Some(""), _) | (_, Some("")) => return Err("a normalizer replaces the empty text, which is in every text".into()),
            (Some(literal), _) => content.len().div_ceil(literal.len()),
            // An expression may match the empty text before each letter, which then stays.
            _ => content.len() + 1,
        },
        _ => 1,
    };
    // What is put before each piece, or in place of a space.
    let put = |text: Option<&str>| text.map_or(0, str::len) + 1;
    let before = if step["add_prefix_space"] == true { 2 } else { 1 };
    let mapped = text("precompiled_charsmap").map_or(Ok(1), charsmap::longest)?;
    for by in [own, replaced, put(text("prepend")), put(text("replacement")), before, mapped] {
        *factor = factor.saturating_mul(by.max(1));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn replace(pattern: Value, content: &str) -> Value {
        json!({ "type": "Replace", "pattern": pattern, "content": content })
    }

    #[test]
    fn what_multiplies_is_refused() {
        let check = |steps: Vec<Value>| factor(&json!({ "normalizer": { "type": "Sequence", "normalizers": steps } }));
        let usual = vec![json!({ "type": "Prepend", "prepend": "\u{2581}" }), replace(json!({ "String": " " }), "\u{2581}")];
        assert_eq!(check(usual), Ok(12));
        assert_eq!(factor(&json!({ "normalizer": null, "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false } })), Ok(2));
        let metaspace = json!({ "type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always" });
        let spaces = replace(json!({ "Regex": " {2,}" }), "\u{2581}");
        assert_eq!(factor(&json!({ "normalizer": [{ "type": "NFKC" }, spaces], "pre_tokenizer": metaspace })), Ok(11 * 4 * 4));
        assert_eq!(check(vec![replace(json!({ "String": "\u{ff5e}".repeat(30) }), &"x".repeat(90))]), Ok(1), "no longer than before");
        let tenfold = || replace(json!({ "String": "a" }), "aaaaaaaaaa");
        assert_eq!(check(vec![tenfold(), tenfold()]), Ok(100));
        assert!(check(vec![tenfold(), tenfold(), tenfold()]).unwrap_err().contains("1000 bytes of one"));
        assert!(check((0..60).map(|_| tenfold()).collect()).is_err());
        assert!(check(vec![replace(json!({ "Regex": "" }), "x")]).unwrap_err().contains("empty text"));
        for empty in ["x*", "(?<=a)", "\\b", "x?"] {
            let doubling = || replace(json!({ "Regex": empty }), "a");
            assert!(check((0..24).map(|_| doubling()).collect()).is_err(), "{empty} matches before each letter");
            assert_eq!(check(vec![doubling()]), Ok(2));
        }
        let decoders = vec![replace(json!({ "Regex": "x*" }), "aa"); 16];
        let message = factor(&json!({ "decoder": { "type": "Sequence", "decoders": decoders } })).unwrap_err();
        assert!(message.contains("its decoders may make"), "{message}");
        assert!(check(vec![json!({ "type": "ByteLevel" }); 40]).is_err(), "bytes of bytes of bytes");
        let old = json!({ "pattern": { "String": "a" }, "content": "aaaaaaaaaa" });
        assert!(check(vec![old; 3]).is_err(), "a step without a type");
    }
}
