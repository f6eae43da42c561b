//! Between libtorch's tensors and Rust's vectors.

use tch::{Device, Kind, Tensor};

/// The numbers of a tensor of any sizes as f32, the last one running fastest.
pub fn values(tensor: &Tensor) -> Vec<f32> {
    let tensor = tensor.to_device(Device::Cpu).to_kind(Kind::Float).contiguous();
    let mut values = vec![0.0; tensor.numel()];
    tensor.copy_data(&mut values, tensor.numel());
    values
}

/// `values` as a tensor `[values.len()]` of i64 on `device`.
pub fn indices(values: &[i64], device: Device) -> Tensor {
    Tensor::from_slice(values).to_device(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_kind_are_read() {
        for kind in [Kind::Float, Kind::BFloat16, Kind::Half, Kind::Double, Kind::Int64] {
            assert_eq!(values(&Tensor::from_slice(&[1f32, -2.0, 0.0, 3.0]).to_kind(kind).view([2, 2]).tr()), [1.0, 0.0, -2.0, 3.0]);
        }
    }
}
