//! Generalised advantage estimation at the level of tokens: each response token is a step of its own.
//!
//! The steps of an episode are the response tokens of its turns, one after the other; what is put between two responses
//! (the environment's answer) is no step, as in verl, which leaves those tokens out by its mask. A step's state is the
//! prompt and the response so far. The reward of a turn, less the penalty for an invalid action, comes with the last
//! token of its response. The recursion is that of [`super::gae`].

use super::{gae, Estimator};

pub(super) const ESTIMATOR: Estimator = Estimator { tokens: Some("token_values"), ..gae::ESTIMATOR };
