//! Rows rounded to 8 bits.

use super::isa::Isa;
use super::vectors::MAGIC;
use super::{GROUP, TILED};

/// Rows of numbers rounded to whole ones from -127 to 127, with a scale for each group of [`GROUP`] of a row.
///
/// For the instructions that multiply numbers without a sign by numbers with one, 128 is added to each of them; see
/// [`super::matrix::Matrix::offsets`].
#[derive(Default)]
pub struct Rounded {
    /// What is added to each number: 0 or 128.
    added: u8,
    rows: usize,
    inputs: usize,
    bytes: Vec<u8>,
    scales: Vec<f32>,
}

impl Rounded {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many numbers a row has.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Groups of a row; the last one is filled up with zeros.
    pub fn groups(&self) -> usize {
        self.inputs.div_ceil(GROUP)
    }

    /// What is added to each number: 0, or 128.
    pub fn added(&self) -> u8 {
        self.added
    }

    /// The bytes, `[rows, groups * GROUP]`.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The scales, `[rows, groups]`.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// Room for `rows` rows of `inputs` numbers, whatever was there before, in the form in which `isa` multiplies so many.
    pub fn resize(&mut self, isa: Isa, rows: usize, inputs: usize) {
        (self.rows, self.inputs) = (rows, inputs);
        self.added = if isa == Isa::Amx && rows >= TILED { 0 } else { 128 };
        self.bytes.resize(rows * self.groups() * GROUP, 0);
        self.scales.resize(rows * self.groups(), 0.0);
    }

    /// Takes in row `row`: a group's scale is its largest distance from 0 over 127, and its numbers are divided by that and rounded to the
    /// nearest whole number, to the even one of two. What isn't a number makes the scale none, and so the products.
    #[inline(always)]
    pub fn take(&mut self, row: usize, x: &[f32]) {
        let added = self.added;
        let groups = self.groups();
        let bytes = &mut self.bytes[row * groups * GROUP..(row + 1) * groups * GROUP];
        let scales = &mut self.scales[row * groups..(row + 1) * groups];
        for ((x, bytes), scale) in x.chunks(GROUP).zip(bytes.chunks_exact_mut(GROUP)).zip(scales) {
            let full: &[f32; GROUP] = match x.try_into() {
                Ok(full) => full,
                Err(_) => {
                    let mut full = [0.0; GROUP];
                    full[..x.len()].copy_from_slice(x);
                    *scale = group(&full, added, bytes);
                    continue;
                }
            };
            *scale = group(full, added, bytes);
        }
    }

    /// Takes what row `row` was rounded to away from `x`, which it was made of.
    #[inline(always)]
    pub fn leave(&self, row: usize, x: &mut [f32]) {
        let groups = self.groups();
        let bytes = &self.bytes[row * groups * GROUP..(row + 1) * groups * GROUP];
        let scales = &self.scales[row * groups..(row + 1) * groups];
        for ((x, bytes), scale) in x.chunks_mut(GROUP).zip(bytes.chunks_exact(GROUP)).zip(scales) {
            for (x, byte) in x.iter_mut().zip(bytes) {
                *x = f32::from(byte.wrapping_sub(self.added) as i8).mul_add(-scale, *x);
            }
        }
    }
}

/// Rounds one group into `bytes`, and gives its scale.
#[inline(always)]
fn group(x: &[f32; GROUP], added: u8, bytes: &mut [u8]) -> f32 {
    // As whole numbers, the bits of numbers above 0 are in the numbers' order, with those of what isn't a number above all.
    let mut most = [0u32; 16];
    for part in x.chunks_exact(16) {
        for (most, x) in most.iter_mut().zip(part) {
            *most = (*most).max(x.to_bits() & 0x7fff_ffff);
        }
    }
    let most = f32::from_bits(most.into_iter().fold(0, u32::max));
    let inverse = 127.0 / most;
    for (byte, x) in bytes.iter_mut().zip(x) {
        *byte = ((x * inverse + MAGIC).to_bits() as u8).wrapping_add(added);
    }
    most / 127.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest is -2.54, so the scale is 0.02: 1 becomes 50, 0.03 is between 1 and 2 and becomes the even one.
    #[test]
    fn rounding_as_worked_by_hand() {
        let mut rounded = Rounded::default();
        rounded.resize(Isa::Plain, 1, 70);
        let mut x = [0.0; 70];
        x[..4].copy_from_slice(&[-2.54, 1.0, 0.5, -0.02]);
        x[64] = 3.0;
        rounded.take(0, &x);
        assert_eq!(rounded.bytes()[..5].iter().map(|&byte| i32::from(byte) - 128).collect::<Vec<_>>(), [-127, 50, 25, -1, 0]);
        assert_eq!((rounded.scales()[0], rounded.bytes()[64], rounded.bytes().len()), (0.02, 255, 128));
        let mut left = x;
        rounded.leave(0, &mut left);
        assert!(left.iter().all(|left| left.abs() < 1e-6), "all of these are whole numbers of their scales: {left:?}");
        (x[1], x[2]) = (1.004, 0.5);
        left = x;
        rounded.leave(0, &mut left);
        assert!((left[1] - 0.004).abs() < 1e-6 && left[2].abs() < 1e-6);
        x[3] = f32::NAN;
        rounded.take(0, &x);
        assert!(rounded.scales()[0].is_nan() && rounded.scales()[1] == 3.0 / 127.0);
    }
}
