//! Weights of 16 bits: computed with in bf16, trained in f32.

use crate::tests::parity::folder;
use crate::*;
use flow_model::*;
use std::collections::BTreeMap;

fn start(dtype: Dtype, lora: Option<LoraSettings>) -> Policy {
    let load = LoadModel { load: folder("qwen3").display().to_string(), dtype, lora, ..Default::default() };
    Policy::start(&BTreeMap::from([("actor".to_string(), ModelSettings::Load(load))]), &[], 3, 1).unwrap()
}

fn rows(policy: &Policy) -> Vec<Example> {
    let request =
        |i: u64| Request { prompt: (0..10 + i as u32).map(|k| 5 + 7 * k % 300).collect(), seed: i, choices: vec![], ..Request::default() };
    let requests: Vec<_> = (0..24).map(request).collect();
    let replies = policy.generate("actor", 0, requests.clone(), Sampling { max_tokens: 5, ..Default::default() }).unwrap();
    crate::tests::examples(&requests, &replies)
}

fn apart(a: &[Vec<f32>], b: &[Vec<f32>]) -> f32 {
    a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn close_to_f32_and_learnt_in_f32() {
    let (wide, narrow) = (start(Dtype::F32, None), start(Dtype::Bf16, None));
    let rows = rows(&wide);
    let (exact, rounded) = (wide.logprobs("actor", &rows, None).unwrap(), narrow.logprobs("actor", &rows, None).unwrap());
    let difference = apart(&exact, &rounded);
    assert!(difference > 1e-4 && difference < 0.5, "another arithmetic, of the same numbers: {difference}");
    // Steps far below what bf16 can tell apart add up, because what is trained is f32.
    let settings = UpdateSettings { objective: Objective::Sft, lr: 1e-5, weight_decay: 0.0, ..Default::default() };
    let temporary = tempfile::tempdir().unwrap();
    let saved = |name: &str| {
        narrow.save("actor", &temporary.path().join(name)).unwrap();
        let tensors = tch::Tensor::read_safetensors(temporary.path().join(name).join("model.safetensors")).unwrap();
        tensors.into_iter().find(|(name, _)| name == "model.layers.0.mlp.down_proj.weight").unwrap().1
    };
    let before = saved("before");
    assert_eq!(before.kind(), tch::Kind::BFloat16);
    (0..20).for_each(|_| drop(narrow.update("actor", rows.clone(), &settings).unwrap()));
    let after = saved("after");
    assert_eq!(after.kind(), tch::Kind::Float);
    let moved = (&after - before.to_kind(tch::Kind::Float)).abs().mean(tch::Kind::Float).double_value(&[]);
    assert!(moved > 5e-5 && moved < 3e-4, "twenty steps of 1e-5: {moved}");
}

#[test]
fn it_learns_and_goes_on_from_what_was_saved() {
    for lora in [None, Some(LoraSettings { rank: 4, targets: vec!["all-linear".into()], ..Default::default() })] {
        let policy = start(Dtype::Bf16, lora.clone());
        let rows = rows(&policy);
        let settings = UpdateSettings { objective: Objective::Sft, lr: 5e-3, ..Default::default() };
        let losses: Vec<f64> = (0..15).map(|_| policy.update("actor", rows.clone(), &settings).unwrap().loss).collect();
        assert!(losses[14] < 0.8 * losses[0], "{losses:?}");
        let temporary = tempfile::tempdir().unwrap();
        policy.save("actor", &temporary.path().join("saved")).unwrap();
        let again = start(Dtype::Bf16, lora);
        assert_eq!(again.restore("actor", &[temporary.path().join("saved")]).unwrap(), 15);
        assert_eq!(again.logprobs("actor", &rows, None).unwrap(), policy.logprobs("actor", &rows, None).unwrap());
        assert_eq!(again.update("actor", rows.clone(), &settings).unwrap(), policy.update("actor", rows, &settings).unwrap());
    }
}

#[test]
fn how_far_acting_and_learning_are_apart_is_measured() {
    for (dtype, least, most) in [(Dtype::F32, 0.0, 1e-5), (Dtype::Bf16, 1e-5, 0.1)] {
        let policy = start(dtype, None);
        let mut rows = rows(&policy);
        let settings = UpdateSettings { lr: 0.0, ..Default::default() };
        let gap = |rows: &[Example], settings: &UpdateSettings| policy.update("actor", rows.to_vec(), settings).unwrap().gap.unwrap();
        let first = gap(&rows, &settings);
        assert!(first >= least && first < most, "{dtype:?}: {first}");
        // A quarter of a nat aside for every other row.
        let tokens: usize = rows.iter().map(|row| row.response.len()).sum();
        let moved: usize = rows.iter_mut().step_by(2).map(|row| row.logprobs.iter_mut().map(|x| *x -= 0.25).count()).sum();
        for settings in [settings.clone(), UpdateSettings { old: Some(RatioDenominator::Recomputed), ..settings.clone() }] {
            let shifted = gap(&rows, &settings);
            assert!((shifted - 0.25 * moved as f64 / tokens as f64).abs() <= first + 1e-5, "{shifted}");
        }
        let sft = UpdateSettings { objective: Objective::Sft, ..settings };
        assert_eq!(policy.update("actor", rows, &sft).unwrap().gap, None);
    }
}

/// A feed-forward part whose sums oneDNN breaks by the number of rows where a CPU has AMX, alone and with an adapter.
#[test]
fn a_row_has_the_same_bits_in_any_company() {
    let new = NewModel { layers: 3, width: 384, hidden: Some(1536), ..crate::tests::tiny() };
    let temporary = tempfile::tempdir().unwrap();
    let wide = Policy::start(&BTreeMap::from([("actor".to_string(), ModelSettings::New(new))]), &[], 3, 1).unwrap();
    wide.save("actor", temporary.path()).unwrap();
    let mut random = flow_core::seed::Random::new(1);
    let mut request = |_| Request {
        prompt: (0..100).map(|_| 2 + random.below(250) as u32).collect(),
        seed: random.next(),
        choices: vec![],
        ..Request::default()
    };
    let requests: Vec<Request> = (0..4).map(&mut request).collect();
    for lora in [None, Some(LoraSettings { targets: vec!["all-linear".into()], ..Default::default() })] {
        let load = LoadModel { load: temporary.path().display().to_string(), dtype: Dtype::Bf16, lora, ..Default::default() };
        let policy = Policy::start(&BTreeMap::from([("actor".to_string(), ModelSettings::Load(load))]), &[], 3, 1).unwrap();
        let answers =
            |version, requests: &[Request]| policy.generate("actor", version, requests.to_vec(), crate::tests::sampling(1.0)).unwrap();
        let learnt = crate::tests::examples(&requests, &answers(0, &requests));
        let settings = UpdateSettings { objective: Objective::Sft, lr: 1e-3, ..Default::default() };
        policy.update("actor", learnt.clone(), &settings).unwrap();
        let together = answers(1, &requests);
        for (version, few) in [(2, 1), (3, 2)] {
            // The same weights again, so that read tokens are forgotten.
            policy.update("actor", learnt.clone(), &UpdateSettings { lr: 0.0, ..settings.clone() }).unwrap();
            assert_eq!(answers(version, &requests[..few]), together[..few], "{few} and 4 requests");
        }
    }
}
