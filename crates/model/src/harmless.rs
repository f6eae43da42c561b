//! Fields of other programs' files that don't change what is computed. A field outside of a file's list may change it,
//! so it is refused by name.

use crate::FileFault;
use serde_json::Value;

/// Names of fields, parted by spaces, and whether a value of them changes nothing.
pub type Rule = (&'static str, fn(&Value) -> bool);

/// Characters of a refused value that an error shows.
const SHOWN: usize = 60;

/// Whatever it says.
pub fn any(_: &Value) -> bool {
    true
}

/// Null, or an empty list, map or text.
pub fn empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Not used: nothing, `false` or 0.
pub fn off(value: &Value) -> bool {
    empty(value) || *value == false || value.as_f64() == Some(0.0)
}

/// A factor of 1.
pub fn one(value: &Value) -> bool {
    value.is_null() || value.as_f64() == Some(1.0)
}

/// Refuses a field that may change what is computed. `read` names fields that are read elsewhere; an unknown field is
/// harmless where `unset` says so of its value.
///
/// # Errors
/// Names the field, with its value.
pub fn check<'a>(
    fields: impl IntoIterator<Item = (&'a str, &'a Value)>,
    read: &str,
    rules: &[Rule],
    unset: fn(&Value) -> bool,
) -> Result<(), FileFault> {
    let among = |names: &str, name: &str| names.split_whitespace().any(|known| known == name);
    for (name, value) in fields {
        let rule = rules.iter().find(|(names, _)| among(names, name)).map_or(unset, |(_, rule)| *rule);
        if !among(read, name) && !rule(value) {
            let mut value = value.to_string();
            if let Some((end, _)) = value.char_indices().nth(SHOWN) {
                value.replace_range(end.., "...");
            }
            let what = format!("`{name}: {value}`, which may change what the model computes; if it doesn't, take it out of the file");
            return Err(FileFault::Unsupported(what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_may_change_the_result_is_refused_by_name_and_value() {
        let rules: &[Rule] = &[("note remark", any), ("share", one), ("window", off)];
        let said = |fields: Value| {
            let fields = fields.as_object().unwrap().clone();
            check(fields.iter().map(|(name, value)| (name.as_str(), value)), "r", rules, empty).map_err(|fault| fault.to_string())
        };
        assert_eq!(said(json!({ "r": 4, "note": [1], "remark": 2, "share": 1.0, "window": 0, "new": null, "newer": {} })), Ok(()));
        for (fields, what) in [
            (json!({ "share": 0.5 }), "`share: 0.5`"),
            (json!({ "window": 4 }), "`window: 4`"),
            (json!({ "window": true }), "`window: true`"),
            (json!({ "new": false }), "`new: false`"),
            (json!({ "long": "x".repeat(100) }), "xxx...`"),
        ] {
            let said = said(fields).unwrap_err();
            assert!(said.contains(what) && said.contains("take it out of the file"), "{said}");
        }
    }
}
