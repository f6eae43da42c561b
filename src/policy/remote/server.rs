//! A server: one question, asked again where that can help; and many of them, several at a time.

use crate::policy::threads::spread;
use crate::policy::{ModelFault, PolicyError, RowFault, ServerSettings, Unanswered};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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
    /// Nobody will be answered: the server doesn't do, or doesn't know, what is asked of it.
    Refused(String),
    /// Nobody will be answered: it can't be reached.
    Gone(String),
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
    /// What the model is called here that it answers for.
    model: String,
    agent: Agent,
    base: String,
    key: Option<String>,
    tries: u32,
    parallel: usize,
}

impl Server {
    /// The server that answers for the model called `model` here. Nobody is asked yet.
    ///
    /// # Errors
    /// If the key that it is to be asked with isn't there.
    pub fn new(model: &str, settings: &ServerSettings) -> Result<Server, PolicyError> {
        let key = settings.key.as_ref().map(|variable| {
            let found = std::env::var(variable).ok().filter(|key| !key.trim().is_empty());
            let wrong = || PolicyError::model(model, ModelFault::NoKey { variable: variable.clone() });
            found.map(|key| key.trim().to_owned()).ok_or_else(wrong)
        });
        let config = Agent::config_builder()
            .timeout_global(Some(Duration::from_secs_f64(settings.timeout)))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections_per_host(settings.parallel)
            .proxy(None)
            .build();
        Ok(Server {
            model: model.into(),
            agent: config.new_agent(),
            base: settings.openai.trim_end_matches('/').into(),
            key: key.transpose()?,
            tries: settings.tries,
            parallel: settings.parallel,
        })
    }

    /// This fault of the model that it answers for.
    pub fn fault(&self, fault: ModelFault) -> PolicyError {
        PolicyError::model(&self.model, fault)
    }

    /// Asks each of `jobs`, so many at a time as the settings say; the results are in their order.
    ///
    /// # Errors
    /// If nobody will be answered.
    pub fn each<J: Sync, T: Send>(
        &self,
        jobs: &[J],
        ask: impl Fn(&J) -> Result<T, Trouble> + Sync,
    ) -> Result<Vec<Result<T, RowFault>>, PolicyError> {
        let gone = AtomicBool::new(false);
        let one = |(): &(), job: &J| {
            // The error of whoever noticed it first is told.
            if gone.load(Relaxed) {
                return Ok(Err(RowFault::EmptyResponse));
            }
            match ask(job) {
                Ok(answer) => Ok(Ok(answer)),
                Err(Trouble::Row(fault)) => Ok(Err(fault)),
                Err(Trouble::Refused(what) | Trouble::Gone(what)) => {
                    gone.store(true, Relaxed);
                    Err(self.fault(ModelFault::Server { what }))
                }
            }
        };
        spread(self.parallel, || (), jobs, one)
    }

    /// What the server says to `body` at `path`, as `read` understands it.
    pub fn ask<T>(&self, path: &str, body: &Value, read: impl Fn(&Value) -> Result<T, Trouble>) -> Result<T, Trouble> {
        let understood = |said: String| {
            let trouble = |error: serde_json::Error| {
                Trouble::malformed(format!("{}: a reply that is no JSON ({error}): {}", self.place(path), short(&said)))
            };
            serde_json::from_str(&said).map_err(trouble).and_then(|said| read(&said))
        };
        let again = |trouble| Failure { again: matches!(trouble, Trouble::Row(_)), trouble, pause: None };
        self.tried(|| self.once(path, body).and_then(|said| understood(said).map_err(again)))
    }

    /// Tells the server `body` at `path`, which says no more than whether it was done.
    pub fn tell(&self, path: &str, body: &Value) -> Result<(), Trouble> {
        self.tried(|| self.once(path, body).map(drop))
    }

    fn tried<T>(&self, once: impl Fn() -> Result<T, Failure>) -> Result<T, Trouble> {
        let mut pause = PAUSE;
        for further in (0..self.tries).rev() {
            match once() {
                Ok(answer) => return Ok(answer),
                Err(failure) if failure.again && further > 0 => {
                    std::thread::sleep(failure.pause.unwrap_or(pause).min(LONGEST_PAUSE));
                    pause *= 2;
                }
                Err(failure) => return Err(failure.trouble),
            }
        }
        // The settings ask for one try at least.
        Err(Trouble::Gone("it was never asked".into()))
    }

    fn place(&self, path: &str) -> String {
        format!("{}/{path}", self.base)
    }

    fn once(&self, path: &str, body: &Value) -> Result<String, Failure> {
        let place = self.place(path);
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
            error => Failure { trouble: Trouble::Gone(format!("{place}: {error}")), again: true, pause: None },
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
            200..=299 => Ok(said),
            408 | 425 | 429 | 500..=599 => {
                let pause = after.filter(|seconds| (0.0..=1e6).contains(seconds)).map(Duration::from_secs_f64);
                Err(Failure { pause, ..row(Unanswered::Refused, told()) })
            }
            // The key, the model or the address is wrong, and will be for everybody.
            300..=399 | 401 | 403 | 404 | 405 => {
                Err(Failure { trouble: Trouble::Refused(format!("{place}: {}", told())), again: false, pause: None })
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
