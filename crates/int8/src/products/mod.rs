//! Products of a frozen matrix with rows of numbers, both rounded to 8 bits in groups of [`GROUP`] inputs that share a
//! scale.
//!
//! ```text
//! y[n] = sum over groups g of  s[g] * t[n, g] * sum over k in g of  q[k] * w[n, k]
//!
//! s[g] = max |x[k]| / 127,  q[k] = round(x[k] / s[g])         for the row (`rounded`)
//! t[n, g], w[n, k]          the same for each row n of the matrix (`matrix`)
//! ```
//!
//! The inner sum is one of whole numbers below 2^24: exact in any order and as an f32. The outer one goes through the
//! groups in their order, with one rounding a term (a fused multiply-add). So a row's bits follow from the row and the
//! matrix alone: not from the rows beside it, the threads, or the width of the CPU's vectors. Both kernels (`tiles`,
//! with any vectors, and `amx`) give the same ones.

#[macro_use]
mod vectorised;

pub mod aligned;
#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod amx_allowed;
pub mod choice;
pub mod dense;
pub mod isa;
pub mod matrix;
#[cfg(target_arch = "x86_64")]
pub mod registers;
pub mod rounded;
#[cfg(test)]
mod tests;
mod tiles;
pub mod vectors;

use isa::Isa;
use matrix::Matrix;
use rounded::Rounded;

/// Inputs that share a scale.
pub const GROUP: usize = 64;
/// Outputs that lie beside each other in a packed matrix: as many as a vector of AVX-512 has sums.
pub const PANEL: usize = 16;

/// Rows of numbers that lie beside each other: as many as a tile of AMX has.
pub const TILE: usize = 16;

/// The fewest rows that AMX multiplies as tiles; fewer are multiplied with vectors.
const TILED: usize = 8;

/// `y` `[rows, matrix.stride()]`: the products of `matrix` with each row of `x`.
///
/// # Panics
/// If `x` has other inputs than the matrix, or `y` too little room: a fault of the caller, which knows both.
pub fn product(isa: Isa, x: &Rounded, matrix: &Matrix, y: &mut [f32]) {
    assert_eq!(x.inputs(), matrix.inputs());
    assert!(x.offsets().is_some() || !isa.vnni());
    assert!(y.len() >= x.rows() * matrix.stride());
    #[cfg(target_arch = "x86_64")]
    if isa.level() == isa::Level::Amx && x.offsets().is_none() {
        // SAFETY: an `Isa` is only made where the CPU has its instructions; sizes are checked above.
        return unsafe { amx::product(x, matrix, y) };
    }
    tiles::product(isa, x, matrix, y);
}
