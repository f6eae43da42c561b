//! Products of 8 bits beside the library's on the same machine: oneDNN's, as `torch._int_mm` calls it, and its product
//! in f32. One thread each.
//!
//! `cargo bench --bench products`; `-- 1536` measures the matrices alone whose sizes hold that. `FLOW_ISA` names a
//! lesser set of instructions, to which oneDNN is held as well.
//!
//! Ours has a scale for each 64 inputs multiplied in, and gives f32; the library's gives whole sums alone. It is asked
//! twice, for a matrix that lies by inputs and one that lies by outputs, and the faster one counts. "With rounding" has
//! the time in which our rows are rounded, which a caller of the library would have as well. Each round measures the
//! sides in turn; a ratio is one of a round.

use flow_core::seed::Random;
use flow_int8::products::dense::StridedRows;
use flow_int8::products::isa::{Isa, Level};
use flow_int8::products::matrix::Matrix;
use flow_int8::products::product;
use flow_int8::products::rounded::{round, Rounded};
use std::time::Instant;
use tch::{Device, Kind, Tensor};

/// Inputs and outputs of SmolLM2-135M's matrices.
const SHAPES: [(usize, usize); 4] = [(576, 1536), (1536, 576), (576, 576), (576, 49152)];
const ROWS: [usize; 5] = [1, 8, 32, 128, 512];
const ROUNDS: usize = 5;
/// Seconds that a side computes in a round, at least.
const LONG: f64 = 0.03;

/// Seconds of one call, of as many as take long enough to be measured.
fn seconds(mut call: impl FnMut()) -> f64 {
    let (start, mut calls) = (Instant::now(), 0);
    while start.elapsed().as_secs_f64() < LONG {
        call();
        calls += 1;
    }
    start.elapsed().as_secs_f64() / f64::from(calls)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn main() {
    let isa = Isa::chosen();
    let held = match isa.level() {
        Level::Amx => "AVX512_CORE_AMX",
        Level::Avx512 => "AVX512_CORE_VNNI",
        Level::AvxVnni => "AVX2_VNNI",
        Level::Avx2 => "AVX2",
        Level::Plain => "SSE41",
    };
    std::env::set_var("ONEDNN_MAX_CPU_ISA", held);
    tch::set_num_threads(1);
    println!(
        "{isa}, oneDNN held to {held}; GOP/s, and how many times the library's; in brackets the least and the most of {ROUNDS} rounds"
    );
    let filters: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut random = Random::new(1);
    for (inputs, outputs) in SHAPES {
        let name = format!("{inputs} x {outputs}");
        if !filters.is_empty() && !filters.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let weights: Vec<f32> = (0..inputs * outputs).map(|_| random.unit() as f32 - 0.5).collect();
        let matrix = Matrix::new(&weights, outputs, inputs);
        let dense = Tensor::from_slice(&weights).view([outputs as i64, inputs as i64]);
        let by_output = (&dense * 200.0).to_kind(Kind::Int8);
        let by_input = by_output.tr().contiguous();
        for rows in ROWS {
            let x: Vec<f32> = (0..rows * inputs).map(|_| random.unit() as f32 - 0.5).collect();
            let x_dense = Tensor::from_slice(&x).view([rows as i64, inputs as i64]);
            let x_whole = (&x_dense * 200.0).to_kind(Kind::Int8);
            let library = Tensor::zeros([rows as i64, outputs as i64], (Kind::Int, Device::Cpu));
            let (mut rounded, mut y) = (Rounded::default(), vec![0.0; rows * matrix.stride()]);
            rounded.resize(isa, rows, inputs);
            let figures: Vec<[f64; 4]> = (0..=ROUNDS)
                .map(|_| {
                    let rounding = seconds(|| round(isa, StridedRows { numbers: &x, stride: inputs, count: rows }, &mut rounded));
                    let ours = seconds(|| product(isa, &rounded, &matrix, &mut y));
                    let of = |weights: &Tensor| seconds(|| drop(x_whole.internal_int_mm_out(&library, weights)));
                    let theirs = of(&by_input).min(of(&by_output.tr()));
                    let in_f32 = seconds(|| drop(x_dense.linear::<Tensor>(&dense, None)));
                    [ours, ours + rounding, theirs, in_f32].map(|seconds| 2e-9 * (rows * inputs * outputs) as f64 / seconds)
                })
                // The first round warms the sides up.
                .skip(1)
                .collect();
            let column = |i: usize| sorted(figures.iter().map(|round| round[i]))[ROUNDS / 2];
            let ratio = |i: usize, by: usize| {
                let ratios = sorted(figures.iter().map(|round| round[i] / round[by]));
                format!("{:.2} ({:.2} to {:.2})", ratios[ROUNDS / 2], ratios[0], ratios[ROUNDS - 1])
            };
            println!(
                "{name}, {rows} rows: {:.0}, with rounding {:.0}; int_mm {:.0}, ratio {}, with rounding {}; f32 {:.0}, ratio {}",
                column(0),
                column(1),
                column(2),
                ratio(0, 2),
                ratio(1, 2),
                column(3),
                ratio(0, 3)
            );
        }
    }
}
