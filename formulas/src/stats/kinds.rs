//! Seeds of two kinds: of ten, say, two learn and eight don't.

/// The seeds below and above the widest gap between neighbouring values, each as number and mean, if seeds are of two
/// kinds and few are of one. The rule: there are at least five seeds, the gap exceeds three quarters of the whole
/// range, and one side has fewer than three seeds. A mean's interval would then rest on one or two seeds.
///
/// Simulated (`coverage.rs`), ten seeds, each of them learning with probability 0.2: Student's interval covers 89% at
/// 95%. The rule applies in 56% of the studies. In 11% no seed learns, and nothing in the data tells that another one
/// would: no rule helps there. The other intervals cover. Of twenty such seeds, intervals cover 98% with the rule and
/// 92% without. Normal values meet the rule in 4.5% of studies with five seeds, 1.4% with six and 0.02% with ten. With
/// fewer than five, two kinds look like chance.
pub fn two_kinds(values: &[f64]) -> Option<[(usize, f64); 2]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let range = sorted.last()? - sorted.first()?;
    let (at, gap) = sorted.windows(2).map(|w| w[1] - w[0]).enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (low, high) = sorted.split_at(at + 1);
    let mean = |values: &[f64]| (values.len(), values.iter().sum::<f64>() / values.len() as f64);
    let two = values.len() >= 5 && gap > 0.75 * range && low.len().min(high.len()) < 3;
    two.then(|| [mean(low), mean(high)])
}

/// The two-sided p of an exact sign test (Arbuthnott 1710): whether as many values are above 0 as below it, those at 0
/// left out.
pub fn sign_test(values: &[f64]) -> f64 {
    let (above, below) = (values.iter().filter(|v| **v > 0.0).count(), values.iter().filter(|v| **v < 0.0).count());
    let n = above + below;
    // Of n fair coins, the probability of so few of one side, term by term.
    let mut term = 0.5f64.powi(n as i32);
    let mut few = 0.0;
    for k in 0..=above.min(below) {
        few += term;
        term *= (n - k) as f64 / (k + 1) as f64;
    }
    (2.0 * few).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_or_two_seeds_far_from_the_others() {
        let values = [3.0, 90.0, 2.0, 1.0, 2.0, 94.0];
        assert_eq!(two_kinds(&values), Some([(4, 2.0), (2, 92.0)]));
        assert_eq!(two_kinds(&[values[0], values[1], values[2], values[5]]), None, "four seeds");
        assert_eq!(two_kinds(&[1.0, 2.0, 3.0, 90.0, 91.0, 92.0]), None, "as many of each: the interval is of both");
        assert_eq!(two_kinds(&[1.0, 2.0, 3.0, 4.0, 8.0]), None, "a gap of 4 in a range of 7");
        assert_eq!((two_kinds(&[5.0; 6]), two_kinds(&[])), (None, None));
    }

    /// Of ten coins: 2 * (1 + 10) / 1024 for one of the other side, 2 / 1024 for none.
    #[test]
    fn signs_are_coins() {
        let values = |above: usize, below: usize| [vec![2.0; above], vec![-1.0; below], vec![0.0; 3]].concat();
        assert_eq!((sign_test(&values(9, 1)), sign_test(&values(0, 10))), (22.0 / 1024.0, 2.0 / 1024.0));
        assert_eq!((sign_test(&values(5, 5)), sign_test(&values(0, 0))), (1.0, 1.0));
    }
}
