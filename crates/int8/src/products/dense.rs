//! A matrix of f32, packed once, whose products with a row have the same bits beside any others.
//!
//! A product goes through the inputs in their order, one fused multiply-add each, and begins with the old value: so the
//! bits follow from the row and the matrix alone.

use super::isa::Isa;
use super::vectors::{Lanes, Vector, LANES};

/// A matrix `[outputs, inputs]`, in panels of [`LANES`] outputs: the numbers of an input one after the other.
#[derive(Clone)]
pub struct Dense {
    outputs: usize,
    inputs: usize,
    numbers: Vec<f32>,
}

/// Rows with a distance from one to the next.
#[derive(Clone, Copy)]
pub struct StridedRows<'a> {
    /// The numbers.
    pub numbers: &'a [f32],
    /// From one row to the next.
    pub stride: usize,
    /// How many there are.
    pub count: usize,
}

impl Dense {
    /// The matrix whose numbers are `at(output, input)`.
    pub fn from_fn(outputs: usize, inputs: usize, at: impl Fn(usize, usize) -> f32) -> Dense {
        let mut numbers = vec![0.0; outputs.div_ceil(LANES) * LANES * inputs];
        for output in 0..outputs {
            for input in 0..inputs {
                numbers[(output / LANES * inputs + input) * LANES + output % LANES] = at(output, input);
            }
        }
        Dense { outputs, inputs, numbers }
    }

    /// How many numbers it makes of a row.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// How many numbers a row has.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// One number of it.
    pub fn at(&self, output: usize, input: usize) -> f32 {
        self.numbers[(output / LANES * self.inputs + input) * LANES + output % LANES]
    }

    /// Adds its products with the rows of `x`, times `scale`, to those of `y`, which lie `stride` from one another.
    pub fn add(&self, isa: Isa, x: StridedRows, scale: f32, y: &mut [f32], stride: usize) {
        products(isa, self, x, Some(scale), y, stride);
    }

    /// Its products with the rows of `x`, written over those of `y`, which lie `stride` from one another.
    pub fn of_rows(&self, isa: Isa, x: StridedRows, y: &mut [f32], stride: usize) {
        products(isa, self, x, None, y, stride);
    }
}

vectorised! {
    /// With a scale they are added, else they replace the old values.
    fn products(matrix: &Dense, x: StridedRows, scale: Option<f32>, y: &mut [f32], stride: usize) {
        // As many sums as there are registers for, beside the numbers that are multiplied.
        if V::MANY {
            tiles::<V, 9, 3>(matrix, x, scale, y, stride);
        } else {
            tiles::<V, 6, 1>(matrix, x, scale, y, stride);
        }
    }

    /// `to` `[a.width, b.width]` with the sum over rows of the products of each number of `a` with each of `b` added.
    /// The order of the sum is that of the rows.
    pub fn outer(a: StridedRows, wide: usize, b: StridedRows, width: usize, to: &mut [f32]) {
        let mut from = 0;
        while from < width {
            let panels = if V::MANY && width - from >= 3 * LANES { 3 } else { 1 };
            let mut first = 0;
            while first < wide {
                first += match (panels, width - from >= LANES, wide - first >= 8) {
                    (3, _, true) => outer_block::<V, 8, 3>(a, first, b, from, width, to),
                    (3, _, false) => outer_block::<V, 1, 3>(a, first, b, from, width, to),
                    (_, true, true) => outer_block::<V, 8, 1>(a, first, b, from, width, to),
                    (_, true, false) => outer_block::<V, 1, 1>(a, first, b, from, width, to),
                    _ => outer_rest(a, first, b, from, width, to),
                };
            }
            from += panels * LANES;
        }
    }
}

/// [`outer`] for `I` numbers of `a`, from `first` on, and `P` lanes of numbers of `b`, from `from` on; gives `I`.
#[inline(always)]
fn outer_block<V: Vector, const I: usize, const P: usize>(
    a: StridedRows,
    first: usize,
    b: StridedRows,
    from: usize,
    width: usize,
    to: &mut [f32],
) -> usize {
    let mut sums = [[V::splat(0.0); P]; I];
    for row in 0..a.count {
        let own = &a.numbers[row * a.stride + first..][..I];
        let theirs = &b.numbers[row * b.stride + from..][..P * LANES];
        let theirs: [V; P] = std::array::from_fn(|p| V::load(&theirs[p * LANES..]));
        for i in 0..I {
            let number = V::splat(own[i]);
            for p in 0..P {
                sums[i][p] = number.fma(theirs[p], sums[i][p]);
            }
        }
    }
    for (i, sums) in sums.into_iter().enumerate() {
        for (p, sum) in sums.into_iter().enumerate() {
            let to = &mut to[(first + i) * width + from + p * LANES..];
            V::load(to).add(sum).store(to);
        }
    }
    I
}

/// The same for one number of `a` and the last ones of `b`, too few for a lane each.
#[inline(always)]
fn outer_rest(a: StridedRows, first: usize, b: StridedRows, from: usize, width: usize, to: &mut [f32]) -> usize {
    for j in from..width {
        let sum = (0..a.count).fold(0f32, |sum, row| a.numbers[row * a.stride + first].mul_add(b.numbers[row * b.stride + j], sum));
        to[first * width + j] += sum;
    }
    1
}

