//! Loops over numbers that give the same bits whatever the CPU's vectors are: one source, compiled for each set of
//! instructions.
//!
//! A sum goes through [`LANES`] sums beside each other, which are added up in pairs at the end, so its order is the
//! same in vectors of any width. A product and a sum are either one operation with one rounding (`mul_add`) or two,
//! never left to the compiler.

/// Sums beside each other.
pub const LANES: usize = 16;
/// Numbers beside each other.
pub type Lanes = [f32; LANES];

/// [`LANES`] numbers in the CPU's registers. Each operation is done lane by lane, with one rounding.
pub trait Vector: Copy {
    /// Whether the CPU holds some thirty of them at a time.
    const MANY: bool;
    fn splat(x: f32) -> Self;
    /// Loads the first [`LANES`] numbers of a list.
    fn load(from: &[f32]) -> Self;
    /// Stores into the first [`LANES`] numbers of a list.
    fn store(self, to: &mut [f32]);
    /// self * b + c, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    /// self where it is more than b, else b.
    fn max(self, b: Self) -> Self;
    /// self where it is less than b, else b.
    fn min(self, b: Self) -> Self;
    /// 2 to the power of the whole numbers n, of n + [`MAGIC`].
    fn power(self) -> Self;
    /// Loads numbers in f16, which become f32 without rounding.
    fn load_half(from: &[u16; LANES]) -> Self;
    /// In f16: rounded to the nearest, the even one of two, and what is too large for it to the largest.
    fn half(self) -> [u16; LANES];
    /// Without their signs.
    fn magnitude(self) -> Self;
    /// The larger of two, whose bits are compared as whole numbers: of numbers without signs the larger number, or NaN
    /// if one is NaN.
    fn larger(self, b: Self) -> Self;
    /// Puts the lowest byte of each down: of n + [`MAGIC`] the whole number n.
    fn low_bytes(self, to: &mut [i8]);

    /// Whether 128 more is multiplied for each number of a matrix, which is in the offset of the sums.
    const OFFSET: bool;
    /// [`LANES`] sums of products of whole numbers.
    type Sums: Copy;
    /// Four whole numbers each of [`LANES`] outputs.
    type Fours: Copy;
    /// Sums that begin with `offset`.
    fn begin(offset: i32) -> Self::Sums;
    fn fours(from: &[i8; 4 * LANES]) -> Self::Fours;
    /// The sums with the products of each four numbers with `own` added; all are from -127 to 127.
    fn dot(sums: Self::Sums, fours: Self::Fours, own: [i8; 4]) -> Self::Sums;
    /// As numbers, without rounding where they are below 2^24.
    fn of(sums: Self::Sums) -> Self;
    /// Says that what lies `ahead` bytes behind the first of `from` will be read.
    fn fetch(from: &[i8], ahead: usize);

    /// See [`exp`].
    #[inline(always)]
    fn exp(self) -> Self {
        let x = Self::splat(LOWEST).max(self);
        let x = Self::splat(HIGHEST).min(x);
        let shifted = x.fma(Self::splat(std::f32::consts::LOG2_E), Self::splat(MAGIC));
        let n = shifted.sub(Self::splat(MAGIC));
        let r = n.fma(Self::splat(LN_2[1]), n.fma(Self::splat(LN_2[0]), x));
        let mut p = Self::splat(POLYNOMIAL[0]);
        for c in &POLYNOMIAL[1..] {
            p = p.fma(r, Self::splat(*c));
        }
        p.mul(r).fma(r, r.add(Self::splat(1.0))).mul(shifted.power())
    }

    #[inline(always)]
    fn lanes(self) -> Lanes {
        let mut lanes = [0.0; LANES];
        self.store(&mut lanes);
        lanes
    }
}

/// Portable arithmetic, where the CPU has no wider vectors.
#[derive(Clone, Copy)]
pub struct Plain(Lanes);

macro_rules! lane_by_lane {
    ($($name:ident: $of:expr),+) => {$(
        #[inline(always)]
        fn $name(self, b: Plain) -> Plain {
            Plain(std::array::from_fn(|lane| ($of)(self.0[lane], b.0[lane])))
        }
    )+};
}

impl Vector for Plain {
    const MANY: bool = false;
    const OFFSET: bool = false;
    type Sums = [i32; LANES];
    type Fours = [[i8; 4]; LANES];

    #[inline(always)]
    fn begin(offset: i32) -> [i32; LANES] {
        [offset; LANES]
    }
    #[inline(always)]
    fn fours(from: &[i8; 4 * LANES]) -> [[i8; 4]; LANES] {
        std::array::from_fn(|lane| std::array::from_fn(|i| from[4 * lane + i]))
    }
    #[inline(always)]
    fn dot(sums: [i32; LANES], fours: [[i8; 4]; LANES], own: [i8; 4]) -> [i32; LANES] {
        std::array::from_fn(|lane| (0..4).fold(sums[lane], |sum, i| sum + i32::from(fours[lane][i]) * i32::from(own[i])))
    }
    #[inline(always)]
    fn of(sums: [i32; LANES]) -> Plain {
        Plain(sums.map(|sum| sum as f32))
    }
    #[inline(always)]
    fn fetch(_: &[i8], _: usize) {}

    #[inline(always)]
    fn splat(x: f32) -> Plain {
        Plain([x; LANES])
    }
    #[inline(always)]
    fn load(from: &[f32]) -> Plain {
        Plain(std::array::from_fn(|lane| from[lane]))
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        to[..LANES].copy_from_slice(&self.0);
    }
    #[inline(always)]
    fn fma(self, b: Plain, c: Plain) -> Plain {
        Plain(std::array::from_fn(|lane| self.0[lane].mul_add(b.0[lane], c.0[lane])))
    }
    lane_by_lane!(add: |a, b| a + b, sub: |a, b| a - b, mul: |a, b| a * b);
    lane_by_lane!(max: |a, b| if a > b { a } else { b }, min: |a, b| if a < b { a } else { b });
    lane_by_lane!(larger: |a: f32, b: f32| f32::from_bits(a.to_bits().max(b.to_bits())));

