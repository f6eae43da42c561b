//! ggml's blocks: a few numbers packed with a common scale, as `ggml-quants` defines them.

/// How numbers are packed.
pub struct BlockType {
    /// ggml's number for it.
    pub code: u32,
    /// ggml's name for it.
    pub name: &'static str,
    /// Numbers of a block.
    pub block: usize,
    /// Bytes of a block.
    pub bytes: usize,
    /// Unpacks the `bytes` of a block into its `block` numbers.
    pub unpack: fn(&[u8], &mut [f32]),
}

/// Every kind of block that can be read.
pub const TYPES: &[BlockType] = &[
    BlockType {
        code: 0,
        name: "F32",
        block: 1,
        bytes: 4,
        unpack: |from, to| to[0] = f32::from_le_bytes([from[0], from[1], from[2], from[3]]),
    },
    BlockType { code: 1, name: "F16", block: 1, bytes: 2, unpack: |from, to| to[0] = half(from, 0) },
    BlockType {
        code: 30,
        name: "BF16",
        block: 1,
        bytes: 2,
        unpack: |from, to| to[0] = half::bf16::from_le_bytes([from[0], from[1]]).to_f32(),
    },
    BlockType { code: 2, name: "Q4_0", block: 32, bytes: 18, unpack: q4_0 },
    BlockType { code: 3, name: "Q4_1", block: 32, bytes: 20, unpack: q4_1 },
    BlockType {
        code: 6,
        name: "Q5_0",
        block: 32,
        bytes: 22,
        unpack: |from, to| five(&from[2..], half(from, 0), -16.0 * half(from, 0), to),
    },
    BlockType { code: 7, name: "Q5_1", block: 32, bytes: 24, unpack: |from, to| five(&from[4..], half(from, 0), half(from, 2), to) },
    BlockType { code: 8, name: "Q8_0", block: 32, bytes: 34, unpack: q8_0 },
    BlockType { code: 12, name: "Q4_K", block: 256, bytes: 144, unpack: q4_k },
    BlockType { code: 14, name: "Q6_K", block: 256, bytes: 210, unpack: q6_k },
];

/// The half-precision number at byte `at`.
fn half(from: &[u8], at: usize) -> f32 {
    half::f16::from_le_bytes([from[at], from[at + 1]]).to_f32()
}

/// A scale, then 32 numbers of 4 bits, the first 16 in the low halves of the bytes: scale * (n - 8).
fn q4_0(from: &[u8], to: &mut [f32]) {
    let scale = half(from, 0);
    for (i, &byte) in from[2..18].iter().enumerate() {
        to[i] = scale * (f32::from(byte & 15) - 8.0);
        to[i + 16] = scale * (f32::from(byte >> 4) - 8.0);
    }
}

/// A scale and a least value, then 32 numbers of 4 bits: scale * n + least.
fn q4_1(from: &[u8], to: &mut [f32]) {
    let (scale, least) = (half(from, 0), half(from, 2));
    for (i, &byte) in from[4..20].iter().enumerate() {
        to[i] = scale * f32::from(byte & 15) + least;
        to[i + 16] = scale * f32::from(byte >> 4) + least;
    }
}

/// 32 high bits, then 32 numbers' low 4 bits, the first 16 in the low halves of the bytes: scale * n + least. In Q5_0
/// the least is -16 scales.
fn five(from: &[u8], scale: f32, least: f32, to: &mut [f32]) {
    let high = u32::from_le_bytes([from[0], from[1], from[2], from[3]]);
    let bit = |i: usize| (high >> i & 1) as u8 * 16;
    for (i, &byte) in from[4..20].iter().enumerate() {
        to[i] = scale * f32::from(byte & 15 | bit(i)) + least;
        to[i + 16] = scale * f32::from(byte >> 4 | bit(i + 16)) + least;
    }
}

/// A scale, then 32 numbers of 8 bits: scale * n.
fn q8_0(from: &[u8], to: &mut [f32]) {
    let scale = half(from, 0);
    for (to, &byte) in to.iter_mut().zip(&from[2..34]) {
        *to = scale * f32::from(byte as i8);
    }
}

/// Two scales, 12 bytes with a scale and an offset of 6 bits for each of 8 stretches of 32 numbers, then the numbers of
/// 4 bits, two stretches in the halves of 32 bytes: scale * s * n - offset * m.
fn q4_k(from: &[u8], to: &mut [f32]) {
    let (scale, offset) = (half(from, 0), half(from, 2));
    let (packed, numbers) = (&from[4..16], &from[16..144]);
    let six = |i: usize| match i {
        0..=3 => (packed[i] & 63, packed[i + 4] & 63),
        _ => (packed[i + 4] & 15 | packed[i - 4] >> 6 << 4, packed[i + 4] >> 4 | packed[i] >> 6 << 4),
    };
    for (pair, bytes) in numbers.chunks_exact(32).enumerate() {
        for (stretch, shift) in [(2 * pair, 0), (2 * pair + 1, 4)] {
            let (s, m) = six(stretch);
            let (s, m) = (scale * f32::from(s), offset * f32::from(m));
            for (to, &byte) in to[32 * stretch..].iter_mut().zip(bytes) {
                *to = s * f32::from(byte >> shift & 15) - m;
            }
        }
    }
}

