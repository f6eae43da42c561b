//! A base in 8 bits, or in f32 row by row, beside adapters that learn: sampler and learner are one model.

use crate::model::{checkpoint, Net};
use crate::tests::parity::folder;
use crate::tests::{examples, requests, sampling, tiny};
use crate::update::local::logprobs;
use crate::update::parallel::Parallel;
use crate::update::passes::TrainingRow;
use crate::*;
use flow_int8::engine::MatrixFormat;
use flow_model::Base;
use flow_model::*;
use std::collections::BTreeMap;
use std::path::Path;
use tch::{Device, Kind, Tensor};

fn policy(settings: ModelSettings, threads: usize) -> Result<Policy, PolicyError> {
    Policy::start(&BTreeMap::from([("actor".to_string(), settings)]), &[], 3, threads)
}

fn settings(folder: &Path, base: Base, dropout: f64) -> ModelSettings {
    let lora = LoraSettings { rank: 4, alpha: 8.0, dropout, targets: vec!["all-linear".into()] };
    ModelSettings::Load(LoadModel { load: folder.display().to_string(), lora: Some(lora), base, ..Default::default() })
}

/// A model on disk whose answers aren't all alike.
fn saved(folder: &Path) -> Policy {
    let plain = policy(ModelSettings::New(tiny()), 1).unwrap();
    let requests = requests(60);
    let rows = examples(&requests, &plain.generate("actor", 0, requests.clone(), sampling(1.0)).unwrap());
    plain.update("actor", rows, &UpdateSettings { lr: 2e-2, ..Default::default() }).unwrap();
    plain.save("actor", folder).unwrap();
    plain
}

fn rows(policy: &Policy, version: u64) -> Vec<Example> {
    let requests = requests(60);
    examples(&requests, &policy.generate("actor", version, requests.clone(), sampling(1.0)).unwrap())
}

#[test]
fn what_plays_and_what_learns_compute_the_same_bits() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("base");
    let plain = saved(&folder);
    same_bits(temporary.path(), &plain, Base::Int8, 0.3);
    same_bits(temporary.path(), &plain, Base::F32, 1e-4);
}

/// `plain` is the model that is loaded, whose log-probabilities a new adapter's are close to.
fn same_bits(root: &Path, plain: &Policy, base: Base, near: f32) {
    let folder = root.join("base");
    let [one_thread, two_threads] = [1, 2].map(|threads| policy(settings(&folder, base, 0.0), threads).unwrap());
    let learn = UpdateSettings { lr: 1e-2, kl: 0.1, micro_batch: 16, ..Default::default() };
    for version in 0..3 {
        let played = rows(&one_thread, version);
        assert!(played == rows(&two_threads, version), "the number of threads");
        let again: Vec<Vec<f32>> = one_thread.logprobs("actor", &played, None).unwrap();
        assert!(again.iter().zip(&played).all(|(again, row)| *again == row.logprobs), "to the bit");
        let prompts = requests(60);
        for (request, row) in prompts.iter().zip(&played).step_by(7) {
            let alone = one_thread.generate("actor", version, vec![request.clone()], sampling(1.0)).unwrap();
            assert_eq!((&alone[0].tokens, &alone[0].logprobs), (&row.response, &row.logprobs), "alone");
        }
        if version == 0 {
            let close = |(row, far): (&Example, &Vec<f32>)| row.logprobs.iter().zip(far).all(|(a, b)| (a - b).abs() < near);
            assert!(played.iter().zip(&plain.logprobs("actor", &played, None).unwrap()).all(close), "near the model that was rounded");
        }
        let reports = [&one_thread, &two_threads].map(|policy| policy.update("actor", played.clone(), &learn).unwrap());
        assert!(reports[0] == reports[1] && reports[0].gap.unwrap() < 1e-6, "{:?}", reports[0].gap);
    }
    let folder = root.join("adapter");
    one_thread.save("actor", &folder).unwrap();
    let played = rows(&one_thread, 3);
    assert_eq!(two_threads.restore("actor", &[folder.to_path_buf()]).unwrap(), 3);
    assert!(rows(&two_threads, 3) == played, "saved and loaded");
}

