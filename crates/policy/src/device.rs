//! Where models lie and are computed: on the processor, or on the first GPU that CUDA shows.

use flow_model::PolicyError;
use libloading::{Library, Symbol};
use std::ffi::{c_char, c_int, CStr};
use std::fmt;
use std::str::FromStr;
use tch::{Device, Kind, Tensor};
use torch::Libtorch;

/// Where models are asked to be computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// On a GPU where libtorch finds one, else on the processor.
    #[default]
    Auto,
    /// On the processor.
    Cpu,
    /// On a GPU, or not at all.
    Cuda,
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            DeviceChoice::Auto => "auto",
            DeviceChoice::Cpu => "cpu",
            DeviceChoice::Cuda => "cuda",
        })
    }
}

impl FromStr for DeviceChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<DeviceChoice, String> {
        match text {
            "auto" => Ok(DeviceChoice::Auto),
            "cpu" => Ok(DeviceChoice::Cpu),
            "cuda" => Ok(DeviceChoice::Cuda),
            _ => Err(format!("`{text}` is no device: `auto`, `cpu` or `cuda`")),
        }
    }
}

impl DeviceChoice {
    /// What the environment variable `FLOW_DEVICE` says, if it says something.
    ///
    /// # Errors
    /// [`PolicyError::Environment`] if that means nothing.
    pub fn named() -> Result<DeviceChoice, PolicyError> {
        let named = std::env::var("FLOW_DEVICE").ok().filter(|text| !text.is_empty());
        named.map_or(Ok(DeviceChoice::Auto), |text| text.parse().map_err(|why| PolicyError::Environment(format!("FLOW_DEVICE: {why}"))))
    }

    /// The device. A GPU that can't be used is no reason to compute elsewhere in silence: where one was asked for it is
    /// an error.
    ///
    /// # Errors
    /// [`PolicyError::Device`] where a GPU is asked for and isn't available.
    pub fn find(self) -> Result<Device, PolicyError> {
        match self {
            DeviceChoice::Cpu => return Ok(Device::Cpu),
            // libtorch, which is slow to load, isn't asked where no driver of GPUs is.
            DeviceChoice::Auto if driver_library().is_none() => return Ok(Device::Cpu),
            DeviceChoice::Auto | DeviceChoice::Cuda => libtorch()?,
        };
        match self {
            DeviceChoice::Cuda if !tch::Cuda::is_available() => Err(PolicyError::Device(without_cuda().into())),
            _ => Ok(Device::cuda_if_available()),
        }
    }
}

/// Loads libtorch, which any use of a tensor would do, but with an error to hand on where that fails.
///
/// # Errors
/// [`PolicyError::Device`] where libtorch isn't found, or is one that doesn't fit.
pub fn libtorch() -> Result<&'static Libtorch, PolicyError> {
    let hint = "`pip install torch==2.11.0`, and where it isn't found `LD_LIBRARY_PATH=SITE-PACKAGES/torch/lib`";
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
        false => "this libtorch was built without CUDA: put that of a CUDA torch 2.11 first, as `LD_LIBRARY_PATH=SITE-PACKAGES/torch/lib`",
    }
}

/// What a machine computes models with, and how many threads share it on a processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hardware {
    pub threads: usize,
    pub device: DeviceChoice,
    /// How many processes a trainer has, in place of its model's setting.
    pub ranks: Option<usize>,
}

impl From<usize> for Hardware {
    fn from(threads: usize) -> Hardware {
        Hardware { threads, device: DeviceChoice::Auto, ranks: None }
    }
}

/// The device in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDevice {
    /// The GPU's name and its bytes, if it is one and the driver says them.
    gpu: Option<(String, u64)>,
    device: Device,
    /// Bytes of the GPU that were free before the first model was there.
    pub free: Option<u64>,
    /// A GPU is in this machine, and isn't used.
    idle: Option<&'static str>,
}

impl FoundDevice {
    /// Looks at the device that was chosen.
    pub fn look(choice: DeviceChoice) -> Result<FoundDevice, PolicyError> {
        let device = choice.find()?;
        if !device.is_cuda() {
            let seen = choice == DeviceChoice::Auto && std::path::Path::new("/proc/driver/nvidia/version").exists();
            return Ok(FoundDevice { gpu: None, device, free: None, idle: seen.then(without_cuda) });
        }
        // The first tensor there makes the context that the driver is asked in.
        let _ = Tensor::zeros([1], (Kind::Float, device));
        let gpu = driver();
        let free = gpu.as_ref().map(|(_, free, _)| *free);
        Ok(FoundDevice { gpu: gpu.map(|(name, _, total)| (name, total)), device, free, idle: None })
    }

    /// Where tensors lie.
    pub fn device(&self) -> Device {
        self.device
    }

    /// A note for the user: which GPU computes, or that one stands idle.
    pub fn note(&self) -> Option<String> {
        match self.idle {
            Some(why) => {
                Some(format!("a GPU is here, and models are computed on the processor: {why}; `--device cpu` says that this is meant"))
            }
            None if self.device.is_cuda() => {
                Some(format!("models are computed on {self}; `base: int8` is bf16 there, and the learning model acts"))
            }
            None => None,
        }
    }
}

impl fmt::Display for FoundDevice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match (&self.gpu, self.device.is_cuda()) {
            (Some((name, total)), _) => write!(f, "cuda, {name} with {:.0} GB", *total as f64 / 1e9),
            (None, true) => write!(f, "cuda"),
            (None, false) => write!(f, "cpu"),
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
            assert!(DeviceChoice::Cuda.find().unwrap().is_cuda());
        } else {
            assert!(DeviceChoice::Cuda.find().unwrap_err().to_string().contains("libtorch"));
        }
    }
}
