//! A frozen matrix, its bias, and what adapters add; forward and back.
//!
//! ```text
//! y = W x + b + s B A x
//! dx = W' dy + s A' B' dy,  dA = s (B' dy) x',  dB = s dy (A x)'
//! ```
//!
//! In 8 bits both `x` and, on the way back, `dy` are rounded ([`crate::policy::products`]); the gradient passes the rounding as if it were
//! not there (the straight-through estimate of Bengio et al. 2013). W' is W as it was rounded, rounded again in groups of its outputs.

use super::Kept;
use crate::policy::model::lora::Part;
use crate::policy::model::parameters::Layout;
use crate::policy::products::dense::{outer, Dense, Rows};
use crate::policy::products::isa::Isa;
use crate::policy::products::matrix::{spread_out, Matrix};
use crate::policy::products::product;
use crate::policy::products::rounded::Rounded;
use crate::policy::products::vectors::vectorised;
use std::sync::OnceLock;

/// A frozen matrix.
pub enum Weight {
    /// Rounded to 8 bits.
    Int8(Matrix),
    /// As it is.
    F32(Dense),
}

vectorised! {
    /// Rounds rows of `x`, `stride` from one another.
    fn round(x: &[f32], stride: usize, rounded: &mut Rounded) {
        let inputs = rounded.inputs();
        for row in 0..rounded.rows() {
            rounded.take(row, &x[row * stride..row * stride + inputs]);
        }
    }

    /// Takes what rows of `x`, `stride` from one another, were rounded to away from them.
    fn leave(x: &mut [f32], stride: usize, rounded: &Rounded) {
        let inputs = rounded.inputs();
        for row in 0..rounded.rows() {
            rounded.leave(row, &mut x[row * stride..row * stride + inputs]);
        }
    }

    /// Adds `bias` to rows of `y`, `stride` from one another.
    fn add_bias(bias: &[f32], y: &mut [f32], stride: usize) {
        for y in y.chunks_mut(stride) {
            y.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
        }
    }
}

impl Weight {
    /// The matrix `numbers` `[outputs, inputs]`.
    pub fn new(numbers: &[f32], outputs: usize, inputs: usize, kept: Kept) -> Weight {
        match kept {
            Kept::Int8 => Weight::Int8(Matrix::new(numbers, outputs, inputs)),
            Kept::F32 => Weight::F32(Dense::of(outputs, inputs, |output, input| numbers[output * inputs + input])),
        }
    }

    /// The same with its sides exchanged.
    pub fn turned(&self) -> Weight {
        match self {
            Weight::Int8(matrix) => Weight::Int8(Matrix::of(matrix.inputs(), matrix.outputs(), |output, input| matrix.at(input, output))),
            Weight::F32(dense) => Weight::F32(Dense::of(dense.inputs(), dense.outputs(), |output, input| dense.at(input, output))),
        }
    }

    /// How many numbers it makes of a row.
    pub fn outputs(&self) -> usize {
        match self {
            Weight::Int8(matrix) => matrix.outputs(),
            Weight::F32(dense) => dense.outputs(),
        }
    }

    /// Numbers from one row of products to the next.
    pub fn stride(&self) -> usize {
        match self {
            Weight::Int8(matrix) => matrix.stride(),
            Weight::F32(dense) => spread_out(dense.outputs()),
        }
    }

    /// Its row `output`, into `to`: what a token is embedded as.
    pub fn row(&self, output: usize, to: &mut [f32]) {
        match self {
            Weight::Int8(matrix) => to.iter_mut().enumerate().for_each(|(input, to)| *to = matrix.at(output, input)),
            Weight::F32(dense) => to.iter_mut().enumerate().for_each(|(input, to)| *to = dense.at(output, input)),
        }
    }

    /// The products with the rows of `x`, in place of what is in `y`, whose rows lie [`Weight::stride`] from one another.
    pub fn of(&self, isa: Isa, x: Rows, rounded: &mut Rounded, y: &mut Vec<f32>) {
        y.resize(x.count * self.stride(), 0.0);
        match self {
            Weight::Int8(matrix) => {
                rounded.resize(isa, x.count, matrix.inputs());
                round(isa, x.numbers, x.stride, rounded);
                product(isa, rounded, matrix, y);
            }
            Weight::F32(dense) => dense.of_rows(isa, x, y, self.stride()),
        }
    }
}

impl Weight {
    /// As [`Weight::of`], of rows that 8 bits would be too few for: what their rounding leaves of them, in their place, is rounded and multiplied
    /// as well, which makes it some 15 bits. `part` is room.
    pub fn finely(&self, isa: Isa, x: &mut [f32], stride: usize, rounded: &mut Rounded, y: &mut Vec<f32>, part: &mut Vec<f32>) {
        let count = x.len() / stride;
        self.of(isa, Rows { numbers: x, stride, count }, rounded, y);
        if let Weight::Int8(_) = self {
            leave(isa, x, stride, rounded);
            self.of(isa, Rows { numbers: x, stride, count }, rounded, part);
            y.iter_mut().zip(part).for_each(|(y, part)| *y += *part);
        }
    }
}

