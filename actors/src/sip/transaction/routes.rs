//! The routes of a transaction: what runs when a branch is made, when it answers, and when all have
//! failed (contract 2.11, 2.12).

use std::collections::VecDeque;
use std::rc::Rc;

use lineway_wire::sip::draft::{Draft, Failure, Target};
use lineway_wire::sip::message::Message;
use lineway_wire::sip::own::Received;
use lineway_wire::sip::transaction::{Kind, Pass, Says};

use super::legs::Asked;
use super::main_line::SipTransaction;
use super::request::Request;
use crate::metrics::SipRouterMetrics;
use crate::sip::router::sending::UNREACHABLE;
use crate::sip::router::tm::relayed;
use crate::sip::script::tm::{Armed, BranchFinal, Branches, Failed, RouteKind, TmWant};
use crate::sip::script::{Context as Invocation, Effect, End, Route, Step, Suspended, Want};
use crate::worker::timers;

/// A leg that would go nowhere: the failure route named no other target.
const NO_TARGET: Failure = Failure { code: 500, reason: "" };

impl SipTransaction {
    /// The context of one of its routes; the variables go along.
    pub(super) fn context(&mut self, draft: Draft, route: RouteKind) -> Invocation {
        let env = Rc::clone(&self.entry.generation.env);
        let mut context = Invocation::new(draft, env, timers::now());
        if let Some(rare) = &mut self.rare {
            context.vars = std::mem::take(&mut rare.vars);
        }
        context.tm.route = route;
        context.tm.transaction = self.entry.id.get().copied();
        context.tm.armed = (*self.armed).clone();
        context.tm.cancelled = self.entry.cancelled.get();
        context.answered = self.machine.status() >= 200;
        let timing = self.machine.timing();
        let life = if self.entry.kind == Kind::Invite { timing.max_inv } else { timing.max_noninv };
        context.tm.expired = context.now.saturating_duration_since(self.entry.began) >= life;
        context
    }

    /// Runs a route in which nothing takes time.
    pub(super) fn run(&mut self, route: &str, context: Invocation) -> (Invocation, End) {
        let script = Rc::clone(&self.entry.generation.script);
        let mut step = script.start(Route::Named(route), context);
        loop {
            match step {
                Step::Ended(mut context, end) => {
                    self.over(&mut context, &end);
                    return (context, end);
                }
                Step::Suspended(suspended, want) => {
                    let result = match want {
                        Want::Tm(TmWant::CheckTrans | TmWant::LookupRequest) => 1,
                        _ => -1,
                    };
                    step = suspended.resume(result, timers::now());
                }
            }
        }
    }

    /// What an invocation has decided, but for what its kind of route is about.
    fn over(&mut self, context: &mut Invocation, end: &End) {
        self.effects(context);
        self.entry.home.metrics.script.ran(context.tm.route.into(), context.ran);
        self.keep_vars(context.vars.kept());
        self.retime(context.tm.timing);
        if let End::Failed(error) = end {
            self.entry.home.failed(error, &context.draft.message);
        }
    }

    fn effects(&mut self, context: &mut Invocation) {
        for effect in std::mem::take(&mut context.effects) {
            match effect {
                Effect::Send { way, bytes, code } => {
                    let sent = move |metrics: &SipRouterMetrics| metrics.reply_sent(code);
                    self.entry.home.send(
                        &self.entry.generation.sending.transports,
                        &way,
                        bytes,
                        sent,
                    );
                }
                Effect::Reply { code, reason, lines } => {
                    // A redirection names the targets that this route has set (R111).
                    if (300..400).contains(&code) && context.draft.message.is_request() {
                        self.request = Request::Whole(Box::new(context.draft.clone()));
                    }
                    self.reply(code, &reason, Some(&lines));
                }
            }
        }
    }

