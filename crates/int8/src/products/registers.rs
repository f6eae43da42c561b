//! [`Vector`]s of the CPU.
//!
//! Values of these types are made and used in functions alone that `vectorised` compiles for their instructions, and
//! calls where the CPU has them, as an [`super::isa::Isa`] says; a test sees that nothing else names this module
//! (tests/it/house.rs). So every `unsafe` below is sound for one reason: the instruction is there, and lists are as
//! long as what is read or written, which is checked.

use super::vectors::{Vector, LANES, LARGEST_HALF, MAGIC};
use std::arch::x86_64::*;

/// A register of AVX-512.
#[derive(Clone, Copy)]
pub struct Avx512(__m512);

/// Two registers of AVX; with `VNNI` beside its instruction for 8 bits.
#[derive(Clone, Copy)]
pub struct Avx2<const VNNI: bool>(__m256, __m256);

/// Operations of one instruction each, on one register or on two halves.
macro_rules! operations {
    ($($name:ident($($b:ident),+): $instruction:ident),+) => {$(
        #[inline(always)]
        fn $name(self, $($b: Self),+) -> Self {
            // SAFETY: as the module says.
            Avx512(unsafe { $instruction(self.0, $($b.0),+) })
        }
    )+};
    (halves $($name:ident($($b:ident),+): $instruction:ident),+) => {$(
        #[inline(always)]
        fn $name(self, $($b: Self),+) -> Self {
            // SAFETY: as the module says.
            unsafe { Avx2($instruction(self.0, $($b.0),+), $instruction(self.1, $($b.1),+)) }
        }
    )+};
}

impl Vector for Avx512 {
    const MANY: bool = true;
    const OFFSET: bool = true;
    type Sums = __m512i;
    type Fours = __m512i;

    #[inline(always)]
    fn begin(offset: i32) -> __m512i {
        // SAFETY: as the module says.
        unsafe { _mm512_set1_epi32(offset) }
    }
    /// 128 is added to each, its highest bit turned round, since one side of the instruction has no sign.
    #[inline(always)]
    fn fours(from: &[i8; 4 * LANES]) -> __m512i {
        // SAFETY: as the module says.
        unsafe { _mm512_xor_si512(_mm512_loadu_si512(from.as_ptr().cast()), _mm512_set1_epi8(-128)) }
    }
    #[inline(always)]
    fn dot(sums: __m512i, fours: __m512i, own: [i8; 4]) -> __m512i {
        // SAFETY: as the module says.
        unsafe { _mm512_dpbusd_epi32(sums, fours, _mm512_set1_epi32(i32::from_ne_bytes(own.map(|x| x as u8)))) }
    }
    #[inline(always)]
    fn of(sums: __m512i) -> Self {
        // SAFETY: as the module says.
        Avx512(unsafe { _mm512_cvtepi32_ps(sums) })
    }
    #[inline(always)]
    fn fetch(from: &[i8], ahead: usize) {
        // SAFETY: the instruction is a hint, of any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.as_ptr().wrapping_add(ahead)) }
    }

    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: as the module says.
        Avx512(unsafe { _mm512_set1_ps(x) })
    }
    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        // SAFETY: as the module says.
        Avx512(unsafe { _mm512_loadu_ps(from[..LANES].as_ptr()) })
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        // SAFETY: as the module says.
        unsafe { _mm512_storeu_ps(to[..LANES].as_mut_ptr(), self.0) }
    }
    operations!(fma(b, c): _mm512_fmadd_ps, add(b): _mm512_add_ps, sub(b): _mm512_sub_ps, mul(b): _mm512_mul_ps);
    operations!(max(b): _mm512_max_ps, min(b): _mm512_min_ps);

    #[inline(always)]
    fn power(self) -> Self {
        // SAFETY: as the module says.
        unsafe {
            let whole = _mm512_add_epi32(_mm512_castps_si512(self.0), _mm512_set1_epi32(127 - MAGIC.to_bits() as i32));
            Avx512(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(whole)))
        }
    }
    #[inline(always)]
    fn load_half(from: &[u16; LANES]) -> Self {
        // SAFETY: as the module says.
        Avx512(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) })
    }
    #[inline(always)]
    fn half(self) -> [u16; LANES] {
        let mut half = [0; LANES];
        let x = self.min(Self::splat(LARGEST_HALF)).max(Self::splat(-LARGEST_HALF));
        // SAFETY: as the module says.
        unsafe { _mm256_storeu_si256(half.as_mut_ptr().cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x.0)) }
        half
    }
    #[inline(always)]
    fn magnitude(self) -> Self {
        // SAFETY: as the module says.
        Avx512(unsafe { _mm512_abs_ps(self.0) })
    }
    #[inline(always)]
    fn larger(self, b: Self) -> Self {
        // SAFETY: as the module says.
        Avx512(unsafe { _mm512_castsi512_ps(_mm512_max_epu32(_mm512_castps_si512(self.0), _mm512_castps_si512(b.0))) })
    }
    #[inline(always)]
    fn low_bytes(self, to: &mut [i8]) {
        // SAFETY: as the module says.
        unsafe { _mm_storeu_si128(to[..LANES].as_mut_ptr().cast(), _mm512_cvtepi32_epi8(_mm512_castps_si512(self.0))) }
    }
}

impl<const VNNI: bool> Vector for Avx2<VNNI> {
    const MANY: bool = false;
    const OFFSET: bool = VNNI;
    type Sums = (__m256i, __m256i);
    type Fours = (__m256i, __m256i);

