//! Functions that are compiled for each kind of vectors, and called where the CPU has them.

/// Defines functions whose first argument is the [`super::isa::Isa`] that they are compiled for; in their bodies, `V`
/// is its [`super::vectors::Vector`]. They may be generic in one type.
macro_rules! vectorised {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident $(<$t:ident: $bound:path>)? ($($arg:ident: $type:ty),* $(,)?) $(-> $output:ty)? $body:block)*) => {$(
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name $(<$t: $bound>)? (isa: $crate::products::isa::Isa, $($arg: $type),*) $(-> $output)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, clippy::extra_unused_type_parameters)]
            fn any<V: $crate::products::vectors::Vector $(, $t: $bound)?>($($arg: $type),*) $(-> $output)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments)]
            fn avx2 $(<$t: $bound>)? ($($arg: $type),*) $(-> $output)? { any::<$crate::products::registers::Avx2<false> $(, $t)?>($($arg),*) }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
            #[allow(clippy::too_many_arguments)]
            fn avxvnni $(<$t: $bound>)? ($($arg: $type),*) $(-> $output)? { any::<$crate::products::registers::Avx2<true> $(, $t)?>($($arg),*) }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments)]
            fn avx512 $(<$t: $bound>)? ($($arg: $type),*) $(-> $output)? { any::<$crate::products::registers::Avx512 $(, $t)?>($($arg),*) }
            use $crate::products::isa::Level;
            match isa.level() {
                Level::Plain => any::<$crate::products::vectors::Plain $(, $t)?>($($arg),*),
                // SAFETY: an `Isa` is only made where the CPU has its instructions.
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => unsafe { avx2 $(::<$t>)? ($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Level::AvxVnni => unsafe { avxvnni $(::<$t>)? ($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 | Level::Amx => unsafe { avx512 $(::<$t>)? ($($arg),*) },
                #[cfg(not(target_arch = "x86_64"))]
                _ => any::<$crate::products::vectors::Plain $(, $t)?>($($arg),*),
            }
        }
    )*};
}
