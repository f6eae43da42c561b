//! The products with AMX: tiles of 16 rows and 64 inputs times tiles of 64 inputs and 16 outputs.
//!
//! Rust has no names for these instructions yet, so they stand here as the assembler writes them.

use super::matrix::Matrix;
use super::rounded::Rounded;
use super::{GROUP, PANEL};
use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::OnceLock;

/// Rows of a tile.
const TILE: usize = 16;
/// Groups whose sums are put down before they are added up.
const DEEP: usize = 3;
/// Numbers of a tile of sums.
const SUMS: usize = TILE * PANEL;

/// Whether the processor has it and the system lets this process use it, which must be asked for once.
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

/// What the tiles hold: rows and bytes of a row of each, as `ldtilecfg` reads it.
#[repr(C, align(64))]
struct Tiles {
    palette: u8,
    start: u8,
    zero: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

impl Tiles {
    /// Tiles 0 to 3 for sums, 4 and 5 for `first` and `second` rows, 6 and 7 for weights.
    fn new(first: usize, second: usize) -> Tiles {
        let (first, second) = (first as u8, second.max(1) as u8);
        let mut tiles = Tiles { palette: 1, start: 0, zero: [0; 14], bytes: [0; 16], rows: [0; 16] };
        tiles.bytes[..8].fill(64);
        tiles.rows[..8].copy_from_slice(&[first, first, second, second, first, second, 16, 16]);
        tiles
    }
}

/// See [`super::product`].
///
/// # Safety
/// The processor has AMX, allowed, and AVX-512; sizes are those that [`super::product`] checks, and nothing is added to the rows' numbers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub unsafe fn product(x: &Rounded, matrix: &Matrix, y: &mut [f32]) {
    let rows = x.rows();
    let whole = rows / (2 * TILE) * 2 * TILE;
    let mut buffers = SumBuffers { whole: [[0; 4 * DEEP * SUMS]; 2], sums: [0.0; 4 * SUMS] };
    if whole > 0 {
        blocks(x, 0, whole, matrix, y.as_mut_ptr(), &mut buffers);
    }
    if rows > whole {
        blocks(x, whole, rows, matrix, y.as_mut_ptr(), &mut buffers);
    }
    // SAFETY: ends what `blocks` began.
    asm!("tilerelease", options(nostack, nomem));
}

/// Where tiles of sums are put down, in turn, so that some are added up while the next are multiplied; and the sums of the groups so far.
#[repr(align(64))]
struct SumBuffers {
    whole: [[i32; 4 * DEEP * SUMS]; 2],
    sums: [f32; 4 * SUMS],
}

/// Some groups of some rows and two panels.
#[derive(Clone, Copy)]
struct TileStep {
    panel: usize,
    row: usize,
    group: usize,
    /// How many groups.
    deep: usize,
}

/// The products of the rows from `from` to `to`: so many times 32, or less than that.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
unsafe fn blocks(x: &Rounded, from: usize, to: usize, matrix: &Matrix, y: *mut f32, buffers: &mut SumBuffers) {
    let first = (to - from).min(TILE);
    let second = (to - from - first).min(TILE);
    let tiles = Tiles::new(first, second);
    asm!("ldtilecfg [{}]", in(reg) &tiles, options(nostack, readonly));
    let groups = matrix.groups();
    let mut before: Option<TileStep> = None;
    let mut turn = 0;
    for panel in (0..matrix.panels()).step_by(2) {
        for row in (from..to).step_by(first + second) {
            for group in (0..groups).step_by(DEEP) {
                let step = TileStep { panel, row, group, deep: DEEP.min(groups - group) };
                multiply(x, matrix, step, second > 0, buffers.whole[turn].as_mut_ptr());
                if let Some(before) = before {
                    let [whole, other] = &buffers.whole;
                    add(x, matrix, before, [first, second], if turn == 1 { whole } else { other }, &mut buffers.sums, y);
                }
                (before, turn) = (Some(step), 1 - turn);
            }
        }
    }
    if let Some(before) = before {
        add(x, matrix, before, [first, second], &buffers.whole[1 - turn], &mut buffers.sums, y);
    }
}

/// The blocks of weights of a group in the two panels; of the last panel twice, if it is alone.
#[inline(always)]
fn pair(matrix: &Matrix, step: TileStep, group: usize) -> [usize; 2] {
    [step.panel, (step.panel + 1).min(matrix.panels() - 1)].map(|panel| panel * matrix.groups() + group)
}

