//! The products with AMX: tiles of 16 rows and 64 inputs times tiles of 64 inputs and 16 outputs.
//!
//! Rust has no names for these instructions yet, so they stand here as the assembler writes them.

use super::matrix::Matrix;
use super::rounded::Rounded;
use super::{GROUP, PANEL, TILE};
use std::arch::asm;
use std::arch::x86_64::*;

/// Numbers of a tile of whole sums.
const SUMS: usize = TILE * PANEL;
/// Bytes of a tile of rows or weights.
const BYTES: usize = TILE * GROUP;
/// Tiles of whole sums that are put down before the first is overwritten.
const RING: usize = 4;
/// Products that are begun before the sums of the first are added.
const BEGUN: usize = 2;
/// Bytes of a line of the cache.
const LINE: usize = 64;
/// Bytes of rows that stay in the CPU's second cache.
const CACHED: usize = 1 << 20;
/// The fewest and the most tiles of rows that are multiplied together: with fewer, weights are fetched too often.
const CACHED_TILES: (usize, usize) = (4, 32);
/// Bytes of weights that are fetched before they are multiplied.
const AHEAD: usize = 64 << 10;
/// 1.5 * 2^23. Where a whole sum begins with the bits of this number in place of 0, its bits are those of the number
/// and the sum, since a sum of [`GROUP`] products is below 2^22. So the sum as an f32 is one subtraction away, which
/// costs half of a conversion.
const MAGIC: f32 = super::vectors::MAGIC;

/// What the tiles hold: rows and bytes of a row of each, as `ldtilecfg` reads it.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start: u8,
    zero: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

impl TileConfig {
    /// Eight tiles of 16 rows of 64 bytes.
    fn new() -> TileConfig {
        let mut tiles = TileConfig { palette: 1, start: 0, zero: [0; 14], bytes: [0; 16], rows: [0; 16] };
        tiles.bytes[..8].fill(64);
        tiles.rows[..8].fill(TILE as u8);
        tiles
    }
}

/// Whole sums of the steps before, and what they begin with.
#[repr(align(4096))]
struct Room {
    ring: [[i32; SUMS]; RING],
    begin: [[f32; PANEL]; TILE],
}

/// Rows and groups of them that are multiplied with all panels before others are.
#[derive(Clone, Copy)]
struct Part {
    first_tile: usize,
    tiles: usize,
    first_group: usize,
    groups: usize,
}

/// Parts whose numbers stay in the CPU's second cache while the panels pass: row by row, and of each row from its first
/// groups to its last, since sums go through the groups in their order.
fn parts(x: &Rounded) -> impl Iterator<Item = Part> {
    let (all_tiles, all_groups) = (x.rows().div_ceil(TILE), x.groups());
    let tiles = (CACHED / (all_groups * BYTES)).clamp(CACHED_TILES.0, CACHED_TILES.1).min(all_tiles).max(1);
    let groups = (CACHED / (tiles * BYTES)).min(all_groups);
    (0..all_tiles).step_by(tiles).flat_map(move |first_tile| {
        (0..all_groups).step_by(groups).map(move |first_group| Part {
            first_tile,
            tiles: tiles.min(all_tiles - first_tile),
            first_group,
            groups: groups.min(all_groups - first_group),
        })
    })
}

/// The pairs of a part's tiles of rows with panels: panel by panel, so that a panel is fetched once.
#[derive(Clone, Copy)]
struct Pairs {
    rows: *const i8,
    weights: *const i8,
    part: Part,
    all_groups: usize,
    panels: usize,
}

impl Pairs {
    /// Where the first groups of a pair lie. Behind the last pair it is the first again, and those products aren't
    /// used.
    #[inline(always)]
    fn at(self, pair: usize) -> (*const i8, *const i8) {
        let Part { first_tile, tiles, first_group, .. } = self.part;
        let (panel, tile) = (pair / tiles % self.panels, first_tile + pair % tiles);
        let own = self.rows.wrapping_add((tile * self.all_groups + first_group) * BYTES);
        (own, self.weights.wrapping_add((panel * self.all_groups + first_group) * BYTES))
    }
}