    #[inline(always)]
    fn begin(offset: i32) -> Self::Sums {
        // SAFETY: as the module says.
        unsafe { (_mm256_set1_epi32(offset), _mm256_set1_epi32(offset)) }
    }
    #[inline(always)]
    fn fours(from: &[i8; 4 * LANES]) -> Self::Fours {
        let at = from.as_ptr().cast::<__m256i>();
        // SAFETY: as the module says.
        unsafe {
            // Turned round as above.
            let half = |x| if VNNI { _mm256_xor_si256(x, _mm256_set1_epi8(-128)) } else { x };
            (half(_mm256_loadu_si256(at)), half(_mm256_loadu_si256(at.add(1))))
        }
    }
    /// Without VNNI the row's numbers give their signs to the others: so no sum of two products is above 2 x 127^2,
    /// where the instruction would saturate.
    #[inline(always)]
    fn dot(sums: Self::Sums, fours: Self::Fours, own: [i8; 4]) -> Self::Sums {
        // SAFETY: as the module says.
        unsafe {
            let own = _mm256_set1_epi32(i32::from_ne_bytes(own.map(|x| x as u8)));
            let half = |sums, fours| {
                if VNNI {
                    return _mm256_dpbusd_avx_epi32(sums, fours, own);
                }
                let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(own), _mm256_sign_epi8(fours, own));
                _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
            };
            (half(sums.0, fours.0), half(sums.1, fours.1))
        }
    }
    #[inline(always)]
    fn of(sums: Self::Sums) -> Self {
        // SAFETY: as the module says.
        unsafe { Avx2(_mm256_cvtepi32_ps(sums.0), _mm256_cvtepi32_ps(sums.1)) }
    }
    #[inline(always)]
    fn fetch(from: &[i8], ahead: usize) {
        // SAFETY: the instruction is a hint, of any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.as_ptr().wrapping_add(ahead)) }
    }

    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: as the module says.
        unsafe { Avx2(_mm256_set1_ps(x), _mm256_set1_ps(x)) }
    }
    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        let (a, b) = from[..LANES].split_at(LANES / 2);
        // SAFETY: as the module says.
        unsafe { Avx2(_mm256_loadu_ps(a.as_ptr()), _mm256_loadu_ps(b.as_ptr())) }
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        let (a, b) = to[..LANES].split_at_mut(LANES / 2);
        // SAFETY: as the module says.
        unsafe {
            _mm256_storeu_ps(a.as_mut_ptr(), self.0);
            _mm256_storeu_ps(b.as_mut_ptr(), self.1);
        }
    }
    operations!(halves fma(b, c): _mm256_fmadd_ps, add(b): _mm256_add_ps, sub(b): _mm256_sub_ps, mul(b): _mm256_mul_ps);
    operations!(halves max(b): _mm256_max_ps, min(b): _mm256_min_ps);

    #[inline(always)]
    fn power(self) -> Self {
        // SAFETY: as the module says.
        unsafe {
            let whole = _mm256_set1_epi32(127 - MAGIC.to_bits() as i32);
            let half = |x| _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_castps_si256(x), whole)));
            Avx2(half(self.0), half(self.1))
        }
    }
    #[inline(always)]
    fn load_half(from: &[u16; LANES]) -> Self {
        // SAFETY: as the module says.
        unsafe {
            let half = |at: usize| _mm256_cvtph_ps(_mm_loadu_si128(from[at..at + 8].as_ptr().cast()));
            Avx2(half(0), half(8))
        }
    }
    #[inline(always)]
    fn half(self) -> [u16; LANES] {
        let mut half = [0; LANES];
        let x = self.min(Self::splat(LARGEST_HALF)).max(Self::splat(-LARGEST_HALF));
        // SAFETY: as the module says.
        unsafe {
            _mm_storeu_si128(half[..8].as_mut_ptr().cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x.0));
            _mm_storeu_si128(half[8..].as_mut_ptr().cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x.1));
        }
        half
    }
    #[inline(always)]
    fn magnitude(self) -> Self {
        // SAFETY: as the module says.
        unsafe {
            let sign = _mm256_set1_ps(-0.0);
            Avx2(_mm256_andnot_ps(sign, self.0), _mm256_andnot_ps(sign, self.1))
        }
    }
    #[inline(always)]
    fn larger(self, b: Self) -> Self {
        // SAFETY: as the module says.
        unsafe {
            let half = |a, b| _mm256_castsi256_ps(_mm256_max_epu32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
            Avx2(half(self.0, b.0), half(self.1, b.1))
        }
    }
    #[inline(always)]
    fn low_bytes(self, to: &mut [i8]) {
        let to = &mut to[..LANES];
        // SAFETY: as the module says.
        unsafe {
            // The lowest bytes of each four numbers, side by side, and then the fours.
            let fours = _mm256_set1_epi32(0x0c08_0400);
            let half = |x: __m256| {
                let bytes = _mm256_shuffle_epi8(_mm256_castps_si256(x), fours);
                (_mm256_extract_epi32::<0>(bytes), _mm256_extract_epi32::<4>(bytes))
            };
            let ((a, b), (c, d)) = (half(self.0), half(self.1));
            _mm_storeu_si128(to.as_mut_ptr().cast(), _mm_set_epi32(d, c, b, a));
        }
    }
}
