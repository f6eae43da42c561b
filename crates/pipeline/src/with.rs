//! A node's settings: the raw JSON of the file, and the operator's own type.

use super::marks::{self, Named};
use serde_json::{Error, Value};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// How an operator reads its settings; fails as serde does.
pub type ReadSettings = fn(&Value) -> Result<Arc<dyn Any + Send + Sync>, Error>;

/// The settings of a node. They are read once, when the pipeline is loaded; copies share the value.
#[derive(Clone)]
pub struct With {
    raw: Value,
    named: Vec<Named>,
    typed: Arc<dyn Any + Send + Sync>,
}

impl With {
    /// Settings as a file has them (a map), an agent's in place of its name, read as `read` does; `schema` marks what
    /// they name.
    pub fn read(raw: Value, schema: &Value, read: ReadSettings) -> Result<With, Error> {
        Ok(With { typed: read(&raw)?, named: marks::marked(&raw, schema), raw })
    }

    /// The settings as their operator reads them; nothing where that is another type.
    pub fn typed<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.typed.clone().downcast().ok()
    }

    /// As the file has them: for code that goes by a schema and so serves every operator.
    pub fn raw(&self) -> &Value {
        &self.raw
    }

    /// Whether the file says something for this key, be it the default: what is read no longer tells.
    pub fn gives(&self, key: &str) -> bool {
        self.raw.get(key).is_some()
    }

    /// Every entry of `models:` that the settings name, those of an agent too, each with the setting that does.
    pub fn models(&self) -> impl Iterator<Item = &Named> {
        self.named.iter().filter(|named| named.mark == marks::MODEL)
    }

    /// The model that is named in this role, such as `model` or `critic`: the first, if several agents name one.
    pub fn names(&self, role: &str) -> Option<&str> {
        self.models().find(|named| named.role() == role).map(|named| named.name.as_str())
    }
}

/// No settings, as a loop has none.
impl Default for With {
    fn default() -> With {
        With { raw: Value::Null, named: Vec::new(), typed: Arc::new(()) }
    }
}

impl PartialEq for With {
    fn eq(&self, other: &With) -> bool {
        self.raw == other.raw
    }
}

impl fmt::Debug for With {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn number(raw: &Value) -> Result<Arc<dyn Any + Send + Sync>, Error> {
        Ok(Arc::new(serde_json::from_value::<u64>(raw["batch"].clone())?))
    }

    #[test]
    fn settings_are_read_once_and_shared_by_copies() {
        let schema = json!({ "properties": { "model": { "x-names": "model" } } });
        let with = With::read(json!({ "batch": 3, "model": "actor" }), &schema, number).unwrap();
        let (first, again) = (with.typed::<u64>().unwrap(), with.clone().typed::<u64>().unwrap());
        assert!(*first == 3 && Arc::ptr_eq(&first, &again));
        assert!(with.typed::<u32>().is_none(), "another operator's type");
        assert_eq!((with.gives("batch"), with.gives("size"), with.names("model")), (true, false, Some("actor")));
    }

    #[test]
    fn what_cannot_be_read_is_no_settings() {
        assert!(With::read(json!({ "batch": "three" }), &Value::Null, number).unwrap_err().to_string().contains("expected u64"));
    }
}
