//! What an application submits.

use super::world::*;
use super::*;

impl World {
    pub(super) fn record(&mut self, padding: Option<usize>) -> (u64, Record) {
        self.numbers += 1;
        let mut record = Record::new(self.numbers.to_be_bytes().to_vec());
        if let Some(padding) = padding {
            record.push(vec![0; padding]);
        }
        (self.numbers, record)
    }

    pub(super) fn admitted(
        &mut self,
        by: usize,
        number: u64,
        kind: RecordKind,
        answers: Option<u64>,
        could_take: Vec<u64>,
    ) {
        assert!(!could_take.is_empty(), "{number} was admitted for nobody");
        self.orders += 1;
        self.apps[by].admitted += 1;
        let order = self.orders;
        let sent = Sent { by, kind, answers, order, could_take, on: None, dead: false };
        assert!(self.sent.insert(number, sent).is_none());
    }

    pub(super) fn new_id(&mut self, core: usize, id: CompletionId) {
        let app = &mut self.apps[core];
        assert!(id.0.get() > app.last_id, "no id is given twice");
        app.last_id = id.0.get();
    }

    pub(super) fn asked(
        &mut self,
        core: usize,
        number: u64,
        id: CompletionId,
        timeout: Duration,
        claim: bool,
    ) {
        self.new_id(core, id);
        self.apps[core].requests.insert(id, (number, self.now + timeout));
        if claim {
            self.apps[core].claimed.insert(id);
        }
    }

    pub(super) fn reserved(&self, core: usize) -> usize {
        self.apps[core].tokens.len() + self.apps[core].requests.len()
    }

    /// DONTWAIT.
    pub(super) fn submit(&mut self, core: usize, target: Option<usize>, wish: Wish) {
        let takers = self.takers(core, target, false);
        let full = self.reserved(core) == RESERVATIONS;
        let (number, record) = self.record(wish.padding);
        let id = target.map(name);
        let submit = wish.submit();
        let core_ = &mut self.cores[core];
        let submitted = core_.try_submit(self.now, id.as_ref(), record.clone(), submit, number);
        match submitted {
            Ok(submitted) => {
                assert_eq!(submitted.is_some(), wish.request);
                let kind = if wish.request { RecordKind::Request } else { RecordKind::Data };
                self.admitted(core, number, kind, None, takers);
                if let Some(id) = submitted {
                    assert!(!full, "a reservation more than there are");
                    self.asked(core, number, id, wish.timeout, wish.claim);
                }
                self.wake(core);
                self.no_token_slept(core, target);
            }
            Err(refused) => {
                assert_eq!(refused.record, record, "it comes back");
                match (refused.error.result, refused.token) {
                    (SubmitResult::Backpressured, Some(token)) => {
                        assert!(!full);
                        self.new_id(core, token);
                        self.apps[core].tokens.insert(token, target);
                    }
                    (SubmitResult::Backpressured, None) => assert!(full && wish.request),
                    (SubmitResult::OutOfMemory, None) => assert!(full && !wish.request),
                    (SubmitResult::NotConnected, None) => assert!(takers.is_empty()),
                    (SubmitResult::NotAdmitted, None) => {
                        assert_eq!(target.map(|target| KINDS[target]), Some(Dealer));
                    }
                    other => panic!("{other:?}"),
                }
                self.wake(core);
            }
        }
    }

    /// A record was admitted, so nobody may wait for the same target without knowing (D-W4).
    pub(super) fn no_token_slept(&mut self, core: usize, target: Option<usize>) {
        self.drain_completions(core);
        self.drain_claims(core);
        let slept: Vec<_> =
            self.apps[core].tokens.iter().filter(|(_, place)| **place == target).collect();
        assert!(slept.is_empty(), "{core}: no edge for {slept:?}");
    }

    /// NONE.
    pub(super) fn begin(&mut self, core: usize, target: Option<usize>, wish: Wish) {
        let takers = self.takers(core, target, false);
        let (number, record) = self.record(wish.padding);
        let id = target.map(name);
        let (attempt, waiter) =
            self.cores[core].begin(self.now, id.as_ref(), record, wish.submit(), number);
        assert_eq!(matches!(attempt, Attempt::Waits(_)), waiter.is_some());
        let call = |record| Call { number, record, target, request: wish.request };
        match attempt {
            Attempt::Waits(record) => {
                let waiter = waiter.expect("an id");
                self.apps[core].calls.insert(waiter, call(record));
            }
            Attempt::Done(submitted) => {
                self.call_done(core, &call(Record::new("")), submitted, takers);
            }
            Attempt::Failed(refused) => self.call_failed(core, target, refused.error),
        }
        self.wake(core);
    }

    /// A call that was woken tries again. False when none was.
    pub(super) fn again(&mut self, core: usize) -> bool {
        let Some(waiter) = self.apps[core].woken_calls.pop_front() else { return false };
        let Some(call) = self.apps[core].calls.remove(&waiter) else { return true };
        let takers = self.takers(core, call.target, false);
        match self.cores[core].again(self.now, waiter, call.record.clone()) {
            Attempt::Waits(record) => {
                assert_eq!(record, call.record);
                self.apps[core].calls.insert(waiter, call);
            }
            Attempt::Done(submitted) => self.call_done(core, &call, submitted, takers),
            Attempt::Failed(refused) => self.call_failed(core, call.target, refused.error),
        }
        self.wake(core);
        true
    }

    pub(super) fn call_done(
        &mut self,
        core: usize,
        call: &Call,
        submitted: Submitted,
        takers: Vec<u64>,
    ) {
        assert_eq!(submitted.is_some(), call.request);
        let kind = if call.request { RecordKind::Request } else { RecordKind::Data };
        self.admitted(core, call.number, kind, None, takers);
        if let Some(id) = submitted {
            self.asked(core, call.number, id, Wish::CALL_TIMEOUT, false);
        }
    }

    pub(super) fn call_failed(&self, core: usize, target: Option<usize>, error: SubmitError) {
        let right = match error.result {
            // No reservation is free.
            SubmitResult::Backpressured => true,
            SubmitResult::Terminated => self.apps[core].closed,
            SubmitResult::NotFound => self.apps[core].removals || target.is_some(),
            SubmitResult::NotConnected => target.is_some(),
            SubmitResult::NotAdmitted => target.is_some_and(|target| KINDS[target] == Dealer),
            _ => false,
        };
        assert!(right, "{error}");
    }

    /// The time of the oldest call is over. False when there is none.
    pub(super) fn give_up(&mut self, core: usize, dropped: bool) -> bool {
        let Some((waiter, _)) = self.apps[core].calls.pop_first() else { return false };
        if dropped {
            self.cores[core].forget(waiter);
        } else {
            self.cores[core].give_up(waiter);
        }
        self.wake(core);
        true
    }
}
