//! The products with vectors: one source for every width.
//!
//! Whole sums of some rows and panels stay in registers while a group passes. The sums of groups don't, and are fetched
//! once a group. What is used again, few panels' weights of some groups, stays in the nearest cache while the rows
//! pass.

use super::matrix::Matrix;
use super::rounded::Rounded;
use super::vectors::Vector;
use super::{GROUP, PANEL};
use std::ops::Range;

/// Groups that are multiplied with all rows before others are, at most.
const GROUPS: usize = 8;

vectorised! {
    /// See [`super::product`].
    pub fn product(x: &Rounded, matrix: &Matrix, y: &mut [f32]) {
        if V::MANY {
            tiles::<V, 8, 3>(x, matrix, y);
        } else {
            tiles::<V, 4, 1>(x, matrix, y);
        }
    }
}

/// Goes through the panels, `C` at a time, through the groups, and through the rows, `R` at a time.
#[inline(always)]
fn tiles<V: Vector, const R: usize, const C: usize>(x: &Rounded, matrix: &Matrix, y: &mut [f32]) {
    let groups = matrix.groups().div_ceil(matrix.groups().div_ceil(GROUPS));
    let mut panel = 0;
    while panel < matrix.panels() {
        let whole = matrix.panels() - panel >= C;
        for first in (0..matrix.groups()).step_by(groups) {
            let groups = first..matrix.groups().min(first + groups);
            for row in (0..x.rows()).step_by(R) {
                let (at, groups) = ((row, panel), groups.clone());
                match (whole, x.rows() - row) {
                    (true, 1) => block::<V, 1, C>(x, matrix, at, groups, y),
                    (true, 2) => block::<V, 2, C>(x, matrix, at, groups, y),
                    (true, 3..=4) => block::<V, 4, C>(x, matrix, at, groups, y),
                    (true, _) => block::<V, R, C>(x, matrix, at, groups, y),
                    (false, 1) => block::<V, 1, 1>(x, matrix, at, groups, y),
                    (false, _) => block::<V, R, 1>(x, matrix, at, groups, y),
                }
            }
        }
        panel += if whole { C } else { 1 };
    }
}

/// The products of `R` rows from `row` on, as far as there are so many, with `C` panels from `panel` on: the first
/// groups overwrite `y`, the others are added.
#[inline(always)]
fn block<V: Vector, const R: usize, const C: usize>(
    x: &Rounded,
    matrix: &Matrix,
    (row, panel): (usize, usize),
    groups: Range<usize>,
    y: &mut [f32],
) {
    let (all, stride, rows) = (matrix.groups(), matrix.stride(), R.min(x.rows() - row));
    let at = |r: usize, c: usize| (row + r) * stride + (panel + c) * PANEL;
    let mut sums = [[V::splat(0.0); C]; R];
    if groups.start > 0 {
        for r in 0..rows {
            for c in 0..C {
                sums[r][c] = V::load(&y[at(r, c)..]);
            }
        }
    }
    // The first rows fetch what the next groups, or panels, will multiply.
    let ahead = if groups.end < all { groups.len() } else { C * all + groups.len() - all };
    for group in groups {
        let numbers: [&[[i8; 4 * PANEL]; GROUP / 4]; C] = std::array::from_fn(|c| matrix.group(panel + c, group));
        let place = x.place(row, group);
        let (own, own_scales) = x.groups_at::<R>(place);
        let offsets: &[i32; R] = if V::OFFSET { x.offsets_at(place) } else { &[0; R] };
        let mut whole: [[V::Sums; C]; R] = std::array::from_fn(|r| [V::begin(offsets[r]); C]);
        for k in 0..GROUP / 4 {
            if row == 0 {
                numbers.iter().for_each(|numbers| V::fetch(&numbers[k], ahead * PANEL * GROUP));
            }
            let theirs: [V::Fours; C] = std::array::from_fn(|c| V::fours(&numbers[c][k]));
            for r in 0..R {
                for c in 0..C {
                    whole[r][c] = V::dot(whole[r][c], theirs[c], own[r][k]);
                }
            }
        }
        for c in 0..C {
            let scales = V::load(&matrix.scales()[((panel + c) * all + group) * PANEL..]);
            for r in 0..R {
                sums[r][c] = V::of(whole[r][c]).mul(V::splat(own_scales[r])).fma(scales, sums[r][c]);
            }
        }
    }
    for r in 0..rows {
        for c in 0..C {
            sums[r][c].store(&mut y[at(r, c)..]);
        }
    }
}
