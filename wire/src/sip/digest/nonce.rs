//! Nonces that need no memory: a time and a number with a keyed hash over both and the realm. Only
//! who has the secret can make one, so whoever sees one knows what it says.

use std::fmt;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::write_hex;

/// Bytes of the keyed hash that go in.
const MAC: usize = 16;
/// Bytes of time, number and keyed hash.
const BYTES: usize = 8 + 8 + MAC;
/// Characters of a nonce.
pub const NONCE_LEN: usize = 2 * BYTES;

/// Why a nonce is of no use. Either way the client may try again with another one at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonceFault {
    /// Nobody here made it, or not for this realm.
    Foreign,
    /// It is over.
    Old,
}

/// Makes and knows nonces. All workers of a node have the same.
#[derive(Clone)]
pub struct Nonces {
    mac: Hmac<Sha256>,
    start: Instant,
    lifetime: Duration,
}

impl Nonces {
    /// How long a nonce is good where nobody says otherwise.
    pub const LIFETIME: Duration = Duration::from_secs(300);

    /// Nonces with this secret, which nobody else may know or guess. `start` is not later than any
    /// time that follows.
    pub fn new(secret: &[u8; 32], start: Instant, lifetime: Duration) -> Self {
        let mac = Hmac::new_from_slice(secret).expect("a key of any length will do");
        Self { mac, start, lifetime }
    }

    /// A nonce. The number should be another one each time.
    pub fn make(&self, realm: &[u8], number: u64, now: Instant) -> [u8; NONCE_LEN] {
        let time = self.millis(now);
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&time.to_be_bytes());
        bytes[8..16].copy_from_slice(&number.to_be_bytes());
        let mac = self.mac(&bytes[..16], realm).finalize().into_bytes();
        bytes[16..].copy_from_slice(&mac[..MAC]);
        let mut nonce = [0; NONCE_LEN];
        write_hex(&bytes, &mut nonce);
        nonce
    }

    /// The number of a nonce that was made here for the realm and is not over.
    ///
    /// # Errors
    /// It is of no use.
    pub fn check(&self, nonce: &[u8], realm: &[u8], now: Instant) -> Result<u64, NonceFault> {
        let bytes = read_hex(nonce).ok_or(NonceFault::Foreign)?;
        let (said, mac) = bytes.split_at(16);
        self.mac(said, realm).verify_truncated_left(mac).map_err(|_| NonceFault::Foreign)?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (time, number) = (number(&said[..8]), number(&said[8..]));
        let age = self.millis(now).saturating_sub(time);
        if u128::from(age) > self.lifetime.as_millis() {
            return Err(NonceFault::Old);
        }
        Ok(number)
    }

    fn mac(&self, said: &[u8], realm: &[u8]) -> Hmac<Sha256> {
        self.mac.clone().chain_update(said).chain_update(realm)
    }

    fn millis(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_millis() as u64
    }
}

impl fmt::Debug for Nonces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nonces").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

fn read_hex(text: &[u8]) -> Option<[u8; BYTES]> {
    let text: &[u8; NONCE_LEN] = text.try_into().ok()?;
    let mut bytes = [0; BYTES];
    for (byte, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(digits[0])? << 4 | digit(digits[1])?;
    }
    Some(bytes)
}

/// As they are written: lower case alone, so that a nonce has one spelling.
const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}
