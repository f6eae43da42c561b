//! Several comparisons on one page.

/// Each p adjusted by Holm's method (1979) for `count` comparisons, including these: the chance that any p of a true
/// null hypothesis is adjusted to 0.05 or less is at most 0.05.
pub fn holm(p: &[f64], count: usize) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let (mut adjusted, mut least) = (vec![1.0; p.len()], 0.0f64);
    for (rank, i) in order.into_iter().enumerate() {
        least = least.max((p[i] * count.saturating_sub(rank).max(1) as f64).min(1.0));
        adjusted[i] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 * 0.01, 2 * 0.02 and 0.03, which is raised to the one before.
    #[test]
    fn a_p_grows_with_those_that_are_less() {
        let close = |a: Vec<f64>, b: [f64; 3]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close(holm(&[0.03, 0.01, 0.02], 3), [0.04, 0.03, 0.04]));
        assert!(close(holm(&[0.03, 0.01, 0.6], 4), [0.09, 0.04, 1.0]), "one isn't measured yet");
        assert!(holm(&[], 0).is_empty());
    }
}
