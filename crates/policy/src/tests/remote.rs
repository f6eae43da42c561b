//! A model that a server runs: its requests, how answers are read, and how invalid answers are treated.

#[path = "../../../../tests/shared/server.rs"]
mod server;

use crate::*;
use flow_model::*;
use flow_text::Message;
use serde_json::json;
use server::{echoed, spoken, Said, Server};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// A policy with the model `actor`, which that server runs.
fn policy(url: &str, tries: u32, timeout: f64) -> Policy {
    let settings = json!({ "openai": url, "model": "big", "tries": tries, "timeout": timeout, "parallel": 4 });
    let models = BTreeMap::from([("actor".to_string(), serde_json::from_value::<ModelSettings>(settings).unwrap())]);
    Policy::start(&models, &[], 3, 1).unwrap()
}

fn ask(policy: &Policy, texts: &[&str]) -> Result<Vec<Result<Reply, RowFault>>, PolicyError> {
    let tokenizer = policy.tokenizer("actor").unwrap();
    let requests =
        texts.iter().map(|text| Request { prompt: tokenizer.ask(text).unwrap(), seed: 7 << 40, choices: vec![], ..Request::default() });
    let sampling = Sampling { temperature: 0.5, top_k: 3, max_tokens: 9, ..Default::default() };
    Ok(policy.answer("actor", 0, requests.collect(), sampling)?.replies)
}

fn cause(reply: &Result<Reply, RowFault>) -> (Unanswered, String) {
    match reply {
        Err(RowFault::Unanswered { cause, what }) => (*cause, what.clone()),
        other => panic!("{other:?}"),
    }
}

/// What is asked has the form of OpenAI's API, and the answer's bytes have the log-probabilities of the server's
/// tokens.
#[test]
fn a_server_answers_as_a_model_here_would() {
    let server = Server::start(|_, _, _| Said::ok(spoken(&[("<action>", -0.5), ("up", -1.0)], "stop")));
    let policy = policy(&server.url, 1, 20.0);
    let tokenizer = policy.tokenizer("actor").unwrap();
    let conversation =
        [Message { role: "system".into(), content: "Be brief.".into() }, Message { role: "user".into(), content: "Where?".into() }];
    let request = Request { prompt: tokenizer.chat(&conversation).unwrap(), seed: 5 << 33, choices: vec![], ..Request::default() };
    let sampling = Sampling { temperature: 0.5, top_k: 3, max_tokens: 9, ..Default::default() };
    let replies = policy.generate("actor", 4, vec![request], sampling).unwrap();
    let mut expected = vec![0.0; 11];
    (expected[0], expected[8]) = (-0.5, -1.0);
    assert_eq!(replies[0].logprobs, expected);
    assert_eq!(tokenizer.decode(&replies[0].tokens), "<action>up");
    assert_eq!(replies[0].tokens.last(), Some(&tokenizer.end()));
    let (path, key, body) = server.asked.lock().unwrap()[0].clone();
    assert_eq!((path.as_str(), key.as_str()), ("/v1/chat/completions", ""));
    let messages = json!([{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "Where?" }]);
    // What a server would else choose itself is sent as it is meant.
    let expected = json!({ "model": "big", "messages": messages, "temperature": 0.5, "top_p": 1.0, "max_tokens": 9, "seed": 5, "logprobs": true,
        "presence_penalty": 0.0, "frequency_penalty": 0.0, "top_k": 3, "min_p": 0.0, "repetition_penalty": 1.0, "repeat_penalty": 1.0 });
    assert_eq!(body, expected);
    let refused = policy.update("actor", vec![], &UpdateSettings::default()).unwrap_err().to_string();
    assert!(refused.contains("a server has its weights, and only answers"), "{refused}");
}

/// OpenAI's own API refuses settings that it doesn't have: neutral ones are left out from then on, and any other is
/// refused for good.
#[test]
fn a_strict_server_is_sent_what_it_knows() {
    let server = Server::start(|_, _, body| match ["repetition_penalty", "min_p"].iter().find(|name| !body[**name].is_null()) {
        Some(name) => Said::status(400, format!("Unrecognized request argument supplied: {name}")),
        None => Said::ok(spoken(&[("up", -1.0)], "stop")),
    });
    let policy = policy(&server.url, 1, 20.0);
    assert!(ask(&policy, &["a"]).unwrap()[0].is_ok() && ask(&policy, &["b"]).unwrap()[0].is_ok());
    let asked = server.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 3, "refused once, and never asked so again");
    assert_eq!((&asked[1].2["top_k"], &asked[1].2["min_p"]), (&json!(3), &json!(null)), "what is asked for is sent");
    let request = Request { prompt: policy.tokenizer("actor").unwrap().ask("c").unwrap(), ..Request::default() };
    let replies = policy.answer("actor", 0, vec![request], Sampling { min_p: 0.1, ..Sampling::default() }).unwrap().replies;
    assert!(cause(&replies[0]).1.contains("min_p"), "{replies:?}");
}

