//! When a message socket that needs peers is not ready.

use std::time::{Duration, Instant};

/// How long a socket may be without a peer.
const GRACE: Duration = Duration::from_secs(30);

/// Whether a socket has a peer that is ready (M-22). Without one for 30 s it is not ready; a peer
/// that comes back makes it ready at once.
#[derive(Clone, Copy, Debug)]
pub struct PeersHealth {
    /// Since when it has none.
    since: Option<Instant>,
}

impl PeersHealth {
    /// A socket that is just looking for its first peer.
    pub const fn new(now: Instant) -> Self {
        Self { since: Some(now) }
    }

    /// It has a peer, or has none; whether it can serve.
    ///
    /// # Errors
    /// The text for people: it has had none for too long.
    pub fn look(&mut self, has_peer: bool, now: Instant) -> Result<(), &'static str> {
        if has_peer {
            self.since = None;
            return Ok(());
        }
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= GRACE {
            Err("no peer was ready for 30 s")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::PeersHealth;

    #[test]
    fn case_m22_a_socket_without_a_peer_for_30_s_is_not_ready() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut health = PeersHealth::new(start);
        assert!(health.look(false, at(29)).is_ok());
        assert!(health.look(false, at(30)).is_err());
        assert!(health.look(true, at(31)).is_ok());
        assert!(health.look(false, at(40)).is_ok());
        assert!(health.look(false, at(69)).is_ok());
        assert!(health.look(false, at(70)).is_err());
        assert!(health.look(true, at(71)).is_ok());
    }
}