    /// A reply of a branch: its reply route, then the choice.
    pub(super) fn heard(&mut self, branch: u16, pass: Pass, draft: Box<Draft>) {
        let code = draft.message.status();
        let Some(known) = self.branches.get_mut(usize::from(branch)) else { return };
        known.spoke |= pass == Pass::Provisional;
        let (armed, flags) = (Rc::clone(&known.armed), known.flags);
        self.note_status(branch, code);
        let mut draft = draft;
        if let Some(route) = &armed.reply {
            let came: (Message, Received) = (draft.message.clone(), draft.received);
            let request = self.request.draft();
            let mut context = self.context((*draft).clone(), RouteKind::BranchReply);
            (context.draft.flags, context.draft.branch_flags) = (request.flags, flags);
            context.tm.branch = Some(branch);
            context.tm.reply_code = code;
            // What was armed for this branch, not for those of a later leg.
            context.tm.armed = (*armed).clone();
            context.tm.other = Some(Rc::new(request));
            let (context, end) = self.run(route, context);
            self.request.set_flags(context.draft.flags);
            if let Some(which) = context.tm.cancel_branches {
                self.cancel_branches(branch, which);
            }
            if let Some(known) = self.branches.get_mut(usize::from(branch)) {
                known.flags = context.draft.branch_flags;
                if *known.armed != context.tm.armed {
                    known.armed = Rc::new(context.tm.armed.clone());
                }
            }
            *draft = match end {
                // A final is never dropped: its transaction would be stranded.
                End::Dropped if pass == Pass::Provisional => return,
                End::Failed(_) => Draft::new(came.0, came.1),
                End::Normal | End::Dropped => context.draft,
            };
        }
        let draft: Rc<Draft> = draft.into();
        let says = match pass {
            Pass::Provisional => Says::Provisional(code, draft),
            Pass::Success => Says::Success(code, draft),
            Pass::Failure => {
                if let Some(known) = self.branches.get_mut(usize::from(branch)) {
                    known.last = Some(Rc::clone(&draft));
                }
                self.branch_failed(branch, code, false);
                Says::Failure(code, draft)
            }
            Pass::Nothing => return,
        };
        self.machine.hear(branch, says, timers::now());
    }

    fn cancel_branches(&mut self, this: u16, which: Branches) {
        for branch in (0..).take(self.branches.len()) {
            let wanted = match which {
                Branches::All => true,
                Branches::Others => branch != this,
                Branches::This => branch == this,
            };
            if wanted {
                self.cancel_by_script(branch);
            }
        }
    }

    pub(super) fn note_status(&self, branch: u16, code: u16) {
        if let Some(entry) = self.entry.branches.borrow().get(usize::from(branch)) {
            entry.status.set(code);
        }
    }

    /// The route of a branch that has failed, before the choice.
    pub(super) fn branch_failed(&mut self, branch: u16, code: u16, timed_out: bool) {
        self.note_status(branch, code);
        let known = self.branches.get(usize::from(branch));
        let Some(route) = known.and_then(|known| known.armed.branch_failure.clone()) else {
            return;
        };
        let event = format!("tm:branch-failure:{route}");
        let script = &self.entry.generation.script;
        let route = if script.has(Route::Named(&event)) { event } else { route.to_string() };
        let request = self.request.draft();
        let mut context = self.context(request, RouteKind::BranchFailure);
        context.tm.branch = Some(branch);
        context.tm.reply_code = code;
        context.tm.branch_timed_out = timed_out;
        if let Some(known) = self.branches.get(usize::from(branch)) {
            context.tm.branch_replied = known.spoke;
            context.tm.other.clone_from(&known.last);
        }
        self.run(&route, context);
    }

    /// All branches have failed: the failure route of the winner decides, if one is armed.
    pub(super) fn failed(&mut self, branch: u16, code: u16) {
        let winner = self.branches.get_mut(usize::from(branch));
        let route = winner.and_then(|winner| {
            let route = winner.armed.failure.clone()?;
            // It runs once for a leg (R89).
            winner.armed = Rc::new(Armed { failure: None, ..(*winner.armed).clone() });
            Some(route)
        });
        let Some(route) = route else {
            return self.machine.decline(timers::now());
        };
        let finals = self.machine.finals().map(|(branch, code, timed_out)| BranchFinal {
            branch,
            code,
            timed_out,
        });
        let finals: smallvec::SmallVec<[BranchFinal; 2]> = finals.collect();
        let own = finals.iter().find(|of| of.branch == branch).copied();
        let winner = own.unwrap_or(BranchFinal { branch, code, timed_out: false });
        let winning = self.branches.get(usize::from(branch));
        let spoke = winning.is_some_and(|winner| winner.spoke);
        let last = winning.and_then(|winner| winner.last.clone());
        let request = self.request.draft();
        let used = (request_uri(&request), request.dst_uri.clone());
        let mut context = self.context(request, RouteKind::Failure);
        context.draft.branches.clear();
        context.tm.armed.failure = None;
        context.tm.branch = Some(branch);
        context.tm.reply_code = code;
        context.tm.branch_timed_out = winner.timed_out;
        context.tm.failed = Some(Box::new(Failed { winner, winner_replied: spoke, finals }));
        context.tm.used = Some(used);
        context.tm.other = last;
        if let Some(rare) = &mut self.rare {
            context.tm.groups = std::mem::take(&mut rare.groups);
        }
        self.leg_began = false;
        let step = Rc::clone(&self.entry.generation.script).start(Route::Named(&route), context);
        self.failing(step);
    }