/// An answer that the length cut off isn't closed.
#[test]
fn what_was_cut_off_has_no_end() {
    let server = Server::start(|_, _, _| Said::ok(spoken(&[("up", -1.0)], "length")));
    let replies = ask(&policy(&server.url, 1, 20.0), &["a"]).unwrap();
    assert_eq!(replies[0].as_ref().unwrap().logprobs, [-1.0, 0.0]);
}

#[test]
fn a_limit_on_the_rate_and_an_error_are_waited_out() {
    let server = Server::start(|number, _, _| match number {
        0 => Said { headers: "retry-after: 0\r\n", ..Said::status(429, "slow down") },
        1 => Said { headers: "retry-after: 0.01\r\n", ..Said::status(500, "oh") },
        2 => Said { headers: "retry-after: 0\r\n", ..Said::status(503, "<html>") },
        _ => Said::ok(spoken(&[("up", -1.0)], "stop")),
    });
    assert_eq!(ask(&policy(&server.url, 4, 20.0), &["a"]).unwrap()[0].as_ref().unwrap().logprobs.len(), 3);
    assert_eq!(server.asked.lock().unwrap().len(), 4);
}

/// Whatever goes wrong with one question costs that one alone.
#[test]
fn what_is_no_answer_is_a_fault_of_its_row() {
    let server = Server::start(|_, _, body| match body["messages"][0]["content"].as_str().unwrap_or_default() {
        "busy" => Said { headers: "retry-after: 0\r\n", ..Said::status(429, "slow down") },
        "broken" => Said { headers: "retry-after: 0\r\n", ..Said::status(500, "oh\nno") },
        "long" => Said::status(400, "the context is 8 tokens"),
        "garbage" => Said::status(200, "\u{1}<html>"),
        "other" => Said::ok(json!({ "choices": [] })),
        "bare" => Said::ok(json!({ "choices": [{ "message": { "content": "up" } }] })),
        "wrong" => Said::ok(spoken(&[("up", f64::from(f32::MAX))], "stop")),
        "slow" => Said { after: Duration::from_secs(3), ..Said::ok(spoken(&[("up", -1.0)], "stop")) },
        _ => Said::ok(spoken(&[("up", -1.0)], "stop")),
    });
    let policy = policy(&server.url, 1, 1.5);
    let replies = ask(&policy, &["fine", "busy", "broken", "long", "garbage", "other", "bare", "wrong", "slow", "fine too"]).unwrap();
    assert!(replies[0].is_ok() && replies[9].is_ok());
    let causes: Vec<(Unanswered, String)> = replies[1..9].iter().map(cause).collect();
    use flow_model::Unanswered::*;
    let kinds: Vec<Unanswered> = causes.iter().map(|(cause, _)| *cause).collect();
    assert_eq!(kinds, [Refused, Refused, Refused, Malformed, Malformed, Malformed, Malformed, Late]);
    assert!(causes[1].1.ends_with("/v1/chat/completions: HTTP 500: oh no"), "{}", causes[1].1);
    assert!(causes[2].1.contains("the context is 8 tokens"));
    assert!(causes[3].1.contains("no JSON"), "{}", causes[3].1);
    assert!(causes[5].1.contains("log-probabilities"), "{}", causes[5].1);
}

/// Without a server that answers, playing on is useless.
#[test]
fn a_server_that_is_gone_or_refuses_everybody_is_an_error() {
    let refuses = Server::start(|_, _, _| Said::status(401, "no key"));
    let error = ask(&policy(&refuses.url, 5, 20.0), &["a", "b", "c"]).unwrap_err().to_string();
    assert!(error.contains("`actor`") && error.ends_with("HTTP 401: no key"), "{error}");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = ask(&policy(&format!("http://{port}/v1"), 1, 20.0), &["a"]).unwrap_err().to_string();
    assert!(error.contains("gives no answers") && error.contains(&port.to_string()), "{error}");
}

