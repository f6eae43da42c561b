//! What an update says of its rows, which of them it leaves out, and that it stops before it breaks anything.

use crate::tests::{examples, requests, sampling, start, weights};
use crate::*;
use flow_model::*;

/// A policy, and rows that it made.
fn acted(count: usize) -> (Policy, Vec<Example>) {
    let (policy, requests) = (start(2), requests(count));
    let replies = policy.generate("actor", 0, requests.clone(), sampling(1.0)).unwrap();
    (policy, examples(&requests, &replies))
}

fn used(report: &UpdateReport, expected: RowUse) -> Vec<usize> {
    (0..report.rows.len()).filter(|&row| report.rows[row].used == expected).collect()
}

#[test]
fn rows_add_up_to_the_loss() {
    for objective in [Objective::PolicyGradient, Objective::Sft] {
        for aggregation in
            [Aggregation::TokenMean, Aggregation::SeqMeanTokenSum, Aggregation::SeqMeanTokenMean, Aggregation::SeqMeanTokenSumNorm]
        {
            let (policy, rows) = acted(50);
            let settings = UpdateSettings { objective, aggregation, lr: 0.03, kl: 0.1, micro_batch: 16, clip: 0.05, ..Default::default() };
            policy.update("actor", rows.clone(), &settings).unwrap();
            let report = policy.update("actor", rows.clone(), &settings).unwrap();
            let sum: f64 = report.rows.iter().map(|row| f64::from(row.loss_share)).sum();
            assert!((sum - report.loss).abs() < 1e-5 * report.loss.abs().max(1.0), "{sum} is not {}", report.loss);
            let mean = |figure: fn(&RowReport) -> f32| {
                let sum = rows
                    .iter()
                    .zip(&report.rows)
                    .map(|(row, row_report)| f64::from(figure(row_report)) * row.response.len() as f64)
                    .sum::<f64>();
                sum / report.tokens as f64
            };
            assert!((mean(|row| row.kl) - report.kl).abs() < 1e-5 && report.kl > 1e-3);
            assert!((mean(|row| row.clip_share) - report.clip_fraction).abs() < 1e-6);
            assert_eq!(report.clip_fraction > 0.1, objective == Objective::PolicyGradient, "{}", report.clip_fraction);
            assert_eq!(mean(|row| row.ratio) == 1.0, objective == Objective::Sft);
        }
    }
}

#[test]
fn the_last_pass_is_told() {
    let (policy, rows) = acted(12);
    let settings = UpdateSettings { lr: 0.01, epochs: 2, ..Default::default() };
    let report = policy.update("actor", rows.clone(), &settings).unwrap();
    let (policy, _) = acted(12);
    policy.update("actor", rows.clone(), &UpdateSettings { epochs: 1, ..settings.clone() }).unwrap();
    let second = policy.update("actor", rows, &UpdateSettings { epochs: 1, ..settings }).unwrap();
    assert_eq!(report.rows, second.rows);
}

#[test]
fn masked_rows_are_as_if_they_had_not_been_there() {
    // Free rows choose among 258 tokens at about 1/258 each, held ones among two or three.
    let free: Vec<usize> = (0..40).filter(|row| row % 4 == 0).collect();
    for mask_unit in [MaskUnit::Token, MaskUnit::Row] {
        let (policy, rows) = acted(40);
        let settings = UpdateSettings { lr: 1e-2, mask_below: Some(0.1), mask_unit, mask_from: MaskFrom::Start, ..Default::default() };
        let report = policy.update("actor", rows.clone(), &settings).unwrap();
        assert_eq!(used(&report, RowUse::MaskedLowProbability), free);
        assert_eq!(report.rows[0], RowReport { used: RowUse::MaskedLowProbability, ..Default::default() });
        let (other, _) = acted(40);
        let unmasked: Vec<Example> = (0..40).filter(|row| row % 4 != 0).map(|row| rows[row].clone()).collect();
        let alone = other.update("actor", unmasked, &UpdateSettings { mask_below: None, ..settings.clone() }).unwrap();
        assert_eq!((report.loss, report.kl, report.tokens), (alone.loss, alone.kl, alone.tokens));
        assert!(weights(&policy) == weights(&other));
    }
}

