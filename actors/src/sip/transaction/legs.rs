//! Legs of a transaction: the branches that one `t_relay()` makes.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use lineway_wire::sip::breadth;
use lineway_wire::sip::draft::{Draft, Failure, Target};
use lineway_wire::sip::transaction::{ClientStart, Says};
use tokio::sync::oneshot;

use super::branch::{BranchStart, SipBranch};
use super::home::BranchEntry;
use super::main_line::{Branch, SipTransaction};
use super::messages::{Retime, Word};
use super::routes::{own_target, request_uri};
use crate::sip::router::sending::{CANCELLED, Elsewhere, Going};
use crate::sip::script::tm::{Armed, RouteKind, TimingChange};
use crate::sip::script::{End, Suspended};
use crate::worker::timers;

/// A leg with more branches than a transaction may have.
const NO_ROOM: Failure = Failure { code: 500, reason: "Forking capacity exceeded" };

/// A leg without any branch.
const NO_BRANCH: Failure = Failure { code: 500, reason: "" };

/// Where a leg leads beside the targets that were appended.
#[derive(Debug)]
pub(in crate::sip) struct RelayWay {
    /// An explicit destination (`t_relay_to_proto_addr`), as a URI.
    pub(in crate::sip) to: Option<Bytes>,
    /// The Request-URI is a target too.
    pub(in crate::sip) own: bool,
}

/// What came of asking for a leg.
pub(in crate::sip) enum Asked {
    /// One branch at least has left, or none.
    Now(Result<(), Failure>),
    /// It takes time.
    Later(oneshot::Receiver<Result<(), Failure>>),
}

/// A leg that is being made.
pub(super) struct Relaying {
    /// The request that the branches are made of.
    base: Draft,
    to: Option<Bytes>,
    targets: VecDeque<Target>,
    /// What each of the targets gets of Max-Breadth; empty without `max-breadth`.
    shares: VecDeque<u32>,
    sent: usize,
    /// Branches whose requests have not left yet.
    pending: usize,
    failure: Option<Failure>,
    asks: Asks,
}

/// Who waits for a leg.
enum Asks {
    Nobody,
    Router(oneshot::Sender<Result<(), Failure>>),
    Script(Box<Suspended>),
}

impl Relaying {
    /// The router waits here.
    pub(super) fn answer_to(&mut self, answer: oneshot::Sender<Result<(), Failure>>) {
        self.asks = Asks::Router(answer);
    }

    /// A failure route waits.
    pub(super) fn resume(&mut self, suspended: Suspended) {
        self.asks = Asks::Script(Box::new(suspended));
    }
}

impl SipTransaction {
    /// Begins a leg with the targets of a draft: its Request-URI, and those that were appended.
    /// Where it takes time, the receiver hears of it, unless somebody else is named to.
    pub(super) fn relay(&mut self, mut base: Draft, way: RelayWay) -> Asked {
        if self.entry.cancelled.get() || self.relaying.is_some() {
            return Asked::Now(Err(CANCELLED));
        }
        let mut targets = VecDeque::with_capacity(1 + base.branches.len());
        if way.own {
            targets.push_back(own_target(&base));
        }
        targets.extend(std::mem::take(&mut base.branches));
        self.branches.reserve_exact(targets.len());
        self.entry.branches.borrow_mut().reserve_exact(targets.len());
        self.begin_leg(base, targets, way.to)
    }

    /// Begins a leg with these targets.
    pub(super) fn begin_leg(
        &mut self,
        base: Draft,
        targets: VecDeque<Target>,
        to: Option<Bytes>,
    ) -> Asked {
        let shares = match self.shares(&base, targets.len()) {
            Ok(shares) => shares,
            Err(failure) => return Asked::Now(Err(failure)),
        };
        self.relaying = Some(Box::new(Relaying {
            base,
            to,
            targets,
            shares,
            sent: 0,
            pending: 0,
            failure: None,
            asks: Asks::Nobody,
        }));
        if let Some(result) = self.advance() {
            return Asked::Now(result);
        }
        let (answer, asked) = oneshot::channel();
        if let Some(relaying) = &mut self.relaying {
            relaying.answer_to(answer);
        }
        Asked::Later(asked)
    }

