//! Rotary positions (see [`flow_model::rope`]), row by row: the pair of numbers i and i + head / 2 of a head
//! is turned by its place times frequency i.

use flow_model::rope::RopeConfig;

/// Cosine and sine of each place times each frequency, `[context, head / 2]`.
pub struct RopeTables {
    half: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTables {
    /// The tables for `context` places of heads of `head` numbers.
    pub fn new(config: &RopeConfig, head: usize, context: usize) -> RopeTables {
        let half = head / 2;
        let frequencies = config.frequencies(half as i64);
        let angle = |place: usize| frequencies.iter().map(move |frequency| place as f64 * frequency);
        let table =
            |function: fn(f64) -> f64| (0..context).flat_map(|place| angle(place).map(move |angle| function(angle) as f32)).collect();
        RopeTables { half, cos: table(f64::cos), sin: table(f64::sin) }
    }

    /// Cosines and sines of one place.
    pub fn at(&self, place: usize) -> (&[f32], &[f32]) {
        let range = place * self.half..(place + 1) * self.half;
        (&self.cos[range.clone()], &self.sin[range])
    }
}

vectorised! {
    /// Turns each of the heads in `x` `[heads, head]`; `back` turns it the other way, as a gradient goes.
    pub fn turn(x: &mut [f32], angles: (&[f32], &[f32]), back: bool) {
        let (cos, sin) = angles;
        let sign = if back { -1.0 } else { 1.0 };
        for x in x.chunks_exact_mut(2 * cos.len()) {
            let (first, second) = x.split_at_mut(cos.len());
            for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                let sin = sign * sin;
                (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::products::isa::Isa;
    use flow_model::rope::Scaling;

    /// Head of 4, base 100: frequencies 1 and 0.1. At place 2 the pair (1, 3) is turned by 2, (2, 4) by 0.2.
    #[test]
    fn a_pair_is_turned_by_place_times_frequency() {
        let rope = RopeTables::new(&RopeConfig { base: 100.0, scaling: Scaling::None }, 4, 3);
        let mut x = [1.0, 2.0, 3.0, 4.0];
        turn(Isa::PLAIN, &mut x, rope.at(2), false);
        let (a, b) = (2f32, 0.2f32);
        let expected = [a.cos() - 3.0 * a.sin(), 2.0 * b.cos() - 4.0 * b.sin(), 3.0 * a.cos() + a.sin(), 4.0 * b.cos() + 2.0 * b.sin()];
        assert!(x.iter().zip(expected).all(|(x, expected)| (x - expected).abs() < 1e-6), "{x:?}");
        turn(Isa::PLAIN, &mut x, rope.at(2), true);
        assert!(x.iter().zip([1.0, 2.0, 3.0, 4.0]).all(|(x, expected)| (x - expected).abs() < 1e-6), "and back");
    }
}
