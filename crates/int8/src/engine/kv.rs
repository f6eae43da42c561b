//! Keys and values: how they lie in pages, and the numbers that they are kept as. That is f16 beside a base in 8 bits,
//! since what is written waits for them to come out of memory, and f32 beside one that is as it was.
//!
//! Learning goes through the same rounding, and its gradient passes it as if it were not there.

use crate::products::aligned::Number;
use crate::products::vectors::{Vector, LANES};

/// Places of a page: the lanes of a sum.
pub const PAGE: usize = LANES;

/// Sizes of attention.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// Heads of queries.
    pub queries: usize,
    /// Heads of keys and values.
    pub keys: usize,
    /// Numbers of a head.
    pub head: usize,
}

impl Heads {
    /// Numbers of a value in a page.
    pub fn padded(self) -> usize {
        self.head.next_multiple_of(LANES)
    }

    /// Numbers of a page for one head: keys `[head, PAGE]`, then values `[PAGE, padded]`.
    pub fn span(self) -> usize {
        (self.head + self.padded()) * PAGE
    }

    /// Numbers of a page for one block.
    pub fn page(self) -> usize {
        self.keys * self.span()
    }

    /// What scores are multiplied by.
    pub fn scale(self) -> f32 {
        1.0 / (self.head as f32).sqrt()
    }
}

/// A number of a key or value.
pub trait KvNumber: Number + Default + Send + Sync + 'static {
    /// Loads some.
    fn load<V: Vector>(from: &[Self; LANES]) -> V;
    /// What `x` becomes.
    fn rounded<V: Vector>(x: V) -> [Self; LANES];
}

impl KvNumber for f32 {
    #[inline(always)]
    fn load<V: Vector>(from: &[Self; LANES]) -> V {
        V::load(from)
    }
    #[inline(always)]
    fn rounded<V: Vector>(x: V) -> [Self; LANES] {
        V::lanes(x)
    }
}

impl KvNumber for u16 {
    #[inline(always)]
    fn load<V: Vector>(from: &[Self; LANES]) -> V {
        V::load_half(from)
    }
    #[inline(always)]
    fn rounded<V: Vector>(x: V) -> [Self; LANES] {
        V::half(x)
    }
}
