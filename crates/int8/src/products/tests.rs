//! Every set of instructions gives the same bits, whatever rows stand beside each other.

use super::isa::Isa;
use super::matrix::Matrix;
use super::product;
use super::rounded::Rounded;
use super::vectors::Plain;
use super::{GROUP, PANEL};
use flow_core::seed::Random;

fn products(isa: Isa, matrix: &Matrix, x: &[f32]) -> Vec<u32> {
    let inputs = matrix.inputs();
    let rows = x.len() / inputs;
    let mut rounded = Rounded::default();
    rounded.resize(isa, rows, inputs);
    (0..rows).for_each(|row| rounded.take::<Plain>(row, &x[row * inputs..(row + 1) * inputs]));
    let mut y = vec![0.0; rows * matrix.stride()];
    product(isa, &rounded, matrix, &mut y);
    y.chunks(matrix.stride()).flat_map(|row| row[..matrix.outputs()].iter().map(|y| y.to_bits())).collect()
}

/// The formula of the module, a number after the other.
fn one_by_one(matrix: &Matrix, x: &[f32]) -> Vec<u32> {
    let mut rounded = Rounded::default();
    rounded.resize(Isa::PLAIN, 1, matrix.inputs());
    rounded.take::<Plain>(0, x);
    let y = |output: usize| {
        (0..matrix.groups()).fold(0f32, |sum, group| {
            let place = rounded.place(0, group);
            let (panel, lane) = (output / PANEL, output % PANEL);
            let (own, numbers) = (&rounded.numbers()[place * GROUP..][..GROUP], matrix.group(panel, group));
            let whole: i32 = (0..GROUP).map(|k| i32::from(own[k]) * i32::from(numbers[k / 4][lane * 4 + k % 4])).sum();
            (whole as f32 * rounded.scales()[place]).mul_add(matrix.scales()[(panel * matrix.groups() + group) * PANEL + lane], sum)
        })
    };
    (0..matrix.outputs()).map(|output| y(output).to_bits()).collect()
}

#[test]
fn every_kernel_gives_a_row_the_same_bits_in_any_company() {
    let mut random = Random::new(1);
    let mut numbers = |count: usize| (0..count).map(|_| random.unit() as f32 - 0.5).collect::<Vec<f32>>();
    for (outputs, inputs) in [(33, 70), (48, 256), (16, 64), (100, 200), (70, 1100)] {
        let matrix = Matrix::new(&numbers(outputs * inputs), outputs, inputs);
        let x = numbers(70 * inputs);
        let alone: Vec<u32> = x.chunks(inputs).flat_map(|row| one_by_one(&matrix, row)).collect();
        for isa in Isa::available() {
            for rows in [1, 3, 7, 8, 15, 16, 17, 31, 33, 48, 70] {
                assert!(
                    products(isa, &matrix, &x[..rows * inputs]) == alone[..rows * outputs],
                    "{isa}, {rows} rows, {outputs} of {inputs}"
                );
            }
        }
        let exact: f64 = (0..inputs).map(|k| f64::from(x[k]) * f64::from(matrix.at(0, k))).sum();
        assert!((exact - f64::from(f32::from_bits(alone[0]))).abs() < 0.05, "rounded results are close to exact ones");
    }
}

/// Rows so long that they are multiplied in parts, some of their groups at a time.
#[test]
fn long_rows_have_the_same_bits_in_parts() {
    let (outputs, inputs, rows) = (16, 17_000, 70);
    let mut random = Random::new(2);
    let mut numbers = |count: usize| (0..count).map(|_| random.unit() as f32 - 0.5).collect::<Vec<f32>>();
    let (matrix, x) = (Matrix::new(&numbers(outputs * inputs), outputs, inputs), numbers(rows * inputs));
    let expected = products(Isa::PLAIN, &matrix, &x);
    for isa in Isa::available() {
        assert!(products(isa, &matrix, &x) == expected, "{isa}");
    }
}

/// Numbers at the ends of their range, where an instruction that saturates would be wrong.
#[test]
fn the_largest_numbers_are_exact() {
    let matrix = Matrix::new(&[1.0; 64], 1, 64);
    for isa in Isa::available() {
        for rows in [1, 16] {
            let sums = products(isa, &matrix, &vec![1.0; 64 * rows]);
            assert!(sums.iter().all(|&sum| (f32::from_bits(sum) - 64.0).abs() < 1e-4), "{isa}");
        }
    }
}
