//! Further adapters on one base: its weights are there once, and each adapter learns by itself.

use crate::tests::{examples, requests, sampling, tiny};
use crate::versions::VersionedModel;
use crate::*;
use flow_model::Base;
use flow_model::*;
use std::collections::BTreeMap;
use std::path::Path;
use tch::Device;

fn lora() -> LoraSettings {
    LoraSettings { rank: 4, alpha: 8.0, targets: vec!["all-linear".into()], ..Default::default() }
}

fn on(head: Option<Head>) -> SharedModel {
    SharedModel { on: "actor".into(), lora: Some(lora()), head, ..Default::default() }
}

fn start(models: &[(&str, ModelSettings)], threads: usize) -> Result<Policy, PolicyError> {
    let models: BTreeMap<String, ModelSettings> = models.iter().map(|(name, model)| (name.to_string(), model.clone())).collect();
    Policy::start(&models, &[], 3, threads)
}

/// A model on disk whose answers aren't all alike.
fn saved(folder: &Path) {
    let plain = start(&[("actor", ModelSettings::New(tiny()))], 1).unwrap();
    let requests = requests(60);
    let rows = examples(&requests, &plain.generate("actor", 0, requests.clone(), sampling(1.0)).unwrap());
    plain.update("actor", rows, &UpdateSettings { lr: 2e-2, ..Default::default() }).unwrap();
    plain.save("actor", folder).unwrap();
}

fn load(folder: &Path, base: Base) -> ModelSettings {
    ModelSettings::Load(LoadModel { load: folder.display().to_string(), lora: Some(lora()), base, ..Default::default() })
}

/// An actor, a second policy and a critic on one base.
fn three(folder: &Path, base: Base, threads: usize) -> Policy {
    let critic = on(Some(Head::Value));
    let models = [("actor", load(folder, base)), ("q", ModelSettings::Shared(on(None))), ("critic", ModelSettings::Shared(critic))];
    start(&models, threads).unwrap()
}

fn rows(policy: &Policy, model: &str, version: u64) -> Vec<Example> {
    let requests = requests(60);
    examples(&requests, &policy.generate(model, version, requests.clone(), sampling(1.0)).unwrap())
}

/// Rows whose target is the length of the prompt, in tens.
fn targets(rows: &[Example]) -> Vec<Example> {
    let target = |row: &Example| {
        let prompt = row.prompt.clone();
        Example { values: vec![0.0], targets: vec![prompt.len() as f32 / 10.0], prompt, ..Default::default() }
    };
    rows.iter().map(target).collect()
}

fn learn() -> UpdateSettings {
    UpdateSettings { lr: 1e-2, kl: 0.1, micro_batch: 16, ..Default::default() }
}

fn value() -> UpdateSettings {
    UpdateSettings { objective: Objective::Value, lr: 1e-2, value_clip: 0.0, ..Default::default() }
}

#[test]
fn the_weights_of_the_base_are_there_once() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("base");
    saved(&folder);
    let of = |settings| VersionedModel::new("actor", &settings, &[], 3, Device::Cpu).unwrap();
    let actor = of(load(&folder, Base::Own));
    let critic = actor.shared("critic", &on(Some(Head::Value)), 3).unwrap();
    assert_eq!(critic.start.base().data_ptr(), actor.start.base().data_ptr(), "the same storage");
    assert!(critic.values() && !actor.values());
    // 2 blocks of adapters, and a head for states of 32 numbers.
    assert_eq!(critic.start.layout().len(), actor.start.layout().len() + 32);
    let actor = of(load(&folder, Base::Int8));
    let critic = actor.shared("critic", &on(Some(Head::Value)), 3).unwrap();
    let engine = |model: &VersionedModel| std::sync::Arc::as_ptr(&model.start.engine().unwrap().engine);
    assert_eq!(engine(&critic), engine(&actor), "the same rounded base");
}

