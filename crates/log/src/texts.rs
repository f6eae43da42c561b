//! The SQL function `text`: what tokens stand for. The caller brings the vocabularies; the log knows none.

use arrow::array::{Array, AsArray, ListArray, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, UInt32Type};
use duckdb::vscalar::{ArrowFunctionSignature, VArrowScalar};
use duckdb::Connection;
use std::error::Error;
use std::sync::Arc;

/// The text of tokens in the vocabulary of a model; of the model that acts where none is named. Fails where the run has
/// no such vocabulary.
pub type Decoder = Arc<dyn Fn(&[u32], Option<&str>) -> Result<String, String> + Send + Sync>;

/// `text(tokens)` and `text(tokens, model)`.
struct TextFunction;

/// The function's state; the library asks for a default.
#[derive(Clone, Default)]
struct Vocabularies(Option<Decoder>);

impl VArrowScalar for TextFunction {
    type State = Vocabularies;

    fn invoke(state: &Vocabularies, input: RecordBatch) -> Result<Arc<dyn Array>, Box<dyn Error>> {
        let decode = state.0.as_ref().ok_or("`text` has no vocabulary here")?;
        let lists: &ListArray = input.column(0).as_list_opt().ok_or("`text` takes a list of tokens")?;
        let tokens = lists.values().as_primitive_opt::<UInt32Type>().ok_or("`text` takes a list of tokens")?;
        let models = input.columns().get(1).and_then(|column| column.as_string_opt::<i32>());
        let mut texts = StringBuilder::new();
        for i in 0..input.num_rows() {
            if lists.is_null(i) {
                texts.append_null();
                continue;
            }
            let (from, to) = (lists.value_offsets()[i] as usize, lists.value_offsets()[i + 1] as usize);
            texts.append_value(decode(&tokens.values()[from..to], models.map(|models| models.value(i)))?);
        }
        Ok(Arc::new(texts.finish()))
    }

    fn signatures() -> Vec<ArrowFunctionSignature> {
        let tokens = || DataType::List(Arc::new(Field::new("item", DataType::UInt32, true)));
        vec![
            ArrowFunctionSignature::exact(vec![tokens()], DataType::Utf8),
            ArrowFunctionSignature::exact(vec![tokens(), DataType::Utf8], DataType::Utf8),
        ]
    }
}

/// Adds the function to a database.
pub(super) fn register(db: &Connection, decode: &Decoder) -> duckdb::Result<()> {
    db.register_scalar_function_with_state::<TextFunction>("text", &Vocabularies(Some(decode.clone())))
}
