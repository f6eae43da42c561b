//! A matrix times rows, so that in bf16 too a row has the same bits whatever rows are beside it.
//!
//! In bf16 libtorch has oneDNN multiply. On a CPU with AMX it chooses by the number of rows how many inputs are summed
//! before a sum is put down, and with that a row's bits, where a matrix has many inputs ([`summed_at_once`]). Such a
//! matrix multiplies [`PART`] rows at a time, the last ones with zeros beside them: that is always a product of one
//! shape, so the order of its sums is one.

use tch::{Device, Kind, Tensor};

/// Rows that are multiplied at a time where their number would count: fewer make reading slower, more make writing a
/// few answers slower.
const PART: i64 = 128;

/// Whether a row's bits were the same by any number of rows: of 261 shapes with 1 to 9,728 outputs, by 1 to 3,072 rows,
/// those with that many inputs all were (benches/history.md). Tiles hold 32 inputs; without a whole number of them 700
/// are too many.
fn summed_at_once(inputs: i64) -> bool {
    inputs <= if inputs % 32 == 0 { 1024 } else { 500 }
}

/// `x` `[.., inputs]` times `weight` `[outputs, inputs]`, plus `bias`: `[.., outputs]`. Where gradients are taken all
/// rows go at once: what is learnt depends on all of them anyway, and a matrix's gradient would be added up from its
/// parts in bf16.
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
    let inputs = weight.size()[1];
    let certain = x.kind() != Kind::BFloat16 || x.device() != Device::Cpu || summed_at_once(inputs);
    if certain || x.requires_grad() || weight.requires_grad() {
        return x.linear(weight, bias);
    }
    let mut size = x.size();
    let rows = x.numel() as i64 / inputs;
    let missing = (PART - rows % PART) % PART;
    let padded = x.reshape([rows, inputs]).constant_pad_nd([0, 0, 0, missing]);
    let parts: Vec<Tensor> = padded.split(PART, 0).iter().map(|part| part.linear(weight, bias)).collect();
    let whole = if let [part] = &parts[..] { part.shallow_clone() } else { Tensor::cat(&parts, 0) };
    if let Some(last) = size.last_mut() {
        *last = weight.size()[0];
    }
    whole.narrow(0, 0, rows).view(size.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SmolLM2's `down_proj`, a part of Qwen2.5's, a matrix with no whole number of tiles, and one that needs no parts.
    #[test]
    fn a_row_in_bf16_has_the_same_bits_in_any_company() {
        tch::set_num_threads(1);
        for (inputs, outputs) in [(1536, 576), (4864, 384), (1000, 384), (576, 64)] {
            let random = |rows: i64| Tensor::randn([rows, inputs], (Kind::Float, Device::Cpu)).to_kind(Kind::BFloat16);
            let (x, weight, bias) = (random(272), random(outputs), random(1).view([-1]).narrow(0, 0, outputs.min(inputs)));
            let bias = (outputs <= inputs).then_some(&bias);
            let all = linear(&x, &weight, bias);
            for (from, count) in [(0, 1), (0, 16), (0, 96), (3, 5), (7, 121), (128, 144), (256, 16), (0, 256)] {
                let some = linear(&x.narrow(0, from, count), &weight, bias);
                assert_eq!(some, all.narrow(0, from, count), "{inputs} inputs, {count} rows from {from} on");
            }
            let stacked = linear(&x.view([2, 136, inputs]), &weight, bias);
            assert_eq!((stacked.size(), stacked.view([272, -1])), (vec![2, 136, outputs], all.shallow_clone()));
            let plain = x.linear(&weight, bias);
            let far = (all - &plain).abs().max().double_value(&[]) / plain.abs().max().double_value(&[]);
            assert!(far < 0.01, "the same product: {far}");
        }
    }

    #[test]
    fn what_takes_gradients_goes_at_once() {
        let random = |rows: i64| Tensor::randn([rows, 1536], (Kind::Float, Device::Cpu)).to_kind(Kind::BFloat16);
        let (x, weight) = (random(20), random(8).set_requires_grad(true));
        let y = linear(&x, &weight, None);
        y.sum(Kind::Float).backward();
        assert_eq!((y.detach(), weight.grad().size()), (x.linear::<Tensor>(&weight.detach(), None), vec![8, 1536]));
    }
}
