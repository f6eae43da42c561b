//! Sets of instructions of a CPU. An [`Isa`] is one that this CPU has: [`Isa::new`] alone makes one, and looks.

use std::fmt;

/// Sets of instructions, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What every CPU has.
    Plain,
    /// AVX2, FMA and F16C.
    Avx2,
    /// The same with AVX-VNNI, which multiplies and adds four pairs of 8 bits at once.
    AvxVnni,
    /// AVX-512 with VNNI.
    Avx512,
    /// AMX with 8 bits beside it: tiles of 16 rows by 64 numbers.
    Amx,
}

/// All of them.
const LEVELS: [Level; 5] = [Level::Plain, Level::Avx2, Level::AvxVnni, Level::Avx512, Level::Amx];

/// A set of instructions that this CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Isa(Level);

impl Isa {
    /// What every CPU has.
    pub const PLAIN: Isa = Isa(Level::Plain);

    /// The set `level`, if this CPU has it.
    pub fn new(level: Level) -> Option<Isa> {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni");
            let has = match level {
                Level::Plain => true,
                Level::Avx2 => avx2,
                Level::AvxVnni => avx2 && is_x86_feature_detected!("avxvnni"),
                Level::Avx512 => avx512,
                Level::Amx => avx512 && super::amx_allowed::allowed(),
            };
            has.then_some(Isa(level))
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            (level == Level::Plain).then_some(Isa(level))
        }
    }

    /// The sets that this CPU has, the least first.
    pub fn available() -> impl DoubleEndedIterator<Item = Isa> {
        LEVELS.into_iter().filter_map(Isa::new)
    }

    /// Whether its vectors multiply numbers without a sign by numbers with one.
    pub fn vnni(self) -> bool {
        matches!(self.0, Level::AvxVnni | Level::Avx512)
    }

    /// Which one it is.
    pub fn level(self) -> Level {
        self.0
    }
}

/// The level of that name.
pub fn named(name: &str) -> Option<Level> {
    LEVELS.into_iter().find(|level| level.to_string() == name)
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Level::Plain => "plain",
            Level::Avx2 => "avx2",
            Level::AvxVnni => "avxvnni",
            Level::Avx512 => "avx512",
            Level::Amx => "amx",
        })
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether row by row is the faster way to act: plain code is slower than libtorch. `FLOW_ISA` has no part in it: by a
/// lesser set of instructions a model acts with the same bits.
pub fn row_by_row_is_quick() -> bool {
    Isa::new(Level::Avx2).is_some()
}