#[test]
fn each_adapter_learns_by_itself() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("base");
    saved(&folder);
    for base in [Base::Own, Base::Int8] {
        let (policy, alone) = (three(&folder, base, 1), start(&[("actor", load(&folder, base))], 1).unwrap());
        let played = rows(&policy, "actor", 0);
        let before = policy.logprobs("q", &played, None).unwrap();
        assert_eq!(before, policy.logprobs("actor", &played, None).unwrap(), "new adapters change nothing");
        let first = policy.update("q", played.clone(), &learn()).unwrap();
        assert!(first.kl.abs() < 1e-6, "the reference is the base without adapters");
        policy.update("q", played.clone(), &learn()).unwrap();
        let reports: Vec<f64> = (0..40).map(|_| policy.update("critic", targets(&played), &value()).unwrap().loss).collect();
        assert!(reports[39] < reports[0] / 5.0, "{base:?}: the critic learns, from {} to {}", reports[0], reports[39]);
        assert_eq!(
            [policy.versions("actor"), policy.versions("q"), policy.versions("critic")].map(|v| v.unwrap()),
            [vec![0], vec![1, 2], vec![39, 40]]
        );
        // The actor is where it was, and learns as if it were alone.
        assert_eq!(policy.logprobs("actor", &played, None).unwrap(), before);
        let updates = [&policy, &alone].map(|policy| policy.update("actor", played.clone(), &learn()).unwrap());
        assert!(updates[0] == updates[1], "{base:?}");
        assert_eq!(policy.reference_logprobs("q", None, played.clone(), None).unwrap(), before, "and so is what it is compared with");
        assert_ne!(policy.logprobs("q", &played, None).unwrap(), before);
    }
}

/// The loss follows from the values, a value from its prompt alone, and the number of threads changes no bit.
#[test]
fn a_critic_with_an_adapter_answers_what_it_learns() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("base");
    saved(&folder);
    for base in [Base::Own, Base::Int8] {
        let (one, two) = (three(&folder, base, 1), three(&folder, base, 2));
        let rows = targets(&rows(&one, "actor", 0));
        assert!(one.values("critic", 0, rows.clone()).unwrap().iter().all(|v| *v == [0.0]), "a new one expects nothing");
        for policy in [&one, &two] {
            (0..2).for_each(|_| drop(policy.update("critic", rows.clone(), &value()).unwrap()));
        }
        let all = one.values("critic", 2, rows.clone()).unwrap();
        assert!(all == two.values("critic", 2, rows.clone()).unwrap() && all.iter().any(|v| *v != all[0]), "{base:?}");
        for (row, value) in rows.iter().zip(&all).step_by(7) {
            assert_eq!(one.values("critic", 2, vec![row.clone()]).unwrap(), std::slice::from_ref(value), "{base:?}: alone");
        }
        let half = |(row, value): (&Example, &Vec<f32>)| f64::from(value[0] - row.targets[0]).powi(2) / 2.0;
        let wanted = rows.iter().zip(&all).map(half).sum::<f64>() / rows.len() as f64;
        let report = one.update("critic", rows.clone(), &UpdateSettings { lr: 0.0, ..value() }).unwrap();
        assert!((report.loss - wanted).abs() < 1e-5, "{base:?}: {} and {wanted}", report.loss);
        // What it expects of choices is what it expects after them.
        let choices = vec![vec![50, 100, END], vec![60, END]];
        let request = Request { prompt: vec![7, 8, 9], choices, ..Default::default() };
        let worths = one.choice_values("critic", 2, vec![request]).unwrap().choices.concat();
        let after = [vec![7, 8, 9, 50, 100], vec![7, 8, 9, 60]].map(|prompt| Example { prompt, ..Default::default() });
        let after = one.values("critic", 2, after.to_vec()).unwrap().concat();
        assert!(worths.iter().zip(&after).all(|(a, b)| (a - f64::from(*b)).abs() < 1e-5), "{base:?}: {worths:?} {after:?}");
    }
}

/// A critic's gradient by the engine is that of libtorch, up to the rounding of the base: after one step of each the
/// two expect about the same.
#[test]
fn a_critic_learns_the_same_on_a_rounded_base() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("base");
    saved(&folder);
    let learnt = [Base::Own, Base::Int8, Base::F32].map(|base| {
        let policy = three(&folder, base, 1);
        let rows = targets(&rows(&policy, "actor", 0));
        let reports: Vec<_> = (0..20).map(|_| policy.update("critic", rows.clone(), &value()).unwrap()).collect();
        (reports[0].loss, reports[0].grad_norm, reports[19].loss)
    });
    let [own, int8, f32] = learnt;
    assert!((own.0 - f32.0).abs() < 1e-4 && (own.1 / f32.1 - 1.0).abs() < 1e-3 && (own.2 - f32.2).abs() < 0.02 * own.0, "{learnt:?}");
    assert!((own.0 - int8.0).abs() < 0.1 * own.0 && (own.1 - int8.1).abs() < 0.05 * own.1, "{learnt:?}");
    assert!((own.2 - int8.2).abs() < 0.2 * own.0, "{learnt:?}");
}

