//! Rows rounded to 8 bits.

use super::aligned::Scratch;
use super::dense::StridedRows;
use super::isa::{Isa, Level};
use super::vectors::{sum, Vector, LANES, MAGIC};
use super::{GROUP, TILE, TILED};

/// Rows of numbers rounded to whole ones from -127 to 127, with a scale for each group of [`GROUP`] of a row.
///
/// [`TILE`] rows lie beside each other, group by group, as a tile of AMX reads them; the last ones are filled up.
#[derive(Default)]
pub struct Rounded {
    rows: usize,
    inputs: usize,
    /// Whether sums of the numbers are needed.
    summed: bool,
    numbers: Scratch<i8>,
    scales: Scratch<f32>,
    sums: Scratch<i32>,
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

    /// The numbers, `[tiles, groups, TILE, GROUP]`.
    pub fn numbers(&self) -> &[i8] {
        &self.numbers
    }

    /// The scales, `[tiles, groups, TILE]`.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// Where the groups lie whose numbers are summed up, what sums of products begin with: -128 times the sum,
    /// `[tiles, groups, TILE]`. For the instruction that multiplies numbers without a sign by numbers with one, 128 is
    /// added to each weight.
    pub fn offsets(&self) -> Option<&[i32]> {
        self.summed.then_some(&self.sums)
    }

    /// The numbers of `R` groups from `place` on, four by four, and their scales.
    #[inline(always)]
    pub fn groups_at<const R: usize>(&self, place: usize) -> (&[[[i8; 4]; GROUP / 4]; R], &[f32; R]) {
        let numbers = self.numbers[place * GROUP..].as_chunks().0.as_chunks().0.as_chunks().0;
        (&numbers[0], &self.scales[place..].as_chunks().0[0])
    }

    /// What their sums of products begin with.
    #[inline(always)]
    pub fn offsets_at<const R: usize>(&self, place: usize) -> &[i32; R] {
        &self.sums[place..].as_chunks().0[0]
    }

    /// Which of all groups, as they lie, is the group `group` of the row `row`.
    #[inline(always)]
    pub fn place(&self, row: usize, group: usize) -> usize {
        (row / TILE * self.groups() + group) * TILE + row % TILE
    }

    /// Room for `rows` rows of `inputs` numbers, for the kernel that `isa` has for so many. The old content is
    /// forgotten.
    pub fn resize(&mut self, isa: Isa, rows: usize, inputs: usize) {
        (self.rows, self.inputs) = (rows, inputs);
        self.summed = isa.vnni() || isa.level() == Level::Amx && rows < TILED;
        let groups = rows.next_multiple_of(TILE) * self.groups();
        self.numbers.resize(groups * GROUP);
        self.scales.resize(groups);
        self.sums.resize(if self.summed { groups } else { 0 });
    }

    /// Takes in row `row`: a group's scale is its largest distance from 0 over 127, and its numbers are divided by that
    /// and rounded to the nearest whole number, to the even one of two. What isn't a number makes the scale none, and
    /// so the products.
    #[inline(always)]
    pub fn take<V: Vector>(&mut self, row: usize, x: &[f32]) {
        for (number, x) in x.chunks(GROUP).enumerate() {
            let place = self.place(row, number);
            let numbers = &mut self.numbers[place * GROUP..(place + 1) * GROUP];
            let (scale, whole) = match x.as_chunks::<GROUP>().0 {
                [x] => group::<V>(x, numbers),
                _ => {
                    let mut full = [0.0; GROUP];
                    full[..x.len()].copy_from_slice(x);
                    group::<V>(&full, numbers)
                }
            };
            self.scales[place] = scale;
            if self.summed {
                self.sums[place] = -128 * sum(whole.lanes()) as i32;
            }
        }
    }

    /// Takes what row `row` was rounded to away from `x`, which it was made of.
    #[inline(always)]
    pub fn leave(&self, row: usize, x: &mut [f32]) {
        for (number, x) in x.chunks_mut(GROUP).enumerate() {
            let place = self.place(row, number);
            let scale = -self.scales[place];
            for (x, number) in x.iter_mut().zip(&self.numbers[place * GROUP..(place + 1) * GROUP]) {
                *x = f32::from(*number).mul_add(scale, *x);
            }
        }
    }
}

/// Rounds one group into `numbers`, and gives its scale and sums of them, which are whole numbers.
#[inline(always)]
fn group<V: Vector>(x: &[f32; GROUP], numbers: &mut [i8]) -> (f32, V) {
    let parts: [V; GROUP / LANES] = std::array::from_fn(|i| V::load(&x[i * LANES..]));
    let most = parts[0].magnitude().larger(parts[1].magnitude()).larger(parts[2].magnitude().larger(parts[3].magnitude()));
    // As whole numbers, the bits of numbers above 0 are in the numbers' order, with NaN above all.
    let most = f32::from_bits(most.lanes().into_iter().fold(0, |most, x| most.max(x.to_bits())));
    let (inverse, magic) = (V::splat(127.0 / most), V::splat(MAGIC));
    let mut sums = V::splat(0.0);
    for (part, numbers) in parts.into_iter().zip(numbers.chunks_exact_mut(LANES)) {
        let shifted = part.mul(inverse).add(magic);
        shifted.low_bytes(numbers);
        sums = sums.add(shifted.sub(magic));
    }
    (most / 127.0, sums)
}

vectorised! {
    /// Takes in the rows `x`.
    pub fn round(x: StridedRows, rounded: &mut Rounded) {
        let inputs = rounded.inputs();
        for row in 0..rounded.rows() {
            rounded.take::<V>(row, &x.numbers[row * x.stride..row * x.stride + inputs]);
        }
    }

    /// Takes what rows of `x`, `stride` from one another, were rounded to away from them.
    pub fn leave(x: &mut [f32], stride: usize, rounded: &Rounded) {
        let inputs = rounded.inputs();
        for row in 0..rounded.rows() {
            rounded.leave(row, &mut x[row * stride..row * stride + inputs]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::Plain;
    use super::*;

    /// The largest is -2.54, so the scale is 0.02: 1 becomes 50, 0.03 is between 1 and 2 and becomes the even one.
    #[test]
    fn rounding_as_worked_by_hand() {
        let mut rounded = Rounded::default();
        rounded.resize(Isa::PLAIN, 1, 70);
        let mut x = [0.0; 70];
        x[..4].copy_from_slice(&[-2.54, 1.0, 0.5, -0.02]);
        x[64] = 3.0;
        rounded.take::<Plain>(0, &x);
        assert_eq!(rounded.numbers()[..5], [-127, 50, 25, -1, 0]);
        assert_eq!((rounded.scales()[0], rounded.numbers()[TILE * GROUP], rounded.numbers().len()), (0.02, 127, 2 * TILE * GROUP));
        let mut left = x;
        rounded.leave(0, &mut left);
        assert!(left.iter().all(|left| left.abs() < 1e-6), "all of these are whole numbers of their scales: {left:?}");
        (x[1], x[2]) = (1.004, 0.5);
        left = x;
        rounded.leave(0, &mut left);
        assert!((left[1] - 0.004).abs() < 1e-6 && left[2].abs() < 1e-6);
        x[3] = f32::NAN;
        rounded.take::<Plain>(0, &x);
        assert!(rounded.scales()[0].is_nan() && rounded.scales()[TILE] == 3.0 / 127.0);
    }
}
