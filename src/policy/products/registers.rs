//! [`Vector`]s of the processor.
//!
//! Values of these types are made and used in functions alone that [`super::vectors::vectorised`] compiles for their instructions, and calls where
//! the processor has them; what each function here does is that. So every `unsafe` below is sound for one reason: the instruction is there, and
//! lists are as long as what is read or written, which is checked.

use super::vectors::{Vector, LANES, MAGIC};
use std::arch::x86_64::*;

/// A register of AVX-512.
#[derive(Clone, Copy)]
pub struct Avx512(__m512);

/// Two registers of AVX.
#[derive(Clone, Copy)]
pub struct Avx2(__m256, __m256);

impl Vector for Avx512 {
    const MANY: bool = true;

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
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: as the module says.
        Avx512(unsafe { _mm512_fmadd_ps(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: as the module says.
        Avx512(unsafe { _mm512_add_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: as the module says.
        Avx512(unsafe { _mm512_sub_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: as the module says.
        Avx512(unsafe { _mm512_mul_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        // SAFETY: as the module says.
        Avx512(unsafe { _mm512_max_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn min(self, b: Self) -> Self {
        // SAFETY: as the module says.
        Avx512(unsafe { _mm512_min_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn power(self) -> Self {
        // SAFETY: as the module says.
        unsafe {
            let whole = _mm512_add_epi32(_mm512_castps_si512(self.0), _mm512_set1_epi32(127 - MAGIC.to_bits() as i32));
            Avx512(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(whole)))
        }
    }
}

impl Vector for Avx2 {
    const MANY: bool = false;

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
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: as the module says.
        unsafe { Avx2(_mm256_fmadd_ps(self.0, b.0, c.0), _mm256_fmadd_ps(self.1, b.1, c.1)) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: as the module says.
        unsafe { Avx2(_mm256_add_ps(self.0, b.0), _mm256_add_ps(self.1, b.1)) }
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: as the module says.
        unsafe { Avx2(_mm256_sub_ps(self.0, b.0), _mm256_sub_ps(self.1, b.1)) }
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: as the module says.
        unsafe { Avx2(_mm256_mul_ps(self.0, b.0), _mm256_mul_ps(self.1, b.1)) }
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        // SAFETY: as the module says.
        unsafe { Avx2(_mm256_max_ps(self.0, b.0), _mm256_max_ps(self.1, b.1)) }
    }
    #[inline(always)]
    fn min(self, b: Self) -> Self {
        // SAFETY: as the module says.
        unsafe { Avx2(_mm256_min_ps(self.0, b.0), _mm256_min_ps(self.1, b.1)) }
    }
    #[inline(always)]
    fn power(self) -> Self {
        // SAFETY: as the module says.
        unsafe {
            let whole = _mm256_set1_epi32(127 - MAGIC.to_bits() as i32);
            let half = |x| _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_castps_si256(x), whole)));
            Avx2(half(self.0), half(self.1))
        }
    }
}
