//! How much longer a tokenizer's normalizers may make a text: a file from anywhere could turn each letter into a billion.

use serde_json::Value;

/// How many bytes may come of one. Normalizers of published models make a few: a space becomes the three of `\u{2581}`, a ligature its letters.
const MOST: u128 = 64;

/// Refuses a `tokenizer.json` whose normalizers, decoders aside, may make more than [`MOST`] bytes of one, or replace nothing by something.
///
/// # Errors
/// What is wrong with it.
pub(super) fn bounded(file: &Value) -> Result<(), String> {
    let mut factor: u128 = 1;
    for part in ["normalizer", "pre_tokenizer"] {
        grow(&file[part], &mut factor)?;
    }
    if factor > MOST {
        return Err(format!("its normalizers may make {factor} bytes of one, which is more than {MOST}"));
    }
    Ok(())
}

/// Multiplies `factor` by what the steps under `step` may make of a byte.
fn grow(step: &Value, factor: &mut u128) -> Result<(), String> {
    match step {
        Value::Array(steps) => steps.iter().try_for_each(|step| grow(step, factor)),
        Value::Object(fields) => {
            for list in ["normalizers", "pretokenizers"] {
                fields.get(list).map_or(Ok(()), |steps| grow(steps, factor))?;
            }
            let text = |field: &str| fields.get(field).and_then(Value::as_str);
            if text("type") == Some("Replace") {
                let pattern = &step["pattern"];
                let least = match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
                    (Some(""), _) | (_, Some("")) => {
                        return Err("a normalizer replaces the empty text, of which every text has some".into())
                    }
                    (Some(literal), _) => literal.len(),
                    // Of a regular expression nothing is known but that a match has some length.
                    _ => 1,
                };
                multiply(factor, text("content").unwrap_or_default().len().div_ceil(least));
            }
            // A prefix is put before each piece.
            multiply(factor, text("prepend").map_or(0, str::len).saturating_add(1));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn multiply(factor: &mut u128, by: usize) {
    *factor = factor.saturating_mul(by.max(1) as u128);
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
        let check = |steps: Vec<Value>| bounded(&json!({ "normalizer": { "type": "Sequence", "normalizers": steps } }));
        let usual = vec![json!({ "type": "Prepend", "prepend": "\u{2581}" }), replace(json!({ "String": " " }), "\u{2581}")];
        assert_eq!(check(usual), Ok(()));
        assert_eq!(bounded(&json!({ "normalizer": null, "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false } })), Ok(()));
        assert_eq!(check(vec![replace(json!({ "String": "\u{ff5e}".repeat(30) }), &"x".repeat(90))]), Ok(()), "no longer than before");
        let tenfold = || replace(json!({ "String": "a" }), "aaaaaaaaaa");
        assert_eq!(check(vec![tenfold()]), Ok(()));
        assert!(check(vec![tenfold(), tenfold()]).unwrap_err().contains("100 bytes of one"));
        assert!(check((0..60).map(|_| tenfold()).collect()).is_err());
        assert!(check(vec![replace(json!({ "Regex": "" }), "x")]).unwrap_err().contains("empty text"));
    }
}
