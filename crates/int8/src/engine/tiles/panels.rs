//! The sums of a tile, a panel of rows at a time: as many as the CPU has registers for, so that what is loaded once
//! serves them all.

use super::super::kv::{KvNumber, PAGE};
use super::rows::{TileRows, FEW};
use crate::products::vectors::{Lanes, Vector, LANES};

/// Rows that are looked at together where the CPU has many registers, in place of [`FEW`].
pub const MANY: usize = 2 * FEW;

/// Calls `$many` for as many rows as there are registers for and `$few` for the rest; `$row` is the first of them.
macro_rules! each_panel {
    ($room:expr, $row:ident, $many:expr, $few:expr) => {
        let mut $row = 0;
        while V::MANY && $room - $row >= MANY {
            $many;
            $row += MANY;
        }
        while $row < $room {
            $few;
            $row += FEW;
        }
    };
}
pub(super) use each_panel;

/// The sums, for each row of a panel, of each number `i` times number `i` of the keys, for i = FROM, FROM + STEP and so
/// on.
#[inline(always)]
fn dots<V: Vector, E: KvNumber, const R: usize, const FROM: usize, const STEP: usize>(keys: &[[E; LANES]], panel: &[[f32; R]]) -> [V; R] {
    let mut sums = [V::splat(0.0); R];
    for (keys, rows) in keys.as_chunks::<STEP>().0.iter().zip(panel.as_chunks::<STEP>().0) {
        let keys: V = E::load(&keys[FROM]);
        for r in 0..R {
            sums[r] = V::splat(rows[FROM][r]).fma(keys, sums[r]);
        }
    }
    sums
}

/// The scores of the `R` rows from `row` on with one page.
#[inline(always)]
pub fn score<V: Vector, E: KvNumber, const R: usize>(keys: &[[E; LANES]], panels: &[f32], row: usize, scale: f32, scores: &mut [Lanes]) {
    let panel = panels[row * keys.len()..].as_chunks::<R>().0;
    let even = dots::<V, E, R, 0, 2>(keys, panel);
    let odd = dots::<V, E, R, 1, 2>(keys, panel);
    for r in 0..R {
        even[r].add(odd[r]).mul(V::splat(scale)).store(&mut scores[row + r]);
    }
}

/// How the probabilities of the `R` rows from `row` on should move on one page.
#[inline(always)]
pub fn movement<V: Vector, E: KvNumber, const R: usize>(values: &[[E; LANES]], panels: &[f32], row: usize, moved: &mut [Lanes]) {
    let sums = dots::<V, E, R, 0, 1>(values, panels[row * values.len()..].as_chunks::<R>().0);
    for r in 0..R {
        sums[r].store(&mut moved[row + r]);
    }
}

/// Puts the numbers of `R` rows that belong together beside each other: `[head, R]` in place of `[R, head]`.
#[inline(always)]
fn pack<const R: usize>(rows: &[f32], head: usize, row: usize, panels: &mut [f32]) {
    for (i, panel) in panels[row * head..(row + R) * head].as_chunks_mut::<R>().0.iter_mut().enumerate() {
        *panel = std::array::from_fn(|r| rows[(row + r) * head + i]);
    }
}

/// The same for all rows.
#[inline(always)]
pub fn pack_rows<V: Vector>(rows: &[f32], head: usize, panels: &mut Vec<f32>) {
    panels.resize(rows.len(), 0.0);
    each_panel!(rows.len() / head, row, pack::<MANY>(rows, head, row, panels), pack::<FEW>(rows, head, row, panels));
}

