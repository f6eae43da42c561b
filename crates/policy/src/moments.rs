//! The state of an optimiser, which is saved with the weights.

use tch::{Kind, Tensor};

/// The moments of the gradient, how many steps made them, and the decaying mean of the weights.
pub struct Moments {
    /// The decaying mean of the gradient, `[parameters]`.
    pub first: Tensor,
    /// The decaying mean of its square, `[parameters]`.
    pub second: Tensor,
    /// Steps taken.
    pub steps: u64,
    /// The decaying mean of the versions of the weights, `[parameters]`, where an update keeps one (`reference_ema`).
    pub mean: Option<Tensor>,
}

impl Moments {
    /// Zeros of f32, of the sizes of `like`: before the first step. They take no memory until then.
    pub fn new(like: &Tensor) -> Moments {
        let zeros = || Tensor::zeros([like.size()[0].min(1)], (Kind::Float, like.device())).expand_as(like);
        Moments { first: zeros(), second: zeros(), steps: 0, mean: None }
    }

    /// The same tensors.
    pub fn share(&self) -> Moments {
        let mean = self.mean.as_ref().map(Tensor::shallow_clone);
        Moments { first: self.first.shallow_clone(), second: self.second.shallow_clone(), steps: self.steps, mean }
    }

    /// The same, with the mean moved on to the version `flat`: decay * mean + (1 - decay) * flat. It begins at `start`.
    pub fn following(self, decay: f64, start: &Tensor, flat: &Tensor) -> Moments {
        let mean = self.mean.as_ref().unwrap_or(start).to_kind(Kind::Float) * decay + flat * (1.0 - decay);
        Moments { mean: Some(mean), ..self }
    }
}