#[test]
fn a_masked_token_leaves_the_others_of_its_row() {
    // After the forced 50 come 100, 101 or the end, at a third each; after 101 come 7 or the end, at a half each.
    let choices = vec![vec![50, 100, END], vec![50, 101, 7, END], vec![50, 101, END], vec![50, END]];
    let response = vec![50, 101, 7, END];
    let (policy, mut rows) = acted(1);
    rows[0] = Example { response: response.clone(), logprobs: vec![0.0; 4], choices, advantage: 1.0, ..rows[0].clone() };
    let at = policy.logprobs("actor", &rows, None).unwrap().remove(0);
    assert!(at[0] == 0.0 && at[1] < -0.9 && (-0.9..-0.5).contains(&at[2]), "{at:?}");
    let settings = UpdateSettings { mask_below: Some(0.4), mask_from: MaskFrom::Start, ..Default::default() };
    let row = policy.update("actor", rows.clone(), &UpdateSettings { mask_unit: MaskUnit::Row, ..settings.clone() }).unwrap();
    assert_eq!((row.rows[0].used, row.version), (RowUse::MaskedLowProbability, 0), "nothing is left, so no version is made");
    assert_eq!(policy.versions("actor").unwrap(), [0]);
    let token = policy.update("actor", rows.clone(), &settings).unwrap();
    let expected = (1.0 + f64::from(at[2]).exp() + 1.0) / 3.0;
    assert_eq!((token.rows[0].used, token.tokens, token.version), (RowUse::Yes, 3, 1));
    assert!((f64::from(token.rows[0].ratio) - expected).abs() < 1e-4 && (token.loss + expected).abs() < 1e-4, "{token:?}");
    let forced = UpdateSettings { mask_below: Some(0.9), ..settings };
    let report = policy.update("actor", rows, &forced).unwrap();
    assert_eq!(report.rows[0].used, RowUse::MaskedLowProbability, "tokens that were forced teach nothing");
}

/// EMPO2, Eq. 2: the indicator masks the policy's term alone. Of the four tokens of the row above the second one is at
/// a third: by 0.4 its ratio is left out of the sum, which is divided by all four; the divergence counts it.
#[test]
fn by_the_paper_a_mask_is_of_the_policy_term_alone() {
    let choices = vec![vec![50, 100, END], vec![50, 101, 7, END], vec![50, 101, END], vec![50, END]];
    let update = |settings: &UpdateSettings| {
        let (policy, mut rows) = acted(1);
        let aged = UpdateSettings { lr: 0.1, ..Default::default() };
        policy.update("actor", rows.clone(), &aged).unwrap();
        rows[0] = Example {
            response: vec![50, 101, 7, END],
            logprobs: vec![0.0; 4],
            choices: choices.clone(),
            advantage: 1.0,
            ..rows[0].clone()
        };
        let at = policy.logprobs("actor", &rows, None).unwrap().remove(0);
        let first = policy.reference_logprobs("actor", None, rows.clone(), None).unwrap().remove(0);
        (policy.update("actor", rows, settings).unwrap(), at, first)
    };
    let settings = UpdateSettings { lr: 0.0, mask_below: Some(0.4), kl: 0.5, kl_kind: KlKind::K2, clip: 1.0, ..Default::default() };
    let (report, at, first) = update(&settings);
    assert!(at[1] < 0.4f32.ln() && at[2] > 0.4f32.ln(), "{at:?}");
    let terms = (0..4).filter(|i| *i != 1).map(|i| -f64::from(at[i]).exp()).sum::<f64>();
    let kl = at.iter().zip(&first).map(|(new, base)| f64::from(new - base).powi(2) / 2.0).sum::<f64>();
    assert!((report.loss - (terms + 0.5 * kl) / 4.0).abs() < 1e-5 && (report.kl - kl / 4.0).abs() < 1e-6 && kl > 0.0, "{report:?}");
    assert_eq!((report.tokens, report.rows[0].used), (4, RowUse::Yes));
    let (report, ..) = update(&UpdateSettings { mask_unit: MaskUnit::Row, ..settings.clone() });
    assert!((report.loss - 0.5 * kl / 4.0).abs() < 1e-5 && report.rows[0].used == RowUse::Yes, "{report:?}");
    let (report, ..) = update(&UpdateSettings { mask_below: Some(0.99), kl: 0.0, ..settings });
    assert_eq!(report.rows[0].used, RowUse::MaskedLowProbability, "forced tokens teach nothing");
}

