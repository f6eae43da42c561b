//! A frozen matrix, its bias, and the adapters' low-rank updates; forward and backward.
//!
//! ```text
//! y = W x + b + s B A x
//! dx = W' dy + s A' B' dy,  dA = s (B' dy) x',  dB = s dy (A x)'
//! ```
//!
//! In 8 bits both `x` and, in the backward pass, `dy` are rounded ([`crate::products`]); the gradient passes
//! the rounding as if it were not there (the straight-through estimate of Bengio et al. 2013). W' is W as it was
//! rounded, rounded again in groups of its outputs.

use super::MatrixFormat;
use crate::products::dense::{outer, Dense, StridedRows};
use crate::products::isa::Isa;
use crate::products::matrix::{spread_out, Matrix};
use crate::products::product;
use crate::products::rounded::{leave, round, Rounded};
use flow_model::lora::AdapterPart;
use flow_model::parameters::Layout;
use std::sync::OnceLock;

/// A frozen matrix.
pub enum FrozenMatrix {
    /// Rounded to 8 bits.
    Int8(Matrix),
    /// As it is.
    F32(Dense),
}

vectorised! {
    /// Adds `bias` to rows of `y`, `stride` from one another.
    fn add_bias(bias: &[f32], y: &mut [f32], stride: usize) {
        for y in y.chunks_mut(stride) {
            y.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
        }
    }
}

impl FrozenMatrix {
    /// The matrix `numbers` `[outputs, inputs]`.
    pub fn new(numbers: &[f32], outputs: usize, inputs: usize, kept: MatrixFormat) -> FrozenMatrix {
        match kept {
            MatrixFormat::Int8 => FrozenMatrix::Int8(Matrix::new(numbers, outputs, inputs)),
            MatrixFormat::F32 => FrozenMatrix::F32(Dense::from_fn(outputs, inputs, |output, input| numbers[output * inputs + input])),
        }
    }

    /// The transpose of the first `rows` rows: what lies beyond them takes no part in how they are rounded.
    pub fn turned(&self, rows: usize) -> FrozenMatrix {
        match self {
            FrozenMatrix::Int8(matrix) => {
                FrozenMatrix::Int8(Matrix::from_fn(matrix.inputs(), rows, |output, input| matrix.at(input, output)))
            }
            FrozenMatrix::F32(dense) => FrozenMatrix::F32(Dense::from_fn(dense.inputs(), rows, |output, input| dense.at(input, output))),
        }
    }

    /// How many numbers it makes of a row.
    pub fn outputs(&self) -> usize {
        match self {
            FrozenMatrix::Int8(matrix) => matrix.outputs(),
            FrozenMatrix::F32(dense) => dense.outputs(),
        }
    }

    /// Numbers from one row of products to the next.
    pub fn stride(&self) -> usize {
        match self {
            FrozenMatrix::Int8(matrix) => matrix.stride(),
            FrozenMatrix::F32(dense) => spread_out(dense.outputs()),
        }
    }

    /// Its row `output`, into `to`: what a token is embedded as.
    pub fn row(&self, output: usize, to: &mut [f32]) {
        match self {
            FrozenMatrix::Int8(matrix) => to.iter_mut().enumerate().for_each(|(input, to)| *to = matrix.at(output, input)),
            FrozenMatrix::F32(dense) => to.iter_mut().enumerate().for_each(|(input, to)| *to = dense.at(output, input)),
        }
    }

    /// The products with the rows of `x`, written over `y`, whose rows lie [`FrozenMatrix::stride`] from one another.
    pub fn multiply(&self, isa: Isa, x: StridedRows, rounded: &mut Rounded, y: &mut Vec<f32>) {
        y.resize(x.count * self.stride(), 0.0);
        match self {
            FrozenMatrix::Int8(matrix) => {
                rounded.resize(isa, x.count, matrix.inputs());
                round(isa, x, rounded);
                product(isa, rounded, matrix, y);
            }
            FrozenMatrix::F32(dense) => dense.of_rows(isa, x, y, self.stride()),
        }
    }
}

impl FrozenMatrix {
    /// As [`FrozenMatrix::of`], of rows that 8 bits would be too few for: what their rounding leaves of them, in their
    /// place, is rounded and multiplied as well, which makes it some 15 bits. `part` is room.
    pub fn finely(&self, isa: Isa, x: &mut [f32], stride: usize, rounded: &mut Rounded, y: &mut Vec<f32>, part: &mut Vec<f32>) {
        let count = x.len() / stride;
        self.multiply(isa, StridedRows { numbers: x, stride, count }, rounded, y);
        if let FrozenMatrix::Int8(_) = self {
            leave(isa, x, stride, rounded);
            self.multiply(isa, StridedRows { numbers: x, stride, count }, rounded, part);
            y.iter_mut().zip(part).for_each(|(y, part)| *y += *part);
        }
    }
}

/// A frozen matrix and its bias.
pub struct FrozenLinear {
    weight: FrozenMatrix,
    bias: Option<Vec<f32>>,
    /// The transposed matrix of the backward pass, built at the first training step.
    turned: OnceLock<FrozenMatrix>,
}

