//! Between libtorch's tensors and Rust's vectors.

use tch::{Device, Tensor};

/// The numbers of an f32 tensor of any sizes, the last one running fastest.
pub fn values(tensor: &Tensor) -> Vec<f32> {
    let tensor = tensor.to_device(Device::Cpu).contiguous();
    let mut values = vec![0.0; tensor.numel()];
    tensor.copy_data(&mut values, tensor.numel());
    values
}

/// `values` as a tensor `[values.len()]` of i64 on `device`.
pub fn indices(values: &[i64], device: Device) -> Tensor {
    Tensor::from_slice(values).to_device(device)
}
