//! Loops over numbers that give the same bits whatever the processor's vectors are: one source, compiled for each set of instructions.
//!
//! A sum goes through [`LANES`] sums beside each other, which are added up in pairs at the end, so its order is the same in vectors of any
//! width. A product and a sum are either one operation with one rounding (`mul_add`) or two, never left to the compiler.

/// Sums beside each other.
pub const LANES: usize = 16;
/// Numbers beside each other.
pub type Lanes = [f32; LANES];

/// Defines functions whose first argument is the [`super::isa::Isa`] that they are compiled for.
macro_rules! vectorised {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $made:ty)? $body:block)*) => {$(
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name(isa: $crate::policy::products::isa::Isa, $($arg: $type),*) $(-> $made)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn plain($($arg: $type),*) $(-> $made)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            fn avx2($($arg: $type),*) $(-> $made)? { plain($($arg),*) }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            fn avx512($($arg: $type),*) $(-> $made)? { plain($($arg),*) }
            use $crate::policy::products::isa::Isa;
            match isa {
                Isa::Plain => plain($($arg),*),
                // SAFETY: an `Isa` other than `Plain` is only chosen where the processor has its instructions.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Amx => unsafe { avx512($($arg),*) },
                #[cfg(not(target_arch = "x86_64"))]
                _ => plain($($arg),*),
            }
        }
    )*};
}
pub(crate) use vectorised;

/// The lanes added up: the second half to the first, and so on.
#[inline(always)]
pub fn sum(mut lanes: Lanes) -> f32 {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
    }
    lanes[0]
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

/// Added to a number below 2^22 it leaves the number, rounded to the nearest whole one (the even one of two), in the lowest bits.
pub const MAGIC: f32 = 12_582_912.0;

/// e to the power of `x`, within 2 units of the last place (the polynomial of Cephes); of less than -87.3 what it is there, of more than 88.3
/// likewise; none of what is no number.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let x = if x < -87.3 { -87.3 } else { x };
    let x = if x > 88.3 { 88.3 } else { x };
    let shifted = x.mul_add(std::f32::consts::LOG2_E, MAGIC);
    let n = shifted - MAGIC;
    let r = n.mul_add(2.121_944_4e-4, n.mul_add(-0.693_359_4, x));
    let p = 1.987_569_1e-4f32;
    let p = p.mul_add(r, 1.398_199_9e-3);
    let p = p.mul_add(r, 8.333_452e-3);
    let p = p.mul_add(r, 4.166_579_6e-2);
    let p = p.mul_add(r, 1.666_666_5e-1);
    let p = p.mul_add(r, 5.000_000_1e-1);
    let power = f32::from_bits(shifted.to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add(127) << 23);
    (p * r).mul_add(r, r + 1.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_those_of_the_standard_library() {
        for i in -8600..8800 {
            let x = i as f32 / 100.0;
            assert!((f64::from(exp(x)) / f64::from(x).exp() - 1.0).abs() < 3e-7, "{x}: {} {}", exp(x), x.exp());
        }
        assert!(exp(f32::NAN).is_nan() && exp(f32::NEG_INFINITY) < 1.3e-38 && exp(0.0) == 1.0);
    }

    #[test]
    fn a_sum_is_that_of_its_parts() {
        let a: Vec<f32> = (0..37).map(|i| i as f32).collect();
        assert_eq!(dot(&a, &vec![2.0; 37]), 37.0 * 36.0);
        assert_eq!(sum(std::array::from_fn(|i| i as f32)), 120.0);
    }
}