#[test]
fn the_key_is_sent_and_must_be_there() {
    let server = Server::start(|_, _, _| Said::ok(spoken(&[("up", -1.0)], "stop")));
    let start = |key: &str| {
        let settings = ServerSettings { key: Some(key.into()), timeout: 20.0, tries: 1, parallel: 1 };
        let (openai, template) = (server.url.clone(), TemplateVariables::new());
        let settings = RemoteModel { openai, server: settings, model: "big".into(), template };
        Policy::start(&BTreeMap::from([("actor".to_string(), ModelSettings::Remote(settings))]), &[], 3, 1)
    };
    ask(&start("PATH").unwrap(), &["a"]).unwrap();
    assert_eq!(server.asked.lock().unwrap()[0].1, format!("Bearer {}", std::env::var("PATH").unwrap()));
    let error = start("NO_SUCH_KEY_OF_FLOW").err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("`NO_SUCH_KEY_OF_FLOW`"), "{error}");
}

/// exp(score / temperature) over the sum: the score of a choice is that of its characters and of the line break that
/// closes it.
#[test]
fn choices_are_drawn_by_their_likelihood() {
    let score = |c: char| if c == 'u' { -0.5 } else { -1.0 };
    let server = Server::start(move |_, _, body| Said::ok(echoed(body, score)));
    let policy = policy(&server.url, 1, 20.0);
    let tokenizer = policy.tokenizer("actor").unwrap();
    let closed = |text: &str| [tokenizer.encode(text), vec![tokenizer.end()]].concat();
    let choices = vec![closed("up"), closed("u"), closed("down"), closed("up")];
    let draw = |temperature: f64, count: u64| {
        let requests = (0..count).map(|i| Request {
            prompt: tokenizer.ask("Go: ").unwrap(),
            seed: flow_core::seed::mix(i, 1),
            choices: choices.clone(),
            ..Request::default()
        });
        policy.generate("actor", 0, requests.collect(), Sampling { temperature, ..Default::default() }).unwrap()
    };
    // -2.5, -1.5 and -5, with the line break.
    let weights = [(-2.5f64).exp(), (-1.5f64).exp(), (-5.0f64).exp()];
    let share = |i: usize| weights[i] / weights.iter().sum::<f64>();
    let replies = draw(1.0, 2000);
    for (i, text) in ["up", "u", "down"].into_iter().enumerate() {
        let drawn: Vec<&Reply> = replies.iter().filter(|reply| reply.tokens == closed(text)).collect();
        let sum = |reply: &Reply| reply.logprobs.iter().map(|x| f64::from(*x)).sum::<f64>();
        assert!(drawn.iter().all(|reply| (sum(reply) - share(i).ln()).abs() < 1e-5), "{text}");
        let deviation = (share(i) * (1.0 - share(i)) / 2000.0).sqrt();
        assert!((drawn.len() as f64 / 2000.0 - share(i)).abs() < 5.0 * deviation, "{text}: {}", drawn.len());
    }
    // What many ask alike is asked once; before that it was asked whether it can rank at all.
    assert_eq!(server.asked.lock().unwrap().len(), 1 + 3);
    assert!(draw(0.0, 5).iter().all(|reply| reply.tokens == closed("u")), "the likeliest");
    let prompts: Vec<String> =
        server.asked.lock().unwrap().iter().map(|(_, _, body)| body["prompt"].as_str().unwrap().to_owned()).collect();
    assert!(prompts.contains(&"Go: down\n".to_owned()), "{prompts:?}");
}

#[test]
fn a_server_that_cannot_rank_is_told_before_anything_is_played() {
    for response in
        [Said::status(404, "no such path"), Said::status(400, "echo isn't supported"), Said::ok(json!({ "choices": [{ "text": "a" }] }))]
    {
        let response = Mutex::new(Some(response));
        let server = Server::start(move |_, _, _| response.lock().unwrap().take().unwrap_or_else(|| Said::status(500, "asked twice")));
        let policy = policy(&server.url, 1, 20.0);
        let choices = vec![vec![5, END], vec![6, END]];
        let error = policy
            .generate("actor", 0, vec![Request { prompt: vec![4], seed: 1, choices, ..Request::default() }], Sampling::default())
            .unwrap_err();
        let error = error.to_string();
        assert!(error.contains("`decode: free`") || error.contains("HTTP 404"), "{error}");
    }
}
