//! What a verification has compared, and what it took as logged.

use super::claims::Claims;
use flow_log::{MetricsDiff, NodeDiff, VersionsDiff, WeightsDiff};

/// The logged values that were compared with recomputed ones: `a` is the run, `b` its second computation.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct Verified {
    pub name: String,
    pub iterations: u64,
    pub nodes: Vec<NodeDiff>,
    pub metrics: Vec<MetricsDiff>,
    pub versions: Vec<VersionsDiff>,
    /// The run's final weights; none if only a part of its iterations is verified.
    pub weights: Vec<WeightsDiff>,
    #[serde(skip)]
    pub claims: Claims,
    /// The tables whose rows are taken as logged.
    #[serde(skip)]
    pub rows: Vec<String>,
}

/// The verdict.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct VerifyAnswer<'a> {
    #[serde(flatten)]
    verified: &'a Verified,
    /// Whether every digit agrees.
    agrees: bool,
    /// Contradictions between the log and the run's pipeline, a sentence each.
    contradictions: &'a [String],
    /// Values that no computation here can refute.
    taken: Vec<String>,
}

/// Whether a metric is the same in each computation: times aren't, neither are measures of servers, and several processes
/// compute more tokens than one.
pub fn repeats(name: &str) -> bool {
    let sent = name.starts_with("tokens_") && name != "tokens_distinct";
    !(sent || name.ends_with("seconds") || name.starts_with("gap_"))
}

impl Verified {
    pub fn agrees(&self) -> bool {
        let node = |node: &NodeDiff| {
            node.differ.is_empty()
                && node.rows.only_a + node.rows.only_b == 0
                && node.columns_only_a.is_empty()
                && node.columns_only_b.is_empty()
        };
        self.claims.contradictions.is_empty()
            && self.nodes.iter().all(node)
            && self.metrics.iter().all(|metrics| metrics.differ.is_empty())
            && self.versions.iter().all(|versions| versions.differ == 0)
            && self.weights.iter().all(|weights| weights.equal == Some(true) && weights.a == weights.b)
    }

