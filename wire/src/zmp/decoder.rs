//! Frames and records out of bytes: checks 9 to 11 of 1.2, sizes and receive credit.

use bytes::{Buf, Bytes, BytesMut};
use smallvec::SmallVec;

use super::frame::{ErrorCode, HEADER_BYTES, Header, MOST_CONTROL, ProtocolError};
use super::record::{Charge, Kind, Record};

/// The parts of one record at most; one more is too large. Empty parts have no bytes that
/// `MAXMSGSIZE` could count, and no memory grows without an end.
pub const MOST_PARTS: usize = 65_536;

/// For so many bytes there is room before the first byte of a payload has come.
const FIRST_ROOM: usize = 16 * 1024;

/// What the receive queue of a link allows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credit {
    /// `RCVHWM` in bytes; 0 = no limit.
    pub(super) hwm: Charge,
    /// The charge of everything that was ever taken.
    pub(super) taken: Charge,
}

/// What the bytes were.
#[derive(Debug)]
pub(super) enum Decoded {
    /// A control frame with this body.
    Control(Bytes),
    /// A whole record.
    Record(Kind, Record),
    /// More bytes are needed.
    NeedsMore,
    /// The next frame has no credit.
    Blocked,
}

/// A record whose last frame has not come.
#[derive(Debug)]
struct OpenRecord {
    kind: Kind,
    parts: SmallVec<[Bytes; 1]>,
    payload: u64,
}

/// A frame whose header was taken from the input.
#[derive(Clone, Copy, Debug)]
struct Begun {
    header: Header,
    /// Its charge is reserved, or it needs none.
    admitted: bool,
}

/// The decoder of one connection.
#[derive(Debug)]
pub(super) struct Decoder {
    /// `MAXMSGSIZE`, or the largest number.
    most: u64,
    begun: Option<Begun>,
    open: Option<OpenRecord>,
    /// The charge of all frames that were ever admitted.
    reserved: Charge,
    /// What it was when the record under way began.
    reserved_before: Charge,
    wanted: usize,
}

impl Decoder {
    /// A decoder for records of at most so many bytes; 0 = no limit.
    pub(super) fn new(max_message_size: u64) -> Self {
        Self {
            most: if max_message_size == 0 { u64::MAX } else { max_message_size },
            begun: None,
            open: None,
            reserved: 0,
            reserved_before: 0,
            wanted: HEADER_BYTES,
        }
    }

    /// The charge of all frames that were ever admitted.
    pub(super) const fn reserved(&self) -> Charge {
        self.reserved
    }

    /// How many bytes more are wanted at least.
    pub(super) const fn wanted(&self) -> usize {
        self.wanted
    }

    /// The next control frame or record. `judge` sees the header of each frame that is not inside
    /// of an open record, once it has passed all checks.
    ///
    /// # Errors
    /// A check of 1.2, or what `judge` says. The decoder must not be asked again.
    #[inline]
    pub(super) fn next(
        &mut self,
        input: &mut BytesMut,
        credit: Credit,
        judge: impl Fn(Header) -> Result<(), ProtocolError>,
    ) -> Result<Decoded, ProtocolError> {
        loop {
            let Some(begun) = self.begin(input, &judge)? else {
                self.wanted = HEADER_BYTES;
                return Ok(Decoded::NeedsMore);
            };
            let Begun { header, admitted } = begun;
            if !admitted && !self.admit(header, credit) {
                self.begun = Some(begun);
                return Ok(Decoded::Blocked);
            }
            let size = header.size as usize;
            if input.len() < size {
                self.begun = Some(Begun { header, admitted: true });
                self.wanted = (size - input.len()).min((2 * input.len()).max(FIRST_ROOM));
                return Ok(Decoded::NeedsMore);
            }
            let payload = match size {
                0 => Bytes::new(),
                _ => input.split_to(size).freeze(),
            };
            if header.is_special() {
                return Ok(Decoded::Control(payload));
            }
            if let Some(record) = self.part(header, payload) {
                return Ok(record);
            }
        }
    }

    /// The frame under way, or the next one; `None` without its whole header.
    #[inline]
    fn begin(
        &mut self,
        input: &mut BytesMut,
        judge: impl Fn(Header) -> Result<(), ProtocolError>,
    ) -> Result<Option<Begun>, ProtocolError> {
        if let Some(begun) = self.begun.take() {
            return Ok(Some(begun));
        }
        let Some(header) = Header::parse(input)? else {
            return Ok(None);
        };
        self.check(header)?;
        if self.open.is_none() {
            judge(header)?;
        }
        input.advance(header.length());
        Ok(Some(Begun { header, admitted: header.is_special() }))
    }

    /// Adds a part; gives the record when it was the last one.
    #[inline]
    fn part(&mut self, header: Header, payload: Bytes) -> Option<Decoded> {
        if !header.has_more() {
            return Some(match self.open.take() {
                None => Decoded::Record(header.kind, Record::new(payload)),
                Some(mut open) => {
                    open.parts.push(payload);
                    let record = Record::from_parts(open.parts).expect("two parts or more");
                    Decoded::Record(open.kind, record)
                }
            });
        }
        let open = self.open.get_or_insert_with(|| OpenRecord {
            kind: header.kind,
            parts: SmallVec::new(),
            payload: 0,
        });
        open.payload += u64::from(header.size);
        open.parts.push(payload);
        None
    }

    /// Checks 9 and 10.
    #[inline]
    fn check(&self, header: Header) -> Result<(), ProtocolError> {
        let size = u64::from(header.size);
        let fault = |code, what| Err(ProtocolError::new(code, what));
        if let Some(open) = &self.open {
            if header.is_special() {
                return fault(ErrorCode::Multipart, "a special frame inside of a record");
            }
            if header.kind != Kind::Data {
                return fault(ErrorCode::Multipart, "a kind on a later frame of a record");
            }
            if open.payload.saturating_add(size) > self.most {
                return fault(ErrorCode::Size, "a record above MAXMSGSIZE");
            }
            if open.parts.len() >= MOST_PARTS {
                return fault(ErrorCode::Size, "a record of too many parts");
            }
        } else if header.is_control() {
            if header.size > MOST_CONTROL {
                return fault(ErrorCode::Size, "a control frame above 4096 bytes");
            }
        } else if size > self.most {
            return fault(ErrorCode::Size, "a part above MAXMSGSIZE");
        }
        Ok(())
    }

    /// Reserves the charge of a frame, if it may: it fits; or nothing but its own record is
    /// queued, which otherwise would wait for itself.
    #[inline]
    fn admit(&mut self, header: Header, credit: Credit) -> bool {
        if self.open.is_none() {
            self.reserved_before = self.reserved;
        }
        let outstanding = self.reserved.saturating_sub(credit.taken);
        let fits = outstanding.saturating_add(header.charge()) <= credit.hwm;
        if fits || credit.hwm == 0 || credit.taken >= self.reserved_before {
            self.reserved += header.charge();
            return true;
        }
        false
    }

    /// Check 11: the stream has ended, and this was left.
    ///
    /// # Errors
    /// It ended inside of a frame or of a record.
    pub(super) fn end(&self, input: &[u8]) -> Result<(), ProtocolError> {
        let what = match (&self.begun, &self.open) {
            (Some(_), _) => "the stream ended inside of a payload",
            (None, _) if !input.is_empty() => "the stream ended inside of a header",
            (None, Some(_)) => "the stream ended inside of a record",
            (None, None) => return Ok(()),
        };
        Err(ProtocolError::new(ErrorCode::Incomplete, what))
    }
}

#[cfg(test)]
mod tests;
