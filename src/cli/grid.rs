//! The runs that `--seeds` and `--grid` ask for: every combination of the values, each under every seed.

use super::error::{Error, Result};

/// One of the runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Case {
    /// Its seed, if not the pipeline's own.
    pub seed: Option<u64>,
    /// The overrides that it has beside those of all, as `path=value`.
    pub sets: Vec<String>,
}

impl Case {
    /// All its overrides, the seed's with them.
    pub fn overrides(&self) -> impl Iterator<Item = String> + '_ {
        self.sets.iter().cloned().chain(self.seed.map(|seed| format!("seed={seed}")))
    }

    /// Its settings as a person reads them: the last step of each path, and the value.
    pub fn settings(&self) -> String {
        self.short().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// What its folder's name ends with.
    pub fn suffix(&self) -> String {
        let plain = |text: &str| text.replace(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)), "_");
        let sets = self.short().map(|(key, value)| format!("-{}-{}", plain(key), plain(value)));
        sets.chain(self.seed.map(|seed| format!("-seed{seed}"))).collect()
    }

    fn short(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sets.iter().filter_map(|set| set.split_once('=')).map(|(path, value)| (path.rsplit('.').next().unwrap_or(path), value))
    }
}

/// Every combination of the values in `grid`, each a `path=value,value`, under every seed; the first setting varies
/// slowest, the seed fastest.
///
/// # Errors
/// A setting without values, a setting or a value that stands twice, a seed that does.
pub fn cases(grid: &[String], seeds: &[u64]) -> Result<Vec<Case>> {
    let mut all = vec![Case::default()];
    let mut paths: Vec<&str> = Vec::new();
    for dimension in grid {
        let malformed = || Error::Request(format!("`{dimension}` is no --grid")).help("say it as `nodes.update.with.lr=1e-4,1e-3`");
        let (path, values) = dimension.split_once('=').ok_or_else(malformed)?;
        let values = split(values);
        if path.is_empty() || values.iter().any(|value| value.is_empty()) {
            return Err(malformed());
        }
        if paths.contains(&path) {
            return Err(Error::Request(format!("`{path}` stands twice in --grid")));
        }
        if let Some(repeated) = repeated(&values) {
            return Err(Error::Request(format!("the value {repeated} of `{path}` stands twice in --grid")));
        }
        paths.push(path);
        let with = |case: &Case, value: &str| Case { sets: [&case.sets[..], &[format!("{path}={value}")]].concat(), ..case.clone() };
        all = all.iter().flat_map(|case| values.iter().map(move |value| with(case, value))).collect();
    }
    if let Some(repeated) = repeated(seeds) {
        return Err(Error::Request(format!("the seed {repeated} stands twice in --seeds")));
    }
    if !seeds.is_empty() {
        all = all.iter().flat_map(|case| seeds.iter().map(|seed| Case { seed: Some(*seed), ..case.clone() })).collect();
    }
    Ok(all)
}

fn repeated<T: PartialEq>(values: &[T]) -> Option<&T> {
    values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)).map(|(_, value)| value)
}

/// Values that commas part, except within brackets: `[task],[task, state]` is two.
fn split(values: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0i32, 0, Vec::new());
    for (at, c) in values.char_indices() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(values[start..at].trim());
                start = at + 1;
            }
            _ => (),
        }
    }
    parts.push(values[start..].trim());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid_cases(grid: &[&str], seeds: &[u64]) -> Result<Vec<Case>> {
        cases(&grid.iter().map(|dimension| dimension.to_string()).collect::<Vec<_>>(), seeds)
    }

    #[test]
    fn a_grid_is_every_combination_under_every_seed() {
        let all = grid_cases(&["a.lr=1e-4,1e-3", "b.by=[task],[task, state]"], &[1, 2]).unwrap();
        assert_eq!(all.len(), 8);
        let sets = |i: usize| all[i].overrides().collect::<Vec<_>>();
        assert_eq!(sets(0), ["a.lr=1e-4", "b.by=[task]", "seed=1"]);
        assert_eq!(sets(3), ["a.lr=1e-4", "b.by=[task, state]", "seed=2"]);
        assert_eq!((all[7].settings().as_str(), all[7].suffix().as_str()), ("lr=1e-3 by=[task, state]", "-lr-1e-3-by-_task__state_-seed2"));
        assert_eq!(grid_cases(&[], &[4]).unwrap(), [Case { seed: Some(4), sets: vec![] }]);
        assert_eq!(grid_cases(&["a=1"], &[]).unwrap()[0].suffix(), "-a-1");
    }

    #[test]
    fn what_is_no_grid_is_refused() {
        for (grid, seeds, message) in [
            (&["lr"][..], &[][..], "`lr` is no --grid"),
            (&["lr=1,"], &[], "`lr=1,` is no --grid"),
            (&["lr=1,2,1"], &[], "the value 1 of `lr` stands twice"),
            (&["lr=1", "lr=2"], &[], "`lr` stands twice"),
            (&[], &[7, 7], "the seed 7 stands twice in --seeds"),
        ] {
            assert!(grid_cases(grid, seeds).unwrap_err().to_string().contains(message), "{message}");
        }
    }
}