/// A trajectory of one turn and one of three, each of one token with the ratio 1: by token_mean all weigh 1/4, by
/// trajectory 1/2 and 1/6.
#[test]
fn trajectories_of_different_lengths_count_alike() {
    let (policy, rows) = acted(8);
    let rows: Vec<Example> = rows.into_iter().filter(|row| !row.choices.is_empty()).take(4).collect();
    let rows: Vec<Example> = rows
        .into_iter()
        .enumerate()
        .map(|(i, row)| Example {
            trajectory: (i > 0) as u64,
            advantage: 1.0,
            response: vec![END],
            choices: vec![vec![END]],
            logprobs: vec![0.0],
            ..row
        })
        .collect();
    for aggregation in [Aggregation::TrajectoryMeanTokenMean, Aggregation::TrajectoryMeanTurnMean] {
        let report = policy.update("actor", rows.clone(), &UpdateSettings { aggregation, ..Default::default() }).unwrap();
        let shares: Vec<f32> = report.rows.iter().map(|row| row.loss_share).collect();
        assert!(shares.iter().zip([0.5, 1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0]).all(|(a, b)| (a + b).abs() < 1e-6), "{shares:?}");
    }
}

/// A masked token whose divergence has no bound in f32: its own term is left out, not multiplied by 0.
#[test]
fn a_masked_token_brings_nothing_into_the_loss() {
    let (policy, mut rows) = acted(4);
    rows[0].advantage = f32::MAX;
    rows[0].logprobs.iter_mut().for_each(|x| *x = -60.0);
    for mask_from in [MaskFrom::Start, MaskFrom::Current] {
        let settings = UpdateSettings { mask_below: Some(0.1), mask_from, mask_unit: MaskUnit::Row, ..Default::default() };
        let report = policy.update("actor", rows.clone(), &settings).unwrap();
        assert!(report.loss.is_finite() && report.rows[0].used == RowUse::MaskedLowProbability, "{mask_from:?}: {report:?}");
    }
}

#[test]
fn a_reference_stays_what_it_was() {
    let (policy, rows) = acted(12);
    let at_first = policy.logprobs("actor", &rows, None).unwrap();
    policy.update("actor", rows.clone(), &UpdateSettings { lr: 0.03, ..Default::default() }).unwrap();
    assert_ne!(policy.logprobs("actor", &rows, None).unwrap(), at_first);
    assert_eq!(policy.reference_logprobs("actor", None, rows.clone(), None).unwrap(), at_first);
    let other = policy.logprobs("other", &rows, Some(0.7)).unwrap();
    assert_eq!(policy.reference_logprobs("actor", Some("other"), rows, Some(0.7)).unwrap(), other);
}

