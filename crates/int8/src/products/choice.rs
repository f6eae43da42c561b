//! Which instructions of the CPU are used: chosen once, the best that it has and that multiply exactly, unless
//! `FLOW_ISA` names a lesser one.

use super::isa::{named, Isa};
use super::matrix::Matrix;
use super::product;
use super::rounded::Rounded;
use super::vectors::Plain;
use flow_model::PolicyError;
use std::sync::OnceLock;

/// The name of a lesser set of instructions, in the environment.
const VARIABLE: &str = "FLOW_ISA";

impl Isa {
    /// The best that this CPU has and that multiplies exactly, or the lesser one that the environment variable
    /// `FLOW_ISA` names.
    pub fn chosen() -> Isa {
        static CHOSEN: OnceLock<Isa> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let most = std::env::var(VARIABLE).ok().and_then(|name| named(&name));
            let fits = |isa: &Isa| most.is_none_or(|most| isa.level() <= most) && exact(*isa);
            Isa::available().rev().find(fits).unwrap_or(Isa::PLAIN)
        })
    }
}

/// Refuses a set of instructions that isn't known.
///
/// # Errors
/// What `FLOW_ISA` says.
pub fn check() -> Result<(), PolicyError> {
    match std::env::var(VARIABLE) {
        Ok(name) if named(&name).is_none() => {
            let known = "`amx`, `avx512`, `avxvnni`, `avx2` and `plain` are";
            Err(PolicyError::Environment(format!("the environment variable {VARIABLE} names no set of instructions: `{name}`; {known}")))
        }
        _ => Ok(()),
    }
}

/// Whether `isa` gives the bits of plain Rust: for few rows and many, sizes that fill no panel and no group, and the
/// largest numbers.
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
        products(isa).iter().zip(products(Isa::PLAIN)).all(|(a, b)| a.to_bits() == b.to_bits())
    })
}
