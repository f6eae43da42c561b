//! Between libtorch's tensors and Rust's vectors.

use flow_model::parameters::Layout;
use flow_model::{first_line, PolicyError, Result};
use std::fs::File;
use std::path::Path;
use tch::{Device, Kind, TchError, Tensor};

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

/// Writes named tensors as safetensors.
pub fn write(path: &Path, named: &[(String, Tensor)]) -> Result<()> {
    Tensor::write_safetensors(named, path).map_err(|e| PolicyError::file(path, e))?;
    File::open(path).and_then(|file| file.sync_all()).map_err(|e| PolicyError::file(path, e))
}

/// An error of libtorch, without its trace.
pub fn torch_error(error: TchError) -> PolicyError {
    PolicyError::Torch(first_line(&error.to_string()))
}

/// Each parameter's name and its part of `flat`, in its sizes: views.
pub fn named_parts<'a>(layout: &'a Layout, flat: &'a Tensor) -> impl Iterator<Item = (&'a str, Tensor)> + 'a {
    layout.parameters.iter().map(|p| (p.name.as_str(), flat.narrow(0, p.at, p.len()).view(p.size.as_slice())))
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
