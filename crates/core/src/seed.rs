//! Random numbers that depend on names alone: a seed is a hash of its purpose, never of its caller.
//!
//! ```
//! use flow_core::seed::{mix, text, Random};
//! let seed = mix(mix(7, text("sokoban")), 3);
//! assert_eq!(Random::new(seed).below(10), Random::new(seed).below(10));
//! ```

use std::io::{self, Read};

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection whose output bits all depend on all input bits.
fn finish(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Joins two numbers into one; the order matters.
pub fn mix(a: u64, b: u64) -> u64 {
    finish(finish(a).wrapping_add(b).wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// A fixed hash of a text: the same on every machine and in every process.
pub fn text(s: &str) -> u64 {
    bytes(s.as_bytes())
}

/// A fixed hash of bytes.
pub fn bytes(b: &[u8]) -> u64 {
    words(b.len() as u64, b)
}

fn words(hash: u64, b: &[u8]) -> u64 {
    let (whole, rest) = b.as_chunks::<8>();
    let hash = whole.iter().fold(hash, |h, word| mix(h, u64::from_le_bytes(*word)));
    if rest.is_empty() {
        return hash;
    }
    mix(hash, rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
}

/// A fixed hash of bytes, computed in eight lanes that don't wait for one another: several times as fast as [`bytes()`]
/// on a long file, and another number.
pub fn lanes(b: &[u8]) -> u64 {
    let mut lanes: [u64; 8] = std::array::from_fn(|lane| lane as u64);
    let mut chunks = b.chunks_exact(64);
    for chunk in &mut chunks {
        for (lane, word) in lanes.iter_mut().zip(chunk.as_chunks::<8>().0) {
            *lane = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
    }
    let whole = lanes.into_iter().fold(b.len() as u64, mix);
    words(whole, chunks.remainder())
}

/// [`bytes()`] of the `length` bytes that `from` has, without holding them all.
///
/// # Errors
/// Those of reading, the end coming before `length` bytes among them.
pub fn stream(length: u64, mut from: impl Read) -> io::Result<u64> {
    let mut page = vec![0; 1 << 20]; // a multiple of the eight bytes that are hashed at a time
    let mut left = length;
    let mut hash = length;
    while left > 0 {
        let part = page.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        from.read_exact(&mut page[..part])?;
        hash = words(hash, &page[..part]);
        left -= part as u64;
    }
    Ok(hash)
}

/// SplitMix64: enough for games and sampling, and the same sequence for ever.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }
    // Not an iterator: it never ends and is never adapted.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        finish(self.0)
    }
    /// A number in `0..n` by multiplication (Lemire 2019, without the rejection: the bias is below n / 2^64). `n` of 0
    /// gives 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() as u128 * n as u128) >> 64) as usize
    }
    /// A number in [0, 1) with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_length_matter() {
        assert_ne!(mix(1, 2), mix(2, 1));
        assert_ne!(text("a"), text("a\0"));
        assert_eq!(Random::new(0).next(), 0xe220_a839_7b1d_cdaf, "the reference sequence of SplitMix64 from seed 0");
    }

    /// Each step of a lane is a bijection of what it held, and of the word that it takes in: one changed word always
    /// changes the sum.
    #[test]
    fn no_single_bit_hides_from_the_lanes() {
        let mut random = Random::new(3);
        let all: Vec<u8> = (0..300).map(|_| random.next() as u8).collect();
        let sum = lanes(&all);
        for bit in 0..8 * all.len() {
            let mut flipped = all.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(lanes(&flipped), sum, "{bit}");
        }
        assert!((0..300).all(|length| lanes(&all[..length]) != sum));
    }

    #[test]
    fn a_stream_has_the_hash_of_its_bytes() {
        let mut random = Random::new(3);
        for length in [0, 1, 7, 8, 9, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 13, 3 << 20] {
            let all: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
            assert_eq!(stream(length as u64, all.as_slice()).unwrap(), bytes(&all), "{length}");
        }
        assert!(stream(9, [0; 8].as_slice()).is_err());
    }

    #[test]
    fn numbers_stay_in_range() {
        let mut random = Random::new(1);
        for _ in 0..1000 {
            assert!(random.below(7) < 7);
            assert!((0.0..1.0).contains(&random.unit()));
        }
    }
}
