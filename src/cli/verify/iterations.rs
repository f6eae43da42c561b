//! Iterations in messages.

use std::collections::BTreeSet;

/// The longest list of iterations in a message.
const SHOWN: usize = 3;

/// `iterations 0, 1, 2 and 7 more`.
pub fn iterations_text(iterations: &BTreeSet<u64>) -> String {
    let shown: Vec<String> = iterations.iter().take(SHOWN).map(u64::to_string).collect();
    let word = if iterations.len() == 1 { "iteration" } else { "iterations" };
    let more = iterations.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{word} {}{more}", shown.join(", "))
}
