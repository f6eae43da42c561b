//! Several advantages of one row, made into one.

/// `sum of w_k * A_k` for each row: GiGPO's and SLEA-RL's `A_episode + w * A_step` (SLEA-RL, Eq. 4 and 6).
/// A row that a part lacks (they should be equally long) counts 0 there.
pub fn weighted_sum(parts: &[(&[f32], f64)]) -> Vec<f32> {
    let rows = parts.iter().map(|(part, _)| part.len()).max().unwrap_or(0);
    let mut sums = vec![0.0; rows];
    for (part, weight) in parts {
        sums.iter_mut().zip(*part).for_each(|(sum, a)| *sum += weight * f64::from(*a));
    }
    sums.into_iter().map(|sum| sum as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_weighted() {
        assert_eq!(weighted_sum(&[(&[1.0, 2.0], 1.0), (&[10.0, -4.0], 0.5)]), [6.0, 0.0]);
        assert_eq!(weighted_sum(&[]), [0.0f32; 0]);
    }
}
