//! A hash chain of lines: each holds the checksum of its content and of all lines before it, so that a line that was
//! changed, lost or inserted is noticed. A line is JSON, and its checksum is its first field.

use flow_core::seed::{bytes, mix};
use serde::de::DeserializeOwned;
use serde::Serialize;

/// What a line begins with; between the two are the sixteen digits of the checksum.
const BEFORE: &str = "{\"chain\":\"";
const AFTER: &str = "\",";

/// The line of `value`, an object with at least one field, after a line with the checksum `chain`; and its own
/// checksum.
///
/// # Errors
/// Those of writing JSON.
pub(super) fn line<T: Serialize>(value: &T, chain: u64) -> Result<(Vec<u8>, u64), serde_json::Error> {
    let text = serde_json::to_vec(value)?;
    let rest = &text[1..]; // without its brace
    let sum = mix(chain, bytes(rest));
    let mut line = format!("{BEFORE}{sum:016x}{AFTER}").into_bytes();
    line.extend(rest);
    line.push(b'\n');
    Ok((line, sum))
}

/// The values in the lines of `text`, which continue the checksum `chain`, and the last checksum. An incomplete last
/// line, which a kill leaves, is ignored.
///
/// # Errors
/// The number of the first changed line, from 1.
pub(super) fn lines<T: DeserializeOwned>(text: &[u8], mut chain: u64) -> Result<(Vec<T>, u64), usize> {
    let mut all = Vec::new();
    for (at, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let Some(line) = line.strip_suffix(b"\n") else { break };
        let read = || {
            let rest = line.strip_prefix(BEFORE.as_bytes())?;
            let (sum, rest) = rest.split_at_checked(16)?;
            let rest = rest.strip_prefix(AFTER.as_bytes())?;
            let sum = u64::from_str_radix(std::str::from_utf8(sum).ok()?, 16).ok()?;
            let value = serde_json::from_slice(&[b"{", rest].concat()).ok()?;
            (sum == mix(chain, bytes(rest))).then_some((value, sum))
        };
        let (value, sum) = read().ok_or(at + 1)?;
        all.push(value);
        chain = sum;
    }
    Ok((all, chain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn written() -> Vec<Vec<u8>> {
        let mut chain = 7;
        let numbered = |n: u32| {
            let (line, sum) = line(&BTreeMap::from([("n", n)]), chain).unwrap();
            chain = sum;
            line
        };
        (0..3).map(numbered).collect()
    }

    fn read(text: &[u8]) -> Result<Vec<u32>, usize> {
        lines::<BTreeMap<String, serde_json::Value>>(text, 7)
            .map(|(all, _)| all.iter().map(|fields| fields["n"].as_u64().unwrap() as u32).collect())
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(read(&written().concat()), Ok(vec![0, 1, 2]));
        let whole = written().concat();
        assert_eq!(read(&whole[..whole.len() - 1]), Ok(vec![0, 1]), "a last line that was cut off");
    }

    #[test]
    fn a_line_that_was_lost_or_changed_is_noticed() {
        let lines = written();
        assert_eq!(read(&[&lines[0][..], &lines[2]].concat()), Err(2));
        assert_eq!(read(&[&lines[1][..], &lines[0], &lines[2]].concat()), Err(1));
        let whole = lines.concat();
        for at in (0..whole.len()).filter(|at| whole[*at] != b'\n') {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            assert!(read(&flipped).is_err(), "{}", String::from_utf8_lossy(&flipped));
        }
    }
}
