//! Batches seen as one table, most often in the order of the rows' names, without moving a row: a reader gathers the
//! columns that it reads, and what it makes is added to the batches as they came. All other columns stay where they
//! are; batches share them.

use super::order::SortKeys;
use super::RowError;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, ListArray, RecordBatch, UInt32Array};
use arrow::compute::{concat, interleave, take};
use arrow::datatypes::{Field, Schema};
use std::cmp::Ordering;
use std::sync::Arc;

/// Rows of several batches in one order. Row `i` of a view is row `i` of every column and list that it gives.
pub struct View<'a> {
    batches: &'a [RecordBatch],
    /// Where each row stands, as its batch and its place there; `None` where the batches, one after the other, are in
    /// order.
    places: Option<Vec<(usize, usize)>>,
    rows: usize,
}

impl<'a> View<'a> {
    /// The rows as they come. `None` without a batch.
    pub fn of(batches: &'a [RecordBatch]) -> Option<View<'a>> {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        (!batches.is_empty()).then_some(View { batches, places: None, rows })
    }

    /// The rows in the order of their names ([`super::NAME`]; a column that the first batch lacks doesn't count): the
    /// form for every fold over floats. `None` without a batch. Fails where another batch lacks one of them, or has it
    /// in another type.
    pub fn sorted(batches: &'a [RecordBatch]) -> Result<Option<View<'a>>, RowError> {
        let Some(mut view) = View::of(batches) else { return Ok(None) };
        let names = batches.iter().map(|batch| SortKeys::new(batch, &batches[0])).collect::<Result<Vec<_>, _>>()?;
        let before = |a: &(usize, usize), b: &(usize, usize)| names[a.0].compare(a.1, &names[b.0], b.1);
        let all = || batches.iter().enumerate().flat_map(|(at, batch)| (0..batch.num_rows()).map(move |row| (at, row)));
        if !all().is_sorted_by(|a, b| before(a, b) != Ordering::Greater) {
            let mut places: Vec<(usize, usize)> = all().collect();
            // Batches are sorted runs, more or less, and a stable sort merges runs.
            places.sort_by(before);
            view.places = Some(places);
        }
        Ok(Some(view))
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Whether the rows have this column.
    pub fn has(&self, name: &str) -> bool {
        self.batches[0].column_by_name(name).is_some()
    }

    /// One column, in the view's order: shared where one batch is in order, else copied.
    pub fn column(&self, name: &str) -> Result<ArrayRef, RowError> {
        let source = |batch: &'a RecordBatch| batch.column_by_name(name).ok_or_else(|| RowError::Missing(name.into()));
        if let ([batch], None) = (self.batches, &self.places) {
            return source(batch).cloned();
        }
        let columns = self.batches.iter().map(|batch| source(batch).map(|column| column.as_ref())).collect::<Result<Vec<_>, _>>()?;
        Ok(match &self.places {
            Some(places) => interleave(&columns, places)?,
            None => concat(&columns)?,
        })
    }

    /// These columns as one batch in the view's order. Fails where one is missing; a name that stands twice counts
    /// once.
    pub fn read<C: AsRef<str>>(&self, names: &[C]) -> Result<RecordBatch, RowError> {
        let mut fields: Vec<Field> = Vec::with_capacity(names.len());
        let mut columns = Vec::with_capacity(names.len());
        for name in names.iter().map(AsRef::as_ref) {
            if fields.iter().any(|field| field.name() == name) {
                continue;
            }
            let column = self.column(name)?;
            fields.push(Field::new(name, column.data_type().clone(), false));
            columns.push(column);
        }
        let rows = arrow::array::RecordBatchOptions::new().with_row_count(Some(self.rows));
        Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &rows)?)
    }

    /// All columns as one batch in the view's order.
    pub fn batch(&self) -> Result<RecordBatch, RowError> {
        if let ([batch], None) = (self.batches, &self.places) {
            return Ok(batch.clone());
        }
        let schema = self.batches[0].schema();
        let columns = schema.fields().iter().map(|field| self.column(field.name())).collect::<Result<Vec<_>, _>>()?;
        Ok(RecordBatch::try_new(schema, columns)?)
    }

    /// A column of lists, read in place.
    pub fn lists(&self, name: &str) -> Result<Lists<'_>, RowError> {
        let lists = self.batches.iter().map(|batch| super::lists(batch, name)).collect::<Result<Vec<_>, _>>()?;
        Ok(Lists { lists, places: self.places.as_deref() })
    }