/// After the forced 50 come 100, 101 or the end; after 101 come 7 or the end; after 7 the end is forced: of four tokens
/// two are chosen.
#[test]
fn forced_tokens_count_where_they_are_said_to() {
    let choices = vec![vec![50, 100, END], vec![50, 101, 7, END], vec![50, 101, END], vec![50, END]];
    let (policy, mut rows) = acted(2);
    rows[0] = Example { response: vec![50, 101, 7, END], logprobs: vec![0.0; 4], choices, advantage: 1.0, ..rows[0].clone() };
    rows[1] = Example { response: vec![60, END], logprobs: vec![0.0; 2], choices: vec![vec![60, END]], advantage: 1.0, ..rows[1].clone() };
    let at: Vec<f64> = policy.logprobs("actor", &rows[..1], None).unwrap()[0].iter().map(|x| f64::from(*x).exp()).collect();
    let update = |tokens, rows: &[Example]| {
        let (policy, _) = acted(2);
        policy.update("actor", rows.to_vec(), &UpdateSettings { tokens, ..Default::default() }).unwrap()
    };
    let all = update(CountedTokens::All, &rows);
    assert_eq!((all.tokens, used(&all, RowUse::Yes).len()), (6, 2));
    assert!((all.loss + (4.0 + at[1] + at[2]) / 6.0).abs() < 1e-4, "{all:?}");
    let chosen = update(CountedTokens::Chosen, &rows);
    assert_eq!((chosen.tokens, used(&chosen, RowUse::Forced)), (2, vec![1]));
    assert!((chosen.loss + (at[1] + at[2]) / 2.0).abs() < 1e-4, "{chosen:?}");
    assert!((f64::from(chosen.rows[0].ratio) - (at[1] + at[2]) / 2.0).abs() < 1e-4);
    // GSPO's ratio is the geometric mean over the tokens that count.
    let sequence = |tokens| {
        let (policy, _) = acted(2);
        let settings = UpdateSettings { tokens, ratio: RatioKind::Sequence, ..Default::default() };
        f64::from(policy.update("actor", rows[..1].to_vec(), &settings).unwrap().rows[0].ratio)
    };
    let product = at[1] * at[2];
    assert!(
        (sequence(CountedTokens::All) - product.powf(0.25)).abs() < 1e-4 && (sequence(CountedTokens::Chosen) - product.sqrt()).abs() < 1e-4
    );
    // A row whose every token was chosen is the same by both.
    let free: Vec<Example> = acted(40).1.into_iter().filter(|row| row.choices.is_empty()).collect();
    assert_eq!(update(CountedTokens::All, &free), update(CountedTokens::Chosen, &free));
}

#[test]
fn the_remainder_is_named() {
    let (policy, rows) = acted(10);
    let settings = UpdateSettings { minibatch: 4, epochs: 2, remainder: Remainder::Drop, ..Default::default() };
    let report = policy.update("actor", rows.clone(), &settings).unwrap();
    let left = used(&report, RowUse::Remainder);
    assert_eq!((left.len(), used(&report, RowUse::Yes).len()), (2, 8));
    assert_eq!(report.rows[left[0]], RowReport { used: RowUse::Remainder, ..Default::default() });
    let tokens: usize = used(&report, RowUse::Yes).iter().map(|&row| rows[row].response.len()).sum();
    assert_eq!(report.tokens, tokens);
    let report = policy.update("actor", rows[..3].to_vec(), &settings).unwrap();
    assert_eq!((used(&report, RowUse::Remainder).len(), report.version), (3, 1), "fewer rows than a minibatch make no version");
}

#[test]
fn a_policy_that_went_astray_is_not_updated() {
    let (policy, rows) = acted(20);
    // Finite weights, but so large that nothing computed with them is a number.
    policy.update("actor", rows.clone(), &UpdateSettings { lr: 1e30, weight_decay: 0.0, ..Default::default() }).unwrap();
    let before = weights(&policy);
    for mask_below in [None, Some(0.5)] {
        let settings = UpdateSettings { mask_below, mask_from: MaskFrom::Start, ..Default::default() };
        // What is the first that isn't a number is up to the kernels of attention: they may make impossible tokens of
        // it instead.
        match policy.update("actor", rows.clone(), &settings) {
            Err(error) => assert!(matches!(&error, PolicyError::NotFinite { rows, .. } if !rows.is_empty()), "{error}"),
            Ok(report) => assert!(mask_below.is_some() && used(&report, RowUse::MaskedLowProbability).len() == rows.len()),
        }
    }
    assert!(weights(&policy) == before && policy.versions("actor").unwrap() == [0, 1]);
}