/// Imitating answers makes them likelier, about as fast as with a base in f32.
#[test]
fn it_learns_like_a_base_in_f32() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("base");
    saved(&folder);
    let learnt = [Base::Own, Base::Int8, Base::F32].map(|base| {
        let policy = policy(settings(&folder, base, 0.0), 1).unwrap();
        let rows: Vec<Example> = rows(&policy, 0).into_iter().take(20).collect();
        let sft = UpdateSettings { objective: Objective::Sft, lr: 1e-2, ..Default::default() };
        let losses: Vec<f64> = (0..8).map(|_| policy.update("actor", rows.clone(), &sft).unwrap().loss).collect();
        (losses[0], losses[7])
    });
    let [own, int8, f32] = learnt.map(|(first, last)| last / first);
    assert!(int8 < 0.95 && (int8 - own).abs() < 0.01 && (f32 - own).abs() < 1e-4, "{learnt:?}");
}

/// An entropy bonus has the same gradient on a base that is computed row by row: of each row and by all weights.
#[test]
fn an_entropy_bonus_is_the_same_row_by_row() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("base");
    saved(&folder);
    let played = rows(&policy(settings(&folder, Base::Own, 0.0), 1).unwrap(), 0);
    let bonus = UpdateSettings { entropy: 0.4, lr: 1e-2, ..Default::default() };
    let [own, f32] = [Base::Own, Base::F32].map(|base| {
        let policy = policy(settings(&folder, base, 0.0), 1).unwrap();
        [(); 2].map(|()| policy.update("actor", played.clone(), &bonus).unwrap())
    });
    for (own, f32) in own.iter().zip(&f32) {
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-4 * a.abs() + 1e-6;
        assert!(near(own.loss, f32.loss) && near(own.grad_norm, f32.grad_norm) && own.grad_norm > 0.0);
        let grads = own.rows.iter().zip(&f32.rows).map(|(own, f32)| (own.logit_grad.into(), f32.logit_grad.into()));
        assert!(grads.clone().all(|(a, b)| near(a, b)), "{:?}", grads.collect::<Vec<(f64, f64)>>());
    }
}

#[test]
fn what_cannot_be_rounded_is_refused_in_words() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("base");
    saved(&folder);
    let refused = |settings| policy(settings, 1).map(|_| ()).unwrap_err().to_string();
    assert!(refused(settings(&folder, Base::Int8, 0.1)).contains("no dropout"));
    let bare = ModelSettings::Load(LoadModel { load: folder.display().to_string(), base: Base::Int8, ..Default::default() });
    assert!(refused(bare).contains("say `lora` or `adapter`"));
}

/// A model that is trained whole and acts rounded: near the learning one, the same on any number of threads and in any
/// company, and rounded anew for each version.
#[test]
fn what_acts_is_rounded_and_what_learns_is_not() {
    acts(Act::Int8, 1e-4, 0.3);
    acts(Act::F32, 0.0, 1e-4);
}

/// The acting model differs from the learning one by at least `least` somewhere, and by less than `most` everywhere.
fn acts(act: Act, least: f32, most: f32) {
    let [own, one_thread, two_threads] =
        [(Act::Own, 1), (act, 1), (act, 2)].map(|(act, threads)| policy(ModelSettings::New(NewModel { act, ..tiny() }), threads).unwrap());
    let learn = UpdateSettings { lr: 1e-2, ..Default::default() };
    for version in 0..3 {
        let played = rows(&one_thread, version);
        assert!(played == rows(&two_threads, version), "the number of threads");
        for (request, row) in requests(60).iter().zip(&played).step_by(7) {
            let alone = one_thread.generate("actor", version, vec![request.clone()], sampling(1.0)).unwrap();
            assert_eq!((&alone[0].tokens, &alone[0].logprobs), (&row.response, &row.logprobs), "alone");
        }
        // The learning model isn't rounded, and so near that a token's chance is a few hundredths off.
        let learnt = one_thread.logprobs("actor", &played, None).unwrap();
        let apart: Vec<f32> =
            learnt.iter().flatten().zip(played.iter().flat_map(|row| &row.logprobs)).map(|(a, b)| (a - b).abs()).collect();
        assert!(apart.iter().all(|apart| *apart < most) && apart.iter().any(|apart| *apart > least), "{apart:?}");
        if version == 0 {
            assert!(learnt == own.logprobs("actor", &played, None).unwrap(), "to the bit");
        }
        let reports = [&one_thread, &two_threads].map(|policy| policy.update("actor", played.clone(), &learn).unwrap());
        let gap = reports[0].gap.unwrap();
        assert!(reports[0] == reports[1] && gap > f64::from(least) && gap < 0.3 * f64::from(most), "{gap}");
    }
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("saved");
    one_thread.save("actor", &saved).unwrap();
    let played = rows(&one_thread, 3);
    assert_eq!(two_threads.restore("actor", &[saved.to_path_buf()]).unwrap(), 3);
    assert!(rows(&two_threads, 3) == played, "saved and loaded");
    let loaded = LoadModel { load: saved.display().to_string(), act, ..Default::default() };
    assert!(rows(&policy(ModelSettings::Load(loaded), 1).unwrap(), 0) == played, "begun with");
}