/// Goes through the panels, `P` at a time, and through the rows, `R` at a time: the panels stay in the CPU's cache
/// while the rows pass.
#[inline(always)]
fn tiles<V: Vector, const R: usize, const P: usize>(matrix: &Dense, x: StridedRows, scale: Option<f32>, y: &mut [f32], stride: usize) {
    let panels = matrix.outputs.div_ceil(LANES);
    let mut panel = 0;
    while panel < panels {
        let whole = panels - panel >= P;
        let mut row = 0;
        while row < x.count {
            row += match (whole, x.count - row) {
                (true, left) if left >= R => block::<V, R, P>(matrix, panel, x, row, scale, y, stride),
                (true, 4..) => block::<V, 4, P>(matrix, panel, x, row, scale, y, stride),
                (true, _) => block::<V, 1, P>(matrix, panel, x, row, scale, y, stride),
                (false, 16..) if V::MANY => block::<V, 16, 1>(matrix, panel, x, row, scale, y, stride),
                (false, 4..) => block::<V, 4, 1>(matrix, panel, x, row, scale, y, stride),
                (false, _) => block::<V, 1, 1>(matrix, panel, x, row, scale, y, stride),
            };
        }
        panel += if whole { P } else { 1 };
    }
}

/// The products of `P` panels from `panel` on with `R` rows from `row` on.
#[inline(always)]
fn block<V: Vector, const R: usize, const P: usize>(
    matrix: &Dense,
    panel: usize,
    x: StridedRows,
    row: usize,
    scale: Option<f32>,
    y: &mut [f32],
    stride: usize,
) -> usize {
    let inputs = matrix.inputs;
    // Cut to one length, so that none is looked at again in the loop, whose sums then stay in registers.
    let size = inputs * LANES;
    let panels: [&[Lanes]; P] = std::array::from_fn(|p| &matrix.numbers[(panel + p) * size..][..size].as_chunks::<LANES>().0[..inputs]);
    let rows: [&[f32]; R] = std::array::from_fn(|r| &x.numbers[(row + r) * x.stride..][..inputs]);
    let mut sums = [[V::splat(0.0); P]; R];
    for input in 0..inputs {
        let own: [V; P] = std::array::from_fn(|p| V::load(&panels[p][input]));
        for r in 0..R {
            let number = V::splat(rows[r][input]);
            for p in 0..P {
                sums[r][p] = number.fma(own[p], sums[r][p]);
            }
        }
    }
    for (r, sums) in sums.into_iter().enumerate() {
        for (p, sum) in sums.into_iter().enumerate() {
            let at = (panel + p) * LANES;
            let lanes = LANES.min(matrix.outputs - at);
            let to = &mut y[(row + r) * stride + at..][..lanes];
            match scale {
                None if lanes == LANES => sum.store(to),
                None => to.copy_from_slice(&sum.lanes()[..lanes]),
                Some(scale) => to.iter_mut().zip(sum.lanes()).for_each(|(to, sum)| *to = sum.mul_add(scale, *to)),
            }
        }
    }
    R
}

#[cfg(test)]
mod tests {
    use super::super::isa::Isa;
    use super::*;

    /// Rows and outputs of every number up to some: what stands beside a row changes nothing, whichever instructions
    /// there are.
    #[test]
    fn a_row_has_the_same_bits_in_any_tile() {
        let x: Vec<f32> = (0..23 * 7).map(|i| (i % 11) as f32 / 3.0).collect();
        for outputs in [1, 16, 40, 100] {
            let matrix = Dense::from_fn(outputs, 7, |output, input| (1 + 3 * output + input) as f32 / 7.0);
            let of = |isa: Isa, first: usize, count: usize| {
                let mut y = vec![0.5; count * outputs];
                matrix.add(isa, StridedRows { numbers: &x[7 * first..], stride: 7, count }, 0.7, &mut y, outputs);
                y
            };
            let alone: Vec<f32> = (0..23).flat_map(|row| of(Isa::PLAIN, row, 1)).collect();
            for isa in Isa::available() {
                let mut y = vec![f32::NAN; 23 * (outputs + 3)];
                matrix.of_rows(isa, StridedRows { numbers: &x, stride: 7, count: 23 }, &mut y, outputs + 3);
                for (row, y) in y.chunks(outputs + 3).enumerate() {
                    let mut sum = vec![0.5; outputs];
                    sum.iter_mut().zip(y).for_each(|(sum, y)| *sum = y.mul_add(0.7, *sum));
                    assert!(sum == alone[row * outputs..(row + 1) * outputs] && y[outputs..].iter().all(|y| y.is_nan()), "{isa}, in place");
                }
                for count in 1..24 {
                    assert!(of(isa, 0, count) == alone[..count * outputs], "{isa}, {count} rows, {outputs} outputs");
                }
            }
        }
    }

    /// A matrix of 1 2 / 3 4 / 5 6, the row (10, 1), times 2, added to ones: 1 + 24, 1 + 68, 1 + 112.
    #[test]
    fn a_product_as_worked_by_hand() {
        let matrix = Dense::from_fn(3, 2, |output, input| (1 + 2 * output + input) as f32);
        assert_eq!((matrix.at(2, 1), matrix.outputs(), matrix.inputs()), (6.0, 3, 2));
        for isa in Isa::available() {
            let mut y = vec![1.0; 9 * 5];
            let x: Vec<f32> = [10.0, 1.0, 7.0].repeat(9);
            matrix.add(isa, StridedRows { numbers: &x, stride: 3, count: 9 }, 2.0, &mut y, 5);
            assert!(y.chunks(5).all(|y| y == [25.0, 69.0, 113.0, 1.0, 1.0]), "{isa}: {y:?}");
            let mut to = vec![0.0; 4];
            outer(
                isa,
                StridedRows { numbers: &[1.0, 2.0, 3.0, 4.0], stride: 2, count: 2 },
                2,
                StridedRows { numbers: &[5.0, 6.0, 7.0, 8.0], stride: 2, count: 2 },
                2,
                &mut to,
            );
            assert_eq!(to, [26.0, 30.0, 38.0, 44.0], "(1, 2) x (5, 6) + (3, 4) x (7, 8)");
        }
    }
}
