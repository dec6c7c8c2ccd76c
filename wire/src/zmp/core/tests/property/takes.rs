//! What an application takes and answers.

use super::world::*;
use super::*;

impl World {
    /// Takes a record, if the application was told of one. True when there was one.
    pub(super) fn recv(&mut self, core: usize) -> bool {
        if !self.apps[core].readable {
            return false;
        }
        let parts = self.cores[core].next_parts();
        let input = self.cores[core].readiness().input;
        let received = self.cores[core].recv();
        assert_eq!(received.is_some(), input);
        assert_eq!(received.as_ref().map(|received| received.record.parts().len()), parts);
        let Some(received) = received else {
            self.apps[core].readable = false;
            self.wake(core);
            return false;
        };
        let number = number_of(&received.record);
        let sent = &self.sent[&number];
        let own = KINDS[core] == Router;
        assert_eq!(received.from, own.then(|| name(sent.by)));
        assert_eq!(received.reply.is_some(), sent.kind == RecordKind::Request);
        if let Some(reply) = received.reply {
            let from = sent.by;
            let owed = Owed { reply, request: number, from, waiter: None, retry: false };
            self.apps[core].owed.push_back(owed);
            assert!(self.apps[core].owed.len() <= REPLY_TOKENS);
        }
        self.take_arrived(core, number);
        self.wake(core);
        true
    }

    /// A record was taken: no input that arrived before it on its connection is left (D-R6).
    pub(super) fn take_arrived(&mut self, core: usize, number: u64) {
        let ends = self.wires.iter_mut().flat_map(|wire| &mut wire.ends);
        let place = |end: &End| end.arrived.iter().position(|(other, _)| *other == number);
        let (end, place) = ends
            .filter(|end| end.core == core)
            .find_map(|end| place(end).map(|place| (end, place)))
            .expect("it arrived, and was not taken before");
        let overtaken = end.arrived.iter().take(place).find(|(_, kind)| is_input(*kind));
        assert_eq!(overtaken, None, "by {number}");
        end.arrived.remove(place);
    }

    /// Takes a completion, if the application was told of one. True when there was one.
    pub(super) fn complete(&mut self, core: usize) -> bool {
        if !self.apps[core].completions {
            return false;
        }
        let ready = self.cores[core].readiness().completion;
        let completion = self.cores[core].next_completion();
        assert_eq!(completion.is_some(), ready);
        let Some(completion) = completion else {
            self.apps[core].completions = false;
            return false;
        };
        assert!(!self.apps[core].claimed.contains(&completion.id), "it is claimed");
        self.completed(core, completion);
        self.wake(core);
        true
    }

    pub(super) fn drain_completions(&mut self, core: usize) {
        while self.complete(core) {}
    }

    /// Takes what is there for those that take their completions themselves.
    pub(super) fn drain_claims(&mut self, core: usize) -> bool {
        let mut any = false;
        while let Some(id) = self.apps[core].claims_ready.pop_front() {
            let completion = self.cores[core].claimed(id).expect("it was told to be there");
            assert_eq!(completion.id, id);
            self.apps[core].claimed.remove(&id);
            self.completed(core, completion);
            self.wake(core);
            any = true;
        }
        any
    }

    /// The newest token's completion does not go through the queue.
    pub(super) fn claim_token(&mut self, core: usize) -> bool {
        let unclaimed = |id: &&CompletionId| !self.apps[core].claimed.contains(*id);
        let Some(&token) = self.apps[core].tokens.keys().rev().find(unclaimed) else {
            return false;
        };
        self.apps[core].claimed.insert(token);
        assert!(self.cores[core].claim_token(token));
        self.wake(core);
        true
    }

