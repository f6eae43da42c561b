//! A critic: a model with a value head, what it answers and how it learns.

use crate::tests::{examples, requests, sampling, tiny};
use crate::*;
use flow_model::*;
use std::collections::BTreeMap;

fn start(threads: usize) -> Policy {
    let models = [("actor", tiny()), ("critic", NewModel { head: Head::Value, ..tiny() })];
    let models = models.map(|(name, model)| (name.to_string(), ModelSettings::New(model)));
    Policy::start(&models.into_iter().collect(), &[], 3, threads).unwrap()
}

/// What the actor writes.
fn written(policy: &Policy) -> Vec<Example> {
    let requests = requests(40);
    let replies = policy.generate("actor", 0, requests.clone(), sampling(1.0)).unwrap();
    examples(&requests, &replies)
}

/// Rows whose target is the length of the prompt, in tens: a turn's, so without a response.
fn rows(policy: &Policy) -> Vec<Example> {
    let mut rows = written(policy);
    for row in &mut rows {
        (row.values, row.targets) = (vec![0.0], vec![row.prompt.len() as f32 / 10.0]);
        row.response.clear();
    }
    rows
}

fn learn() -> UpdateSettings {
    UpdateSettings { objective: Objective::Value, lr: 3e-3, value_clip: 0.0, ..Default::default() }
}

#[test]
fn a_critic_learns_what_to_expect() {
    let policy = start(2);
    let mut rows = rows(&policy);
    assert!(policy.values("critic", 0, rows.clone()).unwrap().iter().all(|v| *v == [0.0]), "a new one expects nothing");
    let reports: Vec<_> = (0..150).map(|_| policy.update("critic", rows.clone(), &learn()).unwrap()).collect();
    assert!(reports[0].loss > 2.0 && reports[149].loss < 0.1, "from {} to {}", reports[0].loss, reports[149].loss);
    assert_eq!((reports[0].tokens, reports[0].kl, reports[0].clip_fraction), (rows.len(), 0.0, 0.0));
    // What an update computes is what is answered: the loss follows from the values.
    let values = policy.values("critic", 150, rows.clone()).unwrap();
    let halves = |prediction: &dyn Fn(usize) -> f32| {
        (0..rows.len()).map(|i| f64::from(prediction(i) - rows[i].targets[0]).powi(2) / 2.0).collect::<Vec<_>>()
    };
    let squares = halves(&|i| values[i][0]);
    let report = policy.update("critic", rows.clone(), &UpdateSettings { lr: 0.0, ..learn() }).unwrap();
    assert!((report.loss - squares.iter().sum::<f64>() / 40.0).abs() < 1e-6);
    for (row, square) in report.rows.iter().zip(&squares) {
        assert!((f64::from(row.loss_share) - square / 40.0).abs() < 1e-6 && row.used == RowUse::Yes && row.ratio == 1.0);
    }
    // Recorded values far off hold each value back, where that makes the loss larger.
    rows.iter_mut().for_each(|row| row.values[0] = row.targets[0] + 1.0);
    let report = policy.update("critic", rows.clone(), &UpdateSettings { lr: 0.0, value_clip: 0.25, ..learn() }).unwrap();
    assert!((report.loss - 0.75f64.powi(2) / 2.0).abs() < 1e-3 && report.clip_fraction > 0.9, "{report:?}");
}

#[test]
fn a_critic_learns_what_to_expect_before_each_token() {
    let policy = start(2);
    let mut rows = written(&policy);
    for row in &mut rows {
        row.targets = (0..row.response.len()).map(|token| (row.prompt.len() + token) as f32 / 10.0).collect();
        row.values = vec![0.0; row.response.len()];
    }
    let tokens: usize = rows.iter().map(|row| row.response.len()).sum();
    let reports: Vec<_> = (0..150).map(|_| policy.update("critic", rows.clone(), &learn()).unwrap()).collect();
    assert!(reports[0].loss > 2.0 && reports[149].loss < 0.1, "from {} to {}", reports[0].loss, reports[149].loss);
    assert_eq!(reports[0].tokens, tokens);
    let values = policy.values("critic", 150, rows.clone()).unwrap();
    let square = |(row, values): (&Example, &Vec<f32>)| row.targets.iter().zip(values).map(|(t, v)| f64::from(t - v).powi(2)).sum::<f64>();
    let expected = rows.iter().zip(&values).map(square).sum::<f64>() / 2.0 / tokens as f64;
    let report = policy.update("critic", rows.clone(), &UpdateSettings { lr: 0.0, ..learn() }).unwrap();
    assert!((report.loss - expected).abs() < 1e-6, "{} and {expected}", report.loss);
    // A token's value is that of the prompt that ends there: the response goes on from it, and later tokens change
    // nothing.
    for (row, values) in rows.iter().zip(&values).take(16) {
        let prompts =
            (0..values.len()).map(|token| Example { prompt: [&row.prompt[..], &row.response[..token]].concat(), ..Default::default() });
        let alone = policy.values("critic", 150, prompts.collect()).unwrap().concat();
        assert!(alone.iter().zip(values).all(|(a, b)| (a - b).abs() < 1e-5), "{alone:?} and {values:?}");
    }
}