/// The whole sums of some groups: of one or two tiles of rows with two panels, put down at `whole`.
#[inline(always)]
unsafe fn multiply(x: &Rounded, matrix: &Matrix, step: TileStep, second: bool, whole: *mut i32) {
    let stride = matrix.groups() * GROUP;
    for deep in 0..step.deep {
        let own = x.bytes().as_ptr().add(step.row * stride + (step.group + deep) * GROUP);
        let numbers = pair(matrix, step, step.group + deep).map(|block| matrix.numbers().as_ptr().add(block * PANEL * GROUP));
        let to = whole.add(4 * deep * SUMS);
        // SAFETY: the tiles are set for these sizes; rows and weights lie in `x` and `matrix`, and there is room for four tiles of sums.
        if second {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "tileloadd tmm6, [{b0} + {line}*1]",
                "tileloadd tmm4, [{a0} + {stride}*1]",
                "tileloadd tmm7, [{b1} + {line}*1]",
                "tileloadd tmm5, [{a1} + {stride}*1]",
                "tdpbssd tmm0, tmm4, tmm6",
                "tdpbssd tmm1, tmm4, tmm7",
                "tdpbssd tmm2, tmm5, tmm6",
                "tdpbssd tmm3, tmm5, tmm7",
                "tilestored [{c} + {line}*1], tmm0",
                "tilestored [{c} + {line}*1 + 1024], tmm1",
                "tilestored [{c} + {line}*1 + 2048], tmm2",
                "tilestored [{c} + {line}*1 + 3072], tmm3",
                a0 = in(reg) own, a1 = in(reg) own.add(TILE * stride), stride = in(reg) stride,
                b0 = in(reg) numbers[0], b1 = in(reg) numbers[1], line = in(reg) 64usize, c = in(reg) to,
                options(nostack)
            );
        } else {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tileloadd tmm4, [{a0} + {stride}*1]",
                "tileloadd tmm6, [{b0} + {line}*1]",
                "tileloadd tmm7, [{b1} + {line}*1]",
                "tdpbssd tmm0, tmm4, tmm6",
                "tdpbssd tmm1, tmm4, tmm7",
                "tilestored [{c} + {line}*1], tmm0",
                "tilestored [{c} + {line}*1 + 1024], tmm1",
                a0 = in(reg) own, stride = in(reg) stride,
                b0 = in(reg) numbers[0], b1 = in(reg) numbers[1], line = in(reg) 64usize, c = in(reg) to,
                options(nostack)
            );
        }
    }
}

/// Adds the whole sums at `whole`, times their scales, to those of the groups before; after the last group they are the products.
#[inline(always)]
unsafe fn add(
    x: &Rounded,
    matrix: &Matrix,
    step: TileStep,
    rows: [usize; 2],
    whole: &[i32; 4 * DEEP * SUMS],
    sums: &mut [f32; 4 * SUMS],
    y: *mut f32,
) {
    let groups = matrix.groups();
    let alone = step.panel + 1 == matrix.panels();
    let last = step.group + step.deep == groups;
    for tile in 0..4 {
        let (down, right) = (tile / 2, tile % 2);
        if right == 1 && alone {
            continue;
        }
        let mut scales = [_mm512_setzero_ps(); DEEP];
        for (deep, scales) in scales.iter_mut().enumerate().take(step.deep) {
            *scales = _mm512_loadu_ps(matrix.scales().as_ptr().add(((step.panel + right) * groups + step.group + deep) * PANEL));
        }
        for r in 0..rows[down] {
            let row = step.row + down * TILE + r;
            let at = (tile * TILE + r) * PANEL;
            let mut sum = if step.group == 0 { _mm512_setzero_ps() } else { _mm512_load_ps(sums.as_ptr().add(at)) };
            let own = x.scales().as_ptr().add(row * groups + step.group);
            for (deep, scales) in scales.iter().enumerate().take(step.deep) {
                let whole = _mm512_cvtepi32_ps(_mm512_load_si512(whole.as_ptr().add(4 * deep * SUMS + at) as *const _));
                sum = _mm512_fmadd_ps(_mm512_mul_ps(whole, _mm512_set1_ps(*own.add(deep))), *scales, sum);
            }
            if last {
                _mm512_storeu_ps(y.add(row * matrix.stride() + (step.panel + right) * PANEL), sum);
            } else {
                _mm512_store_ps(sums.as_mut_ptr().add(at), sum);
            }
        }
    }
}
