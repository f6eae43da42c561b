//! The products in plain Rust: what the other kernels are held against.

use super::matrix::Matrix;
use super::rounded::Rounded;
use super::{GROUP, PANEL};

/// See [`super::product`].
pub fn product(x: &Rounded, matrix: &Matrix, y: &mut [f32]) {
    let groups = matrix.groups();
    for row in 0..x.rows() {
        for panel in 0..matrix.panels() {
            let mut sums = [0f32; PANEL];
            for group in 0..groups {
                let block = panel * groups + group;
                let place = x.place(row, group);
                let own = &x.numbers()[place * GROUP..][..GROUP];
                let numbers = &matrix.numbers()[block * PANEL * GROUP..][..PANEL * GROUP];
                let scales = &matrix.scales()[block * PANEL..][..PANEL];
                let mut whole = [0; PANEL];
                for (four, numbers) in own.chunks_exact(4).zip(numbers.chunks_exact(4 * PANEL)) {
                    for (whole, numbers) in whole.iter_mut().zip(numbers.chunks_exact(4)) {
                        *whole += four.iter().zip(numbers).map(|(&own, &number)| i32::from(own) * i32::from(number)).sum::<i32>();
                    }
                }
                let scale = x.scales()[place];
                for ((sum, whole), t) in sums.iter_mut().zip(whole).zip(scales) {
                    *sum = (whole as f32 * scale).mul_add(*t, *sum);
                }
            }
            y[row * matrix.stride() + panel * PANEL..][..PANEL].copy_from_slice(&sums);
        }
    }
}