/// Two advantages for two tokens: each token's loss has its own.
#[test]
fn each_token_has_its_own_advantage() {
    let policy = start(1);
    let mut rows = written(&policy);
    for row in &mut rows {
        row.advantages = (0..row.response.len()).map(|token| token as f32 - 0.5).collect();
    }
    // The ratio is 1 at equal weights, so a row's loss is the mean of -A over its tokens.
    let report = policy.update("actor", rows.clone(), &UpdateSettings { lr: 0.0, ..Default::default() }).unwrap();
    let tokens: usize = rows.iter().map(|row| row.response.len()).sum();
    let expected = -rows.iter().flat_map(|row| &row.advantages).map(|a| f64::from(*a)).sum::<f64>() / tokens as f64;
    assert!((report.loss - expected).abs() < 1e-4, "{} and {expected}", report.loss);
    rows[4].advantages.push(1.0);
    let error = policy.update("actor", rows, &UpdateSettings::default()).unwrap_err().to_string();
    assert!(error.contains("advantages"), "{error}");
}

#[test]
fn a_value_depends_on_its_prompt_alone() {
    let policy = start(1);
    let rows = rows(&policy);
    policy.update("critic", rows.clone(), &learn()).unwrap();
    policy.update("critic", rows.clone(), &learn()).unwrap();
    let all = policy.values("critic", 2, rows.clone()).unwrap();
    assert!(all.iter().any(|v| *v != all[0]));
    let other = start(3);
    (0..2).for_each(|_| drop(other.update("critic", rows.clone(), &learn()).unwrap()));
    assert_eq!(other.values("critic", 2, rows.clone()).unwrap(), all, "the number of threads");
    for (row, value) in rows.iter().zip(&all).take(16) {
        assert_eq!(other.values("critic", 2, vec![row.clone()]).unwrap(), std::slice::from_ref(value), "the neighbours");
    }
}

#[test]
fn each_head_does_what_it_can() {
    let policy = start(1);
    let rows = rows(&policy);
    assert!(matches!(policy.generate("critic", 0, requests(1), sampling(1.0)), Err(PolicyError::Model { .. })));
    assert!(matches!(policy.values("actor", 0, rows.clone()), Err(PolicyError::Model { .. })));
    assert!(matches!(policy.update("critic", rows.clone(), &UpdateSettings::default()), Err(PolicyError::Model { .. })));
    assert!(matches!(policy.update("actor", rows.clone(), &learn()), Err(PolicyError::Model { .. })));
    let mut bad = rows.clone();
    bad[3].targets = vec![f32::NAN];
    assert!(matches!(policy.update("critic", bad, &learn()), Err(PolicyError::Row { row: 3, .. })));
    let mut short = rows.clone();
    short[5].values.clear();
    let error = policy.update("critic", short, &learn()).unwrap_err().to_string();
    assert!(error.contains("1 tokens need as many recorded values; there are 0"), "{error}");
    let words = ModelSettings::New(NewModel { tokens: TokenKind::Words, head: Head::Value, ..tiny() });
    let models = BTreeMap::from([("actor".to_string(), ModelSettings::New(tiny())), ("critic".to_string(), words)]);
    let error = Policy::start(&models, &["up".to_string()], 3, 1).err().unwrap();
    assert!(error.to_string().contains("vocabulary"), "{error}");
}

#[test]
fn a_critic_is_saved_and_can_begin_as_a_policy() {
    let folder = tempfile::tempdir().unwrap();
    let (actor, critic) = (folder.path().join("actor"), folder.path().join("critic"));
    let policy = start(1);
    let rows = rows(&policy);
    policy.update("actor", written(&policy), &UpdateSettings { lr: 1e-2, ..Default::default() }).unwrap();
    policy.update("critic", rows.clone(), &learn()).unwrap();
    policy.save("actor", &actor).unwrap();
    policy.save("critic", &critic).unwrap();
    let load = |path: &std::path::Path, head| {
        let load = ModelSettings::Load(LoadModel { load: path.display().to_string(), head, ..Default::default() });
        Policy::start(&BTreeMap::from([("model".to_string(), load)]), &[], 3, 1)
    };
    let again = load(&critic, None).unwrap();
    assert_eq!(again.values("model", 0, rows.clone()).unwrap(), policy.values("critic", 1, rows.clone()).unwrap());
    assert!(load(&critic, Some(Head::Language)).is_err());
    let begun = load(&actor, Some(Head::Value)).unwrap();
    assert_eq!(begun.parameters("model").unwrap(), policy.parameters("critic").unwrap());
    assert!(begun.values("model", 0, rows.clone()).unwrap().iter().all(|v| *v == [0.0]));
    // The blocks are the policy's: with one step of the head alone, the value is that head times the policy's final
    // state.
    begun.update("model", rows.clone(), &learn()).unwrap();
    let fresh = load(&actor, Some(Head::Value)).unwrap();
    fresh.update("model", rows.clone(), &learn()).unwrap();
    let values = begun.values("model", 1, rows.clone()).unwrap();
    assert!(values == fresh.values("model", 1, rows.clone()).unwrap() && values != policy.values("critic", 1, rows).unwrap());
}
