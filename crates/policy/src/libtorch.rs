//! libtorch, and the device that it computes on.

use crate::device::{DeviceChoice, FoundDevice};
use flow_model::PolicyError;
use libloading::{Library, Symbol};
use std::ffi::{c_char, c_int, CStr};
use tch::{Device, Kind, Tensor};
use torch::Libtorch;

/// Loads libtorch, which any use of a tensor would do, but with an error to hand on where that fails.
///
/// # Errors
/// [`PolicyError::Device`] where libtorch isn't found, or is one that doesn't fit.
pub fn libtorch() -> Result<&'static Libtorch, PolicyError> {
    let hint = "`pip install 'torch>=2.11,<2.16'`, and where it isn't found `LD_LIBRARY_PATH=SITE-PACKAGES/torch/lib`";
    torch::load().map_err(|why| PolicyError::Device(format!("libtorch can't be used: {why}; {hint}")))
}

/// How many GPUs libtorch finds.
pub fn gpus() -> usize {
    usize::try_from(tch::Cuda::device_count()).unwrap_or(0)
}

/// Why libtorch finds no GPU.
fn without_cuda() -> &'static str {
    match libtorch().is_ok_and(|libtorch| libtorch.cuda) {
        true => "this libtorch knows CUDA and finds no GPU: `nvidia-smi` and CUDA_VISIBLE_DEVICES say what it is shown",
        false => "this libtorch was built without CUDA: put that of a CUDA torch of the same release first, as `LD_LIBRARY_PATH=SITE-PACKAGES/torch/lib`",
    }
}

/// Whether models are computed on a GPU. A GPU that can't be used is no reason to compute elsewhere in silence: where one
/// was asked for it is an error.
///
/// # Errors
/// [`PolicyError::Device`] where a GPU is asked for and isn't available.
pub fn on_gpu(choice: DeviceChoice) -> Result<bool, PolicyError> {
    match choice {
        DeviceChoice::Cpu => return Ok(false),
        // libtorch, which is slow to load, isn't asked where no driver of GPUs is.
        DeviceChoice::Auto if driver_library().is_none() => return Ok(false),
        DeviceChoice::Auto | DeviceChoice::Cuda => libtorch()?,
    };
    match (choice, tch::Cuda::is_available()) {
        (DeviceChoice::Cuda, false) => Err(PolicyError::Device(without_cuda().into())),
        (_, available) => Ok(available),
    }
}

impl FoundDevice {
    /// Looks at the device that was chosen.
    ///
    /// # Errors
    /// As [`on_gpu`].
    pub fn look(choice: DeviceChoice) -> Result<FoundDevice, PolicyError> {
        if !on_gpu(choice)? {
            let seen = choice == DeviceChoice::Auto && std::path::Path::new("/proc/driver/nvidia/version").exists();
            return Ok(FoundDevice { gpu: None, cuda: false, free: None, idle: seen.then(without_cuda) });
        }
        // The first tensor there makes the context that the driver is asked in.
        let _ = Tensor::zeros([1], (Kind::Float, Device::Cuda(0)));
        let gpu = driver();
        let free = gpu.as_ref().map(|(_, free, _)| *free);
        Ok(FoundDevice { gpu: gpu.map(|(name, _, total)| (name, total)), cuda: true, free, idle: None })
    }

    /// Where tensors lie.
    pub fn device(&self) -> Device {
        if self.is_cuda() {
            Device::Cuda(0)
        } else {
            Device::Cpu
        }
    }
}

/// The library of NVIDIA's driver, where there is one.
fn driver_library() -> Option<Library> {
    // SAFETY: the driver's constructors ask nothing of their caller.
    unsafe { Library::new("libcuda.so.1") }.ok()
}

/// The first GPU's name, its free bytes and its total bytes, from the driver of the current context.
fn driver() -> Option<(String, u64, u64)> {
    let mut name = [0 as c_char; 256];
    let (mut device, mut free, mut total): (c_int, usize, usize) = (0, 0, 0);
    // SAFETY: the driver's own C functions by the signatures of cuda.h, with pointers that live as long as the calls;
    // libtorch holds the library, too.
    let done = unsafe {
        let driver = driver_library()?;
        let get: Symbol<unsafe extern "C" fn(*mut c_int, c_int) -> c_int> = driver.get(b"cuDeviceGet\0").ok()?;
        let get_name: Symbol<unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int> = driver.get(b"cuDeviceGetName\0").ok()?;
        let memory: Symbol<unsafe extern "C" fn(*mut usize, *mut usize) -> c_int> = driver.get(b"cuMemGetInfo_v2\0").ok()?;
        [
            get(&mut device, 0),
            // One byte less, so that a name always ends.
            get_name(name.as_mut_ptr(), name.len() as c_int - 1, device),
            memory(&mut free, &mut total),
        ]
    };
    // SAFETY: the array ends with a zero that the driver can't have written over.
    let text = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    (done == [0, 0, 0]).then_some((text, free as u64, total as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_or_refused() {
        assert_eq!("cuda".parse(), Ok(DeviceChoice::Cuda));
        assert_eq!("gpu".parse::<DeviceChoice>(), Err("`gpu` is no device: `auto`, `cpu` or `cuda`".into()));
        assert_eq!(FoundDevice::look(DeviceChoice::Cpu).unwrap().to_string(), "cpu");
    }

    /// Where there is no GPU, asking for one is an error that says what to do, and nothing is computed elsewhere in
    /// silence.
    #[test]
    fn a_gpu_that_is_not_there_is_an_error() {
        if tch::Cuda::is_available() {
            assert!(on_gpu(DeviceChoice::Cuda).unwrap());
        } else {
            assert!(on_gpu(DeviceChoice::Cuda).unwrap_err().to_string().contains("libtorch"));
        }
    }
}
