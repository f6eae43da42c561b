//! AdamW (Loshchilov and Hutter 2019) on the flat vector of parameters, in plain tensor operations, so that its state
//! can be saved.

use crate::moments::Moments;
use flow_model::parameters::Layout;
use flow_model::UpdateSettings;
use tch::{Kind, Tensor};

/// The Euclidean norm of a gradient `[parameters]`, summed in double precision.
pub fn norm(gradient: &Tensor) -> f64 {
    gradient.to_kind(Kind::Double).norm().double_value(&[])
}

/// Weights that decay at one rate: the first, how many, and the rate.
pub type Decay = (i64, i64, f64);

/// Which weights decay, and how fast: matrices by `weight_decay`, vectors (biases, gains of norms) not at all, and what
/// `weight_decay_of` names as that says.
pub fn decays(layout: &Layout, settings: &UpdateSettings) -> Vec<Decay> {
    let mut spans: Vec<Decay> = Vec::new();
    for parameter in &layout.parameters {
        let named = settings.weight_decay_of.iter().filter(|(part, _)| parameter.name.contains(part.as_str()));
        // The longest name says most.
        let own = named.max_by_key(|(part, _)| part.len()).map(|(_, decay)| *decay);
        let decay = own.unwrap_or(if parameter.size.len() > 1 { settings.weight_decay } else { 0.0 });
        match spans.last_mut() {
            _ if decay == 0.0 => {}
            Some((at, count, last)) if *last == decay && *at + *count == parameter.at => *count += parameter.len(),
            _ => spans.push((parameter.at, parameter.len(), decay)),
        }
    }
    spans
}

/// One step at the learning rate `lr`: new weights `[parameters]` and moments; the old ones stay as they are. Only the
/// weights in `decayed` decay.
pub fn step(
    weights: &Tensor,
    moments: &Moments,
    gradient: &Tensor,
    settings: &UpdateSettings,
    lr: f64,
    decayed: &[Decay],
) -> (Tensor, Moments) {
    let [b1, b2] = settings.betas;
    let steps = moments.steps + 1;
    let first = &moments.first * b1 + gradient * (1.0 - b1);
    let second = &moments.second * b2 + gradient.square() * (1.0 - b2);
    let (c1, c2) = (1.0 - b1.powf(steps as f64), 1.0 - b2.powf(steps as f64));
    let change = &first / (second.sqrt() / c2.sqrt() + settings.eps) * (lr / c1);
    let mut new = weights.copy();
    for &(at, count, decay) in decayed {
        let _ = new.narrow(0, at, count).g_mul_scalar_(1.0 - lr * decay);
    }
    new -= change;
    (new, Moments { first, second, steps, ..moments.share() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_steps_as_worked_by_hand() {
        let settings = UpdateSettings { lr: 0.1, weight_decay: 0.5, ..Default::default() };
        let start = Tensor::from_slice(&[1.0f32, 1.0]);
        let (after_one, moments) =
            step(&start, &Moments::new(&start), &Tensor::from_slice(&[2.0f32, -4.0]), &settings, 0.1, &[(0, 1, 0.5)]);
        // The first step is lr * sign of the gradient; the first weight also decays by lr * 0.5.
        let values = |t: &Tensor| [t.double_value(&[0]), t.double_value(&[1])];
        let close = |a: [f64; 2], b: [f64; 2]| assert!((a[0] - b[0]).abs() + (a[1] - b[1]).abs() < 1e-6, "{a:?} {b:?}");
        close(values(&after_one), [0.85, 1.1]);
        let (after_two, moments) = step(&after_one, &moments, &Tensor::from_slice(&[0.0f32, -4.0]), &settings, 0.1, &[(0, 1, 0.5)]);
        let (m, v) = (0.9 * 0.2 / 0.19, 0.999 * 0.004 / (1.0 - 0.999f64.powi(2)));
        close(values(&after_two), [0.85 * 0.95 - 0.1 * m / v.sqrt(), 1.2]);
        assert_eq!(moments.steps, 2);
        close(values(&start), [1.0, 1.0]);
    }

    #[test]
    fn each_group_decays_at_its_own_rate() {
        use flow_model::parameters::Initializer;
        let mut layout = Layout::default();
        layout.add("embed_tokens.weight", &[2, 2], Initializer::Zeros);
        layout.add("q_proj.weight", &[2, 1], Initializer::Zeros);
        layout.add("k_proj.weight", &[2, 1], Initializer::Zeros);
        layout.add("q_norm.weight", &[3], Initializer::Ones);
        let spans = |groups: &[(&str, f64)]| {
            let weight_decay_of = groups.iter().map(|(name, decay)| (name.to_string(), *decay)).collect();
            decays(&layout, &UpdateSettings { weight_decay: 0.5, weight_decay_of, ..Default::default() })
        };
        assert_eq!(spans(&[]), [(0, 8, 0.5)], "matrices, in one span");
        assert_eq!(spans(&[("embed_tokens", 0.0)]), [(4, 4, 0.5)]);
        assert_eq!(spans(&[("q_", 0.1), ("q_norm", 0.0)]), [(0, 4, 0.5), (4, 2, 0.1), (6, 2, 0.5)]);
        assert_eq!(spans(&[("norm", 0.5)]), [(0, 11, 0.5)]);
    }
}