#[test]
fn saved_gone_on_with_and_loaded_whole() {
    let temporary = tempfile::tempdir().unwrap();
    let (folder, second) = (temporary.path().join("base"), temporary.path().join("critic"));
    saved(&folder);
    let policy = three(&folder, Base::Own, 1);
    let rows = targets(&rows(&policy, "actor", 0));
    (0..3).for_each(|_| drop(policy.update("critic", rows.clone(), &value()).unwrap()));
    policy.save("critic", &second).unwrap();
    let wanted = policy.values("critic", 3, rows.clone()).unwrap();
    // As a run that is resumed: it begins with an adapter, and takes the newest version with its moments.
    let adapter = SharedModel { adapter: Some(second.display().to_string()), lora: None, ..on(None) };
    let again = start(&[("actor", load(&folder, Base::Own)), ("critic", ModelSettings::Shared(adapter))], 1).unwrap();
    assert_eq!(again.values("critic", 0, rows.clone()).unwrap(), wanted, "its head came with it");
    assert_eq!(again.restore("critic", &[second.to_path_buf()]).unwrap(), 3);
    let reports = [&policy, &again].map(|policy| policy.update("critic", rows.clone(), &value()).unwrap());
    assert!(reports[0] == reports[1], "moments too");
    // Loaded by itself it is a critic, with the adapter merged.
    let load = ModelSettings::Load(LoadModel { load: second.display().to_string(), ..Default::default() });
    let whole = start(&[("critic", load)], 1).unwrap();
    let found = whole.values("critic", 0, rows.clone()).unwrap();
    assert!(found.concat().iter().zip(wanted.concat()).all(|(a, b)| (a - b).abs() < 1e-4));
    let critic = flow_checkpoint::stored::open(&second).unwrap();
    assert!(critic.values() && !critic.architecture.sizes().value, "the head is the adapter's");
}

/// The head of a critic that was trained whole is gone on from, also where an adapter learns the rest and the base is
/// rounded.
#[test]
fn the_head_of_a_saved_critic_is_learnt_on() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("critic");
    let critic = start(&[("critic", ModelSettings::New(NewModel { head: Head::Value, ..tiny() }))], 1).unwrap();
    let rows = targets(&examples(&requests(40), &vec![Reply { tokens: vec![END], logprobs: vec![0.0] }; 40]));
    (0..20).for_each(|_| drop(critic.update("critic", rows.clone(), &value()).unwrap()));
    critic.save("critic", &folder).unwrap();
    let wanted = critic.values("critic", 20, rows.clone()).unwrap().concat();
    for (base, close) in [(Base::Own, 1e-6), (Base::Int8, 0.2)] {
        let adapted = start(&[("critic", load(&folder, base))], 1).unwrap();
        let found = adapted.values("critic", 0, rows.clone()).unwrap().concat();
        assert!(found.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < close), "{base:?}: {found:?} {wanted:?}");
    }
}

#[test]
fn what_has_no_base_to_share_is_refused_in_words() {
    let refused = |models: &[(&str, ModelSettings)]| start(models, 1).map(|_| ()).unwrap_err().to_string();
    let q = ModelSettings::Shared(on(None));
    assert!(refused(&[("q", q.clone())]).contains("no model `actor`"));
    let actor = ModelSettings::New(NewModel { lora: Some(lora()), ..tiny() });
    let further = ModelSettings::Shared(SharedModel { on: "q".into(), ..on(None) });
    assert!(refused(&[("actor", actor.clone()), ("q", q.clone()), ("r", further)]).contains("no base of its own"));
    let critic = ModelSettings::New(NewModel { head: Head::Value, ..tiny() });
    let writes = ModelSettings::Shared(on(Some(Head::Language)));
    assert!(refused(&[("actor", critic), ("q", writes)]).contains("value head"));
}