/// One step of the pipeline: begins the product of the tiles at `own` and `theirs`, puts down at `to` the whole sums of
/// the step before, and adds to `sums` the sums put down at `whole` a step earlier, each row times its scale, then
/// times the outputs' scales. All three overlap in the CPU, which one after the other they would not.
macro_rules! step {
    ($own:expr, $theirs:expr, $begin:expr, $to:expr, $whole:expr, $scales:expr, $factors:expr, $sums:ident) => {
        asm!(
            "tilestored [{to} + {line}*1], tmm0",
            "tileloadd tmm1, [{own} + {line}*1]",
            "tileloadd tmm2, [{theirs} + {line}*1]",
            "tileloadd tmm0, [{begin} + {line}*1]",
            "tdpbssd tmm0, tmm1, tmm2",
            "vmovups zmm27, zmmword ptr [{factors}]",
            row!(0, "zmm28"), row!(1, "zmm29"), row!(2, "zmm30"), row!(3, "zmm31"),
            row!(4, "zmm28"), row!(5, "zmm29"), row!(6, "zmm30"), row!(7, "zmm31"),
            row!(8, "zmm28"), row!(9, "zmm29"), row!(10, "zmm30"), row!(11, "zmm31"),
            row!(12, "zmm28"), row!(13, "zmm29"), row!(14, "zmm30"), row!(15, "zmm31"),
            own = in(reg) $own, theirs = in(reg) $theirs, to = in(reg) $to, whole = in(reg) $whole,
            begin = in(reg) $begin, scales = in(reg) $scales, factors = in(reg) $factors, line = in(reg) LINE,
            less = in(zmm_reg) _mm512_set1_ps(-MAGIC),
            out("zmm27") _, out("zmm28") _, out("zmm29") _, out("zmm30") _, out("zmm31") _,
            s0 = inout(zmm_reg) $sums[0], s1 = inout(zmm_reg) $sums[1], s2 = inout(zmm_reg) $sums[2], s3 = inout(zmm_reg) $sums[3],
            s4 = inout(zmm_reg) $sums[4], s5 = inout(zmm_reg) $sums[5], s6 = inout(zmm_reg) $sums[6], s7 = inout(zmm_reg) $sums[7],
            s8 = inout(zmm_reg) $sums[8], s9 = inout(zmm_reg) $sums[9], s10 = inout(zmm_reg) $sums[10], s11 = inout(zmm_reg) $sums[11],
            s12 = inout(zmm_reg) $sums[12], s13 = inout(zmm_reg) $sums[13], s14 = inout(zmm_reg) $sums[14], s15 = inout(zmm_reg) $sums[15],
            options(nostack)
        )
    };
}

/// What [`step`] does with one row.
macro_rules! row {
    ($row:literal, $register:literal) => {
        concat!(
            "vaddps ",
            $register,
            ", {less:z}, zmmword ptr [{whole} + 64*",
            $row,
            "]\n",
            "vmulps ",
            $register,
            ", ",
            $register,
            ", dword ptr [{scales} + 4*",
            $row,
            "]{{1to16}}\n",
            "vfmadd231ps {s",
            $row,
            ":z}, ",
            $register,
            ", zmm27"
        )
    };
}

/// See [`super::product`].
///
/// # Safety
/// The CPU has AMX, allowed, and AVX-512; sizes are as [`super::product`] checks them.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub unsafe fn product(x: &Rounded, matrix: &Matrix, y: &mut [f32]) {
    let mut room = Room { ring: [[0; SUMS]; RING], begin: [[MAGIC; PANEL]; TILE] };
    // SAFETY: the CPU has it; sizes are those of the caller.
    unsafe {
        asm!("ldtilecfg [{}]", in(reg) &TileConfig::new(), options(nostack, readonly));
        parts(x).for_each(|part| products_of(x, matrix, part, y.as_mut_ptr(), &mut room));
        asm!("tilerelease", options(nostack, nomem));
    }
}