/// By default, tokens are weighed by how much likelier they are to the learning weights; a setting overrides that.
#[test]
fn the_difference_is_made_up_for() {
    let act = |act| policy(ModelSettings::New(NewModel { act, ..tiny() }), 1).unwrap();
    let played = rows(&act(Act::Int8), 0);
    let update = |acts, old| {
        let policy = act(acts);
        let report = policy.update("actor", played.clone(), &UpdateSettings { old, lr: 1e-2, ..Default::default() }).unwrap();
        (report, policy.logprobs("actor", &played, None).unwrap())
    };
    let [recorded, recomputed] = [RatioDenominator::Recorded, RatioDenominator::Recomputed].map(|old| update(Act::Own, Some(old)));
    assert!(recorded != recomputed);
    assert!(update(Act::Own, None) == recorded && update(Act::Int8, None) == recomputed);
    assert!(update(Act::Int8, Some(RatioDenominator::Recorded)) == recorded);
}

#[test]
fn what_cannot_act_row_by_row_is_refused_in_words() {
    let refused = |model| policy(ModelSettings::New(model), 1).map(|_| ()).unwrap_err().to_string();
    let lora = LoraSettings { rank: 4, targets: vec!["all-linear".into()], ..Default::default() };
    assert!(refused(NewModel { act: Act::Int8, lora: Some(lora), ..tiny() }).contains("beside an adapter"));
    assert!(refused(NewModel { act: Act::Int8, head: Head::Value, ..tiny() }).contains("a critic doesn't act"));
}

/// The base is packed as it is read, matrix by matrix: the same bits as when it is read whole and then packed.
#[test]
fn a_base_that_is_packed_as_it_is_read_is_the_same() {
    let row = |i: u32| Example { prompt: vec![5 + i, 6, 7], response: vec![8, 9 + i, 10], ..Example::default() };
    let rows: Vec<Example> = (0..4).map(row).collect();
    let weighed = |net: &Net| {
        let rows: Vec<TrainingRow> = rows.iter().enumerate().map(|(i, row)| TrainingRow::new(i, row, &net.limits()).unwrap()).collect();
        logprobs(net, &rows, None, 4, &Parallel { threads: 1, peers: None, start: 0 }).unwrap()
    };
    for model in ["llama-tied", "llama-biases", "qwen2", "qwen3"] {
        for kept in [MatrixFormat::Int8, MatrixFormat::F32] {
            let stored = flow_checkpoint::stored::open(&folder(model)).unwrap();
            let read = checkpoint::packed(&stored, kept).unwrap().unwrap();
            let saved = checkpoint::load_stored(stored, Device::Cpu, Kind::Float).unwrap();
            let whole = Net::new(saved.architecture, &saved.flat, Kind::Float, saved.tokenizer.ends()).packed(kept, false);
            assert!(weighed(&read) == weighed(&whole) && weighed(&read).concat().iter().all(|x| *x < 0.0), "{model}, {kept:?}");
        }
    }
}

#[test]
fn a_number_that_is_none_is_found_while_the_base_is_packed() {
    let temporary = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(folder("qwen2")).unwrap().flatten().filter(|file| file.path().is_file()) {
        std::fs::copy(file.path(), temporary.path().join(file.file_name())).unwrap();
    }
    let path = temporary.path().join("model.safetensors");
    let mut tensors = Tensor::read_safetensors(&path).unwrap();
    let broken = tensors.iter_mut().find(|(name, _)| name.ends_with("layers.1.mlp.up_proj.weight")).unwrap();
    let _ = broken.1.get(3).fill_(f64::NAN);
    Tensor::write_safetensors(&tensors, &path).unwrap();
    let error = policy(settings(temporary.path(), Base::Int8, 0.0), 1).err().unwrap().to_string();
    assert!(error.contains("model.layers.1.mlp.up_proj.weight") && error.contains("NaN"), "{error}");
}