    /// The batches as they came, each with its part of these columns, which are in the view's order and as long as it
    /// is. A column of the same name is replaced.
    pub fn with(&self, added: Vec<(&str, ArrayRef)>) -> Result<Vec<RecordBatch>, RowError> {
        let back = self.back();
        let mut first = 0;
        let mut batches = Vec::with_capacity(self.batches.len());
        for (at, batch) in self.batches.iter().enumerate() {
            let own = |column: &ArrayRef| match &back {
                Some(back) => take(column, &back[at], None),
                None => Ok(column.slice(first, batch.num_rows())),
            };
            let own = added.iter().map(|(name, column)| Ok((*name, own(column)?))).collect::<Result<_, RowError>>()?;
            batches.push(super::with_all(batch, own)?);
            first += batch.num_rows();
        }
        Ok(batches)
    }

    /// For each batch, where in the view each of its rows is.
    fn back(&self) -> Option<Vec<UInt32Array>> {
        let places = self.places.as_ref()?;
        let mut back: Vec<Vec<u32>> = self.batches.iter().map(|batch| vec![0; batch.num_rows()]).collect();
        places.iter().enumerate().for_each(|(i, (at, row))| back[*at][*row] = i as u32);
        Some(back.into_iter().map(UInt32Array::from).collect())
    }
}

/// A column of lists in the order of a view.
pub struct Lists<'a> {
    lists: Vec<&'a ListArray>,
    places: Option<&'a [(usize, usize)]>,
}

impl<'a> Lists<'a> {
    /// The batch of row `i` and its place there.
    fn place(&self, mut i: usize) -> (&'a ListArray, usize) {
        if let Some(places) = self.places {
            return (self.lists[places[i].0], places[i].1);
        }
        for list in &self.lists {
            if i < list.len() {
                return (list, i);
            }
            i -= list.len();
        }
        unreachable!("row {i} beyond the view")
    }

    /// How long the list of row `i` is.
    pub fn length(&self, i: usize) -> usize {
        let (lists, row) = self.place(i);
        lists.value_length(row) as usize
    }

    /// The list of row `i`, in the column's own memory; empty where the column holds lists of another type.
    pub fn get<T: ArrowPrimitiveType>(&self, i: usize) -> &'a [T::Native] {
        let (lists, row) = self.place(i);
        let (from, to) = (lists.value_offsets()[row] as usize, lists.value_offsets()[row + 1] as usize);
        lists.values().as_primitive_opt::<T>().map_or(&[], |values| &values.values()[from..to])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{self, Kind};
    use crate::seed::Random;
    use arrow::array::{Float32Array, StringArray, UInt64Array};
    use arrow::compute::take_record_batch;
    use arrow::datatypes::UInt32Type;
    use proptest::prelude::*;

    /// Rows in the order of their names, each with a list, a text and a number of its own.
    fn rows(n: usize) -> RecordBatch {
        let lists = ListArray::from_iter_primitive::<UInt32Type, _, _>((0..n as u32).map(|i| Some((0..i % 4).map(move |t| Some(t + i)))));
        let u32s = |value: fn(usize) -> usize| Arc::new(UInt32Array::from_iter_values((0..n).map(|i| value(i) as u32))) as ArrayRef;
        row::batch(vec![
            ("iteration", Arc::new(UInt64Array::from_iter_values((0..n).map(|i| i as u64 / 60)))),
            ("task", Arc::new(StringArray::from_iter_values((0..n).map(|i| format!("task-{}", i / 20 % 3))))),
            ("sample", u32s(|i| i / 10 % 2)),
            ("attempt", u32s(|i| i / 5 % 2)),
            ("turn", u32s(|i| i % 5)),
            ("phase", Arc::new(StringArray::from_iter_values((0..n).map(|_| "play")))),
            ("observation", Arc::new(StringArray::from_iter_values((0..n).map(|i| format!("seen {i}"))))),
            ("prompt_tokens", arrow::compute::cast(&lists, &Kind::U32List.arrow()).unwrap()),
        ])
        .unwrap()
    }