    pub fn answer(&self) -> VerifyAnswer<'_> {
        VerifyAnswer { verified: self, agrees: self.agrees(), contradictions: &self.claims.contradictions, taken: self.taken() }
    }

    pub fn text(&self) -> String {
        let mut text = format!("{} iterations of {}, computed again from their logged rollouts\n\n", self.iterations, self.name);
        let width = self.nodes.iter().map(|node| node.node.len()).max().unwrap_or(4).max(4);
        text += &format!("{:width$}  {:>9}  {:>7}  {:>5}\n", "node", "rows", "columns", "agree");
        for node in &self.nodes {
            let same = node.compared - node.differ.len();
            text += &format!("{:width$}  {:>9}  {:>7}  {same:>5}", node.node, node.rows.both, node.compared);
            let missing = node.rows.only_a + node.rows.only_b;
            let differing = node.differ.iter().map(|(column, rows)| format!("{column} in {rows} rows"));
            let lacking = node.columns_only_b.iter().map(|column| format!("{column} isn't logged"));
            let added = node.columns_only_a.iter().map(|column| format!("{column} isn't computed"));
            let differences: Vec<String> =
                differing.chain(lacking).chain(added).chain((missing > 0).then(|| format!("{missing} rows on one side alone"))).collect();
            text += &if differences.is_empty() { "\n".into() } else { format!("  {}\n", differences.join(", ")) };
        }
        text += &self.metrics_text();
        for versions in &self.versions {
            let verdict = if versions.differ == 0 { "the same".into() } else { format!("{} are others, or missing", versions.differ) };
            text += &format!("weights of {} in each iteration, {} versions: {verdict}\n", versions.model, versions.compared);
        }
        for weights in &self.weights {
            let verdict = match weights.equal {
                Some(true) if weights.a == weights.b => "the same, bit for bit",
                Some(_) => "others",
                None => "missing",
            };
            text += &format!("weights of {}, version {}: {verdict}\n", weights.model, weights.a.or(weights.b).unwrap_or_default());
        }
        for contradiction in &self.claims.contradictions {
            text += &format!("{contradiction}\n");
        }
        text += if self.agrees() {
            "\nevery digit agrees"
        } else {
            "\nnot every digit agrees; another type of CPU rounds otherwise, so look how far apart they are: flow replay, then flow diff"
        };
        text + &format!("\ntaken as logged: {}", self.taken().join("; "))
    }

    fn metrics_text(&self) -> String {
        let compared: u64 = self.metrics.iter().map(|metrics| metrics.compared).sum();
        let differ: Vec<String> = self
            .metrics
            .iter()
            .flat_map(|of| of.differ.iter().map(|(name, n)| format!("{name} of {} in {n} iterations", of.node)))
            .collect();
        match compared {
            0 => String::new(),
            _ if differ.is_empty() => format!("metrics, {compared} values: the same\n"),
            _ => format!("metrics, {compared} values: others, or on one side alone: {}\n", differ.join(", ")),
        }
    }

    /// What nothing here could refute.
    fn taken(&self) -> Vec<String> {
        let mut taken = Vec::new();
        if !self.rows.is_empty() {
            taken.push(format!("the rows of {}", self.rows.join(", ")));
        }
        if !self.claims.undrawn.is_empty() {
            taken.push(format!("which tasks {} played", self.claims.undrawn.join(", ")));
        }
        taken.push("at which temperature rows were sampled".into());
        taken.push("the table `errors`".into());
        taken.push("the weights that models began with".into());
        taken.push("metrics of time, of servers, of computed tokens, and of episodes other than success, return, turns, invalid, failed and pass@k".into());
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_log::RowCounts;
    use std::collections::BTreeMap;

    fn agreeing() -> Verified {
        let rows = RowCounts { both: 7, only_a: 0, only_b: 0 };
        let (node, differ, columns_only_a, columns_only_b) = ("update".to_owned(), BTreeMap::new(), Vec::new(), Vec::new());
        let node = NodeDiff { node, rows, compared: 3, differ, columns_only_a, columns_only_b };
        let weights = WeightsDiff { model: "actor".into(), a: Some(2), b: Some(2), equal: Some(true) };
        let metrics = MetricsDiff { node: "update".into(), compared: 4, differ: BTreeMap::new() };
        let versions = VersionsDiff { model: "actor".into(), compared: 2, differ: 0 };
        let (metrics, versions, weights) = (vec![metrics], vec![versions], vec![weights]);
        let (claims, rows) = (Claims::default(), vec!["rollout".into()]);
        Verified { name: "x".into(), iterations: 2, nodes: vec![node], metrics, versions, weights, claims, rows }
    }

    #[test]
    fn what_differs_is_counted() {
        let mut differs = agreeing();
        differs.nodes[0].differ = BTreeMap::from([("ratio".into(), 2)]);
        differs.nodes[0].rows.only_a = 1;
        let text = differs.text();
        assert!(text.contains("ratio in 2 rows, 1 rows on one side alone") && text.contains("not every digit agrees"), "{text}");
    }

    #[test]
    fn what_is_missing_or_too_much_disagrees_and_is_named() {
        let whole = agreeing();
        assert!(
            whole.agrees() && whole.text().contains("\nevery digit agrees\ntaken as logged: the rows of rollout; "),
            "{}",
            whole.text()
        );
        let refuted = |change: fn(&mut Verified), says: &str| {
            let mut other = agreeing();
            change(&mut other);
            let text = other.text();
            assert!(!other.agrees() && text.contains(says) && text.contains("not every digit agrees"), "{says}: {text}");
        };
        refuted(|v| v.nodes[0].columns_only_b.push("ratio".into()), "ratio isn't logged");
        refuted(|v| v.nodes[0].columns_only_a.push("worth".into()), "worth isn't computed");
        refuted(|v| v.metrics[0].differ = BTreeMap::from([("loss".into(), 2)]), "loss of update in 2 iterations");
        refuted(|v| v.versions[0].differ = 1, "1 are others, or missing");
        refuted(|v| v.weights[0].equal = None, "version 2: missing");
        refuted(|v| v.weights[0].b = Some(1), "version 2: others");
        refuted(|v| v.claims.contradictions.push("`update` is gone".into()), "`update` is gone");
    }
}
