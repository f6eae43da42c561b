//! The HTTP client of a server: one request, once or with retries.

use flow_model::{ModelFault, PolicyError, Result, RowFault, ServerSettings, Unanswered};
use serde_json::Value;
use std::io::ErrorKind;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;
use ureq::Agent;

/// The longest reply that is read.
const LONGEST: u64 = 64 << 20;
/// The first pause before a retry; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest pause, also where the server asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long a connection may stay unused: servers close theirs after five seconds.
const IDLE: Duration = Duration::from_secs(4);
/// How long a server may take to load weights, at least.
const LOADING: Duration = Duration::from_secs(900);
/// How long a server may take to say that it is there.
const HEALTH: Duration = Duration::from_secs(5);
/// Characters of a server's response that an error message quotes.
const EXCERPT: usize = 200;

/// Why a request failed.
#[derive(Debug)]
pub enum ServerError {
    /// A fault of one row.
    Row(RowFault),
    /// No request will succeed: the server refuses or doesn't support it.
    Refused(String),
    /// No request will succeed: the server can't be reached.
    Gone(String),
}

impl ServerError {
    /// In words.
    pub fn text(&self) -> String {
        match self {
            ServerError::Row(fault) => fault.to_string(),
            ServerError::Refused(what) | ServerError::Gone(what) => what.clone(),
        }
    }

    /// A malformed response.
    pub fn malformed(what: impl Into<String>) -> ServerError {
        ServerError::Row(RowFault::Unanswered { cause: Unanswered::Malformed, what: what.into() })
    }
}

/// One attempt that failed.
pub struct FailedAttempt {
    pub trouble: ServerError,
    /// Whether another try may help, and the pause before it that the server asks for.
    pub again: bool,
    pause: Option<Duration>,
}

impl FailedAttempt {
    /// The pause after attempt number `attempt`, from 0: as long as the server asks for, else twice the one before.
    pub fn pause(&self, attempt: u32) -> Duration {
        self.pause.unwrap_or(PAUSE * 2u32.saturating_pow(attempt)).min(LONGEST_PAUSE)
    }

    /// Whether the server may be gone: it can't be reached, or took too long.
    pub fn lost(&self) -> bool {
        let late = |fault: &RowFault| matches!(fault, RowFault::Unanswered { cause: Unanswered::Late, .. });
        matches!(&self.trouble, ServerError::Gone(_)) || matches!(&self.trouble, ServerError::Row(fault) if late(fault))
    }
}

/// A server's address and how it is called.
pub struct Server {
    /// What the model is called here that it answers for.
    model: String,
    agent: Agent,
    base: String,
    key: Option<String>,
    tries: u32,
    timeout: Duration,
}

impl Server {
    /// The server whose API begins at `base`, which answers for the model called `model` here. No request is sent yet.
    ///
    /// # Errors
    /// If the environment has no variable with the key.
    pub fn new(model: &str, base: &str, settings: &ServerSettings) -> Result<Server> {
        let key = settings.key.as_ref().map(|variable| {
            let value = std::env::var(variable).ok().filter(|key| !key.trim().is_empty());
            let fault = || PolicyError::model(model, ModelFault::NoKey { variable: variable.clone() });
            value.map(|key| key.trim().to_owned()).ok_or_else(fault)
        });
        let config = Agent::config_builder()
            .timeout_global(Some(Duration::from_secs_f64(settings.timeout)))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(settings.parallel)
            .max_idle_connections_per_host(settings.parallel)
            .max_idle_age(IDLE)
            .proxy(None)
            .build();
        Ok(Server {
            model: model.into(),
            agent: config.new_agent(),
            base: base.trim_end_matches('/').into(),
            key: key.transpose()?,
            tries: settings.tries,
            timeout: Duration::from_secs_f64(settings.timeout),
        })
    }

    /// This fault of the model that it answers for.
    pub fn fault(&self, fault: ModelFault) -> PolicyError {
        PolicyError::model(&self.model, fault)
    }

    /// Its host and port.
    pub fn host(&self) -> &str {
        let address = self.base.trim_start_matches("http://");
        address.split('/').next().unwrap_or(address)
    }

    /// A connection on which nothing is asked, and on which reading never waits: once it is broken, the server isn't
    /// the one that it was.
    ///
    /// # Errors
    /// What is wrong, if it can't be reached.
    pub fn line(&self) -> Result<TcpStream, String> {
        let address = if self.host().contains(':') { self.host().to_owned() } else { format!("{}:80", self.host()) };
        let open = || {
            let place = address.to_socket_addrs()?.next().ok_or(ErrorKind::NotFound)?;
            let line = TcpStream::connect_timeout(&place, HEALTH)?;
            line.set_nonblocking(true)?;
            Ok(line)
        };
        open().map_err(|error: std::io::Error| format!("{address}: {error}"))
    }

    /// Whether it says that it is there and in order.
    pub fn healthy(&self) -> bool {
        let place = format!("http://{}/health", self.host());
        let response = self.agent.get(&place).config().timeout_global(Some(HEALTH)).build().call();
        response.is_ok_and(|response| response.status().as_u16() < 500)
    }