/// The products of a part's rows with all panels, added to the sums of earlier groups.
///
/// # Safety
/// As for [`product`]; tiles are set up, and `y` has all rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
unsafe fn products_of(x: &Rounded, matrix: &Matrix, part: Part, y: *mut f32, room: &mut Room) {
    let (ring, begin) = (room.ring.as_mut_ptr(), room.begin.as_ptr());
    let all_groups = matrix.groups();
    let (rows, weights) = (x.numbers().as_ptr(), matrix.numbers().as_ptr());
    let pairs = Pairs { rows, weights, part, all_groups, panels: matrix.panels() };
    // Steps of a pair that begin a product of the same pair; the others begin one that follows.
    let within = part.groups.saturating_sub(BEGUN);
    let follows = if part.groups < BEGUN { BEGUN } else { 1 };
    // Each tile of rows fetches its share of the weights that come later. Behind the last ones lie those of the next
    // matrix, as they were made.
    let share = (BYTES / LINE).div_ceil(part.tiles);
    // SAFETY: tiles are read out of `x` and `matrix`, where `pairs` finds them, and put down in `room`; sums go to rows
    // that `y` has.
    unsafe {
        let (mut own, mut theirs) = pairs.at(0);
        for product in 0..BEGUN {
            if product == part.groups {
                (own, theirs) = pairs.at(1);
            }
            asm!(
                "tilestored [{to} + {line}*1], tmm0",
                "tileloadd tmm1, [{own} + {line}*1]",
                "tileloadd tmm2, [{theirs} + {line}*1]",
                "tileloadd tmm0, [{begin} + {line}*1]",
                "tdpbssd tmm0, tmm1, tmm2",
                own = in(reg) own, theirs = in(reg) theirs, to = in(reg) ring.add((product + RING - 1) % RING), begin = in(reg) begin,
                line = in(reg) LINE,
                options(nostack)
            );
            (own, theirs) = (own.wrapping_add(BYTES), theirs.wrapping_add(BYTES));
        }
        let mut turn = 0;
        for panel in 0..matrix.panels() {
            let mut ahead = weights.wrapping_add((panel * all_groups + part.first_group) * BYTES + AHEAD);
            for tile in 0..part.tiles {
                let row = (part.first_tile + tile) * TILE;
                let mut scales = x.scales().as_ptr().add(row * all_groups + part.first_group * TILE);
                let mut factors = matrix.scales().as_ptr().add((panel * all_groups + part.first_group) * PANEL);
                let to = y.add(row * matrix.stride() + panel * PANEL);
                let rows = (x.rows() - row).min(TILE);
                let mut sums = [_mm512_setzero_ps(); TILE];
                if part.first_group > 0 {
                    for (row, sum) in sums.iter_mut().enumerate() {
                        // The results of rows that only fill up the tile aren't used.
                        *sum = _mm512_loadu_ps(to.add(row.min(rows - 1) * matrix.stride()));
                    }
                }
                for (steps, follow) in [(within, true), (part.groups - within, false)] {
                    for _ in 0..steps {
                        let whole = ring.add(turn % RING);
                        turn += 1;
                        let next = ring.add(turn % RING);
                        step!(own, theirs, begin, next, whole, scales, factors, sums);
                        (own, theirs) = (own.wrapping_add(BYTES), theirs.wrapping_add(BYTES));
                        (scales, factors) = (scales.wrapping_add(TILE), factors.wrapping_add(PANEL));
                        for line in 0..share {
                            _mm_prefetch::<_MM_HINT_T1>(ahead.wrapping_add(line * LINE));
                        }
                        ahead = ahead.wrapping_add(share * LINE);
                    }
                    if follow {
                        (own, theirs) = pairs.at(panel * part.tiles + tile + follows);
                    }
                }
                if tile == 0 {
                    for group in 0..part.groups {
                        _mm_prefetch::<_MM_HINT_T1>(factors.wrapping_add(group * PANEL).wrapping_byte_add(AHEAD / PANEL).cast());
                    }
                }
                if rows == TILE {
                    for (row, sum) in sums.into_iter().enumerate() {
                        _mm512_storeu_ps(to.add(row * matrix.stride()), sum);
                    }
                } else {
                    for (row, sum) in sums.into_iter().enumerate().take(rows) {
                        _mm512_storeu_ps(to.add(row * matrix.stride()), sum);
                    }
                }
            }
        }
    }
}
