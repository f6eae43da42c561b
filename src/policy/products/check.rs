//! Whether a set of instructions multiplies exactly: looked at once, before it is used.

use super::isa::Isa;
use super::matrix::Matrix;
use super::product;
use super::rounded::Rounded;
use super::vectors::Plain;

/// Whether `isa` gives the bits of plain Rust: for few rows and many, sizes that fill no panel and no group, and the largest numbers.
pub fn exact(isa: Isa) -> bool {
    let (outputs, inputs) = (33, 130);
    let number = |i: usize| ((i * 7919 % 509) as f32 - 254.0) / 254.0;
    let matrix = Matrix::from_fn(outputs, inputs, |output, input| if output < 2 { 1.0 } else { number(output * inputs + input) });
    [1, 7, 35].into_iter().all(|rows| {
        let products = |isa: Isa| {
            let mut rounded = Rounded::default();
            rounded.resize(isa, rows, inputs);
            for row in 0..rows {
                let x: Vec<f32> = (0..inputs).map(|i| if row == 0 { -1.0 } else { number(row * 31 + i) }).collect();
                rounded.take::<Plain>(row, &x);
            }
            let mut y = vec![0.0; rows * matrix.stride()];
            product(isa, &rounded, &matrix, &mut y);
            y
        };
        products(isa).iter().zip(products(Isa::Plain)).all(|(a, b)| a.to_bits() == b.to_bits())
    })
}
