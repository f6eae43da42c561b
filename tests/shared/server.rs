//! A tiny server that speaks OpenAI's API as tests want it to.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What it says to one question; with the status 0 it hangs up.
pub struct Said {
    pub status: u16,
    pub headers: &'static str,
    pub body: String,
    pub after: Duration,
}

impl Said {
    pub fn ok(body: Value) -> Said {
        Said::status(200, body.to_string())
    }

    pub fn status(status: u16, body: impl Into<String>) -> Said {
        Said { status, headers: "", body: body.into(), after: Duration::ZERO }
    }
}

/// A server on this machine, for as long as the test runs.
pub struct Server {
    /// Where its API begins.
    pub url: String,
    /// The questions so far: path, authorization, body.
    pub asked: Arc<Mutex<Vec<(String, String, Value)>>>,
}

impl Server {
    /// Says to the question of that number, from 0, at that path, what `says` makes of it.
    pub fn start(says: impl Fn(usize, &str, &Value) -> Said + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (heard, says) = (asked.clone(), Arc::new(says));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (heard, says) = (heard.clone(), says.clone());
                std::thread::spawn(move || drop(serve(stream, &heard, &*says)));
            }
        });
        Server { url, asked }
    }
}

fn serve(
    stream: TcpStream,
    asked: &Mutex<Vec<(String, String, Value)>>,
    says: &dyn Fn(usize, &str, &Value) -> Said,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut key, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap_or(0),
            "authorization" => key = value.into(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let number = {
        let mut asked = asked.lock().unwrap();
        asked.push((path.clone(), key, body.clone()));
        asked.len() - 1
    };
    let Said { status, headers, body, after } = says(number, &path, &body);
    std::thread::sleep(after);
    let mut stream = stream;
    if status == 0 {
        return Ok(());
    }
    write!(stream, "HTTP/1.1 {status} Said\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

/// A reply of `chat/completions`, a token a piece, each with its log-probability.
pub fn spoken(pieces: &[(&str, f64)], finish: &str) -> Value {
    let text: String = pieces.iter().map(|(piece, _)| *piece).collect();
    let content: Vec<Value> = pieces.iter().map(|(piece, logprob)| serde_json::json!({ "token": piece, "logprob": logprob })).collect();
    let message = serde_json::json!({ "role": "assistant", "content": text });
    serde_json::json!({ "choices": [{ "message": message, "finish_reason": finish, "logprobs": { "content": content } }] })
}

/// A reply of `completions` that echoes the prompt, a token a character with the log-probability that `of` gives it,
/// and one token more.
pub fn echoed(asked: &Value, of: impl Fn(char) -> f64) -> Value {
    let prompt: Vec<char> = asked["prompt"].as_str().unwrap_or_default().chars().collect();
    let mut tokens: Vec<String> = prompt.iter().map(char::to_string).collect();
    let mut logprobs: Vec<Option<f64>> = prompt.iter().map(|c| Some(of(*c))).collect();
    logprobs[0] = None;
    tokens.push("!".into());
    logprobs.push(Some(-9.0));
    serde_json::json!({ "choices": [{ "logprobs": { "tokens": tokens, "token_logprobs": logprobs } }] })
}
