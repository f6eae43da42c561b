//! Several advantages of one row, made into one.

/// Adds `weight * A` to each row's sum: `sum of w_k * A_k` part by part, as in GiGPO's and SLEA-RL's
/// `A_episode + w * A_step` (SLEA-RL, Eq. 4 and 6). In `f32`, as advantages are; all three are equally long.
pub fn add_weighted(sum: &mut [f32], advantage: &[f32], weights: &[f32]) {
    sum.iter_mut().zip(advantage.iter().zip(weights)).for_each(|(sum, (a, weight))| *sum += weight * a);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_weighted() {
        let mut sum = [0.0; 2];
        add_weighted(&mut sum, &[1.0, 2.0], &[1.0; 2]);
        add_weighted(&mut sum, &[10.0, -4.0], &[0.5; 2]);
        assert_eq!(sum, [6.0, 0.0]);
    }
}
