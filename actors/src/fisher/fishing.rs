//! The near end of a candidate: says `FISH?` and waits for `FISH!`.

use std::task::Poll;

use lineway_wire::fisher::{Answer, Candidate, Loss, PROBE};
use lineway_wire::line::FinishReason;

use crate::line::{ByteQueue, EndError, Pool};

/// The handshake of one candidate.
#[derive(Debug, Default)]
pub struct Fishing {
    candidate: Candidate,
    probed: bool,
    established: bool,
    proved: bool,
    lost: Option<Loss>,
}

impl Fishing {
    /// The transport of the candidate is up (C07).
    pub(crate) const fn established(&mut self) {
        self.established = true;
    }

    /// True once the transport is up.
    pub const fn is_established(&self) -> bool {
        self.established
    }

    /// True once `FISH!` was there.
    pub const fn is_proved(&self) -> bool {
        self.proved
    }

    /// Why the candidate is no good, once it is known.
    pub const fn lost(&self) -> Option<Loss> {
        self.lost
    }

    /// Gives the probe, once (C03).
    pub(crate) fn poll_read(&mut self, queue: &mut ByteQueue, pool: &Pool) -> Poll<usize> {
        if std::mem::replace(&mut self.probed, true) {
            return Poll::Pending;
        }
        queue.append(&PROBE, pool);
        Poll::Ready(PROBE.len())
    }

    /// Takes the bytes of the handshake out of `queue`; what came behind them stays (C08, C09).
    pub(crate) fn poll_write(
        &mut self,
        queue: &mut ByteQueue,
        pool: &Pool,
    ) -> Poll<Result<usize, EndError>> {
        if self.proved {
            return Poll::Pending;
        }
        let mut taken = 0;
        while !queue.is_empty() {
            let (head, whole) = (queue.head(), queue.len());
            let used = match self.candidate.bytes(head, whole - head.len()) {
                Answer::More => head.len(),
                Answer::Proved(used) => {
                    self.proved = true;
                    used
                }
                Answer::Lost(why) => {
                    self.lost = Some(why);
                    let reason = match why {
                        Loss::Overflow => FinishReason::Overflow,
                        _ => FinishReason::ProtocolError,
                    };
                    return Poll::Ready(Err(EndError::Finish(reason)));
                }
            };
            queue.advance(used, pool);
            taken += used;
            if self.proved {
                break;
            }
        }
        Poll::Ready(Ok(taken))
    }

    /// The far side ended: before its `FISH!` that ends the candidate (C12), behind it that is for
    /// the main line.
    pub(crate) fn poll_end(&mut self) -> Poll<()> {
        if self.proved {
            return Poll::Pending;
        }
        self.lost.get_or_insert(Loss::Closed);
        Poll::Ready(())
    }
}
