//! The pattern that TesterClient and TesterServer send and check (contract "lines").

/// The sizes of the chunks, in bytes and in order.
pub const CHUNK_SIZES: [usize; 11] =
    [1, 2, 4, 32, 512, 1024, 4096, 32_768, 32_769, 1_048_576, 2_097_152];

/// Which of the two patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// What the client sends.
    Request,
    /// What the server answers.
    Response,
}

impl Role {
    const fn mask(self) -> u32 {
        match self {
            Self::Request => 0x5A5A_5A5A,
            Self::Response => 0xA5A5_A5A5,
        }
    }

    /// The mask of the very first byte, which carries the flow.
    const fn first(self) -> u8 {
        match self {
            Self::Request => 0x3C,
            Self::Response => 0xC3,
        }
    }
}

/// Byte `index` of chunk `chunk` of flow `flow`.
pub fn byte(role: Role, flow: u8, chunk: usize, index: usize) -> u8 {
    if chunk == 0 && index == 0 {
        return flow ^ role.first();
    }
    let mut v = index as u32;
    v ^= v >> 13;
    v = v.wrapping_mul(0x045d_9f3b);
    v ^= (chunk as u32 + 1).wrapping_mul(0x27d4_eb2d);
    v ^= (u32::from(flow) + 1).wrapping_mul(0x1656_67b1);
    v ^= role.mask();
    v ^= v >> 16;
    v as u8
}

/// A place in the pattern of one flow; writes it and checks it, in pieces of any size.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    role: Role,
    flow: u8,
    chunks: usize,
    chunk: usize,
    index: usize,
}

/// A byte was not the one of the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {index} of chunk {chunk} is {found:#04x}, expected {expected:#04x}")]
pub struct WrongByte {
    /// The chunk, from 0.
    pub chunk: usize,
    /// The byte's place in the chunk, from 0.
    pub index: usize,
    /// What came.
    pub found: u8,
    /// What the pattern has there; for bytes behind the end of the pattern, what came itself.
    pub expected: u8,
}

impl Pattern {
    /// The start of a pattern of the first `chunks` chunk sizes.
    pub const fn new(role: Role, flow: u8, chunks: usize) -> Self {
        let chunks = if chunks > CHUNK_SIZES.len() { CHUNK_SIZES.len() } else { chunks };
        Self { role, flow, chunks, chunk: 0, index: 0 }
    }

    /// The flow that the first byte of a request names.
    pub const fn flow_of_request(first: u8) -> u8 {
        first ^ Role::Request.first()
    }

    /// The flow.
    pub const fn flow(&self) -> u8 {
        self.flow
    }

    /// True when the whole pattern was written or checked.
    pub const fn done(&self) -> bool {
        self.chunk >= self.chunks
    }

    fn step(&mut self) {
        self.index += 1;
        if self.index == CHUNK_SIZES[self.chunk] {
            self.chunk += 1;
            self.index = 0;
        }
    }

    /// Writes the next bytes of the current chunk into `out`, not past the chunk's end. Gives how
    /// many; 0 when the pattern is done.
    pub fn write(&mut self, out: &mut [u8]) -> usize {
        if self.done() {
            return 0;
        }
        let n = out.len().min(CHUNK_SIZES[self.chunk] - self.index);
        for place in &mut out[..n] {
            *place = byte(self.role, self.flow, self.chunk, self.index);
            self.step();
        }
        n
    }

    /// Checks bytes that came.
    ///
    /// # Errors
    /// The first byte that differs, or that comes behind the end of the pattern.
    pub fn check(&mut self, input: &[u8]) -> Result<(), WrongByte> {
        for &found in input {
            let (chunk, index) = (self.chunk, self.index);
            if self.done() {
                return Err(WrongByte { chunk, index, found, expected: found });
            }
            let expected = byte(self.role, self.flow, chunk, index);
            if found != expected {
                return Err(WrongByte { chunk, index, found, expected });
            }
            self.step();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK_SIZES, Pattern, Role, byte};

    #[test]
    fn tester_the_first_byte_names_the_flow() {
        assert_eq!(byte(Role::Request, 7, 0, 0), 7 ^ 0x3C);
        assert_eq!(byte(Role::Response, 7, 0, 0), 7 ^ 0xC3);
        assert_eq!(Pattern::flow_of_request(7 ^ 0x3C), 7);
    }

    #[test]
    fn tester_bytes_are_those_of_the_formula_worked_by_hand() {
        // 2*0x27d4eb2d ^ 0x165667b1 ^ 0x5a5a5a5a = 0x03a5ebb1, and ^ (v >> 16) = 0x03a5e814.
        assert_eq!(byte(Role::Request, 0, 1, 0), 0x14);
        // Half of a mask folds onto its other half, so both roles share all bytes but the first.
        assert_eq!(byte(Role::Response, 0, 1, 0), 0x14);
        assert_eq!(byte(Role::Request, 2, 8, 12_345), 0x44);
    }

    #[test]
    fn tester_what_was_written_checks_in_any_segmentation() {
        let mut all = Vec::new();
        let mut writer = Pattern::new(Role::Request, 3, 11);
        let mut piece = [0; 1000];
        loop {
            let n = writer.write(&mut piece);
            if n == 0 {
                break;
            }
            all.extend_from_slice(&piece[..n]);
        }
        assert_eq!(all.len(), CHUNK_SIZES.iter().sum::<usize>());
        for size in [1, 7, 4096, all.len()] {
            let mut checker = Pattern::new(Role::Request, 3, 11);
            for part in all.chunks(size) {
                checker.check(part).unwrap();
            }
            assert!(checker.done());
            assert!(checker.check(&[0]).is_err(), "a byte behind the end");
        }
        let last = all.len() - 1;
        all[last] ^= 1;
        assert!(Pattern::new(Role::Request, 3, 11).check(&all).is_err());
    }
}
