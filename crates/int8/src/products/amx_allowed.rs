//! Whether AMX may be used: it has a state so large that Linux gives it to processes that ask for it.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

/// Whether the CPU has it and the system lets this process use it, which must be asked for once.
pub fn allowed() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        // Leaf 7: AMX-TILE is bit 24 of EDX, AMX-INT8 bit 25.
        let leaf = __cpuid_count(7, 0);
        if leaf.edx >> 24 & 0b11 != 0b11 {
            return false;
        }
        request()
    })
}

/// Asks Linux for the tiles' state (arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
#[cfg(target_os = "linux")]
fn request() -> bool {
    let result: i64;
    // SAFETY: the call takes two numbers and touches no memory of ours.
    unsafe {
        asm!("syscall", inlateout("rax") 158i64 => result, in("rdi") 0x1023, in("rsi") 18, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn request() -> bool {
    false
}
