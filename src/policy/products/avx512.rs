//! The products with AVX-512 and VNNI: for few rows, which cost what reading the matrix costs, and for many where there is no AMX.

use super::matrix::Matrix;
use super::rounded::Rounded;
use super::{GROUP, PANEL};
use std::arch::x86_64::*;

/// Bytes of weights that are fetched before they are multiplied.
const AHEAD: usize = 4096;

/// See [`super::product`].
///
/// # Safety
/// The processor has AVX-512 with VNNI; sizes are those that [`super::product`] checks.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub unsafe fn product(x: &Rounded, matrix: &Matrix, y: &mut [f32]) {
    let to = y.as_mut_ptr();
    let mut panel = 0;
    // Few panels at a time, so that they are still in the cache for the next rows.
    while panel < matrix.panels() {
        let left = matrix.panels() - panel;
        let mut row = 0;
        while row < x.rows() {
            match (x.rows() - row, left) {
                (6.., 2..) => row += block::<6, 2>(x, row, matrix, panel, to),
                (4.., 2..) => row += block::<4, 2>(x, row, matrix, panel, to),
                (2.., 2..) => row += block::<2, 2>(x, row, matrix, panel, to),
                (_, 2..) => row += block::<1, 2>(x, row, matrix, panel, to),
                _ => row += block::<1, 1>(x, row, matrix, panel, to),
            }
        }
        panel += left.min(2);
    }
}

/// The products of `R` rows with `C` panels; gives `R`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
unsafe fn block<const R: usize, const C: usize>(x: &Rounded, row: usize, matrix: &Matrix, panel: usize, y: *mut f32) -> usize {
    let groups = matrix.groups();
    // 128 added to a number with a sign: its highest bit turned round.
    let unsigned = _mm512_set1_epi8(-128);
    let offsets = x.offsets().map_or(std::ptr::null(), <[i32]>::as_ptr);
    let mut sums = [[_mm512_setzero_ps(); C]; R];
    for group in 0..groups {
        let at: [usize; C] = std::array::from_fn(|c| (panel + c) * groups + group);
        let numbers: [*const i8; C] = std::array::from_fn(|c| matrix.numbers().as_ptr().add(at[c] * PANEL * GROUP));
        let places: [usize; R] = std::array::from_fn(|r| x.place(row + r, group));
        let own: [*const i8; R] = places.map(|place| x.numbers().as_ptr().add(place * GROUP));
        let mut whole: [[__m512i; C]; R] = places.map(|place| [_mm512_set1_epi32(*offsets.add(place)); C]);
        for k in 0..GROUP / 4 {
            // Few rows wait for the weights, and the processor's own guesses end with each page.
            if R < 4 {
                for numbers in numbers {
                    _mm_prefetch::<_MM_HINT_T0>(numbers.wrapping_add(k * 4 * PANEL + AHEAD));
                }
            }
            let theirs: [__m512i; C] =
                std::array::from_fn(|c| _mm512_xor_si512(_mm512_loadu_si512(numbers[c].add(k * 4 * PANEL) as *const _), unsigned));
            for r in 0..R {
                let four = _mm512_set1_epi32((own[r].add(4 * k) as *const i32).read_unaligned());
                for c in 0..C {
                    whole[r][c] = _mm512_dpbusd_epi32(whole[r][c], theirs[c], four);
                }
            }
        }
        for c in 0..C {
            let scales = _mm512_loadu_ps(matrix.scales().as_ptr().add(at[c] * PANEL));
            for r in 0..R {
                let scale = _mm512_set1_ps(*x.scales().get_unchecked(places[r]));
                sums[r][c] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(whole[r][c]), scale), scales, sums[r][c]);
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        for (c, sum) in sums.iter().enumerate() {
            _mm512_storeu_ps(y.add((row + r) * matrix.stride() + (panel + c) * PANEL), *sum);
        }
    }
    R
}