/// A frozen matrix and its bias.
pub struct Linear {
    weight: Weight,
    bias: Option<Vec<f32>>,
    /// The matrix of the way back, made when something is first learnt.
    turned: OnceLock<Weight>,
}

impl Linear {
    /// `weight` with `bias`.
    pub fn new(weight: Weight, bias: Option<Vec<f32>>) -> Linear {
        Linear { weight, bias, turned: OnceLock::new() }
    }

    /// Numbers from one row of outputs to the next.
    pub fn stride(&self) -> usize {
        self.weight.stride()
    }

    /// Numbers from one row of what goes back to the next.
    pub fn back_stride(&self) -> usize {
        self.turned().stride()
    }

    fn turned(&self) -> &Weight {
        self.turned.get_or_init(|| self.weight.turned())
    }

    /// The outputs for the rows of `x`, in place of what is in `y`.
    pub fn of(&self, isa: Isa, adapted: &Adapted, x: Rows, rounded: &mut Rounded, y: &mut Vec<f32>) {
        self.weight.of(isa, x, rounded, y);
        let stride = self.stride();
        if let Some(bias) = &self.bias {
            add_bias(isa, bias, y, stride);
        }
        for part in &adapted.parts {
            let seen = part.seen(isa, x);
            let low = Rows { numbers: &seen, stride: part.rank, count: x.count };
            part.up.add(isa, low, adapted.scaling, &mut y[part.at..], stride);
        }
    }

    /// What goes back to the inputs `x` from `dy`, in place of what is in `dx`, whose rows lie [`Linear::back_stride`] from one another; and to the adapters, added to `gradient`.
    #[allow(clippy::too_many_arguments)]
    pub fn back(&self, isa: Isa, adapted: &Adapted, x: Rows, dy: Rows, rounded: &mut Rounded, dx: &mut Vec<f32>, gradient: &mut [f32]) {
        let turned = self.turned();
        turned.of(isa, dy, rounded, dx);
        for part in &adapted.parts {
            let seen = part.seen(isa, x);
            let own = Rows { numbers: &dy.numbers[part.at..], ..dy };
            // s B' dy
            let mut low = vec![0.0; x.count * part.rank];
            part.turned_up.add(isa, own, adapted.scaling, &mut low, part.rank);
            let low = Rows { numbers: &low, stride: part.rank, count: x.count };
            part.turned_down.add(isa, low, 1.0, dx, turned.stride());
            outer(isa, low, part.rank, x, part.inputs, &mut gradient[part.down_at..part.down_at + part.rank * part.inputs]);
            // Added up with its sides exchanged, where the longer one is the last.
            let mut up = vec![0.0; part.rank * part.outputs];
            outer(isa, Rows { numbers: &seen, stride: part.rank, count: x.count }, part.rank, own, part.outputs, &mut up);
            let to = &mut gradient[part.up_at..part.up_at + part.rank * part.outputs];
            for (i, up) in up.chunks_exact(part.outputs).enumerate() {
                up.iter().enumerate().for_each(|(output, up)| to[output * part.rank + i] += adapted.scaling * up);
            }
        }
    }
}

/// What adapters add to a matrix's outputs.
#[derive(Default)]
pub struct Adapted {
    scaling: f32,
    parts: Vec<LowRank>,
}

/// What one adapter adds to some of the outputs: s B A x.
struct LowRank {
    /// The first of them.
    at: usize,
    outputs: usize,
    inputs: usize,
    rank: usize,
    /// A and B, and both with their sides exchanged.
    down: Dense,
    up: Dense,
    turned_down: Dense,
    turned_up: Dense,
    /// Where A and B lie among the adapter's weights.
    down_at: usize,
    up_at: usize,
}

impl Adapted {
    /// The adapters `parts` of one matrix, with the weights `flat` of the layout `own`.
    pub fn new(parts: Vec<Part>, scaling: f64, own: &Layout, flat: &[f32]) -> Adapted {
        let low_rank = |Part { at, names: [down, up] }: Part| {
            let find = |name: &str| own.leaf_of(name).map(|leaf| &own.leaves()[leaf]);
            let (down, up) = (find(&down)?, find(&up)?);
            let (rank, inputs, outputs) = (down.size[0] as usize, down.size[1] as usize, up.size[0] as usize);
            let (down_at, up_at) = (down.at as usize, up.at as usize);
            let a = |row: usize, column: usize| flat[down_at + row * inputs + column];
            let b = |row: usize, column: usize| flat[up_at + row * rank + column];
            Some(LowRank {
                at,
                outputs,
                inputs,
                rank,
                down: Dense::of(rank, inputs, a),
                up: Dense::of(outputs, rank, b),
                turned_down: Dense::of(inputs, rank, |row, column| a(column, row)),
                turned_up: Dense::of(rank, outputs, |row, column| b(column, row)),
                down_at,
                up_at,
            })
        };
        Adapted { scaling: scaling as f32, parts: parts.into_iter().filter_map(low_rank).collect() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl LowRank {
    /// A x of each row.
    fn seen(&self, isa: Isa, x: Rows) -> Vec<f32> {
        let mut seen = vec![0.0; x.count * self.rank];
        self.down.add(isa, x, 1.0, &mut seen, self.rank);
        seen
    }
}
