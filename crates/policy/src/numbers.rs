//! The vectors that a loss is made of: libtorch's tensors, or without libtorch those of [`crate::tape`], which have the
//! same functions. A loss is written once.

#[cfg(not(feature = "torch"))]
pub use crate::tape::{indices, no_grad, values, Device, Kind, Tensor};
#[cfg(feature = "torch")]
pub use crate::tensors::{indices, values};
#[cfg(feature = "torch")]
pub use tch::{no_grad, Device, Kind, Tensor};
