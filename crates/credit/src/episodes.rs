//! Trajectories among rows: an attempt each, and each reflection for itself.

use std::ops::Range;

/// The trajectories as ranges of rows: an attempt each, and each reflection for itself. Rows are sorted by name, so
/// those of one trajectory follow one another; `same_as_previous(i)` says whether row `i` belongs to the trajectory of
/// row `i - 1` (never asked of row 0).
pub fn episodes(same_as_previous: impl Fn(usize) -> bool, rows: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    for i in 1..=rows {
        if i == rows || !same_as_previous(i) {
            ranges.push(start..i);
            start = i;
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fall_into_trajectories() {
        let names = [1, 1, 2, 3, 3, 3];
        assert_eq!(episodes(|i| names[i] == names[i - 1], 6), [0..2, 2..3, 3..6]);
        assert!(episodes(|_| true, 0).is_empty());
        assert_eq!(episodes(|_| false, 2), [0..1, 1..2]);
    }
}
