//! The learning rate over the optimiser steps of a run: linear warm-up over `warmup` steps, then constant, linear decay
//! or cosine decay (Loshchilov and Hutter 2017, equation 5, without restarts).

use flow_model::{Schedule, UpdateSettings};

/// The share of `lr` that the step number `step` takes; the first step of all is number 1.
pub fn share(settings: &UpdateSettings, step: u64) -> f64 {
    let (step, warmup) = (step as f64, settings.warmup as f64);
    if step <= warmup {
        return step / warmup;
    }
    let Some(until) = settings.decay_steps else { return 1.0 };
    let progress = ((step - warmup) / (until as f64 - warmup).max(1.0)).min(1.0);
    let left = match settings.schedule {
        Schedule::Constant => 1.0,
        Schedule::Linear => 1.0 - progress,
        Schedule::Cosine => (1.0 + (std::f64::consts::PI * progress).cos()) / 2.0,
    };
    settings.lr_end + (1.0 - settings.lr_end) * left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_as_worked_by_hand() {
        let shares = |schedule, lr_end, steps: &[u64]| {
            let settings = UpdateSettings { schedule, lr_end, warmup: 4, decay_steps: Some(12), ..Default::default() };
            steps.iter().map(|&step| (share(&settings, step) * 1e6).round() / 1e6).collect::<Vec<_>>()
        };
        assert_eq!(shares(Schedule::Constant, 0.0, &[1, 2, 4, 5, 100]), [0.25, 0.5, 1.0, 1.0, 1.0]);
        assert_eq!(shares(Schedule::Linear, 0.0, &[2, 4, 6, 8, 12, 13]), [0.5, 1.0, 0.75, 0.5, 0.0, 0.0]);
        // A half, a quarter and three quarters of the way: cos of 90, 45 and 135 degrees.
        assert_eq!(shares(Schedule::Cosine, 0.0, &[4, 6, 8, 10, 12, 99]), [1.0, 0.853553, 0.5, 0.146447, 0.0, 0.0]);
        assert_eq!(shares(Schedule::Cosine, 0.1, &[8, 12]), [0.55, 0.1]);
        assert_eq!(share(&UpdateSettings::default(), 1), 1.0);
    }
}
