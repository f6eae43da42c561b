//! Checks settings against their JSON Schema.

use super::explain::{explain, Subject};
use crate::parse::{Report, Tree};
use crate::Code;
use serde_json::{json, Value};

/// Reports everything in `tree` that doesn't fit the schema; `true` if it fits.
pub fn check(tree: &Tree, subject: &Subject, report: &mut Report) -> bool {
    let schema = bounded(subject.schema);
    // What these schemas use is the same in the draft of 2020, whose own schema takes the library 150 MB for as long as
    // the process lives.
    let validator = match jsonschema::draft201909::new(&schema) {
        Ok(validator) => validator,
        Err(error) => {
            report.add(subject.owner, format!("the schema of {} is broken: {error}", subject.whole), None);
            return false;
        }
    };
    let value = tree.json();
    let mut fits = true;
    let before = report.kind(Code::Setting);
    for error in validator.iter_errors(&value).take(100) {
        fits = false;
        explain(&error, tree, subject, report);
    }
    report.kind(before);
    fits
}

/// The schema with the limits of the integer formats spelled out: as formats alone they would not be checked.
fn bounded(schema: &Value) -> Value {
    match schema {
        Value::Array(items) => items.iter().map(bounded).collect(),
        Value::Object(fields) => {
            let mut out: serde_json::Map<String, Value> = fields.iter().map(|(k, v)| (k.clone(), bounded(v))).collect();
            let limits = match fields.get("format").and_then(Value::as_str) {
                Some("uint8") => Some((json!(0), json!(u8::MAX))),
                Some("uint16") => Some((json!(0), json!(u16::MAX))),
                Some("uint32") => Some((json!(0), json!(u32::MAX))),
                Some("uint64" | "uint") => Some((json!(0), json!(u64::MAX))),
                Some("int32") => Some((json!(i32::MIN), json!(i32::MAX))),
                _ => None,
            };
            if let Some((least, most)) = limits {
                out.entry("minimum").or_insert(least);
                out.entry("maximum").or_insert(most);
            }
            Value::Object(out)
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{catalog, GOOD};
    use crate::parse;

    #[test]
    fn a_list_that_may_not_be_empty_is_told_about_in_the_singular() {
        let message = parse("x", &GOOD.replace("by: [task, state]", "by: []"), &[], &catalog()).unwrap_err();
        assert_eq!(message.0[0].message, "`by` must have at least 1 item, found 0", "{message}");
    }
}
