//! Where models lie and are computed: on the CPU, or on the first GPU that CUDA shows.

use flow_model::PolicyError;
use std::fmt;
use std::str::FromStr;

/// Where models are asked to be computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// On a GPU where libtorch finds one, else on the CPU.
    #[default]
    Auto,
    /// On the CPU.
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
}

/// What a machine computes models with, and how many threads share it on a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hardware {
    pub threads: usize,
    pub device: DeviceChoice,
    /// How many processes a trainer has, in place of its model's setting.
    pub ranks: Option<usize>,
    /// Whether a trainer gives memory back that it has cached: servers of this run take it.
    pub yields: bool,
}

impl From<usize> for Hardware {
    fn from(threads: usize) -> Hardware {
        Hardware { threads, device: DeviceChoice::Auto, ranks: None, yields: false }
    }
}

/// The device in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDevice {
    /// The GPU's name and its bytes, if it is one and the driver says them.
    pub(crate) gpu: Option<(String, u64)>,
    pub(crate) cuda: bool,
    /// Bytes of the GPU that were free before the first model was there.
    pub free: Option<u64>,
    /// A GPU is in this machine, and isn't used.
    pub(crate) idle: Option<&'static str>,
}

impl FoundDevice {
    /// Whether it is a GPU.
    pub fn is_cuda(&self) -> bool {
        self.cuda
    }

    /// A note for the user: which GPU computes, or that one stands idle.
    pub fn note(&self) -> Option<String> {
        match self.idle {
            Some(why) => Some(format!("a GPU is here, and models are computed on the CPU: {why}; `--device cpu` says that this is meant")),
            None if self.cuda => Some(format!("models are computed on {self}; `base: int8` is bf16 there, and the learning model acts")),
            None => None,
        }
    }
}

impl fmt::Display for FoundDevice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match (&self.gpu, self.cuda) {
            (Some((name, total)), _) => write!(f, "cuda, {name} with {:.0} GB", *total as f64 / 1e9),
            (None, true) => write!(f, "cuda"),
            (None, false) => write!(f, "cpu"),
        }
    }
}
