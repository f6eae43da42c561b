//! Proof that both sides of a connection know the secret of the hosts file, which is never sent: each side answers the
//! other's nonce with an HMAC. It keeps strangers out of a run that gathers; what is sent afterwards is neither
//! encrypted nor signed.

use super::greeting::Greeting;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Which side proves: a proof of one side isn't valid for the other.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Accepts,
    Connects,
}

/// The message that is authenticated: all that the connection is about, and both nonces.
fn mac(secret: &str, side: Side, greeting: &Greeting, nonce: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).ok()?;
    mac.update(&[side as u8]);
    mac.update(&serde_json::to_vec(greeting).ok()?);
    mac.update(nonce.as_bytes());
    Some(mac)
}

/// The proof of `side` for a greeting that was answered with `nonce`.
pub(super) fn proof(secret: &str, side: Side, greeting: &Greeting, nonce: &str) -> String {
    let bytes = mac(secret, side, greeting, nonce).map(|mac| mac.finalize().into_bytes());
    bytes.iter().flatten().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether `given` is that proof; the time it takes doesn't depend on how much of it is right.
pub(super) fn is_proved(secret: &str, side: Side, greeting: &Greeting, nonce: &str, given: &str) -> bool {
    let digits = given.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let bytes = digits.collect::<Option<Vec<u8>>>();
    bytes.zip(mac(secret, side, greeting, nonce)).is_some_and(|(bytes, mac)| mac.verify_slice(&bytes).is_ok())
}
