//! Likeness of points on the unit sphere: their cosine.

use super::Likeness;

/// By how much the cosine of a point with itself may miss 1: f32 rounds.
const ROUNDING: f32 = 1e-5;

/// Points are alike whose cosine is at least this.
#[derive(Clone, Copy, Debug)]
pub struct Cosine {
    /// From -1 to 1.
    pub at_least: f32,
}

impl Likeness for Cosine {
    type Key = [f32];
    type Prototype = Vec<f32>;

    fn prototype(&self, key: &[f32]) -> Vec<f32> {
        key.to_vec()
    }

    fn alike(&self, key: &[f32], prototype: &Vec<f32>) -> bool {
        prototype.len() == key.len() && reaches(dot(prototype, key), self.at_least)
    }
}

/// Whether a cosine is at least this, but for rounding.
pub fn reaches(cosine: f32, at_least: f32) -> bool {
    cosine >= at_least - ROUNDING
}

/// The dot product of two points of one width, in a fixed order of additions.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0f32; LANES];
    let (left, right) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = left.remainder().iter().zip(right.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in left.zip(right) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_product_of_any_length() {
        let a: Vec<f32> = (0..35).map(|i| i as f32).collect();
        assert_eq!(dot(&a, &a), (0..35).map(|i| (i * i) as f32).sum::<f32>());
    }
}