/// 256 numbers of 6 bits, the low 4 in 128 bytes and the high 2 in 64, 16 scales of 8 bits, and a scale of those:
/// scale * s * (n - 32).
fn q6_k(from: &[u8], to: &mut [f32]) {
    let (low, high, scales, scale) = (&from[..128], &from[128..192], &from[192..208], half(from, 208));
    for part in 0..2 {
        let (low, high, scales) = (&low[64 * part..], &high[32 * part..], &scales[8 * part..]);
        for i in 0..32 {
            let number = |quarter: usize| {
                let four = low[i + 32 * (quarter % 2)] >> (4 * (quarter / 2)) & 15;
                let two = high[i] >> (2 * quarter) & 3;
                f32::from((four | two << 4) as i8 - 32)
            };
            for quarter in 0..4 {
                let s = f32::from(scales[i / 16 + 2 * quarter] as i8);
                to[128 * part + 32 * quarter + i] = scale * s * number(quarter);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(name: &str, bytes: &[u8]) -> Vec<f32> {
        let kind = TYPES.iter().find(|kind| kind.name == name).unwrap();
        assert_eq!(bytes.len(), kind.bytes);
        let mut to = vec![f32::NAN; kind.block];
        (kind.unpack)(bytes, &mut to);
        to
    }

    const HALF: [u8; 2] = [0x00, 0x38]; // 0.5
    const TWO: [u8; 2] = [0x00, 0x40];

    #[test]
    fn small_blocks_as_worked_by_hand() {
        let mut four = vec![0x80; 16];
        four[1] = 0x3f;
        let numbers = unpack("Q4_0", &[&HALF[..], &four].concat());
        assert_eq!((numbers[0], numbers[16], numbers[1], numbers[17]), (-4.0, 0.0, 3.5, -2.5));
        let numbers = unpack("Q4_1", &[&HALF[..], &TWO[..], &four].concat());
        assert_eq!((numbers[0], numbers[16], numbers[1], numbers[17]), (2.0, 6.0, 9.5, 3.5));
        // High bits of numbers 1 and 16: 15 + 16 = 31 and 8 + 16 = 24.
        let high = (1u32 << 1 | 1 << 16).to_le_bytes();
        let numbers = unpack("Q5_0", &[&HALF[..], &high, &four].concat());
        assert_eq!((numbers[0], numbers[16], numbers[1], numbers[17]), (-8.0, 4.0, 7.5, -6.5));
        let numbers = unpack("Q5_1", &[&HALF[..], &TWO[..], &high, &four].concat());
        assert_eq!((numbers[0], numbers[16], numbers[1], numbers[17]), (2.0, 14.0, 17.5, 3.5));
        let mut eight = vec![0xffu8; 32];
        eight[31] = 100;
        let numbers = unpack("Q8_0", &[&HALF[..], &eight].concat());
        assert_eq!((numbers[0], numbers[31]), (-0.5, 50.0));
        assert_eq!(unpack("F16", &TWO), [2.0]);
        assert_eq!(unpack("BF16", &[0x80, 0x3f]), [1.0]);
    }

    #[test]
    fn blocks_of_blocks_as_worked_by_hand() {
        // Stretch 0 has scale 1 and offset 3; stretch 4 scale 2 + 16 * 2 = 34 and offset 5 + 16 * 3 = 53, of high bits
        // in bytes 0 and 4.
        let mut bytes = [0u8; 144];
        bytes[..2].copy_from_slice(&HALF);
        bytes[2..4].copy_from_slice(&TWO);
        bytes[4] = 1 | 2 << 6;
        bytes[8] = 3 | 3 << 6;
        bytes[12] = 2 | 5 << 4;
        bytes[16] = 0x07;
        bytes[16 + 64] = 0x09;
        let numbers = unpack("Q4_K", &bytes);
        assert_eq!((numbers[0], numbers[1]), (0.5 * 7.0 - 6.0, -6.0));
        assert_eq!((numbers[128], numbers[129]), (17.0 * 9.0 - 106.0, -106.0));
        // Number 0: low 5, high 1: 21 - 32; number 96 (quarter 3, scale 6): low 10 from the upper half of byte 32, high
        // 2: 42 - 32.
        let mut bytes = [0u8; 210];
        bytes[0] = 5;
        bytes[32] = 10 << 4;
        bytes[128] = 1 | 2 << 6;
        bytes[192] = 3;
        bytes[198] = 0xfe;
        bytes[208..].copy_from_slice(&HALF);
        let numbers = unpack("Q6_K", &bytes);
        assert_eq!((numbers[0], numbers[96]), (0.5 * 3.0 * -11.0, 0.5 * -2.0 * 10.0));
    }

    /// Random blocks as gguf-py unpacks them: `make parity-models`.
    #[test]
    fn blocks_are_those_of_gguf_py() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/models/blocks.json");
        let golden: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for case in golden.as_array().unwrap() {
            let (name, hex) = (case["type"].as_str().unwrap(), case["bytes"].as_str().unwrap());
            let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
            let kind = TYPES.iter().find(|kind| kind.name == name).unwrap();
            let numbers: Vec<f32> = bytes.chunks_exact(kind.bytes).flat_map(|block| unpack(name, block)).collect();
            let expected: Vec<f32> = case["values"].as_array().unwrap().iter().map(|x| x.as_f64().map_or(f32::NAN, |x| x as f32)).collect();
            assert_eq!(numbers.len(), expected.len(), "{name}");
            for (number, expected) in numbers.iter().zip(&expected) {
                assert!(
                    !expected.is_finite() || (number - expected).abs() <= 1e-6 * expected.abs().max(1.0),
                    "{name}: {number} is not {expected}"
                );
            }
        }
        assert_eq!(golden.as_array().unwrap().len(), TYPES.len() - 1, "all but plain F32");
    }
}