    /// Whether it loads adapters: without a name it loads none, and a server without the route says so in another way.
    pub fn loads_adapters(&self) -> bool {
        let place = self.place("load_lora_adapter");
        let request = self.agent.post(&place).header("content-type", "application/json").config().timeout_global(Some(HEALTH)).build();
        request.send("{}").is_ok_and(|response| [400, 422].contains(&response.status().as_u16()))
    }

    /// The server's response to `body` at `path`, parsed by `read`; asked again where that may help.
    pub fn ask<T>(&self, path: &str, body: &Value, read: impl Fn(&Value) -> Result<T, ServerError>) -> Result<T, ServerError> {
        self.tried(|| self.ask_once(path, body, &read))
    }

    /// The same, asked once.
    pub fn ask_once<T>(&self, path: &str, body: &Value, read: impl Fn(&Value) -> Result<T, ServerError>) -> Result<T, FailedAttempt> {
        let text = self.once(path, body, None)?;
        let unread = |error: serde_json::Error| {
            ServerError::malformed(format!("{}: a reply that is no JSON ({error}): {}", self.place(path), short(&text)))
        };
        let answer = serde_json::from_str(&text).map_err(unread).and_then(|value| read(&value));
        answer.map_err(|trouble| FailedAttempt { again: matches!(trouble, ServerError::Row(_)), trouble, pause: None })
    }

    /// Posts `body` to `path`; only success or failure matters. Tried again where that may help.
    pub fn tell(&self, path: &str, body: &Value) -> Result<(), ServerError> {
        self.tried(|| self.tell_once(path, body))
    }

    /// The same, tried once.
    pub fn tell_once(&self, path: &str, body: &Value) -> Result<(), FailedAttempt> {
        self.once(path, body, None).map(drop)
    }

    /// The same, for requests that take as long as a model's weights take to be read.
    pub fn load(&self, path: &str, body: &Value) -> Result<(), ServerError> {
        self.tried(|| self.once(path, body, Some(self.timeout.max(LOADING))).map(drop))
    }

    fn tried<T>(&self, once: impl Fn() -> Result<T, FailedAttempt>) -> Result<T, ServerError> {
        for attempt in 0..self.tries {
            match once() {
                Ok(answer) => return Ok(answer),
                Err(failure) if failure.again && attempt + 1 < self.tries => std::thread::sleep(failure.pause(attempt)),
                Err(failure) => return Err(failure.trouble),
            }
        }
        // The settings ask for one try at least.
        Err(ServerError::Gone("it was never asked".into()))
    }

    fn place(&self, path: &str) -> String {
        match path.strip_prefix('/') {
            Some(path) => format!("{}/{path}", self.base.trim_end_matches("/v1")),
            None => format!("{}/{path}", self.base),
        }
    }

    fn once(&self, path: &str, body: &Value, timeout: Option<Duration>) -> Result<String, FailedAttempt> {
        let place = self.place(path);
        let row = |cause, what: String| FailedAttempt {
            trouble: ServerError::Row(RowFault::Unanswered { cause, what: format!("{place}: {what}") }),
            again: true,
            pause: None,
        };
        let failed = |error: ureq::Error| match error {
            ureq::Error::Timeout(_) => row(Unanswered::Late, "no answer in time".into()),
            // What breaks off or makes no sense may be this once.
            ureq::Error::Protocol(error) => row(Unanswered::Malformed, error.to_string()),
            ureq::Error::BodyExceedsLimit(most) => row(Unanswered::Malformed, format!("a reply of more than {most} bytes")),
            error => FailedAttempt { trouble: ServerError::Gone(format!("{place}: {error}")), again: true, pause: None },
        };
        let mut request = self.agent.post(&place).header("content-type", "application/json");
        if timeout.is_some() {
            request = request.config().timeout_global(timeout).build();
        }
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let mut response = request.send(body.to_string()).map_err(failed)?;
        let status = response.status().as_u16();
        let after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse::<f64>().ok());
        let text = response.body_mut().with_config().limit(LONGEST).lossy_utf8(true).read_to_string().map_err(failed)?;
        let message = || format!("HTTP {status}: {}", short(&text));
        match status {
            200..=299 => Ok(text),
            408 | 425 | 429 | 500..=599 => {
                let pause = after.filter(|seconds| (0.0..=1e6).contains(seconds)).map(Duration::from_secs_f64);
                Err(FailedAttempt { pause, ..row(Unanswered::Refused, message()) })
            }
            // The key, the model or the address is wrong, and will be for everybody.
            300..=399 | 401 | 403 | 404 | 405 => {
                Err(FailedAttempt { trouble: ServerError::Refused(format!("{place}: {}", message())), again: false, pause: None })
            }
            _ => Err(FailedAttempt { again: false, ..row(Unanswered::Refused, message()) }),
        }
    }
}

/// The beginning of a response, in one line.
fn short(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    match line.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.is_empty() => "nothing".into(),
        None => line,
    }
}
