//! The products with AVX2: 16 bits are multiplied, since the instruction that multiplies 8 saturates.

use super::matrix::Matrix;
use super::rounded::Rounded;
use super::{GROUP, PANEL};
use std::arch::x86_64::*;

/// See [`super::product`].
///
/// # Safety
/// The processor has AVX2 and FMA; sizes are those that [`super::product`] checks.
#[target_feature(enable = "avx2,fma")]
pub unsafe fn product(x: &Rounded, matrix: &Matrix, y: &mut [f32]) {
    let groups = matrix.groups();
    let (rows, numbers, scales) = (x.numbers().as_ptr(), matrix.numbers().as_ptr(), matrix.scales().as_ptr());
    for panel in 0..matrix.panels() {
        for row in 0..x.rows() {
            // Eight outputs each.
            let mut sums = [_mm256_setzero_ps(); 2];
            for group in 0..groups {
                let block = panel * groups + group;
                let place = x.place(row, group);
                let four = rows.add(place * GROUP) as *const i32;
                let from = numbers.add(block * PANEL * GROUP);
                // Sums of two products each, of four outputs a vector; added up in pairs below.
                let mut pairs = [_mm256_setzero_si256(); 4];
                for k in 0..GROUP / 4 {
                    let own = _mm256_cvtepi8_epi16(_mm_set1_epi32(four.add(k).read_unaligned()));
                    for (part, pairs) in pairs.iter_mut().enumerate() {
                        let theirs = _mm256_cvtepi8_epi16(_mm_loadu_si128(from.add(k * 4 * PANEL + 16 * part) as *const _));
                        *pairs = _mm256_add_epi32(*pairs, _mm256_madd_epi16(own, theirs));
                    }
                }
                let scale = _mm256_set1_ps(x.scales()[place]);
                for (half, sum) in sums.iter_mut().enumerate() {
                    // Outputs 0 1 4 5 2 3 6 7 of the eight, brought into their order.
                    let mixed = _mm256_hadd_epi32(pairs[2 * half], pairs[2 * half + 1]);
                    let whole = _mm256_permute4x64_epi64::<0b11_01_10_00>(mixed);
                    let at = block * PANEL + 8 * half;
                    *sum = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(whole), scale), _mm256_loadu_ps(scales.add(at)), *sum);
                }
            }
            let to = y.as_mut_ptr().add(row * matrix.stride() + panel * PANEL);
            _mm256_storeu_ps(to, sums[0]);
            _mm256_storeu_ps(to.add(8), sums[1]);
        }
    }
}
