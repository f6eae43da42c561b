//! Requests are answered if they come from pages of this address, or have the token. A page of another site in the same
//! browser may not.

use axum::http::{header, HeaderMap};
use std::net::SocketAddr;

/// The cookie that remembers the token.
const COOKIE: &str = "flow-view";

/// What a request must have.
pub struct Guard {
    /// The names of this address, as `Host` has them; none where it serves other machines, which may call it by any
    /// name.
    hosts: Vec<String>,
    token: Option<String>,
}

/// Whether a request is answered.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    Answer,
    /// It brought the token: the cookie that says so.
    Remember(String),
    Refuse(&'static str),
}

impl Guard {
    pub fn new(at: SocketAddr, token: Option<String>) -> Guard {
        let port = at.port();
        let hosts = if at.ip().is_loopback() {
            vec![at.to_string(), format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")]
        } else {
            vec![]
        };
        Guard { hosts, token }
    }

    /// Whether a request with these headers, and with the token `given` in its address, is answered.
    pub fn judge(&self, headers: &HeaderMap, given: Option<&str>) -> Verdict {
        let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
        let host = text(header::HOST).unwrap_or_default();
        // Another site's name may be made to point here.
        if !self.hosts.is_empty() && !self.hosts.iter().any(|known| known == host) {
            return Verdict::Refuse("this address answers by its own name alone");
        }
        if text(header::ORIGIN).is_some_and(|origin| origin != format!("http://{host}")) {
            return Verdict::Refuse("pages of other sites may not ask");
        }
        let Some(token) = &self.token else { return Verdict::Answer };
        if given.is_some_and(|given| same(given, token)) {
            return Verdict::Remember(format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/"));
        }
        let cookies = text(header::COOKIE).unwrap_or_default().split(';').filter_map(|cookie| cookie.trim().split_once('='));
        match cookies.into_iter().any(|(name, value)| name == COOKIE && same(value, token)) {
            true => Verdict::Answer,
            false => Verdict::Refuse("open the address that `flow view` printed: its token is missing"),
        }
    }
}

/// Whether two texts are equal, in a time that doesn't tell where they differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn other_names_and_other_sites_are_refused() {
        let guard = Guard::new("127.0.0.1:8123".parse().unwrap(), None);
        let judge = |pairs: &[(header::HeaderName, &str)]| guard.judge(&headers(pairs), None);
        assert_eq!(judge(&[(header::HOST, "127.0.0.1:8123")]), Verdict::Answer);
        assert_eq!(judge(&[(header::HOST, "localhost:8123"), (header::ORIGIN, "http://localhost:8123")]), Verdict::Answer);
        assert!(matches!(judge(&[(header::HOST, "evil.example:8123")]), Verdict::Refuse(_)));
        assert!(matches!(judge(&[(header::HOST, "localhost:8123"), (header::ORIGIN, "http://evil.example")]), Verdict::Refuse(_)));
        assert!(matches!(judge(&[]), Verdict::Refuse(_)));
    }

    #[test]
    fn a_token_is_asked_for_once() {
        let guard = Guard::new("0.0.0.0:80".parse().unwrap(), Some("abcdefgh".into()));
        let host = (header::HOST, "lab:80");
        assert!(matches!(guard.judge(&headers(std::slice::from_ref(&host)), None), Verdict::Refuse(_)));
        assert!(matches!(guard.judge(&headers(std::slice::from_ref(&host)), Some("abcdefgx")), Verdict::Refuse(_)));
        assert!(matches!(guard.judge(&headers(std::slice::from_ref(&host)), Some("abcdefgh")), Verdict::Remember(_)));
        assert_eq!(guard.judge(&headers(&[host, (header::COOKIE, "a=b; flow-view=abcdefgh")]), None), Verdict::Answer);
    }
}
