//! Mean and deviation of a group in one pass, each member counted as often as it weighs.

/// What a group's members add up to, measured from the first of them.
///
/// The first value as origin makes equal values exactly equal to their mean. It is also what lets one pass do: a
/// member is at most about `sqrt(n)` deviations away from the mean, so little can cancel in the sum of squares.
#[derive(Clone, Copy, Default)]
pub struct Sums {
    members: u32,
    weight: f64,
    origin: f64,
    sum: f64,
    squares: f64,
    low: f64,
    high: f64,
    second: f64,
    size: f64,
}

/// How far apart, as a share of their size, values may be that count as equal. A return is a sum of rewards that are
/// f32: the same rewards in another order differ in the last digits (relative 6e-8 each), and dividing by the deviation
/// of such digits would make an advantage of them.
const ROUNDING: f64 = 1e-6;

/// Whether values from `low` to `high` are equal up to rounding; `size` is the largest of the numbers that they were
/// computed from.
pub fn equal(low: f64, high: f64, size: f64) -> bool {
    high - low <= ROUNDING * size.max(low.abs()).max(high.abs())
}

impl Sums {
    /// Adds a member that counts `weight` times. One that counts 0 times leaves no trace.
    pub fn add(&mut self, value: f64, weight: f64) {
        if weight == 0.0 {
            return;
        }
        if self.members == 0 {
            self.origin = value;
        }
        let offset = value - self.origin;
        self.second = if self.members == 0 { f64::NEG_INFINITY } else { self.second.max(offset.min(self.high)) };
        self.members += 1;
        self.weight += weight;
        self.sum += weight * offset;
        self.squares += weight * offset * offset;
        self.low = self.low.min(offset);
        self.high = self.high.max(offset);
    }
    /// Says that a member was computed from numbers as large as this (a return: from its rewards), which bounds its
    /// rounding.
    pub fn made_of(&mut self, size: f64) {
        self.size = self.size.max(size.abs());
    }
    /// How many members left a trace.
    pub fn members(&self) -> u32 {
        self.members
    }
    /// Whether two or more members left a trace, and all of them are [`equal`].
    pub fn all_equal(&self) -> bool {
        self.members > 1 && equal(self.origin + self.low, self.origin + self.high, self.size)
    }
    /// Of at least one member.
    pub fn mean(&self) -> f64 {
        self.origin + self.sum / self.weight
    }
    /// The mean of the others. There must be at least one.
    pub fn mean_without(&self, value: f64, weight: f64) -> f64 {
        self.origin + (self.sum - weight * (value - self.origin)) / (self.weight - weight)
    }
    /// The second greatest value, of at least two members.
    pub fn second_best(&self) -> f64 {
        self.origin + self.second
    }
    /// The sum of squared distances from the mean, divided by `n - ddof` (by 1 where that would be less).
    pub fn variance(&self, ddof: u8) -> f64 {
        let left = (self.weight - f64::from(ddof)).max(1.0);
        (self.squares - self.sum * self.sum / self.weight).max(0.0) / left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_as_many_members() {
        let (mut weighed, mut repeated) = (Sums::default(), Sums::default());
        for (value, times) in [(3.0, 2), (9.0, 0), (-1.0, 3), (0.5, 1)] {
            weighed.add(value, f64::from(times));
            (0..times).for_each(|_| repeated.add(value, 1.0));
        }
        assert_eq!((weighed.members(), repeated.members()), (3, 6));
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} is not {b}");
        for sums in [weighed, repeated] {
            // 2 * 9 + 3 * 1 + 0.25 less 6 * mean^2 is 21.25 - 12.25 / 6.
            close(sums.mean(), 3.5 / 6.0);
            close(sums.variance(1), (21.25 - 12.25 / 6.0) / 5.0);
            close(sums.variance(0), (21.25 - 12.25 / 6.0) / 6.0);
            close(sums.mean_without(-1.0, 3.0), 6.5 / 3.0);
        }
    }

    #[test]
    fn the_second_best_is_beside_the_best() {
        let second = |values: &[f64]| {
            let mut sums = Sums::default();
            values.iter().for_each(|value| sums.add(*value, 1.0));
            sums.second_best()
        };
        assert_eq!(second(&[1.0, 4.0, 2.0]), 2.0);
        assert_eq!((second(&[4.0, 1.0, 2.0]), second(&[1.0, 2.0, 4.0])), (2.0, 2.0));
        assert_eq!((second(&[3.0, 3.0, 1.0]), second(&[-1.0, -5.0])), (3.0, -5.0));
    }

    #[test]
    fn rounding_is_no_difference() {
        let equal = |values: &[f64], size: f64| {
            let mut sums = Sums::default();
            values.iter().for_each(|value| sums.add(*value, 1.0));
            sums.made_of(size);
            sums.all_equal()
        };
        assert!(equal(&[-1.5, -1.5, -1.5000001], 0.1) && equal(&[11.0, 10.999999], 0.0) && equal(&[0.0, 0.0], 0.0));
        assert!(equal(&[0.0, 1.5e-7], 10.0), "what is left of 10 - 100 * 0.1");
        assert!(!equal(&[0.0, 1.5e-7], 0.0) && !equal(&[11.0, 10.999], 10.0) && !equal(&[-1e-9, 1e-9], 0.0) && !equal(&[3.0], 0.0));
    }
}
