//! Tensors of files as one flat vector.

use crate::tensors::torch_error;
use crate::threads::spread;
use flow_checkpoint::source::{read_finite, TensorSource};
use flow_model::parameters::Layout;
use flow_model::Result;
use tch::{Device, Kind, Tensor};

/// Threads that read and check tensors, at most.
const READERS: usize = 8;

/// The flat vector `[layout.len()]` of the tensors that [`check`] found, as numbers of `kind`, each tensor read
/// straight to its place.
///
/// # Errors
/// If a file can't be read, or has a NaN or infinite number.
pub fn read(source: &dyn TensorSource, layout: &Layout, prefix: &str, device: Device, kind: Kind) -> Result<Tensor> {
    let flat = Tensor::empty([layout.len()], (kind, Device::Cpu));
    let readers = std::thread::available_parallelism().map_or(1, |cores| cores.get()).min(READERS);
    let place = || flat.shallow_clone();
    spread(readers, place, &layout.parameters, |flat, parameter| {
        let place = flat.narrow(0, parameter.at, parameter.len());
        read_finite(source, &format!("{prefix}{}", parameter.name), &mut |at, numbers| {
            let stretch = place.narrow(0, at as i64, numbers.len() as i64).f_copy_(&Tensor::from_slice(numbers));
            stretch.map(drop).map_err(torch_error)
        })
    })?;
    Ok(flat.to_device(device))
}
