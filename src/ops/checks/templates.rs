//! Templates over rows, in the settings of any operator: the columns that they need, and what is wrong with them.

use flow_pipeline::{Mistake, Need, Node};
use flow_rollout::row_text::RowText;

/// The columns that the template at this place of the settings needs of the rows at the port `rows`.
pub fn needs(at: &[&str], text: &str) -> Vec<Need> {
    let at: Vec<String> = at.iter().map(|step| step.to_string()).collect();
    let need = |column| Need { port: "rows".into(), column, at: at.clone() };
    RowText::new(text).map_or_else(|_| vec![], |template| template.needs().into_iter().map(need).collect())
}

/// What is wrong with it, if something is.
pub fn mistake(node: &Node, at: &[&str], text: &str) -> Option<Mistake> {
    let error = RowText::new(text).err()?;
    let setting = at.last().copied().unwrap_or_default();
    Some(Mistake::in_node(node, &[&["with"], at].concat(), format!("{setting}: {error}")).help(error.help()))
}