/// The gradients are numbers, so it is the step that fails, and no row is named. With an epsilon of 0 a step would
/// divide 0 by 0.
#[test]
fn a_step_that_makes_no_numbers_is_not_blamed_on_rows() {
    let (policy, rows) = acted(4);
    let before = weights(&policy);
    let error = |settings: UpdateSettings| policy.update("actor", rows.clone(), &settings).unwrap_err().to_string();
    let text = error(UpdateSettings { lr: 1e39, ..Default::default() });
    assert!(text.contains("a step at the learning rate 1e39 made weights that are no numbers") && !text.contains("rows"), "{text}");
    assert_eq!(error(UpdateSettings { eps: 0.0, ..Default::default() }), "`eps` of an update must be above 0");
    assert!(weights(&policy) == before);
}

/// The rows as the policy at version 0 made them, and the policy at version 1.
fn aged(count: usize) -> (Policy, Vec<Example>) {
    let (policy, rows) = acted(count);
    policy.update("actor", rows.clone(), &UpdateSettings { lr: 0.03, ..Default::default() }).unwrap();
    (policy, rows)
}

#[test]
fn fresh_rows_have_no_need_of_recomputing() {
    let run = |old, ratio| {
        let (policy, rows) = acted(40);
        let settings = UpdateSettings { lr: 1e-3, old: Some(old), ratio, ..Default::default() };
        let report = policy.update("actor", rows.clone(), &settings).unwrap();
        (report, policy.logprobs("actor", &rows, None).unwrap().concat())
    };
    for ratio in [RatioKind::Token, RatioKind::Sequence] {
        let ((recorded, after_recorded), (recomputed, after_recomputed)) =
            (run(RatioDenominator::Recorded, ratio), run(RatioDenominator::Recomputed, ratio));
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-5, "{ratio:?}: {a} is not {b}");
        close(recorded.loss, recomputed.loss);
        close(recorded.grad_norm, recomputed.grad_norm);
        close(recorded.kl, recomputed.kl);
        after_recorded.iter().zip(&after_recomputed).for_each(|(a, b)| close(f64::from(*a), f64::from(*b)));
    }
}

#[test]
fn aged_rows_are_weighted_by_their_importance() {
    let (policy, rows) = aged(40);
    let start = policy.logprobs("actor", &rows, None).unwrap();
    let settings = UpdateSettings { old: Some(RatioDenominator::Recomputed), truncate: 1.1, ..Default::default() };
    let report = policy.update("actor", rows.clone(), &settings).unwrap();
    let (mut expected, mut truncated, mut tokens) = (0.0, 0, 0);
    for (row, start) in rows.iter().zip(&start) {
        for (acted, start) in row.logprobs.iter().zip(start) {
            let importance = f64::from(start - acted).exp();
            truncated += (importance > 1.1) as usize;
            tokens += 1;
            expected -= f64::from(row.advantage) * importance.min(1.1);
        }
    }
    assert!(truncated > 5 && truncated < tokens / 2, "{truncated} of {tokens}");
    // At the first step the ratio to the weights it starts from is 1, so nothing is clipped.
    assert!((report.loss - expected / tokens as f64).abs() < 1e-5, "{} is not {}", report.loss, expected / tokens as f64);
    assert!(report.clip_fraction == 0.0 && report.kl > 1e-4, "the divergence is still from the policy that acted");
    assert!(report.rows.iter().all(|row| (row.ratio - 1.0).abs() < 1e-5));
}