    #[inline(always)]
    fn power(self) -> Plain {
        Plain(self.0.map(power))
    }
    #[inline(always)]
    fn load_half(from: &[u16; LANES]) -> Plain {
        Plain(from.map(|bits| half::f16::from_bits(bits).to_f32()))
    }
    #[inline(always)]
    fn half(self) -> [u16; LANES] {
        self.0.map(|x| half::f16::from_f32(x.clamp(-LARGEST_HALF, LARGEST_HALF)).to_bits())
    }
    #[inline(always)]
    fn magnitude(self) -> Plain {
        Plain(self.0.map(f32::abs))
    }
    #[inline(always)]
    fn low_bytes(self, to: &mut [i8]) {
        to[..LANES].iter_mut().zip(self.0).for_each(|(to, x)| *to = x.to_bits() as i8);
    }
}

/// The lanes added up: the second half to the first, and so on.
#[inline(always)]
pub fn sum(lanes: Lanes) -> f32 {
    let eight: [f32; 8] = std::array::from_fn(|i| lanes[i] + lanes[i + 8]);
    let four: [f32; 4] = std::array::from_fn(|i| eight[i] + eight[i + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

/// The sum of the products of two lists of one length.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (mut a, mut b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    for (a, b) in a.by_ref().zip(b.by_ref()) {
        for i in 0..LANES {
            lanes[i] = a[i].mul_add(b[i], lanes[i]);
        }
    }
    for (i, (a, b)) in a.remainder().iter().zip(b.remainder()).enumerate() {
        lanes[i] = a.mul_add(*b, lanes[i]);
    }
    sum(lanes)
}

/// Added to a number below 2^22 it leaves the number, rounded to the nearest whole one (the even one of two), in the
/// lowest bits.
pub const MAGIC: f32 = 12_582_912.0;
/// The largest number in f16.
pub const LARGEST_HALF: f32 = 65504.0;
/// The range of exponents; beyond it the exponential is that of the nearest end.
const LOWEST: f32 = -87.3;
const HIGHEST: f32 = 88.3;
/// Less the logarithm of 2, in two parts; the first has few digits.
const LN_2: [f32; 2] = [-0.693_359_4, 2.121_944_4e-4];
/// Of Cephes, for the remainder of a power of 2.
const POLYNOMIAL: [f32; 6] = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];

#[inline(always)]
fn power(shifted: f32) -> f32 {
    f32::from_bits(shifted.to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add(127) << 23)
}

/// e to the power of `x`, within 2 units of the last place (the polynomial of Cephes); of less than -87.3 what it is
/// there, of more than 88.3 likewise; NaN of NaN.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let x = if LOWEST > x { LOWEST } else { x };
    let x = if HIGHEST < x { HIGHEST } else { x };
    let shifted = x.mul_add(std::f32::consts::LOG2_E, MAGIC);
    let n = shifted - MAGIC;
    let r = n.mul_add(LN_2[1], n.mul_add(LN_2[0], x));
    let mut p = POLYNOMIAL[0];
    for c in &POLYNOMIAL[1..] {
        p = p.mul_add(r, *c);
    }
    (p * r).mul_add(r, r + 1.0) * power(shifted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::products::isa::Isa;

    #[test]
    fn exponentials_are_those_of_the_standard_library() {
        for i in -8600..8800 {
            let x = i as f32 / 100.0;
            assert!((f64::from(exp(x)) / f64::from(x).exp() - 1.0).abs() < 3e-7, "{x}: {} {}", exp(x), x.exp());
        }
        assert!(exp(f32::NAN).is_nan() && exp(f32::NEG_INFINITY) < 1.3e-38 && exp(0.0) == 1.0);
    }

    vectorised! {
        fn through_half(x: &[f32]) -> Vec<f32> {
            x.as_chunks::<LANES>().0.iter().flat_map(|x| V::load_half(&V::load(x).half()).lanes()).collect()
        }
    }

    /// 1 + 2^-11 is in the middle of two numbers in f16 and becomes the even one, 1; the largest is 65504, the smallest
    /// 2^-24.
    #[test]
    fn f16_is_rounded_alike_everywhere() {
        let smallest = 2f32.powi(-24);
        let mut x = vec![1.0 + 2f32.powi(-11), 1.0 + 3.0 * 2f32.powi(-11), 1e6, -1e6, 0.6 * smallest, 0.5 * smallest, -0.0, f32::INFINITY];
        x.extend((0..1016).map(|i| (i as f32 - 500.0) * 1.37f32.powi(i % 40 - 20)));
        let expected = through_half(Isa::PLAIN, &x);
        let by_hand = [1.0, 1.0 + 2f32.powi(-9), 65504.0, -65504.0, smallest, 0.0, -0.0, 65504.0];
        assert!(expected[..8].iter().zip(by_hand).all(|(a, b)| a.to_bits() == b.to_bits()), "{:?}", &expected[..8]);
        for isa in Isa::available() {
            assert!(through_half(isa, &x).iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{isa}");
        }
    }

    #[test]
    fn a_sum_is_that_of_its_parts() {
        let a: Vec<f32> = (0..37).map(|i| i as f32).collect();
        assert_eq!(dot(&a, &[2.0; 37]), 37.0 * 36.0);
        assert_eq!(sum(std::array::from_fn(|i| i as f32)), 120.0);
    }
}
