//! What a table's intervals cover and what they leave out, and which differences its verdicts can find, in words.

use crate::cell::TableCell;
use crate::file::{Study, TableSpec, Uncertainty};
use crate::plan::sides;
use crate::stats::sign_test;
use crate::verdict::{Comparisons, ERROR};
use std::collections::BTreeSet;

/// The meaning of the brackets, what an interval covers and doesn't cover, and the rule of a verdict.
pub fn covered(study: &Study, table: &TableSpec, cells: &[Vec<TableCell>], comparisons: usize) -> String {
    let mut text = match table.spread {
        Uncertainty::Deviation => "Mean over seeds (standard deviation).".to_owned(),
        Uncertainty::Interval => format!("Mean over seeds (95% interval {}).{}", drawn(table, cells), starts(study, table)),
    };
    if table.spread == Uncertainty::Interval && cells.iter().flatten().any(|cell| cell.kinds(0).is_some()) {
        let seeds = cells.iter().flatten().map(|cell| cell.seeds.len()).max().unwrap_or_default();
        text += &format!(
            " Where one or two seeds lie far from all others, the number of seeds of either kind takes the interval's place. If 0 is nearer to a kind than the kinds are to one another, p is that of a sign test over seeds, at least {} before adjustment.",
            least(seeds)
        );
    }
    let few = |cell: &TableCell| (2..5).contains(&cell.seeds.len());
    if table.spread == Uncertainty::Interval && cells.iter().flatten().any(few) {
        text += " With fewer than five seeds an interval takes all seeds for one kind: where half of the seeds learn, it covers 75% for three seeds.";
    }
    let mut on = Vec::new();
    on.extend(table.rows.iter().any(|row| row.less.is_some()).then(|| "the row's difference".to_owned()));
    on.extend(table.comparator().map(|against| format!("the difference from `{}`, after the semicolon", against.name)));
    if !on.is_empty() {
        text += &format!(
            " The verdict is on {}. Differences are paired by seed, and by task on one panel. p is two-sided and adjusted by Holm's method for the \
             {comparisons} distinct comparisons of this page; a difference is significant if p is at most {ERROR}. The 95% interval is not adjusted.",
            on.join(", or on ")
        );
    }
    text
}

/// The beginnings of sentences that hold for all tables of a page.
const RULES: [&str; 9] = [
    "Each seed has its own",
    "All seeds share one",
    "Where one or two seeds lie",
    "If 0 is nearer",
    "With fewer than five seeds",
    "Differences are paired",
    "p is two-sided",
    "The 95% interval is not",
    "Power is at",
];

/// The text without the rules that the page has said before.
pub fn without_repeats(text: &str, printed: &mut BTreeSet<String>) -> String {
    let rule = |sentence: &str| RULES.iter().any(|begin| sentence.starts_with(begin));
    let kept = text.split_inclusive(". ").filter(|sentence| !rule(sentence) || printed.insert(sentence.trim_end().into()));
    kept.collect::<String>().trim_end().to_owned()
}

/// The least p of a sign test over so many seeds.
fn least(seeds: usize) -> String {
    let p = sign_test(&vec![1.0; seeds]);
    if p < 0.001 {
        "0.001".into()
    } else {
        format!("{p:.4}")
    }
}

/// Over what intervals are, by column.
fn drawn(table: &TableSpec, cells: &[Vec<TableCell>]) -> String {
    let column = |c: usize| cells.iter().map(move |row| &row[c]).filter(|cell| cell.seeds.len() > 1);
    let (mut tasks, mut fixed, mut logs) = (Vec::new(), Vec::new(), Vec::new());
    for (c, spec) in table.columns.iter().enumerate() {
        match &spec.query {
            Some(_) => logs.push(spec.name.as_str()),
            None if column(c).any(|cell| cell.by_task.is_empty()) => fixed.push(spec.name.as_str()),
            None => tasks.push(spec.name.as_str()),
        }
    }
    let kinds = [
        ("over seeds and the panel's tasks", tasks),
        ("over seeds and their draws in training", logs),
        ("over seeds, for the panel's tasks alone", fixed),
    ];
    let kinds: Vec<_> = kinds.into_iter().filter(|(_, columns)| !columns.is_empty()).collect();
    let one = kinds.len() == 1;
    let text = |(what, columns): (&str, Vec<&str>)| if one { what.to_owned() } else { format!("{what}: {}", columns.join(", ")) };
    kinds.into_iter().map(text).collect::<Vec<_>>().join("; ")
}

/// Sources of weights, memories and comparisons, by whether each is made anew with each seed.
fn starts(study: &Study, table: &TableSpec) -> String {
    let (mut own, mut shared) = (BTreeSet::new(), BTreeSet::new());
    for row in &table.rows {
        let sides: Vec<_> = sides(table, row).collect();
        let several = |run: &str| study.runs.get(run).is_some_and(|run| study.seeds(run).len() > 1);
        if !sides.iter().any(|(run, _)| several(run)) {
            continue;
        }
        for (run, measurement) in sides {
            shared.extend((!several(run)).then_some(run));
            let memory = measurement.and_then(|name| study.measurements.get(name)?.memory.as_deref());
            for source in memory.into_iter().chain(sources(study, run)) {
                if several(source) {
                    own.insert(source);
                } else {
                    shared.insert(source);
                }
            }
        }
    }
    // What rows of the table are themselves is no start, though others go on from it.
    let list = |runs: &BTreeSet<&str>| runs.iter().map(|run| format!("`{run}`")).collect::<Vec<_>>().join(", ");
    let mut text = String::new();
    if !own.is_empty() {
        text += &format!(" Each seed has its own {}; intervals include this difference.", list(&own));
    }
    if !shared.is_empty() {
        text += &format!(" All seeds share one {}; intervals don't include another one's difference.", list(&shared));
    }
    text
}