#[test]
fn a_sequence_is_clipped_as_a_whole() {
    let (policy, rows) = aged(40);
    let start = policy.logprobs("actor", &rows, None).unwrap();
    let settings = UpdateSettings {
        ratio: RatioKind::Sequence,
        aggregation: Aggregation::SeqMeanTokenMean,
        clip: 0.3,
        clip_high: Some(0.4),
        ..Default::default()
    };
    let report = policy.update("actor", rows.clone(), &settings).unwrap();
    let mut loss = 0.0;
    for ((row, start), row_report) in rows.iter().zip(&start).zip(&report.rows) {
        let mean = start.iter().zip(&row.logprobs).map(|(new, old)| f64::from(new - old)).sum::<f64>() / start.len() as f64;
        let (ratio, advantage) = (mean.exp(), f64::from(row.advantage));
        let (unclipped, clipped) = (-advantage * ratio, -advantage * ratio.clamp(0.7, 1.4));
        loss += unclipped.max(clipped) / rows.len() as f64;
        assert!((f64::from(row_report.ratio) - ratio).abs() < 1e-5);
        assert_eq!(row_report.clip_share, (clipped > unclipped) as u8 as f32, "all tokens of a row or none");
    }
    assert!((report.loss - loss).abs() < 1e-5, "{} is not {loss}", report.loss);
    assert!((0.05..0.9).contains(&report.clip_fraction), "{}", report.clip_fraction);
}

/// Play with an older version need not wait for the newest one, and neither side notices the other.
#[test]
fn a_long_update_makes_room_for_readers() {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    let settings = UpdateSettings { lr: 1e-3, epochs: 40, micro_batch: 4, ..Default::default() };
    let (alone, rows) = acted(40);
    let expected = alone.update("actor", rows.clone(), &settings).unwrap();
    let (policy, _) = acted(40);
    let prompts = requests(3);
    let replies = policy.generate("actor", 0, prompts.clone(), sampling(1.0)).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let update = scope.spawn(|| {
            let report = policy.update("actor", rows, &settings).unwrap();
            over.store(true, SeqCst);
            report
        });
        let mut answered = 0;
        while !over.load(SeqCst) {
            assert_eq!(policy.generate("actor", 0, prompts.clone(), sampling(1.0)).unwrap(), replies);
            answered += 1;
        }
        assert!(answered > 10, "only {answered} answers while it learnt");
        assert_eq!(update.join().unwrap(), expected);
    });
    assert!(weights(&policy) == weights(&alone));
}

/// So many times the mean entropy is taken off the loss; its gradient alone, where all advantages are 0, makes the next
/// draws less certain.
#[test]
fn an_entropy_bonus_is_taken_off_the_loss() {
    let settings = UpdateSettings { lr: 3e-3, ..Default::default() };
    let of = |entropy: f64, advantage: Option<f32>| {
        let (policy, mut rows) = acted(40);
        rows.iter_mut().for_each(|row| row.advantage = advantage.unwrap_or(row.advantage));
        let settings = UpdateSettings { entropy, ..settings.clone() };
        [(); 4].map(|()| policy.update("actor", rows.clone(), &settings).unwrap())
    };
    let (without, with) = (of(0.0, None), of(0.3, None));
    assert!(with[0].entropy > 0.1 && (with[0].loss - (without[0].loss - 0.3 * with[0].entropy)).abs() < 1e-6, "{:?}", with[0].loss);
    let (still, bonus) = (of(0.0, Some(0.0)), of(0.3, Some(0.0)));
    assert!(still.iter().all(|report| report.grad_norm == 0.0 && report.rows.iter().all(|row| row.logit_grad == 0.0)));
    assert!(bonus[3].entropy > bonus[0].entropy + 1e-3 && bonus[0].rows.iter().any(|row| row.logit_grad > 0.0), "{:?}", bonus[3].entropy);
}