    /// What so many more branches get of Max-Breadth (RFC 5393 5.3.3): those that are open have
    /// theirs.
    fn shares(&self, base: &Draft, more: usize) -> Result<VecDeque<u32>, Failure> {
        let most = self.entry.generation.env.settings.stateful.max_breadth;
        if most == 0 {
            return Ok(VecDeque::new());
        }
        let entries = self.entry.branches.borrow();
        let open = entries.iter().zip(&self.branches).filter(|(entry, _)| entry.status.get() < 200);
        let taken: u32 = open.map(|(_, branch)| branch.breadth).sum();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let allowed = breadth::allowed(base, most).saturating_sub(taken);
        Ok(breadth::shares(allowed, more)?.collect())
    }

    /// Makes the branches that are to be made; the result of the leg once all of them have left or
    /// failed.
    fn advance(&mut self) -> Option<Result<(), Failure>> {
        let mut relaying = self.relaying.take()?;
        while let Some(target) = relaying.targets.pop_front() {
            let share = relaying.shares.pop_front();
            match self.branch(&relaying.base, target, relaying.to.clone(), share) {
                Made::Skipped => {}
                Made::Sent => relaying.sent += 1,
                Made::Pending => relaying.pending += 1,
                Made::Failed(failure) => relaying.failure = Some(failure),
                Made::Never(failure) => {
                    relaying.failure = Some(failure);
                    relaying.targets.clear();
                }
            }
        }
        if relaying.pending > 0 {
            self.relaying = Some(relaying);
            return None;
        }
        Some(self.leg_is_made(*relaying))
    }

    fn leg_is_made(&mut self, relaying: Relaying) -> Result<(), Failure> {
        self.machine.seal();
        self.leg_began |= relaying.sent > 0;
        if relaying.sent > 0 {
            return Ok(());
        }
        if self.entry.cancelled.get() {
            self.reply(CANCELLED.code, CANCELLED.reason.as_bytes(), None);
            return Err(CANCELLED);
        }
        Err(relaying.failure.unwrap_or(NO_BRANCH))
    }

    /// Makes one branch.
    fn branch(
        &mut self,
        base: &Draft,
        target: Target,
        to: Option<Bytes>,
        share: Option<u32>,
    ) -> Made {
        if self.entry.cancelled.get() {
            return Made::Never(CANCELLED);
        }
        let index = self.machine.next_index();
        let most = self.entry.generation.env.settings.max_branches;
        if u32::from(index) >= most {
            return Made::Never(NO_ROOM);
        }
        let Target { uri, dst_uri, q, flags, socket, path } = target;
        let mut draft = base.clone();
        (draft.uri, draft.dst_uri, draft.q) = (Some(uri), dst_uri, q);
        (draft.branch_flags, draft.force_socket, draft.path) = (flags, socket, path);
        let mut armed = Rc::clone(&self.armed);
        if let Some(route) = self.armed.branch.clone() {
            let mut context = self.context(draft, RouteKind::Branch);
            context.tm.branch = Some(index);
            let (context, end) = self.run(&route, context);
            if !matches!(end, End::Normal) {
                return Made::Skipped;
            }
            if *armed != context.tm.armed {
                armed = Rc::new(context.tm.armed.clone());
            }
            draft = context.draft;
        }
        if let Some(share) = share {
            breadth::write(&mut draft, share);
        }
        let Some(index) = self.machine.add() else {
            return Made::Never(CANCELLED);
        };
        let going = Going {
            draft,
            explicit: to,
            index: index.into(),
            of: Some(Rc::clone(&self.entry)),
            to: None,
        };
        self.start_branch(index, going, armed, share.unwrap_or(0))
    }

