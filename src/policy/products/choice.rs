//! Which instructions of the processor are used: chosen once, the best that it has and that multiply exactly, unless `FLOW_ISA` names a lesser one.

use super::isa::{Isa, ALL};
use super::matrix::Matrix;
use super::product;
use super::rounded::Rounded;
use super::vectors::Plain;
use std::sync::OnceLock;

impl Isa {
    /// Whether this processor has it.
    pub fn here(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni");
            match self {
                Isa::Plain => true,
                Isa::Avx2 => avx2,
                Isa::Avx512 => avx512,
                Isa::Amx => avx512 && super::amx::allowed(),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == Isa::Plain
        }
    }

    /// The best that this processor has and that multiplies exactly, or the lesser one that the environment variable `FLOW_ISA` names.
    pub fn chosen() -> Isa {
        static CHOSEN: OnceLock<Isa> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let most = std::env::var("FLOW_ISA").ok().and_then(|name| ALL.into_iter().find(|isa| isa.to_string() == name));
            let fits = |isa: &Isa| most.is_none_or(|most| *isa <= most) && isa.here() && exact(*isa);
            ALL.into_iter().rev().find(fits).unwrap_or(Isa::Plain)
        })
    }
}

/// Whether `isa` gives the bits of plain Rust: for few rows and many, sizes that fill no panel and no group, and the largest numbers.
fn exact(isa: Isa) -> bool {
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
