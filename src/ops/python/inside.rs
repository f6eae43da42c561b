//! `python` in a loop: whole episodes come as they end, and the function gets each by itself, so that no trial waits for
//! another one.

use super::calls::Calls;
use super::description::Form;
use super::inquiry::description;
use super::join;
use super::prints;
use super::settings::PythonSettings;
use crate::ops::operator::{settings, Unfit};
use arrow::array::RecordBatch;
use flow_dataflow::streaming::{streaming, InputPiece, OutputPiece, Streaming, StreamingInputs};
use flow_dataflow::{Attempt, Context, Failed, Inner, InnerPorts, Route};
use flow_pipeline::Node;
use std::collections::BTreeMap;
use std::sync::Arc;
use timely::dataflow::Scope;

/// The columns by which an episode's rows are one group.
pub const EPISODE: [&str; 2] = ["task", "sample"];

pub fn inside<'s>(node: &Node, ports: InnerPorts<'s>, _: Scope<'s, Attempt>, ctx: &Context) -> Result<Inner<'s>, Failed> {
    let with = settings::<PythonSettings>(node)?;
    let spec = description(&with.function).map_err(|why| with.function.named(&why))?;
    let (form, added) = (spec.form, spec.adds.keys().cloned().collect());
    // Episodes of several attempts may come together, and are groups of their own.
    let by = with.by.iter().cloned().chain(["attempt".into()]).collect();
    let calls = Calls::new(&node.id, Arc::new(PythonSettings { by, ..PythonSettings::clone(&with) }), spec, prints(&node.id, ctx), ctx);
    let rows = ports.into_iter().next().ok_or(Unfit::Input("rows"))?.1;
    let inputs = StreamingInputs { name: node.id.clone(), rows: vec![(rows, Route::Stay)], gates: vec![] };
    Ok(streaming(inputs, ctx, EpisodeCalls { calls, form, added, iteration: 0, pieces: vec![] }))
}

/// Calls the function for the episodes that have arrived.
struct EpisodeCalls {
    calls: Calls,
    form: Form,
    added: Vec<String>,
    iteration: u64,
    pieces: Vec<InputPiece>,
}

impl Streaming for EpisodeCalls {
    fn begin(&mut self, iteration: u64, _: Vec<Vec<RecordBatch>>) -> Result<(), Failed> {
        self.iteration = iteration;
        Ok(())
    }

    fn take(&mut self, piece: InputPiece) -> Result<(), Failed> {
        self.pieces.push(piece);
        Ok(())
    }

    fn idle(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Pieces of one attempt have one time, so their rows leave together.
    fn work(&mut self) -> Result<Vec<OutputPiece>, Failed> {
        let mut attempts: BTreeMap<u64, Vec<InputPiece>> = BTreeMap::new();
        for piece in std::mem::take(&mut self.pieces) {
            attempts.entry(piece.attempt).or_default().push(piece);
        }
        let added: Vec<&str> = self.added.iter().map(String::as_str).collect();
        let mut output = Vec::new();
        for pieces in attempts.into_values() {
            let ids: Vec<u64> = pieces.iter().map(|piece| piece.id).collect();
            let rows: Vec<RecordBatch> = pieces.into_iter().map(|piece| piece.rows).collect();
            let made = self.calls.of(self.iteration, &rows)?;
            let joined = match self.form {
                Form::Columns => join::with_columns(&rows, &made, &added)?,
                Form::Rows | Form::Loss => join::with_rows(&rows, &made, &added)?,
            };
            let first = ids[0];
            output.extend(ids.into_iter().map(|id| OutputPiece {
                input: id,
                rows: if id == first { joined.clone() } else { vec![] },
                last: true,
            }));
        }
        Ok(output)
    }
}