impl FrozenLinear {
    /// `weight` with `bias`.
    pub fn new(weight: FrozenMatrix, bias: Option<Vec<f32>>) -> FrozenLinear {
        FrozenLinear { weight, bias, turned: OnceLock::new() }
    }

    /// Numbers from one row of outputs to the next.
    pub fn stride(&self) -> usize {
        self.weight.stride()
    }

    /// Numbers from one row of the inputs' gradient to the next.
    pub fn back_stride(&self) -> usize {
        self.turned().stride()
    }

    fn turned(&self) -> &FrozenMatrix {
        self.turned.get_or_init(|| self.weight.turned(self.weight.outputs()))
    }

    /// The outputs for the rows of `x`, written over `y`.
    pub fn forward(&self, isa: Isa, adapted: &MatrixAdapters, x: StridedRows, rounded: &mut Rounded, y: &mut Vec<f32>) {
        self.weight.multiply(isa, x, rounded, y);
        let stride = self.stride();
        if let Some(bias) = &self.bias {
            add_bias(isa, bias, y, stride);
        }
        for part in &adapted.parts {
            let projected = part.projected(isa, x);
            let low = StridedRows { numbers: &projected, stride: part.rank, count: x.count };
            part.up.add(isa, low, adapted.scaling, &mut y[part.at..], stride);
        }
    }

    /// The gradient of the inputs `x` given `dy`, written over `dx`, whose rows lie [`FrozenLinear::back_stride`] from
    /// one another; the adapters' gradient is added to `gradient`.
    #[allow(clippy::too_many_arguments)]
    pub fn back(
        &self,
        isa: Isa,
        adapted: &MatrixAdapters,
        x: StridedRows,
        dy: StridedRows,
        rounded: &mut Rounded,
        dx: &mut Vec<f32>,
        gradient: &mut [f32],
    ) {
        let turned = self.turned();
        turned.multiply(isa, dy, rounded, dx);
        for part in &adapted.parts {
            let projected = part.projected(isa, x);
            let own = StridedRows { numbers: &dy.numbers[part.at..], ..dy };
            // s B' dy
            let mut low = vec![0.0; x.count * part.rank];
            part.turned_up.add(isa, own, adapted.scaling, &mut low, part.rank);
            let low = StridedRows { numbers: &low, stride: part.rank, count: x.count };
            part.turned_down.add(isa, low, 1.0, dx, turned.stride());
            outer(isa, low, part.rank, x, part.inputs, &mut gradient[part.down_at..part.down_at + part.rank * part.inputs]);
            // Summed transposed, so that the longer dimension is the last.
            let mut up = vec![0.0; part.rank * part.outputs];
            outer(isa, StridedRows { numbers: &projected, stride: part.rank, count: x.count }, part.rank, own, part.outputs, &mut up);
            let to = &mut gradient[part.up_at..part.up_at + part.rank * part.outputs];
            for (i, up) in up.chunks_exact(part.outputs).enumerate() {
                up.iter().enumerate().for_each(|(output, up)| to[output * part.rank + i] += adapted.scaling * up);
            }
        }
    }
}

/// The low-rank updates of a matrix's outputs.
#[derive(Default)]
pub struct MatrixAdapters {
    scaling: f32,
    parts: Vec<DenseLowRank>,
}

/// What one adapter adds to some of the outputs: s B A x.
struct DenseLowRank {
    /// The first of them.
    at: usize,
    outputs: usize,
    inputs: usize,
    rank: usize,
    /// A and B, and the transposes of both.
    down: Dense,
    up: Dense,
    turned_down: Dense,
    turned_up: Dense,
    /// Where A and B lie among the adapter's weights.
    down_at: usize,
    up_at: usize,
}

impl MatrixAdapters {
    /// The adapters `parts` of one matrix, with the weights `flat` of the layout `own`.
    pub fn new(parts: Vec<AdapterPart>, scaling: f64, own: &Layout, flat: &[f32]) -> MatrixAdapters {
        let low_rank = |AdapterPart { at, names: [down, up] }: AdapterPart| {
            let find = |name: &str| own.leaf_of(name).map(|leaf| &own.leaves[leaf]);
            let (down, up) = (find(&down)?, find(&up)?);
            let (rank, inputs, outputs) = (down.size[0] as usize, down.size[1] as usize, up.size[0] as usize);
            let (down_at, up_at) = (down.at as usize, up.at as usize);
            let a = |row: usize, column: usize| flat[down_at + row * inputs + column];
            let b = |row: usize, column: usize| flat[up_at + row * rank + column];
            Some(DenseLowRank {
                at,
                outputs,
                inputs,
                rank,
                down: Dense::from_fn(rank, inputs, a),
                up: Dense::from_fn(outputs, rank, b),
                turned_down: Dense::from_fn(inputs, rank, |row, column| a(column, row)),
                turned_up: Dense::from_fn(rank, outputs, |row, column| b(column, row)),
                down_at,
                up_at,
            })
        };
        MatrixAdapters { scaling: scaling as f32, parts: parts.into_iter().filter_map(low_rank).collect() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl DenseLowRank {
    /// A x of each row.
    fn projected(&self, isa: Isa, x: StridedRows) -> Vec<f32> {
        let mut projected = vec![0.0; x.count * self.rank];
        self.down.add(isa, x, 1.0, &mut projected, self.rank);
        projected
    }
}
