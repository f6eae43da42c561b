//! However the rows of an update are split into passes, the same comes out, up to rounding.

use crate::tests::{examples, requests, sampling, start};
use flow_core::seed::Random;
use flow_model::*;
use proptest::prelude::*;

/// Settings of every kind. The step is linear in the gradient (AdamW with an eps that drowns its second moment), so
/// that weights can be compared: an Adam step near a gradient of 0 turns on its last bit.
fn settings() -> impl Strategy<Value = UpdateSettings> {
    use flow_model::Aggregation::*;
    let aggregation = prop_oneof![Just(TokenMean), Just(SeqMeanTokenSum), Just(SeqMeanTokenMean), Just(SeqMeanTokenSumNorm)];
    let ratio = prop_oneof![Just(RatioKind::Token), Just(RatioKind::Sequence)];
    let old = prop_oneof![Just(None), Just(Some(RatioDenominator::Recomputed))];
    let kl_kind = prop_oneof![Just(KlKind::K1), Just(KlKind::K2), Just(KlKind::K3), Just(KlKind::Abs)];
    let mask_below = prop_oneof![Just((None, MaskFrom::Current)), Just((Some(0.4), MaskFrom::Current)), Just((Some(0.4), MaskFrom::Start))];
    (aggregation, ratio, old, kl_kind, mask_below, prop_oneof![Just(0.0), Just(0.3)]).prop_map(
        |(aggregation, ratio, old, kl_kind, (mask_below, mask_from), kl)| UpdateSettings {
            aggregation,
            ratio,
            old,
            kl_kind,
            mask_below,
            mask_from,
            kl,
            eps: 1e3,
            lr: 30.0,
            weight_decay: 0.0,
            max_grad_norm: 0.0,
            ..Default::default()
        },
    )
}

/// What an update of `rows` rows came to, and what the policy makes of them afterwards.
fn outcome(rows: usize, seed: u64, settings: &UpdateSettings) -> (UpdateReport, Vec<f32>) {
    let (policy, requests) = (start(1), requests(rows));
    let replies = policy.generate("actor", 0, requests.clone(), sampling(1.0)).unwrap();
    let mut rows = examples(&requests, &replies);
    let mut random = Random::new(seed);
    for example in &mut rows {
        // As if the policy that acted had been another one.
        example.logprobs.iter_mut().for_each(|x| *x -= random.unit() as f32 - 0.5);
    }
    let report = policy.update("actor", rows.clone(), settings).unwrap();
    (report, policy.logprobs("actor", &rows, None).unwrap().concat())
}

const FIGURES: [fn(&UpdateReport) -> f64; 5] = [|r| r.loss, |r| r.grad_norm, |r| r.kl, |r| r.entropy, |r| r.clip_fraction];
const ROW_FIGURES: [fn(&RowReport) -> f32; 4] = [|r| r.ratio, |r| r.clip_share, |r| r.loss_share, |r| r.kl];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..Default::default() })]

    #[test]
    fn only_rounding_depends_on_the_split(settings in settings(), size in 1..20usize, rows in 20..50usize, seed: u64) {
        let (whole, after) = outcome(rows, seed, &settings);
        let (split, after_split) = outcome(rows, seed, &UpdateSettings { micro_batch: size, micro_tokens: (seed % 2 == 0).then_some(20 * size), ..settings.clone() });
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-4 * a.abs().max(1e-2);
        for figure in FIGURES {
            prop_assert!(close(figure(&whole), figure(&split)), "{:?} {:?}", whole, split);
        }
        for (first, second) in whole.rows.iter().zip(&split.rows) {
            prop_assert_eq!(first.used, second.used);
            for figure in ROW_FIGURES {
                prop_assert!(close(f64::from(figure(first)), f64::from(figure(second))), "{:?} {:?}", first, second);
            }
        }
        prop_assert!(whole.grad_norm > 1e-3, "something was learnt");
        for (first, second) in after.iter().zip(&after_split) {
            prop_assert!((first - second).abs() < 1e-4, "{} {}", first, second);
        }
    }
}
