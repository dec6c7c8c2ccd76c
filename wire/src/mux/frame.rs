//! Frames on the wire: the header, and how frames are cut out of what was read.

use super::reason::FrameKind;
use crate::queue::ByteQueue;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 8;

/// The most payload in one frame that is sent (M02). More is taken: a length has 16 bits.
pub const MOST_SENT: usize = 65_527;

/// The most bytes that wait because they do not make a whole frame (M06).
pub const MOST_WAITING: usize = HEADER_BYTES + u16::MAX as usize - 1;

/// The `_pad1` of an Open that asks for half-closes, and of the FlowResume that agrees (M30).
pub const HALF_CLOSE: u8 = 1;

/// The eight bytes before each payload, big endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of payload behind the header.
    pub length: u16,
    /// What the frame is, as it stands on the wire: one value, not bits.
    pub flags: u8,
    /// 0, but for the agreement on half-closes (M03, M30).
    pub pad: u8,
    /// The child that it is for.
    pub cid: u32,
}

impl Header {
    /// The header of a frame without payload.
    pub const fn control(kind: FrameKind, cid: u32) -> Self {
        Self { length: 0, flags: kind as u8, pad: 0, cid }
    }

    /// The header of a Data frame.
    pub const fn data(cid: u32, length: u16) -> Self {
        Self { length, flags: FrameKind::Data as u8, pad: 0, cid }
    }

    /// The same with the mark of half-closes (M30).
    #[must_use]
    pub const fn with_half_close(self, half_close: bool) -> Self {
        Self { pad: if half_close { HALF_CLOSE } else { 0 }, ..self }
    }

    /// The bytes of the header.
    pub const fn encode(self) -> [u8; HEADER_BYTES] {
        let [l0, l1] = self.length.to_be_bytes();
        let [c0, c1, c2, c3] = self.cid.to_be_bytes();
        [l0, l1, self.flags, self.pad, c0, c1, c2, c3]
    }

    /// The header that these bytes are; every eight bytes are one.
    pub const fn decode([l0, l1, flags, pad, c0, c1, c2, c3]: [u8; HEADER_BYTES]) -> Self {
        Self {
            length: u16::from_be_bytes([l0, l1]),
            flags,
            pad,
            cid: u32::from_be_bytes([c0, c1, c2, c3]),
        }
    }

    /// The header of the frame at the front of `input`, once the whole frame is there (M01, M06).
    pub fn of_whole_frame(input: &ByteQueue) -> Option<Self> {
        let header = Self::decode(input.peek()?);
        (input.len() >= HEADER_BYTES + usize::from(header.length)).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use proptest::prelude::*;

    use super::{FrameKind, HEADER_BYTES, Header, MOST_SENT, MOST_WAITING};
    use crate::queue::{ByteQueue, Unpooled};

    #[test]
    fn mux_wire_the_header_is_eight_bytes_big_endian() {
        let header = Header { length: 0x0102, flags: 4, pad: 0, cid: 0x0A0B_0C0D };
        assert_eq!(header.encode(), [1, 2, 4, 0, 10, 11, 12, 13]);
        assert_eq!(Header::data(7, MOST_SENT as u16).encode(), [0xFF, 0xF7, 4, 0, 0, 0, 0, 7]);
        let open = Header::control(FrameKind::Open, 1);
        assert_eq!(open.encode(), [0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(open.with_half_close(true).encode(), [0, 0, 0, 1, 0, 0, 0, 1]);
    }

    #[test]
    fn mux_m06_bytes_that_make_no_whole_frame_wait_and_never_more_than_fit_into_one() {
        let mut input = ByteQueue::default();
        let frame = [Header::data(3, u16::MAX).encode().as_slice(), &vec![9; 65_535]].concat();
        for (at, byte) in frame.iter().enumerate() {
            assert_eq!(Header::of_whole_frame(&input), None, "after {at} bytes");
            input.append(&[*byte], &Unpooled);
        }
        assert_eq!(input.len() - 1, MOST_WAITING);
        assert_eq!(Header::of_whole_frame(&input), Some(Header::data(3, u16::MAX)));
    }

    proptest! {
        #[test]
        fn mux_wire_every_eight_bytes_are_a_header(bytes: [u8; HEADER_BYTES]) {
            prop_assert_eq!(Header::decode(bytes).encode(), bytes);
        }

        #[test]
        fn mux_m01_a_header_is_read_across_any_pieces(bytes: [u8; HEADER_BYTES], cut in 0..8usize) {
            let mut input = ByteQueue::default();
            input.push(BytesMut::from(&bytes[..cut]));
            input.push(BytesMut::from(&bytes[cut..]));
            prop_assert_eq!(input.peek(), Some(bytes));
        }
    }
}
