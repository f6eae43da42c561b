//! The numbers that keys and values are kept as: f16 beside a base in 8 bits, since what is written waits for them to come out of memory, and f32
//! beside one that is as it was.
//!
//! Learning goes through the same rounding, and its gradient passes it as if it were not there.

use super::attention::{self, AttentionScratch, Heads};
use super::tiles::{self, TileScratch};
use crate::policy::products::aligned::Number;
use crate::policy::products::dense::StridedRows;
use crate::policy::products::isa::Isa;
use crate::policy::products::vectors::{Vector, LANES};

/// A number of a key or value.
pub trait KvNumber: Number + Default + Send + Sync + 'static {
    /// Loads some.
    fn load<V: Vector>(from: &[Self; LANES]) -> V;
    /// What `x` becomes.
    fn rounded<V: Vector>(x: V) -> [Self; LANES];
    /// See [`attention::put`].
    fn put(isa: Isa, heads: Heads, page: &mut [Self], slot: usize, keys: &[f32], values: &[f32]);
    /// The attention of one token: see [`attention::attend`].
    #[allow(clippy::too_many_arguments)]
    fn attend(
        isa: Isa,
        q: &[f32],
        heads: Heads,
        pages: &[&[Self]],
        at: usize,
        count: usize,
        out: &mut [f32],
        scratch: &mut AttentionScratch,
    );
    /// The attention of several: see [`tiles::attend`].
    #[allow(clippy::too_many_arguments)]
    fn attend_tile(
        isa: Isa,
        q: StridedRows,
        heads: Heads,
        pages: &[&[Self]],
        at: usize,
        place: usize,
        out: &mut [f32],
        scratch: &mut TileScratch,
    );
    /// Its gradient: see [`tiles::back`].
    #[allow(clippy::too_many_arguments)]
    fn back_tile(
        isa: Isa,
        q: StridedRows,
        heads: Heads,
        pages: &[&[Self]],
        turned: &[&[Self]],
        place: usize,
        dout: StridedRows,
        dqkv: &mut [f32],
        dpages: &mut [Vec<f32>],
        scratch: &mut TileScratch,
    );
}

/// Hands each function on to the one that is compiled for the number's type.
macro_rules! numbers {
    ($type:ty, $put:path, $attend:path, $attend_tile:path, $back_tile:path, $load:ident, $rounded:ident) => {
        impl KvNumber for $type {
            #[inline(always)]
            fn load<V: Vector>(from: &[Self; LANES]) -> V {
                V::$load(from)
            }
            #[inline(always)]
            fn rounded<V: Vector>(x: V) -> [Self; LANES] {
                V::$rounded(x)
            }
            fn put(isa: Isa, heads: Heads, page: &mut [Self], slot: usize, keys: &[f32], values: &[f32]) {
                $put(isa, heads, page, slot, keys, values)
            }
            fn attend(
                isa: Isa,
                q: &[f32],
                heads: Heads,
                pages: &[&[Self]],
                at: usize,
                count: usize,
                out: &mut [f32],
                scratch: &mut AttentionScratch,
            ) {
                $attend(isa, q, heads, pages, at, count, out, scratch)
            }
            fn attend_tile(
                isa: Isa,
                q: StridedRows,
                heads: Heads,
                pages: &[&[Self]],
                at: usize,
                place: usize,
                out: &mut [f32],
                scratch: &mut TileScratch,
            ) {
                $attend_tile(isa, q, heads, pages, at, place, out, scratch)
            }
            fn back_tile(
                isa: Isa,
                q: StridedRows,
                heads: Heads,
                pages: &[&[Self]],
                turned: &[&[Self]],
                place: usize,
                dout: StridedRows,
                dqkv: &mut [f32],
                dpages: &mut [Vec<f32>],
                scratch: &mut TileScratch,
            ) {
                $back_tile(isa, q, heads, pages, turned, place, dout, dqkv, dpages, scratch)
            }
        }
    };
}

numbers!(f32, attention::put_f32, attention::attend_f32, tiles::attend_f32, tiles::back_f32, load, lanes);
numbers!(u16, attention::put_f16, attention::attend_f16, tiles::attend_f16, tiles::back_f16, load_half, half);
