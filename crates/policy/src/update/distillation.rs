//! The divergence of the policy from a teacher over all that either could have written at a token. One is a value of
//! [`Divergence`] and a line of [`between`].

use crate::update::listed::Listed;
use flow_model::{Divergence, UpdateSettings};
use tch::Tensor;

/// What a rest counts as at least: in f32, a sum of probabilities is known to about that.
const REST: f64 = 1e-7;

/// The divergence of the policy from the teacher at each choice, `[choices]`, in nats, over the same listed tokens.
/// Gradients go through the policy's log-probabilities.
pub fn each(policy: &Listed, teacher: &Listed, settings: &UpdateSettings) -> Tensor {
    let part = policy.tokens.is_some();
    let of = |listed: &Listed| if part { with_rest(&listed.logprobs) } else { listed.logprobs.shallow_clone() };
    between(&of(policy), &of(teacher), settings.divergence, settings.beta.unwrap_or(0.5))
}

/// Log-probabilities `[choices, listed]` with that of all other tokens together behind them: 1 less their sum.
fn with_rest(logprobs: &Tensor) -> Tensor {
    let rest = (-logprobs.exp().sum_dim_intlist(-1, true, None) + 1.0).clamp_min(REST);
    Tensor::cat(&[logprobs, &rest.log()], -1)
}

/// The divergence of each row of log-probabilities `p` from that of `q`, `[choices, tokens]` each. Probabilities sum to
/// 1, so a slope is known up to a multiple of `p`: of the reversed KL it is p ln(p / q), of the forward one p - q, of
/// the JSD (1 - beta) p ln(p / m). Written so, and not as autograd has them, all are exactly 0 where the two are equal:
/// AdamW makes whole steps of gradients however small.
fn between(p: &Tensor, q: &Tensor, divergence: Divergence, beta: f64) -> Tensor {
    let own = p.detach();
    let (value, slopes) = match divergence {
        Divergence::ReverseKl => (kl(&own, q), own.exp() * (&own - q)),
        Divergence::ForwardKl => (kl(q, &own), own.exp() - q.exp()),
        Divergence::Jsd => {
            let mixture = mixed(&own, q, beta);
            let value = kl(q, &mixture) * beta + kl(&own, &mixture) * (1.0 - beta);
            (value, own.exp() * (&own - mixture) * (1.0 - beta))
        }
    };
    value + (slopes * (p - own)).sum_dim_intlist(-1, false, None)
}

/// ln((1 - beta) p + beta q), of log-probabilities: `p` itself where the two are equal.
fn mixed(p: &Tensor, q: &Tensor, beta: f64) -> Tensor {
    let apart = -(p - q).abs();
    let share = p.ge_tensor(q).to_kind(p.kind());
    // The smaller one's share.
    let share: Tensor = &share * (2.0 * beta - 1.0) + (1.0 - beta);
    p.maximum(q) + (share * apart.expm1()).log1p()
}

/// The norm of the gradient of a loss by the logits of each choice, `[choices]`, given its gradients `by` the
/// log-probabilities.
pub fn logit_grad(listed: &Listed, by: &Tensor) -> Tensor {
    let whole = by.sum_dim_intlist(-1, true, None);
    let squares = (by - listed.logprobs.exp() * &whole).square().sum_dim_intlist(-1, false, None);
    (squares + whole.squeeze_dim(-1).square() * &listed.others).sqrt() / &listed.temperatures
}