    /// Each id that was given ends once, as its life says.
    pub(super) fn completed(&mut self, core: usize, completion: Completion) {
        let Completion { id, peer, outcome, context } = completion;
        if let Some(target) = self.apps[core].tokens.remove(&id) {
            assert_eq!(peer, target.map(name));
            assert!(outcome == Outcome::Writable || self.apps[core].removals, "{outcome:?}");
            return;
        }
        let (number, due) = self.apps[core].requests.remove(&id).expect("an id that was given");
        assert_eq!(context, number);
        let Outcome::Request { result, parts, .. } = outcome else { panic!("{outcome:?}") };
        let on = self.sent[&number].on;
        match result {
            RequestResult::Ok | RequestResult::Rejected => {
                let parts = parts.expect("the reply");
                let reply = number_of(&parts);
                assert_eq!(self.sent[&reply].answers, Some(number));
                let is_error = self.sent[&reply].kind == RecordKind::ErrorReply;
                assert_eq!(is_error, result == RequestResult::Rejected);
                self.take_arrived(core, reply);
            }
            RequestResult::TimedOut => assert!(self.now >= due),
            RequestResult::NotConnected | RequestResult::NotFound => {
                assert!(result == RequestResult::NotConnected || self.apps[core].removals);
                let mut ends = self.wires.iter().flat_map(|wire| {
                    wire.ends.iter().map(|end| (self.told[&(wire.link, end.core)], end))
                });
                if let Some(on) = on {
                    let gone = ends.any(|(told, end)| end.id == on && told.over);
                    assert!(gone, "{number} was lost on a connection that is there");
                }
                // What the application cut off itself is still written.
                let lost = result == RequestResult::NotConnected && on.is_none();
                self.sent.get_mut(&number).expect("was admitted").dead = lost;
            }
            other => panic!("{other:?}"),
        }
    }

    /// Answers the first request that is owed a reply and may be tried. False when there is none.
    pub(super) fn reply(&mut self, core: usize, padding: Option<usize>, error: bool) -> bool {
        let owed = &self.apps[core].owed;
        let Some(place) = owed.iter().position(|owed| owed.waiter.is_none() || owed.retry) else {
            return false;
        };
        let Owed { reply, request, from, waiter, .. } = owed[place];
        let takers = self.takers(core, Some(from), true);
        let (number, record) = self.record(padding);
        let replied = if error {
            self.cores[core].try_reply_error(reply, Errno::EACCES, Some(record))
        } else {
            self.cores[core].try_reply(reply, record)
        };
        let over = match replied {
            Ok(()) => {
                let kind = if error { RecordKind::ErrorReply } else { RecordKind::Reply };
                self.admitted(core, number, kind, Some(request), takers);
                true
            }
            Err(refused) => match refused.error.result {
                SubmitResult::NotFound => {
                    assert!(self.apps[core].removals);
                    true
                }
                result => {
                    assert_eq!(result, SubmitResult::Backpressured);
                    false
                }
            },
        };
        if over {
            if let Some(waiter) = waiter {
                self.cores[core].forget(waiter);
            }
            self.apps[core].owed.remove(place);
        } else {
            let waiter = waiter.unwrap_or_else(|| self.cores[core].wait_reply(reply));
            let owed = &mut self.apps[core].owed[place];
            (owed.waiter, owed.retry) = (Some(waiter), false);
        }
        self.wake(core);
        true
    }

    /// Gives up on what is owed to a socket that has closed: nothing else frees its slot.
    pub(super) fn abandon_closed(&mut self, core: usize) -> bool {
        let gone = self.apps[core].owed.iter().position(|owed| self.apps[owed.from].closed);
        let Some(place) = gone else { return false };
        let owed = &mut self.apps[core].owed;
        owed.swap(0, place);
        self.abandon(core)
    }

    /// The oldest reply will not be given. False when none is owed.
    pub(super) fn abandon(&mut self, core: usize) -> bool {
        let Some(owed) = self.apps[core].owed.pop_front() else { return false };
        self.cores[core].abandon_reply(owed.reply);
        if let Some(waiter) = owed.waiter {
            self.cores[core].forget(waiter);
        }
        self.wake(core);
        true
    }
}
