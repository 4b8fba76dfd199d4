//! Bytes in and out: the few forms that every record is built of.
//!
//! What always holds: reading never panics, never reads beyond its part, and never allocates more
//! than the bytes at hand can fill. A *part* carries its own length, so that a reader that knows
//! fewer fields than the writer wrote leaves the rest of it alone.
//!
//! What it does not do: know any record.

use super::Malformed;

/// Puts a record together.
#[derive(Debug, Default)]
pub(in crate::store) struct Writer {
    out: Vec<u8>,
}

impl Writer {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.out
    }

    pub(super) fn byte(&mut self, value: u8) {
        self.out.push(value);
    }

    /// As it is, without a length.
    pub(super) fn fixed(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Seven bits a byte, low ones first: small numbers are short.
    pub(super) fn number(&mut self, value: u64) {
        let (encoded, length) = varint(value);
        self.out.extend(encoded.into_iter().take(length));
    }

    /// With its length in front.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.fixed(bytes);
    }

    /// Whatever `put` writes, with its length in front.
    pub(super) fn part(&mut self, put: impl FnOnce(&mut Self)) {
        let at = self.out.len();
        self.out.push(0);
        put(self);
        let length = self.out.len().saturating_sub(at).saturating_sub(1);
        let (encoded, bytes) = varint(u64::try_from(length).unwrap_or(u64::MAX));
        // Nearly every part is shorter than 128 bytes, and its length fits the byte kept free.
        self.out
            .splice(at..=at, encoded.into_iter().take(bytes))
            .for_each(drop);
    }
}

/// Takes a record apart.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Are there no fields left? A reader asks before it reads what earlier writers did not write.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.rest.split_first().ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    pub(super) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.rest.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..=63).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit only.
            if shift == 63 && bits > 1 {
                return Err(Malformed::Range("number"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed::Range("number"))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed::Truncated)?;
        let (bytes, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(super) fn part<T>(
        &mut self,
        take: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        let mut inner = Reader::new(self.bytes()?);
        take(&mut inner)
    }

    /// How many elements the rest can hold at most, if each takes a byte at least.
    pub(super) fn room(&self) -> usize {
        self.rest.len()
    }
}

const VARINT_MAX: usize = 10;

fn varint(mut value: u64) -> ([u8; VARINT_MAX], usize) {
    let mut encoded = [0_u8; VARINT_MAX];
    let mut length = 0;
    for slot in &mut encoded {
        let low = u8::try_from(value & 0x7f).unwrap_or_default();
        value >>= 7;
        length += 1;
        *slot = if value == 0 { low } else { low | 0x80 };
        if value == 0 {
            break;
        }
    }
    (encoded, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let mut cases = vec![0, 1, 127, 128, 16_383, 16_384, u64::MAX - 1, u64::MAX];
        cases.extend((0..64).map(|bit| 1_u64 << bit));
        for value in cases {
            let mut writer = Writer::default();
            writer.number(value);
            let bytes = writer.into_bytes();
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.number(), Ok(value));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn a_number_beyond_64_bits_is_refused() {
        let mut bytes = [0xff_u8; 10];
        bytes[9] = 0x02;
        assert!(Reader::new(&bytes).number().is_err());
        assert!(Reader::new(&[0xff; 11]).number().is_err());
    }

    #[test]
    fn a_part_hides_what_its_reader_does_not_know() {
        for extra in [0, 1, 126, 127, 128, 20_000] {
            let mut writer = Writer::default();
            writer.part(|inner| {
                inner.number(7);
                inner.fixed(&vec![9; extra]);
            });
            writer.byte(42);
            let bytes = writer.into_bytes();
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.part(Reader::number), Ok(7));
            assert_eq!(reader.byte(), Ok(42), "{extra}");
        }
    }

    #[test]
    fn a_length_beyond_the_end_is_truncation() {
        let mut writer = Writer::default();
        writer.number(u64::MAX);
        let bytes = writer.into_bytes();
        assert_eq!(Reader::new(&bytes).bytes(), Err(Malformed::Truncated));
    }
}
