//! Sets of instructions of a processor.

use std::fmt;

/// Sets of instructions, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What every processor has.
    Plain,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 with VNNI, which multiplies and adds four pairs of 8 bits at once.
    Avx512,
    /// AMX with 8 bits beside it: tiles of 16 rows by 64 numbers.
    Amx,
}

/// All of them.
pub const ALL: [Isa; 4] = [Isa::Plain, Isa::Avx2, Isa::Avx512, Isa::Amx];

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Isa::Plain => "plain",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Amx => "amx",
        })
    }
}