    /// Goes on with a failure route.
    fn failing(&mut self, mut step: Step) {
        loop {
            let (mut suspended, want) = match step {
                Step::Ended(context, end) => return self.failure_over(context, &end),
                Step::Suspended(suspended, want) => (suspended, want),
            };
            self.effects(suspended.context());
            let result = match want {
                Want::Tm(TmWant::Relay(to)) => match self.relay_again(suspended.context(), to) {
                    Asked::Now(result) => result,
                    Asked::Later(_) => {
                        if let Some(relaying) = &mut self.relaying {
                            relaying.resume(suspended);
                        }
                        return;
                    }
                },
                Want::Tm(TmWant::CheckTrans | TmWant::LookupRequest) => Ok(()),
                _ => Err(NO_TARGET),
            };
            step = resume(suspended, result);
        }
    }

    /// A failure route whose leg took time goes on.
    pub(super) fn resumed(&mut self, suspended: Suspended, result: Result<(), Failure>) {
        let step = resume(suspended, result);
        self.failing(step);
    }

    /// `t_relay()` in a failure route: the Request-URI only if it was not tried yet.
    fn relay_again(
        &mut self,
        context: &mut Invocation,
        to: Option<crate::sip::script::tm::RelayTo>,
    ) -> Asked {
        let mut base = context.draft.clone();
        let is_used = context
            .tm
            .used
            .as_ref()
            .is_some_and(|(uri, to)| *uri == request_uri(&base) && *to == base.dst_uri);
        let mut targets = VecDeque::new();
        if !is_used || to.is_some() {
            targets.push_back(own_target(&base));
        }
        targets.extend(std::mem::take(&mut base.branches));
        context.draft.branches.clear();
        if targets.is_empty() || self.machine.status() >= 200 {
            return Asked::Now(Err(NO_TARGET));
        }
        if self.entry.cancelled.get() {
            return Asked::Now(Err(crate::sip::router::sending::CANCELLED));
        }
        context.tm.used = Some((request_uri(&base), base.dst_uri.clone()));
        self.armed = Rc::new(context.tm.armed.clone());
        self.retime(context.tm.timing);
        self.keep_vars(context.vars.kept());
        if let Some(which) = context.tm.drop_replies {
            self.machine.drop_replies(which);
        }
        let to = to.map(|to| to.uri());
        self.begin_leg(base, targets, to)
    }

    fn failure_over(&mut self, mut context: Invocation, end: &End) {
        self.over(&mut context, end);
        self.request.set_flags(context.draft.flags);
        if !context.tm.groups.is_empty() {
            self.rare().groups = std::mem::take(&mut context.tm.groups);
        }
        self.armed = Rc::new(context.tm.armed.clone());
        if self.leg_began || self.machine.status() >= 200 {
            return;
        }
        // What is kept of earlier legs goes up before an error of this one. A target that nobody
        // knows the way to never was a branch; one that could not be sent to was, and the failures
        // before it are forgotten as behind any other.
        let keeps = matches!(context.tm.drop_replies, Some('n' | 'l'));
        let stays = |failure: &Failure| {
            let was_branch = failure.code == UNREACHABLE.code;
            self.entry.cancelled.get() || (self.machine.has_failed() && (keeps || !was_branch))
        };
        match context.tm.owed.filter(|failure| !stays(failure)) {
            Some(failure) => self.reply_failure(failure),
            None => self.machine.decline(timers::now()),
        }
    }
}

/// The Request-URI of a draft with its `$du` and what else belongs to it, as a target.
pub(super) fn own_target(draft: &Draft) -> Target {
    Target {
        uri: request_uri(draft),
        dst_uri: draft.dst_uri.clone(),
        q: draft.q,
        flags: draft.branch_flags,
        socket: draft.force_socket,
        path: draft.path.clone(),
    }
}

/// The Request-URI as it is to go out.
pub(super) fn request_uri(draft: &Draft) -> bytes::Bytes {
    match &draft.uri {
        Some(uri) => uri.clone(),
        None => draft.message.bytes().slice(draft.message.uri_at()),
    }
}

fn resume(mut suspended: Suspended, result: Result<(), Failure>) -> Step {
    let value = relayed(suspended.context(), result);
    suspended.resume(value, timers::now())
}