/// KL(a || b), the sum of a (ln a - ln b).
fn kl(a: &Tensor, b: &Tensor) -> Tensor {
    (a.exp() * (a - b)).sum_dim_intlist(-1, false, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::values;
    use crate::update::chosen::chosen;
    use crate::update::outputs::Wanted;

    /// The divergence of policies with these probabilities from a teacher's, and its gradient by the logits at
    /// `temperature`.
    fn found(p: &[f32], q: &[f32], settings: &UpdateSettings, temperature: f32) -> (f64, Vec<f32>) {
        let logits = |shares: &[f32]| (Tensor::from_slice(shares).log() * f64::from(temperature)).unsqueeze(0);
        let (own, theirs) = (logits(p).set_requires_grad(true), logits(q));
        let of = |logits: &Tensor, wanted| {
            chosen(logits.shallow_clone(), &Tensor::from_slice(&[0i64]), &[temperature], None, wanted).listed.unwrap()
        };
        let teacher = of(&theirs, Wanted::Likeliest(settings.top_k));
        let policy = of(&own, Wanted::Listed(teacher.tokens.as_ref()));
        let apart = each(&policy, &teacher, settings);
        let by = Tensor::run_backward(&[apart.sum(None)], &[&own, &policy.logprobs], false, false);
        // The logged norm of a row is that of the same gradient.
        let outputs = chosen(own.detach(), &Tensor::from_slice(&[0i64]), &[temperature], None, Wanted::Listed(teacher.tokens.as_ref()));
        let norm = values(&outputs.logit_grad(&by[1], None))[0];
        let slopes = values(&by[0]);
        assert!((norm - slopes.iter().map(|x| x * x).sum::<f32>().sqrt()).abs() < 1e-5, "{norm} {slopes:?}");
        (apart.double_value(&[0]), slopes)
    }

    fn close((value, slopes): (f64, Vec<f32>), expected: f64, by: &[f32]) {
        let same = slopes.len() == by.len() && slopes.iter().zip(by).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!((value - expected).abs() < 1e-5 && same, "{value} {slopes:?} is not {expected} {by:?}");
    }

    /// p = (1/2, 1/4, 1/4) and q = (1/4, 1/4, 1/2). Reversed: ln 2 / 2 - ln 2 / 4 = 0.173287, by logit j p_j (ln p_j /
    /// q_j - 0.173287): 0.259930, -0.043322, -0.216608. Forward: the same by symmetry, by logit p_j - q_j. With m =
    /// (3/8, 1/4, 3/8) either side of the JSD is ln(4/3) / 2 + ln(2/3) / 4 = 0.042475, by logit p_j (ln p_j / m_j -
    /// 0.042475) / 2: 0.061302, -0.005309, -0.055993. At temperature 2 each slope is half.
    #[test]
    fn divergences_as_worked_by_hand() {
        let (p, q) = ([0.5f32, 0.25, 0.25], [0.25f32, 0.25, 0.5]);
        let by = |divergence| UpdateSettings { divergence, ..Default::default() };
        let half = |slopes: [f32; 3]| slopes.map(|slope| slope / 2.0);
        let reverse = [0.259930, -0.043322, -0.216608];
        close(found(&p, &q, &by(Divergence::ReverseKl), 1.0), 0.173287, &reverse);
        close(found(&p, &q, &by(Divergence::ReverseKl), 2.0), 0.173287, &half(reverse));
        close(found(&p, &q, &by(Divergence::ForwardKl), 1.0), 0.173287, &[0.25, 0.0, -0.25]);
        close(found(&p, &q, &by(Divergence::Jsd), 1.0), 0.042475, &[0.061302, -0.005309, -0.055993]);
        for divergence in [Divergence::ReverseKl, Divergence::ForwardKl, Divergence::Jsd] {
            let (value, slopes) = found(&p, &p, &by(divergence), 1.0);
            assert!(value.abs() < 1e-7 && slopes == [0.0; 3], "exactly: {value} {slopes:?}");
        }
    }

    /// beta = 1/4 with p = (1/2, 1/2) and q = (1, 0) up to 1e-9: m = (5/8, 3/8), KL(q || m) = ln 1.6 = 0.470004, KL(p ||
    /// m) = ln(0.8) / 2 + ln(4/3) / 2 = 0.032269, together 0.470004 / 4 + 3 * 0.032269 / 4 = 0.141703. TRL's
    /// `generalized_jsd_loss` has the same mixture and weights.
    #[test]
    fn a_generalised_jsd_as_worked_by_hand() {
        let settings = UpdateSettings { divergence: Divergence::Jsd, beta: Some(0.25), ..Default::default() };
        let (value, slopes) = found(&[0.5, 0.5], &[1.0, 1e-9], &settings, 1.0);
        // By logit 0.75 p_j (ln p_j / m_j - 0.032269), where m's own part is 0 in all: (-0.095780, 0.095780).
        close((value, slopes), 0.141703, &[-0.095780, 0.095780]);
    }

    /// Of p = (4, 2, 1, 1) / 8 and q = (1, 1, 2, 4) / 8 the teacher's two likeliest are the last: p has 1/8 and 1/8
    /// there and 3/4 elsewhere, q 1/2, 1/4 and 1/4. Reversed: ln(1/4) / 8 + ln(1/2) / 8 + 3 ln 3 / 4 = 0.564029, where
    /// the whole vocabulary has 0.606504. Tokens of the rest share its slope by their probabilities.
    #[test]
    fn the_likeliest_and_a_rest_as_worked_by_hand() {
        let (p, q) = ([0.5f32, 0.25, 0.125, 0.125], [0.125f32, 0.125, 0.25, 0.5]);
        let by = |top_k, divergence| UpdateSettings { top_k, divergence, ..Default::default() };
        let whole = 0.606504;
        let (value, _) = found(&p, &q, &by(None, Divergence::ReverseKl), 1.0);
        assert!((value - whole).abs() < 1e-5, "{value}");
        // ln p/q less the mean: of the rest ln 3 - 0.564029 = 0.534583, by its tokens 1/2 and 1/4 of that; then 1/8 (ln
        // 1/2 - 0.564029) and 1/8 (ln 1/4 - 0.564029).
        close(found(&p, &q, &by(Some(2), Divergence::ReverseKl), 1.0), 0.564029, &[0.267292, 0.133646, -0.157147, -0.243790]);
        // Forward p_j - q_j, and the rest's p - q = 1/2 in the shares 2/3 and 1/3.
        let forward = 0.25 * 2f64.ln() + 0.5 * 4f64.ln() - 0.25 * 3f64.ln();
        close(found(&p, &q, &by(Some(2), Divergence::ForwardKl), 1.0), forward, &[1.0 / 3.0, 1.0 / 6.0, -0.125, -0.375]);
        // As many as there are is the whole vocabulary.
        close(found(&p, &q, &by(Some(4), Divergence::ForwardKl), 1.0), whole, &[0.375, 0.125, -0.125, -0.375]);
        for divergence in [Divergence::ReverseKl, Divergence::ForwardKl, Divergence::Jsd] {
            let (value, slopes) = found(&p, &p, &by(Some(2), divergence), 1.0);
            assert!(value.abs() < 1e-7 && slopes == [0.0; 4], "exactly: {value} {slopes:?}");
        }
        // A list that has all of both: no rest is left, and none is made up.
        let (value, slopes) = found(&[0.75, 0.25, 0.0], &[0.5, 0.5, 0.0], &by(Some(2), Divergence::ReverseKl), 1.0);
        assert!((value - 0.130812).abs() < 1e-5 && slopes.iter().all(|slope| slope.is_finite()), "{value} {slopes:?}");
    }
}
