//! What `gpu-update` logs of every row that reached it, asked as its users ask it.

use crate::common::*;

#[test]
fn every_row_is_accounted_for() {
    let folder = tempfile::tempdir().unwrap();
    let sets = ["minibatch=16", "remainder=drop", "invalid=drop", "kl=0.1", "mask_below=0.08", "mask_from=start"]
        .map(|s| format!("nodes.update.with.{s}"));
    let extra: Vec<&str> = sets.iter().flat_map(|s| ["--set", s]).chain(["--set", "iterations=1"]).collect();
    let run = trained(folder.path(), "run", SMALL, &extra);
    let all = ask(&run, "select (select count(*) from rollout) as played, (select count(*) from \"update\") as reached");
    assert_eq!(all[0]["played"], all[0]["reached"]);
    let counts = ask(&run, "select used, count(*) as n from \"update\" group by used order by used");
    let count = |used: &str| counts.iter().find(|c| c["used"] == used).map_or(0, |c| c["n"].as_u64().unwrap());
    assert!(count("remainder") > 0 && count("yes") > 0 && count("yes") % 16 == 0, "{counts:?}");
    assert!(count("invalid") + count("masked_low_probability") > 0, "{counts:?}");
    let neutral = "select count(*) as n from \"update\" where used <> 'yes' and (ratio, clip_share, loss_share, logit_grad, row_kl) <> (1, 0, 0, 0, 0)";
    assert_eq!(ask(&run, neutral)[0]["n"], 0);
    let sums = ask(
        &run,
        "select sum(loss_share) as shares, (select value from metrics where node = 'update' and name = 'loss')
            * ((count(*) filter (used = 'yes')) / 16) as loss from \"update\"",
    );
    let number = |name: &str| sums[0][name].as_f64().unwrap();
    assert!((number("shares") - number("loss")).abs() < 1e-4 && number("loss").abs() > 1e-6, "{sums:?}");
}

/// A row's figures are those of its tokens: the mean of their ratios, the root of the sum of their squared gradients;
/// and the update's entropy is the mean over all of its tokens.
#[test]
fn figures_of_tokens_add_up_to_those_of_rows() {
    let folder = tempfile::tempdir().unwrap();
    let sets = ["iterations=1", "nodes.update.with.token_figures=true"];
    let extra: Vec<&str> = sets.iter().flat_map(|s| ["--set", s]).collect();
    let run = trained(folder.path(), "run", SMALL, &extra);
    let apart = ask(
        &run,
        "select count(*) as rows, count(distinct ratio) as ratios, max(abs(list_avg(token_ratios) - ratio)) as ratio,
            max(abs(sqrt(list_sum([g * g for g in token_grads])) - logit_grad) / (logit_grad + 1e-6)) as grad,
            sum(len(token_entropies)) as tokens, sum(list_sum(token_entropies)) as entropy from \"update\" where used = 'yes'",
    );
    let number = |name: &str| apart[0][name].as_f64().unwrap();
    assert!(number("rows") > 10.0 && number("ratios") > 1.0 && number("ratio") < 1e-5 && number("grad") < 1e-4, "{apart:?}");
    let written = ask(&run, "select sum(len(response_tokens)) as tokens from rollout join \"update\" using (iteration, task, sample, attempt, turn, phase) where used = 'yes'");
    assert_eq!(written[0]["tokens"].as_f64().unwrap(), number("tokens"));
    let figure = ask(&run, "select value from metrics where node = 'update' and name = 'entropy'");
    let both = figure[0]["value"].as_f64().unwrap();
    assert!((number("entropy") / number("tokens") - both).abs() < 1e-5 && both > 0.1, "{apart:?} {both}");
    let bare = trained(folder.path(), "bare", SMALL, &["--set", "iterations=1"]);
    assert!(ask(&bare, "select column_name from (describe \"update\") where column_name like 'token%'").is_empty());
}

#[test]
fn weights_that_aged_are_told_from_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let late = SMALL.replace("weights: { after: update }", "weights: { after: update, staleness: 2 }");
    let stale = |name: &str, most: &str| {
        let set = format!("nodes.update.with.max_staleness={most}");
        let run = trained(folder.path(), name, &late, &["--set", &set, "--set", "iterations=4"]);
        let sql =
            "select u.iteration, any_value(u.version) as version, any_value(r.weights) as weights, bool_and(u.used = 'too_stale') as stale,
            bool_or(u.used = 'too_stale') as some from \"update\" u join rollout r using (iteration, task, sample, attempt, turn, phase)
            group by u.iteration order by u.iteration";
        ask(&run, sql)
    };
    for (name, most) in [("one", 1), ("three", 3)] {
        let mut newest = 0;
        for row in stale(name, &most.to_string()) {
            let too_old = newest - row["weights"].as_u64().unwrap() > most;
            assert!(row["stale"] == too_old && row["some"] == too_old, "{row}");
            assert_eq!(row["version"], newest + !too_old as u64, "an update without rows makes no version");
            newest = row["version"].as_u64().unwrap();
        }
        assert_eq!(newest == 4, most == 3);
    }
}

#[test]
fn rows_that_break_an_update_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = pipeline(folder.path(), SMALL);
    let set = ["--set", "nodes.update.with.lr=1e30"];
    let message = fails(flow().arg("run").arg(path).arg("--out").arg(folder.path().join("run")).args(set));
    assert!(message.contains("update, iteration 1: ") && message.contains("task minesweeper-4x4-m2-"), "{message}");
    assert!(message.contains("sample ") && message.contains("turn "), "{message}");
}

/// With a ratio of 1 and no KL term a token has the loss w A, and its gradient at the logits lies between |w A| (1 - p)
/// and sqrt 2 times that: the other probabilities add up to 1 - p. These rows have one token that was chosen among
/// several; the others have no gradient. What the policy is nearly sure of hardly moves it, whatever its advantage is.
#[test]
fn a_rows_gradient_at_the_logits_is_small_where_the_policy_is_sure() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", SMALL, &["--set", "iterations=1"]);
    let rows = ask(
        &run,
        "select abs(loss_share) / len(logprobs) as share, logit_grad, 1 - exp(list_sum(logprobs)) as rest from trajectories
         where used = 'yes' and len(list_filter(logprobs, x -> x < 0)) = 1 and loss_share <> 0",
    );
    assert!(rows.len() > 20, "{}", rows.len());
    for row in &rows {
        let [share, gradient, rest] = ["share", "logit_grad", "rest"].map(|name| row[name].as_f64().unwrap());
        let least = share * rest;
        assert!(gradient > 0.99 * least && gradient < 1.01 * std::f64::consts::SQRT_2 * least, "{row}");
    }
    // `show --moved` opens the trajectory of the row that moved the policy most.
    let most = &ask(&run, "select task, sample from provenance order by logit_grad desc, task, sample limit 1")[0];
    let shown: serde_json::Value = serde_json::from_str(&done(flow().arg("show").arg(&run).args(["--moved", "--format", "json"]))).unwrap();
    assert_eq!((&shown["task"], &shown["sample"]), (&most["task"], &most["sample"]));
}
