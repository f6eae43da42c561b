//! A matrix of f32, packed once, whose products with a row have the same bits beside any others.
//!
//! A product goes through the inputs in their order, one fused multiply-add each, and begins with what is there: so the bits follow from the
//! row and the matrix alone.

use super::isa::Isa;
use super::vectors::{vectorised, Vector, LANES};

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
        add(isa, self, x, scale, y, stride);
    }
}

vectorised! {
    fn add(matrix: &Dense, x: StridedRows, scale: f32, y: &mut [f32], stride: usize) {
        for panel in 0..matrix.outputs.div_ceil(LANES) {
            let mut row = 0;
            while row < x.count {
                row += match x.count - row {
                    8.. => block::<V, 8>(matrix, panel, x, row, scale, y, stride),
                    4.. => block::<V, 4>(matrix, panel, x, row, scale, y, stride),
                    _ => block::<V, 1>(matrix, panel, x, row, scale, y, stride),
                };
            }
        }
    }

    /// `to` `[a.width, b.width]` with the sum over rows of the products of each number of `a` with each of `b` added. The order of the sum is
    /// that of the rows.
    pub fn outer(a: StridedRows, wide: usize, b: StridedRows, width: usize, to: &mut [f32]) {
        for from in (0..width).step_by(LANES) {
            let lanes = LANES.min(width - from);
            for first in (0..wide).step_by(8) {
                let count = 8.min(wide - first);
                let mut sums = [[0f32; LANES]; 8];
                if lanes == LANES && count == 8 {
                    let mut whole = [V::splat(0.0); 8];
                    for row in 0..a.count {
                        let own = &a.numbers[row * a.stride + first..][..8];
                        let theirs = V::load(&b.numbers[row * b.stride + from..]);
                        for i in 0..8 {
                            whole[i] = V::splat(own[i]).fma(theirs, whole[i]);
                        }
                    }
                    sums = whole.map(V::lanes);
                } else {
                    for row in 0..a.count {
                        let own = &a.numbers[row * a.stride + first..];
                        let theirs = &b.numbers[row * b.stride + from..];
                        for i in 0..count {
                            for lane in 0..lanes {
                                sums[i][lane] = own[i].mul_add(theirs[lane], sums[i][lane]);
                            }
                        }
                    }
                }
                for i in 0..count {
                    for lane in 0..lanes {
                        to[(first + i) * width + from + lane] += sums[i][lane];
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn block<V: Vector, const R: usize>(
    matrix: &Dense,
    panel: usize,
    x: StridedRows,
    row: usize,
    scale: f32,
    y: &mut [f32],
    stride: usize,
) -> usize {
    let numbers = &matrix.numbers[panel * matrix.inputs * LANES..(panel + 1) * matrix.inputs * LANES];
    let rows: [&[f32]; R] = std::array::from_fn(|r| &x.numbers[(row + r) * x.stride..][..matrix.inputs]);
    let mut sums = [V::splat(0.0); R];
    for (input, own) in numbers.chunks_exact(LANES).enumerate() {
        let own = V::load(own);
        for r in 0..R {
            sums[r] = V::splat(rows[r][input]).fma(own, sums[r]);
        }
    }
    let lanes = LANES.min(matrix.outputs - panel * LANES);
    for r in 0..R {
        let to = &mut y[(row + r) * stride + panel * LANES..][..lanes];
        for (to, sum) in to.iter_mut().zip(sums[r].lanes()) {
            *to = sum.mul_add(scale, *to);
        }
    }
    R
}

#[cfg(test)]
mod tests {
    use super::super::isa::ALL;
    use super::*;

    /// A matrix of 1 2 / 3 4 / 5 6, the row (10, 1), times 2, added to ones: 1 + 24, 1 + 68, 1 + 112.
    #[test]
    fn a_product_as_worked_by_hand() {
        let matrix = Dense::from_fn(3, 2, |output, input| (1 + 2 * output + input) as f32);
        assert_eq!((matrix.at(2, 1), matrix.outputs(), matrix.inputs()), (6.0, 3, 2));
        for isa in ALL.into_iter().filter(|isa| isa.here()) {
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
