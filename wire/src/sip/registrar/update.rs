//! What a REGISTER changes.

use std::net::SocketAddr;

use bytes::Bytes;

use super::{Ask, Binding, COPY_TIME, Contact, MOST_LISTED, Refusal, Register, Rules};
use crate::sip::own::Transport;

/// What a binding is made of beside what its REGISTER says.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Where it really came from, as a URI; at most [`LONGEST_URI`](super::LONGEST_URI).
    pub received: Option<Bytes>,
    /// The own socket that it came in by.
    pub socket: Option<(Transport, SocketAddr)>,
    /// Branch flags to keep with it.
    pub flags: u32,
    /// The address is to have one binding: the last that the REGISTER names.
    pub only_one: bool,
    /// The numbers from here on, one for each of [`Register::contacts`], belong to it.
    pub ruid: u64,
}

/// What becomes of the bindings of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// All of them.
    pub bindings: Vec<Binding>,
    /// How many of them were made.
    pub made: usize,
    /// How many were refreshed.
    pub refreshed: usize,
    /// How many there were that are gone because somebody said so.
    pub removed: usize,
    /// How many there were whose time was over.
    pub expired: usize,
    /// What it was, in one word.
    pub saved: Saved,
}

/// What a REGISTER did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// It made a binding.
    Inserted,
    /// It refreshed one, or was a copy of one that did something.
    Updated,
    /// It removed one, or asked for that.
    Removed,
    /// It asked.
    Listed,
}

impl Register {
    /// What it makes of the bindings of its address: everything that it says, or nothing (R123 to
    /// R136).
    ///
    /// # Errors
    /// [`Refusal`]: nothing changes.
    pub fn update(
        &self,
        old: &[Binding],
        origin: &Origin,
        rules: &Rules,
        now: u64,
    ) -> Result<Update, Refusal> {
        let bindings: Vec<_> = old.iter().filter(|old| old.is_live(now)).cloned().collect();
        let expired = old.len() - bindings.len();
        let (made, refreshed, removed) = (0, 0, 0);
        let mut update =
            Update { bindings, made, refreshed, removed, expired, saved: Saved::Listed };
        match &self.ask {
            Ask::List => {}
            Ask::Clear => {
                // RFC 3261 10.3, step 6.
                let behind =
                    |binding: &Binding| binding.call_id == self.call_id && self.cseq < binding.cseq;
                if update.bindings.iter().any(behind) {
                    return Err(Refusal::CSEQ);
                }
                update.removed = std::mem::take(&mut update.bindings).len();
                update.saved = Saved::Removed;
            }
            Ask::Bind(contacts) => self.bind(contacts, origin, rules, now, &mut update)?,
        }
        Ok(update)
    }

    fn bind(
        &self,
        contacts: &[Contact],
        origin: &Origin,
        rules: &Rules,
        now: u64,
        update: &mut Update,
    ) -> Result<(), Refusal> {
        let (mut last, mut copies) = (None, 0);
        for (contact, ruid) in contacts.iter().zip(origin.ruid..) {
            let all = &mut update.bindings;
            let Some(place) = place_of(contact, all) else {
                if contact.expires > 0 {
                    all.push(self.binding(contact, origin, now, ruid));
                    update.made += 1;
                    last = Some(ruid);
                }
                continue;
            };
            let there = &mut all[place];
            if self.is_copy(there, now)? {
                copies += 1;
                last = Some(there.ruid);
            } else if contact.expires == 0 {
                all.remove(place);
                update.removed += 1;
            } else {
                let mut fresh = self.binding(contact, origin, now, there.ruid);
                if fresh.instance.is_none() {
                    (fresh.instance, fresh.reg_id) = (there.instance.take(), there.reg_id);
                }
                last = Some(fresh.ruid);
                *there = fresh;
                update.refreshed += 1;
                update.removed += remove_doubles(place, all);
            }
        }
        if let Some(last) = last.filter(|_| origin.only_one) {
            let before = update.bindings.len();
            update.bindings.retain(|binding| binding.ruid == last);
            update.removed += before - update.bindings.len();
        }
        let most = usize::try_from(rules.max_contacts).unwrap_or(usize::MAX);
        let too_many = update.made > 0 && most > 0 && update.bindings.len() > most;
        let listed = || update.bindings.iter().map(Binding::listed).sum::<usize>();
        if too_many || (update.made + update.refreshed > 0 && listed() > MOST_LISTED) {
            return Err(Refusal::TOO_MANY);
        }
        update.saved = match update {
            Update { made: 1.., .. } => Saved::Inserted,
            Update { refreshed: 1.., .. } => Saved::Updated,
            _ if copies > 0 => Saved::Updated,
            _ => Saved::Removed,
        };
        Ok(())
    }

    /// Whether a binding has this REGISTER already (R136).
    ///
    /// # Errors
    /// It is older than the binding, or too late to be a copy (R132).
    fn is_copy(&self, there: &Binding, now: u64) -> Result<bool, Refusal> {
        if there.call_id != self.call_id || self.cseq > there.cseq {
            return Ok(false);
        }
        let is_soon = now.saturating_sub(there.changed) <= COPY_TIME;
        if self.cseq == there.cseq && is_soon { Ok(true) } else { Err(Refusal::CSEQ) }
    }

    fn binding(&self, contact: &Contact, origin: &Origin, now: u64, ruid: u64) -> Binding {
        Binding {
            uri: contact.uri.clone(),
            q: contact.q,
            expires: now.saturating_add(u64::from(contact.expires)),
            changed: now,
            call_id: self.call_id.clone(),
            cseq: self.cseq,
            received: origin.received.clone(),
            path: self.path.clone(),
            socket: origin.socket,
            user_agent: self.user_agent.clone(),
            methods: contact.methods,
            instance: contact.instance.clone(),
            reg_id: contact.reg_id,
            ruid,
            flags: origin.flags,
        }
    }
}

/// The binding that a Contact is about (R134): of its instance and way, else of its URI. One that
/// names no instance is about any binding with its URI, first about one without an instance.
fn place_of(contact: &Contact, bindings: &[Binding]) -> Option<usize> {
    let find = |fits: &dyn Fn(&Binding) -> bool| bindings.iter().position(fits);
    let same_uri = |binding: &Binding| binding.uri == contact.uri;
    let of_phone = |binding: &Binding| {
        binding.instance == contact.instance && binding.reg_id == contact.reg_id
    };
    let unnamed = find(&|binding| binding.instance.is_none() && same_uri(binding));
    if contact.instance.is_some() {
        find(&of_phone).or(unnamed)
    } else {
        unnamed.or_else(|| find(&same_uri))
    }
}

/// Removes bindings without an instance that have the URI of this one, which took it over.
fn remove_doubles(place: usize, bindings: &mut Vec<Binding>) -> usize {
    let before = bindings.len();
    let (uri, ruid) = (bindings[place].uri.clone(), bindings[place].ruid);
    bindings.retain(|other| other.ruid == ruid || other.instance.is_some() || other.uri != uri);
    before - bindings.len()
}
