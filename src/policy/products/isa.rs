//! Which instructions of the processor are used: chosen once, the best that it has, unless `FLOW_ISA` names a lesser one.

use super::check::exact;
use std::fmt;
use std::sync::OnceLock;

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

impl Isa {
    /// Whether this processor has it.
    pub fn here(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni");
            match self {
                Isa::Plain => true,
                Isa::Avx2 => avx2,
                Isa::Avx512 => avx512,
                Isa::Amx => avx512 && super::amx::allowed(),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == Isa::Plain
        }
    }

    /// The best that this processor has and that multiplies exactly, or the lesser one that the environment variable `FLOW_ISA` names.
    pub fn chosen() -> Isa {
        static CHOSEN: OnceLock<Isa> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let most = std::env::var("FLOW_ISA").ok().and_then(|name| ALL.into_iter().find(|isa| isa.to_string() == name));
            let fits = |isa: &Isa| most.is_none_or(|most| *isa <= most) && isa.here() && exact(*isa);
            ALL.into_iter().rev().find(fits).unwrap_or(Isa::Plain)
        })
    }
}
