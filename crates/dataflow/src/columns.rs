//! An edge has one schema: the columns that the descriptions of its operators say. Every batch that enters an edge is
//! brought to it.

use super::edge::RowBatch;
use super::failure::{guarded, Failed, Failure};
use super::Context;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use flow_core::row;
use flow_pipeline::Node;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline as Stay;
use timely::dataflow::operators::Operator;
use timely::dataflow::Stream;
use timely::progress::Timestamp;

/// The output of `node` with the columns of its edge in the row table's order. Unchanged where they aren't known.
pub(super) fn shaped<'s, T: Timestamp>(
    node: &Node,
    edge: Stream<'s, T, RowBatch>,
    ctx: &Context,
    iteration: fn(&T) -> u64,
) -> Result<Stream<'s, T, RowBatch>, Failed> {
    let Some(columns) = &node.columns else { return Ok(edge) };
    let columns = row::in_order(columns);
    let schema = row::schema(&columns.iter().map(String::as_str).collect::<Vec<_>>())?;
    let (id, shared, of_loop) = (node.id.clone(), ctx.shared.clone(), node.body.is_some());
    Ok(edge.unary::<CapacityContainerBuilder<RowBatch>, _, _, _>(Stay, &format!("the columns of {}", node.id), move |_, _| {
        move |input, output| {
            input.for_each_time(|capability, batches| {
                let mut session = output.session(&capability);
                for batch in batches {
                    match guarded(|| brought(&std::mem::take(batch).rows, &schema, of_loop)) {
                        Ok(rows) => session.give_container(&mut RowBatch::new(rows)),
                        Err(error) => return shared.fail(Failure::new(&id, iteration(capability.time()), error)),
                    }
                }
            });
        }
    }))
}

/// The rows with the columns of `schema`. Only the rows of a loop may lack some: they come from several nodes.
fn brought(rows: &RecordBatch, schema: &SchemaRef, of_loop: bool) -> Result<RecordBatch, Failed> {
    if !of_loop {
        let made = rows.schema();
        let strange = made.fields().iter().find(|field| schema.column_with_name(field.name()).is_none());
        let missing = schema.fields().iter().find(|field| made.column_with_name(field.name()).is_none());
        if let Some(field) = strange.or(missing) {
            let verb = if strange.is_some() { "has" } else { "lacks" };
            return Err(format!("its output {verb} the column `{}`, against its description: a fault of flow", field.name()).into());
        }
    }
    Ok(row::shaped(rows, schema)?)
}
