//! Attention over keys and values of either kind of number: which of the compiled functions a kind takes.

use super::attention::{self, AttentionScratch};
use super::kv::{Heads, KvNumber};
use super::tiles::{self, TileScratch};
use crate::policy::products::dense::StridedRows;
use crate::policy::products::isa::Isa;

/// A number of keys and values that can be attended to.
pub trait Attend: KvNumber {
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
    ($type:ty, $put:path, $attend:path, $attend_tile:path, $back_tile:path) => {
        impl Attend for $type {
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

numbers!(f32, attention::put_f32, attention::attend_f32, tiles::attend_f32, tiles::back_f32);
numbers!(u16, attention::put_f16, attention::attend_f16, tiles::attend_f16, tiles::back_f16);