/// The runs whose weights this one starts from, and their own starts.
fn sources<'a>(study: &'a Study, run: &str) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    let mut next: Vec<&str> = study.runs.get(run).into_iter().flat_map(|run| run.from.values().map(String::as_str)).collect();
    while let Some(source) = next.pop() {
        if !all.contains(&source) {
            all.push(source);
            next.extend(study.runs.get(source).into_iter().flat_map(|run| run.from.values().map(String::as_str)));
        }
    }
    all
}

/// Which differences the verdicts of a table can find, column by column; nothing where there are none.
pub fn power(comparisons: &Comparisons, place: usize, table: &TableSpec) -> String {
    let of = |(c, column): (usize, &crate::file::ColumnSpec)| {
        let (low, high) = comparisons.detectable(place, c)?;
        let (low, high) = (format!("{low:.0$}", column.digits), format!("{high:.0$}", column.digits));
        Some(format!("{} {}", column.name, if low == high { low } else { format!("{low} to {high}") }))
    };
    let columns: Vec<String> = table.columns.iter().enumerate().filter_map(of).collect();
    if columns.is_empty() {
        return String::new();
    }
    format!(
        " Detects with 80% power: {}. Power is at p {ERROR} / {}, the first step of Holm's method.",
        columns.join(", "),
        comparisons.count
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    /// A study of two methods with three seeds, whose warm start has `start` seeds and is measured on a panel by
    /// `column`.
    fn sentences(start: Value, column: Value) -> String {
        let pipeline = "p.yaml";
        let study = json!({
            "study": "small", "page": "page.md", "seeds": [1, 2, 3],
            "runs": {
                "begin": { "pipeline": pipeline, "seeds": start.clone() },
                "warm": { "pipeline": pipeline, "seeds": start, "from": { "actor": "begin" } },
                "method": { "pipeline": pipeline, "from": { "actor": "warm" } },
            },
            "measurements": { "panel": { "panel": "panel.json" } },
            "tables": [{ "title": "Success", "measurement": "panel", "spread": "interval", "rows": [{ "name": "method", "run": "method" }], "columns": [column] }],
        });
        let study: Study = serde_json::from_value(study).unwrap();
        let by_task = if study.tables[0].columns[0].name == "won" { vec![vec![1.0, 0.0]; 3] } else { vec![] };
        let cell = TableCell { seeds: vec![(1, 0.5), (2, 0.5), (3, 0.5)], missing: 0, by_task, whole: None };
        covered(&study, &study.tables[0], &[vec![cell]], 0)
    }

    #[test]
    fn a_start_of_its_own_is_in_the_interval_and_a_shared_one_is_not() {
        let won = || json!({ "name": "won", "value": "\"pass@1\"" });
        let own = sentences(json!([1, 2, 3]), won());
        assert!(own.contains("Each seed has its own `begin`, `warm`; intervals include this difference."), "{own}");
        let shared = sentences(json!([7]), won());
        assert!(shared.contains("All seeds share one `begin`, `warm`; intervals don't include another one's difference."), "{shared}");
    }

    /// Pages that were made say a rule once, too.
    #[test]
    fn a_page_says_a_rule_once() {
        let (mut folders, mut pages) = (vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..")], 0);
        while let Some(folder) = folders.pop() {
            for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                let text =
                    if path.extension().is_some_and(|end| end == "md") { std::fs::read_to_string(&path).unwrap() } else { String::new() };
                if path.is_dir() && !path.ends_with("tool") {
                    folders.push(path);
                } else if text.contains("Made by `flow study") {
                    let mut printed = BTreeSet::new();
                    let tables = text.lines().filter(|line| line.starts_with("Mean over seeds"));
                    tables.for_each(|line| assert_eq!(without_repeats(line, &mut printed), line, "{}", path.display()));
                    pages += usize::from(!printed.is_empty());
                }
            }
        }
        assert!(pages > 10, "{pages} pages with rules");
        let mut printed = BTreeSet::new();
        let text = "Mean over seeds. p is two-sided. Other.";
        assert_eq!(
            (without_repeats(text, &mut printed), without_repeats(text, &mut printed)),
            (text.into(), "Mean over seeds. Other.".into())
        );
    }

    #[test]
    fn few_seeds_are_told_what_an_interval_assumes() {
        let three = sentences(json!([7]), json!({ "name": "won", "value": "\"pass@1\"" }));
        assert!(three.contains("fewer than five seeds") && three.contains("75% for three seeds"), "{three}");
        assert_eq!((least(5).as_str(), least(8).as_str(), least(20).as_str()), ("0.0625", "0.0078", "0.001"));
    }

    #[test]
    fn tasks_are_drawn_or_fixed() {
        let start = || json!([1, 2, 3]);
        for (column, expected) in [
            (json!({ "name": "won", "value": "\"pass@1\"" }), "(95% interval over seeds and the panel's tasks). "),
            (json!({ "name": "diversity", "value": "diversity" }), "(95% interval over seeds, for the panel's tasks alone). "),
            (json!({ "name": "rows", "query": "select 1" }), "(95% interval over seeds and their draws in training). "),
        ] {
            let text = sentences(start(), column);
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
