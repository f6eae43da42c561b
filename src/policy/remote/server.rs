//! A server: one question, asked again where that can help.

use crate::policy::{RemoteModel, RowFault, Unanswered};
use serde_json::Value;
use std::time::Duration;
use ureq::Agent;

/// The longest reply that is read.
const LONGEST: u64 = 64 << 20;
/// The first pause before a question is asked again; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest pause, be it one that the server asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// So much of what a server says is told.
const TOLD: usize = 200;

/// Why there is no answer.
#[derive(Debug)]
pub enum Trouble {
    /// It costs the row that asked.
    Row(RowFault),
    /// Nobody will be answered.
    Server(String),
}

impl Trouble {
    /// A reply that is none.
    pub fn malformed(what: impl Into<String>) -> Trouble {
        Trouble::Row(RowFault::Unanswered { cause: Unanswered::Malformed, what: what.into() })
    }
}

/// One try that failed.
struct Failure {
    trouble: Trouble,
    /// Whether another try may help, and the pause before it that the server asks for.
    again: bool,
    pause: Option<Duration>,
}

/// Where questions go.
pub struct Server {
    agent: Agent,
    base: String,
    key: Option<String>,
    tries: u32,
}

impl Server {
    pub fn new(settings: &RemoteModel, key: Option<String>) -> Server {
        let config = Agent::config_builder()
            .timeout_global(Some(Duration::from_secs_f64(settings.timeout)))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections_per_host(settings.parallel)
            .proxy(None)
            .build();
        Server { agent: config.new_agent(), base: settings.openai.trim_end_matches('/').into(), key, tries: settings.tries }
    }

    /// What the server says to `body` at `path`, as `read` understands it.
    pub fn ask<T>(&self, path: &str, body: &Value, read: impl Fn(&Value) -> Result<T, Trouble>) -> Result<T, Trouble> {
        let mut pause = PAUSE;
        for further in (0..self.tries).rev() {
            let answer =
                self.once(path, body).and_then(|said| read(&said).map_err(|trouble| Failure { trouble, again: true, pause: None }));
            match answer {
                Ok(answer) => return Ok(answer),
                Err(failure) if failure.again && further > 0 => {
                    std::thread::sleep(failure.pause.unwrap_or(pause).min(LONGEST_PAUSE));
                    pause *= 2;
                }
                Err(failure) => return Err(failure.trouble),
            }
        }
        // The settings ask for one try at least.
        Err(Trouble::Server("it was never asked".into()))
    }

    fn once(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let place = format!("{}/{path}", self.base);
        let row = |cause, what: String| Failure {
            trouble: Trouble::Row(RowFault::Unanswered { cause, what: format!("{place}: {what}") }),
            again: true,
            pause: None,
        };
        let failed = |error: ureq::Error| match error {
            ureq::Error::Timeout(_) => row(Unanswered::Late, "no answer in time".into()),
            // What breaks off or makes no sense may be this once.
            ureq::Error::Protocol(error) => row(Unanswered::Malformed, error.to_string()),
            ureq::Error::BodyExceedsLimit(most) => row(Unanswered::Malformed, format!("a reply of more than {most} bytes")),
            error => Failure { trouble: Trouble::Server(format!("{place}: {error}")), again: true, pause: None },
        };
        let mut request = self.agent.post(&place).header("content-type", "application/json");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let mut response = request.send(body.to_string()).map_err(failed)?;
        let status = response.status().as_u16();
        let after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse::<f64>().ok());
        let said = response.body_mut().with_config().limit(LONGEST).lossy_utf8(true).read_to_string().map_err(failed)?;
        let told = || format!("HTTP {status}: {}", short(&said));
        match status {
            200..=299 => serde_json::from_str(&said)
                .map_err(|error| row(Unanswered::Malformed, format!("a reply that is no JSON ({error}): {}", short(&said)))),
            408 | 425 | 429 | 500..=599 => {
                let pause = after.filter(|seconds| (0.0..=1e6).contains(seconds)).map(Duration::from_secs_f64);
                Err(Failure { pause, ..row(Unanswered::Refused, told()) })
            }
            // The key, the model or the address is wrong, and will be for everybody.
            300..=399 | 401 | 403 | 404 | 405 => {
                Err(Failure { trouble: Trouble::Server(format!("{place}: {}", told())), again: false, pause: None })
            }
            _ => Err(Failure { again: false, ..row(Unanswered::Refused, told()) }),
        }
    }
}

/// The beginning of what somebody says, in one line.
fn short(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    match line.char_indices().nth(TOLD) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.is_empty() => "nothing".into(),
        None => line,
    }
}
