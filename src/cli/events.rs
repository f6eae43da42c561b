//! TensorBoard's event files: records with a checksum (TFRecord) that hold `Event` messages of Protocol Buffers. Only
//! what a run has to say is written: numbers by step, and one text.

use std::io::{self, Write};

/// Writes one event file.
pub struct Events<W: Write> {
    out: W,
}

impl<W: Write> Events<W> {
    /// Begins a file; `time` is in seconds since 1970.
    pub fn new(out: W, time: f64) -> io::Result<Self> {
        let mut events = Events { out };
        let mut event = ProtoMessage::default();
        event.double(1, time);
        event.bytes(3, b"brain.Event:2");
        events.record(&event.0)?;
        Ok(events)
    }

    /// The numbers of one step, each under its tag.
    pub fn numbers<'a>(&mut self, time: f64, step: u64, numbers: impl Iterator<Item = (&'a str, f64)>) -> io::Result<()> {
        let mut summary = ProtoMessage::default();
        for (tag, number) in numbers {
            let mut value = ProtoMessage::default();
            value.bytes(1, tag.as_bytes());
            value.float(2, number as f32);
            summary.bytes(1, &value.0);
        }
        self.summary(time, step, &summary)
    }

    /// A text, which TensorBoard shows as Markdown.
    pub fn text(&mut self, time: f64, tag: &str, text: &str) -> io::Result<()> {
        let (mut plugin, mut metadata, mut size, mut shape, mut tensor) = Default::default();
        ProtoMessage::bytes(&mut plugin, 1, b"text");
        ProtoMessage::bytes(&mut metadata, 1, &plugin.0);
        ProtoMessage::number(&mut size, 1, 1);
        ProtoMessage::bytes(&mut shape, 2, &size.0);
        ProtoMessage::number(&mut tensor, 1, STRING);
        ProtoMessage::bytes(&mut tensor, 2, &shape.0);
        ProtoMessage::bytes(&mut tensor, 8, text.as_bytes());
        let (mut value, mut summary) = (ProtoMessage::default(), ProtoMessage::default());
        value.bytes(1, tag.as_bytes());
        value.bytes(8, &tensor.0);
        value.bytes(9, &metadata.0);
        summary.bytes(1, &value.0);
        self.summary(time, 0, &summary)
    }

    /// Ends the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn summary(&mut self, time: f64, step: u64, summary: &ProtoMessage) -> io::Result<()> {
        let mut event = ProtoMessage::default();
        event.double(1, time);
        event.number(2, step);
        event.bytes(5, &summary.0);
        self.record(&event.0)
    }

    fn record(&mut self, data: &[u8]) -> io::Result<()> {
        let length = (data.len() as u64).to_le_bytes();
        self.out.write_all(&length)?;
        self.out.write_all(&masked(&length).to_le_bytes())?;
        self.out.write_all(data)?;
        self.out.write_all(&masked(data).to_le_bytes())
    }
}

/// `DT_STRING` of TensorFlow's types.
const STRING: u64 = 7;

/// A message of Protocol Buffers, field by field.
#[derive(Default)]
struct ProtoMessage(Vec<u8>);

impl ProtoMessage {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn key(&mut self, field: u64, wire: u64) {
        self.varint(field << 3 | wire);
    }

    fn number(&mut self, field: u64, number: u64) {
        self.key(field, 0);
        self.varint(number);
    }

    fn double(&mut self, field: u64, number: f64) {
        self.key(field, 1);
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn float(&mut self, field: u64, number: f32) {
        self.key(field, 5);
        self.0.extend(number.to_le_bytes());
    }
}

/// The checksum of a record: CRC-32C (RFC 3720, appendix B.4), turned and shifted as TFRecord has it.
fn masked(data: &[u8]) -> u32 {
    crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

fn crc32c(data: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let bit = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
    !data.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_rfc_3720() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    /// The bytes that `tf.summary` writes for the same event: version, then `loss` 0.5 at step 3.
    #[test]
    fn records_are_framed_and_fields_are_in_their_places() {
        let mut out = Vec::new();
        let mut events = Events::new(&mut out, 2.0).unwrap();
        events.numbers(2.0, 3, [("loss", 0.5)].into_iter()).unwrap();
        events.finish().unwrap();
        let version = b"\x09\0\0\0\0\0\0\0\x40\x1a\x0dbrain.Event:2";
        let event = b"\x09\0\0\0\0\0\0\0\x40\x10\x03\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f";
        let mut expected = Vec::new();
        for data in [version.as_slice(), event.as_slice()] {
            let length = (data.len() as u64).to_le_bytes();
            expected.extend([&length[..], &masked(&length).to_le_bytes(), data, &masked(data).to_le_bytes()].concat());
        }
        assert_eq!(out, expected);
    }
}
