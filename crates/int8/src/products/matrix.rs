//! A matrix rounded to 8 bits, as the kernels read it.

use super::aligned::Fixed;
use super::vectors::MAGIC;
use super::{GROUP, PANEL};

/// Numbers of 4 KiB.
const PAGE: usize = 1024;

/// How far apart rows of so many products lie: never a multiple of 4 KiB, since rows at such distances share one corner
/// of the cache.
pub fn spread_out(outputs: usize) -> usize {
    outputs + if outputs.is_multiple_of(PAGE) { PANEL } else { 0 }
}

/// A matrix `[outputs, inputs]` of whole numbers from -127 to 127, with a scale for each output and each group of
/// [`GROUP`] inputs.
///
/// The numbers lie in panels of [`PANEL`] outputs, panel by panel, group by group: four inputs of the first output, the
/// same four of the second, and after the last output the next four. That is what VNNI's instruction multiplies, and a
/// tile of AMX.
pub struct Matrix {
    outputs: usize,
    inputs: usize,
    numbers: Fixed<i8>,
    scales: Fixed<f32>,
}

impl Matrix {
    /// Rounds `weights` `[outputs, inputs]`, in the way of [`super::rounded`].
    pub fn new(weights: &[f32], outputs: usize, inputs: usize) -> Matrix {
        Matrix::from_fn(outputs, inputs, |output, input| weights[output * inputs + input])
    }

    /// The same of the matrix whose numbers are `at(output, input)`.
    pub fn from_fn(outputs: usize, inputs: usize, at: impl Fn(usize, usize) -> f32) -> Matrix {
        let (panels, groups) = (outputs.div_ceil(PANEL), inputs.div_ceil(GROUP));
        let mut numbers = Fixed::zeros(panels * groups * PANEL * GROUP);
        let mut scales = Fixed::zeros(panels * groups * PANEL);
        let mut group_values = [0f32; GROUP];
        for output in 0..outputs {
            for group in 0..groups {
                let block = (output / PANEL) * groups + group;
                let lane = output % PANEL;
                let group_values = &mut group_values[..GROUP.min(inputs - group * GROUP)];
                group_values.iter_mut().enumerate().for_each(|(i, value)| *value = at(output, group * GROUP + i));
                let most = group_values.iter().fold(0f32, |most, x| {
                    // Once it is no number it stays none, which no comparison holds for.
                    if most.is_nan() || x.abs() <= most {
                        most
                    } else {
                        x.abs()
                    }
                });
                let inverse = 127.0 / most;
                for (i, x) in group_values.iter().enumerate() {
                    let number = (x * inverse + MAGIC).to_bits() as i8;
                    numbers[block * PANEL * GROUP + (i / 4) * 4 * PANEL + lane * 4 + i % 4] = number;
                }
                scales[block * PANEL + lane] = most / 127.0;
            }
        }
        Matrix { outputs, inputs, numbers, scales }
    }

    /// How many numbers it makes of a row.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// How many numbers a row has.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Panels of outputs; the last one is filled up with zeros.
    pub fn panels(&self) -> usize {
        self.outputs.div_ceil(PANEL)
    }

    /// Groups of inputs; the last one is filled up with zeros.
    pub fn groups(&self) -> usize {
        self.inputs.div_ceil(GROUP)
    }

    /// Numbers from one row of products to the next.
    pub fn stride(&self) -> usize {
        spread_out(self.panels() * PANEL)
    }

    /// `[panels, groups, GROUP / 4, PANEL, 4]`.
    pub fn numbers(&self) -> &[i8] {
        &self.numbers
    }

    /// One panel's numbers of one group.
    #[inline(always)]
    pub fn group(&self, panel: usize, group: usize) -> &[[i8; 4 * PANEL]; GROUP / 4] {
        &self.numbers.as_chunks().0.as_chunks().0[panel * self.groups() + group]
    }

    /// `[panels, groups, PANEL]`.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// One number of it as it is multiplied: the whole number times its scale.
    #[inline]
    pub fn at(&self, output: usize, input: usize) -> f32 {
        let block = (output / PANEL) * self.groups() + input / GROUP;
        let (lane, i) = (output % PANEL, input % GROUP);
        let number = self.numbers[block * PANEL * GROUP + (i / 4) * 4 * PANEL + lane * 4 + i % 4];
        f32::from(number) * self.scales[block * PANEL + lane]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two outputs of 65 inputs: of the first the scales are 2.54 / 127 = 0.02 and 1 / 127.
    #[test]
    fn rounding_as_worked_by_hand() {
        let mut weights = vec![0.0; 130];
        (weights[0], weights[5], weights[64], weights[65]) = (2.54, -0.5, -1.0, 127.0);
        let matrix = Matrix::new(&weights, 2, 65);
        assert_eq!((matrix.scales()[0], matrix.scales()[PANEL], matrix.scales()[1]), (0.02, 1.0 / 127.0, 1.0));
        // Input 5 of output 0: the second four inputs, the first output, the second of the four.
        assert_eq!((matrix.numbers()[0], matrix.numbers()[4 * PANEL + 1], matrix.numbers()[4]), (127, -25, 127));
        assert_eq!((matrix.stride(), matrix.panels(), matrix.groups()), (16, 1, 2));
        assert_eq!((matrix.at(0, 5), matrix.at(0, 64), matrix.at(1, 0), matrix.at(1, 1)), (-0.5, -1.0, 127.0, 0.0));
    }
}
