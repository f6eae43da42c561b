//! How many tokens each node of a run computed per distinct token.

use flow_log::Manifest;
use std::collections::BTreeMap;

/// Tokens computed and different ones among them, by node: those of nodes that read any, over all committed iterations.
#[derive(Debug, Default, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct TokenCounts(BTreeMap<String, TokenCount>);

/// The tokens of a node.
#[derive(Debug, Default, PartialEq, serde::Serialize, schemars::JsonSchema)]
struct TokenCount {
    computed: f64,
    /// Different prefixes count once each.
    distinct: f64,
}

impl TokenCounts {
    /// What the log of some runs says.
    pub fn of<'a>(manifests: impl IntoIterator<Item = &'a Manifest>) -> TokenCounts {
        let mut tokens = TokenCounts::default();
        for (node, figures) in manifests.into_iter().flat_map(|m| &m.committed).flat_map(|i| &i.metrics) {
            if let (Some(computed), Some(distinct)) = (figures.get("tokens_computed"), figures.get("tokens_distinct")) {
                let sum = tokens.0.entry(node.clone()).or_default();
                *sum = TokenCount { computed: sum.computed + computed, distinct: sum.distinct + distinct };
            }
        }
        tokens
    }

    /// A line for people; none where nothing was read.
    pub fn line(&self) -> Option<String> {
        let ratio = |(node, count): (&String, &TokenCount)| format!("{node} {:.2}", count.computed / count.distinct.max(1.0));
        let ratios: Vec<String> = self.0.iter().map(ratio).collect();
        (!ratios.is_empty()).then(|| format!("tokens computed per distinct token: {}", ratios.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_a_node_that_read_something() {
        let tokens = TokenCounts(BTreeMap::from(
            [("rollout", (150.0, 100.0)), ("update", (21.0, 20.0))]
                .map(|(node, (computed, distinct))| (node.into(), TokenCount { computed, distinct })),
        ));
        assert_eq!(tokens.line().unwrap(), "tokens computed per distinct token: rollout 1.50, update 1.05");
        assert_eq!(
            serde_json::to_string(&tokens).unwrap(),
            r#"{"rollout":{"computed":150.0,"distinct":100.0},"update":{"computed":21.0,"distinct":20.0}}"#
        );
        assert_eq!(TokenCounts::default().line(), None);
    }
}