/// Adds to `C` lanes, from number `from` on, of the sums of the `R` rows from `row` on the values of the pages from
/// `first` on, each weighed by its number in `p`. With `PART` a row may see less than a page.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn weigh<V: Vector, E: KvNumber, const R: usize, const C: usize, const PART: bool>(
    rows: TileRows,
    row: usize,
    from: usize,
    pages: &[&[E]],
    first: usize,
    at: usize,
    p: &[Lanes],
    sums: &mut [f32],
) {
    let (head, padded) = (rows.heads.head, rows.heads.padded());
    let sums = &mut sums[row * padded + from..];
    let mut own: [[V; C]; R] = std::array::from_fn(|r| std::array::from_fn(|c| V::load(&sums[r * padded + c * LANES..])));
    for (i, page) in pages.iter().enumerate() {
        let values = &page[at + head * PAGE..at + rows.heads.span()];
        let p = &p[i * rows.room + row..].as_chunks::<R>().0[0];
        let sees: [usize; R] = std::array::from_fn(|r| if PART { rows.sees(row + r, first + i) } else { PAGE });
        for slot in 0..PAGE {
            let values = values[slot * padded + from..][..C * LANES].as_chunks::<LANES>().0;
            let values: [V; C] = std::array::from_fn(|c| E::load(&values[c]));
            for r in 0..R {
                if !PART || slot < sees[r] {
                    let p = V::splat(p[r][slot]);
                    for c in 0..C {
                        own[r][c] = p.fma(values[c], own[r][c]);
                    }
                }
            }
        }
    }
    for r in 0..R {
        for c in 0..C {
            own[r][c].store(&mut sums[r * padded + c * LANES..]);
        }
    }
}

/// The same for all rows.
#[inline(always)]
fn weigh_rows<V: Vector, E: KvNumber, const PART: bool>(
    rows: TileRows,
    pages: &[&[E]],
    first: usize,
    at: usize,
    p: &[Lanes],
    sums: &mut [f32],
) {
    let padded = rows.heads.padded();
    let mut from = 0;
    while V::MANY && padded - from >= 2 * LANES {
        each_panel!(
            rows.room,
            row,
            weigh::<V, E, MANY, 2, PART>(rows, row, from, pages, first, at, p, sums),
            weigh::<V, E, FEW, 2, PART>(rows, row, from, pages, first, at, p, sums)
        );
        from += 2 * LANES;
    }
    while from < padded {
        each_panel!(
            rows.room,
            row,
            weigh::<V, E, MANY, 1, PART>(rows, row, from, pages, first, at, p, sums),
            weigh::<V, E, FEW, 1, PART>(rows, row, from, pages, first, at, p, sums)
        );
        from += LANES;
    }
}

/// The same for pages that all rows see as a whole, or where some see a part.
#[inline(always)]
pub fn weigh_pages<V: Vector, E: KvNumber>(rows: TileRows, pages: &[&[E]], first: usize, at: usize, p: &[Lanes], sums: &mut [f32]) {
    if first + pages.len() <= rows.shared_pages() {
        weigh_rows::<V, E, false>(rows, pages, first, at, p, sums);
    } else {
        weigh_rows::<V, E, true>(rows, pages, first, at, p, sums);
    }
}

/// Adds to `I` numbers of a page, from number `from` on, those of each row times its weights.
#[inline(always)]
fn collect<V: Vector, const I: usize>(to: &mut [Lanes], from: usize, weights: &[Lanes], rows: &[f32]) {
    let head = to.len();
    let mut sums: [V; I] = std::array::from_fn(|i| V::load(&to[from + i]));
    for (row, weights) in weights.iter().enumerate() {
        let weights = V::load(weights);
        let row = &rows[row * head + from..][..I];
        for i in 0..I {
            sums[i] = weights.fma(V::splat(row[i]), sums[i]);
        }
    }
    for i in 0..I {
        sums[i].store(&mut to[from + i]);
    }
}

/// The same for all numbers of the page `to` `[head, PAGE]`.
#[inline(always)]
pub fn collect_rows<V: Vector>(to: &mut [f32], weights: &[Lanes], rows: &[f32]) {
    let to = to.as_chunks_mut::<LANES>().0;
    let mut from = 0;
    while V::MANY && to.len() - from >= MANY {
        collect::<V, MANY>(to, from, weights, rows);
        from += MANY;
    }
    while to.len() - from >= FEW {
        collect::<V, FEW>(to, from, weights, rows);
        from += FEW;
    }
    while from < to.len() {
        collect::<V, 1>(to, from, weights, rows);
        from += 1;
    }
}
