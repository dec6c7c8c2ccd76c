//! What all workers share of authentication (`KSR.auth`): the secret of the nonces, and which of
//! them were used.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use lineway_wire::sip::digest::{NONCE_LEN, NonceFault, Nonces, Replays, Use};
use lineway_wire::sip::message::{Message, Name};
use rustix::rand::{GetRandomFlags, getrandom};

/// Uses of nonces that are remembered.
const MOST_USES: usize = 200_000;

/// The nonces of a node. Any thread, short locks.
#[derive(Debug)]
pub struct Auth {
    nonces: Nonces,
    number: AtomicU64,
    uses: Mutex<Replays>,
    random: RandomState,
}

impl Default for Auth {
    fn default() -> Self {
        Self::new(&secret(), Instant::now())
    }
}

impl Auth {
    /// Nonces with this secret.
    fn new(secret: &[u8; 32], start: Instant) -> Self {
        Self {
            nonces: Nonces::new(secret, start, Nonces::LIFETIME),
            number: AtomicU64::new(0),
            uses: Mutex::new(Replays::new(MOST_USES, Nonces::LIFETIME, start)),
            random: RandomState::new(),
        }
    }

    /// A nonce that was not given out before.
    pub fn nonce(&self, realm: &[u8], now: Instant) -> [u8; NONCE_LEN] {
        self.nonces.make(realm, self.number.fetch_add(1, Ordering::Relaxed), now)
    }

    /// The number of a nonce.
    ///
    /// # Errors
    /// It is of no use.
    pub fn check(&self, nonce: &[u8], realm: &[u8], now: Instant) -> Result<u64, NonceFault> {
        self.nonces.check(nonce, realm, now)
    }

    /// Notes that a request used a nonce with this count. Copies of a request are one: what
    /// credentials are for is the same in them.
    pub fn note(&self, nonce: u64, count: u32, request: &Message, now: Instant) -> Use {
        let request = self.random.hash_one((
            request.method().as_bytes(),
            &request.bytes()[request.uri_at()],
            request.call_id(),
            request.cseq().digits,
            [Name::From, Name::To, Name::Contact].map(|name| request.first(name).map(|h| h.value)),
            request.body(),
        ));
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        uses.note(nonce, count, request, now)
    }
}

/// Bytes that nobody can guess.
fn secret() -> [u8; 32] {
    let mut secret = [0; 32];
    let mut got = 0;
    while got < secret.len() {
        let more = getrandom(&mut secret[got..], GetRandomFlags::empty());
        got += more.expect("the system has random bytes");
    }
    secret
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_two_nonces_are_one() {
        let (auth, now) = (Auth::default(), Instant::now());
        let nonces: HashSet<_> = (0..100).map(|_| auth.nonce(b"a", now)).collect();
        assert_eq!(nonces.len(), 100);
        for nonce in &nonces {
            assert!(auth.check(nonce, b"a", now).is_ok());
            assert!(Auth::default().check(nonce, b"a", now).is_err(), "another process");
            let later = now + Nonces::LIFETIME + Duration::from_secs(1);
            assert_eq!(auth.check(nonce, b"a", later), Err(NonceFault::Old));
        }
    }
}