    /// The rows in another order, in pieces.
    fn pieces(rows: &RecordBatch, seed: u64, length: usize) -> Vec<RecordBatch> {
        let mut order: Vec<u32> = (0..rows.num_rows() as u32).collect();
        Random::new(seed).shuffle(&mut order);
        order.chunks(length).map(|part| take_record_batch(rows, &UInt32Array::from(part.to_vec())).unwrap()).collect()
    }

    proptest! {
        #[test]
        fn rows_in_any_order_are_read_in_the_order_of_their_names(n in 1usize..150, seed: u64, length in 1usize..40) {
            let rows = rows(n);
            let pieces = pieces(&rows, seed, length);
            let view = View::sorted(&pieces).unwrap().unwrap();
            prop_assert_eq!(view.batch().unwrap(), rows.clone());
            let observation = view.column("observation").unwrap();
            prop_assert_eq!(&observation, rows.column_by_name("observation").unwrap());
            let lists = view.lists("prompt_tokens").unwrap();
            for i in 0..n {
                let expected: Vec<u32> = (0..i as u32 % 4).map(|t| t + i as u32).collect();
                prop_assert_eq!((lists.length(i), lists.get::<UInt32Type>(i)), (expected.len(), &expected[..]));
            }
            // What is made of the rows goes to the row it was made of.
            let added = Arc::new(Float32Array::from_iter_values((0..n).map(|i| i as f32))) as ArrayRef;
            let back = view.with(vec![("reward", added.clone())]).unwrap();
            prop_assert_eq!(back.len(), pieces.len());
            let actual = View::sorted(&back).unwrap().unwrap().column("reward").unwrap();
            prop_assert_eq!(&actual, &added);
        }
    }

    #[test]
    fn what_is_in_order_is_shared() {
        let rows = rows(50);
        let tokens = |rows: &RecordBatch| row::lists(rows, "prompt_tokens").unwrap().values().to_data().buffers()[0].as_ptr();
        let all = std::slice::from_ref(&rows);
        let view = View::sorted(all).unwrap().unwrap();
        assert_eq!(tokens(&view.read(&["turn", "prompt_tokens", "turn"]).unwrap()), tokens(&rows));
        assert_eq!(tokens(&view.with(vec![("score", Arc::new(Float32Array::from(vec![0.0; 50])))]).unwrap()[0]), tokens(&rows));
        // Two halves, the second one first: the new column is split, the others stay.
        let halves = [rows.slice(30, 20), rows.slice(0, 30)];
        let added = View::sorted(&halves).unwrap().unwrap().with(vec![("turn", rows.column_by_name("sample").unwrap().clone())]).unwrap();
        assert_eq!((tokens(&added[0]), tokens(&added[1])), (tokens(&rows), tokens(&rows)));
        assert_eq!(
            row::u32s(&added[0], "turn").unwrap(),
            &rows.column_by_name("sample").unwrap().slice(30, 20).as_primitive::<UInt32Type>().clone()
        );
    }

    #[test]
    fn without_names_rows_stay_as_they_came() {
        let rewards = |values: &[f32]| row::batch(vec![("reward", Arc::new(Float32Array::from(values.to_vec())) as ArrayRef)]).unwrap();
        let batches = [rewards(&[2.0, 1.0]), rewards(&[0.0])];
        let view = View::sorted(&batches).unwrap().unwrap();
        assert_eq!(row::f32s(&view.batch().unwrap(), "reward").unwrap().values(), &[2.0, 1.0, 0.0]);
        assert!(View::sorted(&[]).unwrap().is_none() && View::of(&[]).is_none());
        assert!(matches!(view.column("score"), Err(RowError::Missing(name)) if name == "score"));
        let other = [rows(3), rewards(&[1.0])];
        assert!(View::sorted(&other).is_err(), "a batch without the names");
    }
}