    /// Starts a branch that the machine knows already.
    fn start_branch(&mut self, index: u16, going: Going, armed: Rc<Armed>, breadth: u32) -> Made {
        if let Some(id) = self.entry.id.get() {
            self.entry.home.table.borrow_mut().set_branches(*id, index + 1);
        }
        let uri = request_uri(&going.draft);
        let flags = going.draft.branch_flags;
        let options = self.entry.generation.env.settings.stateful.options();
        let start = BranchStart {
            entry: Rc::clone(&self.entry),
            index,
            client: ClientStart {
                kind: self.entry.kind,
                // Known when it has left.
                reliable: false,
                timing: self.machine.timing(),
                options,
                born: self.entry.began,
            },
            going,
        };
        let (address, result) = SipBranch::start(start);
        self.branches.push(Branch { armed, spoke: false, last: None, flags, breadth });
        self.entry.branches.borrow_mut().push(BranchEntry::new(address, &uri));
        match result {
            None => Made::Pending,
            Some(Ok(())) => Made::Sent,
            Some(Err(failure)) => {
                self.machine.hear(index, Says::Unsent, timers::now());
                Made::Failed(failure)
            }
        }
    }

    /// A branch found nobody, and its request has further addresses: the next one is tried by another
    /// branch (RFC 3263 4.3). What it has said counts only where that is not to be.
    pub(super) fn go_elsewhere(&mut self, branch: u16, elsewhere: Elsewhere, word: Word) {
        let has_room =
            u32::from(self.machine.next_index()) < self.entry.generation.env.settings.max_branches;
        let known = self.branches.get(usize::from(branch));
        let known = known.map(|known| (Rc::clone(&known.armed), known.breadth));
        let Some((armed, breadth)) = known.filter(|_| has_room && !self.entry.cancelled.get())
        else {
            return self.word(branch, word);
        };
        let Some(index) = self.machine.add() else {
            return self.word(branch, word);
        };
        let going = elsewhere.going(index.into(), Rc::clone(&self.entry));
        match self.start_branch(index, going, armed, breadth) {
            Made::Sent => self.machine.hear(branch, Says::Unsent, timers::now()),
            Made::Pending => self.rare().elsewhere.push((index, branch, word)),
            Made::Failed(_) | Made::Never(_) | Made::Skipped => self.word(branch, word),
        }
        if self.relaying.is_none() {
            self.machine.seal();
        }
    }

    /// A branch whose request took time to send says what came of it.
    pub(super) fn sent(&mut self, branch: u16, result: Result<(), Failure>) {
        let now = timers::now();
        if result.is_err() {
            self.machine.hear(branch, Says::Unsent, now);
        }
        if let Some(rare) = &mut self.rare
            && let Some(at) = rare.elsewhere.iter().position(|(index, ..)| *index == branch)
        {
            let (_, earlier, word) = rare.elsewhere.swap_remove(at);
            return match result {
                Ok(()) => self.machine.hear(earlier, Says::Unsent, now),
                Err(_) => self.word(earlier, word),
            };
        }
        let Some(relaying) = &mut self.relaying else { return };
        relaying.pending -= 1;
        match result {
            Ok(()) => relaying.sent += 1,
            Err(failure) => relaying.failure = Some(failure),
        }
        if relaying.pending > 0 {
            return;
        }
        let Some(relaying) = self.relaying.take() else { return };
        let mut relaying = *relaying;
        let asks = std::mem::replace(&mut relaying.asks, Asks::Nobody);
        let result = self.leg_is_made(relaying);
        match asks {
            Asks::Nobody => {}
            Asks::Router(answer) => drop(answer.send(result)),
            Asks::Script(suspended) => self.resumed(*suspended, result),
        }
        if let Some(rare) = &mut self.rare {
            rare.held.clear();
        }
    }

    /// Other times, from here on.
    pub(super) fn retime(&mut self, change: TimingChange) {
        if change != TimingChange::default() {
            let timing = change.applied_to(self.machine.timing());
            self.machine.retime(timing);
            self.tell_all(|| Retime(timing));
        }
    }
}

/// What came of making a branch.
enum Made {
    /// Its branch route did not want it (R97).
    Skipped,
    Sent,
    Pending,
    Failed(Failure),
    /// No other branch either.
    Never(Failure),
}
