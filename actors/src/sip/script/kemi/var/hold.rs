//! What an invocation keeps: `$var`, `$avp`, `$xavp`, and how much of memory all of it may be.

use bytes::Bytes;

use super::super::auth::Sender;
use super::Xavp;
use crate::sip::dispatcher::Selection;
use crate::sip::htable::Datum;
use crate::sip::script::function::Raised;

/// What the variables, edits and replies of one message may hold together.
const MOST: usize = 1 << 20;
/// What each value takes beside its bytes.
const OVERHEAD: usize = 64;

/// The variables of an invocation.
#[derive(Clone, Debug, Default)]
pub struct Vars {
    script: Vec<(Bytes, Datum)>,
    /// The newest last.
    avps: Vec<(Bytes, Datum)>,
    /// The newest last.
    xavps: Vec<(Bytes, XavpValue)>,
    held: usize,
    /// What is known of who sent the message.
    pub(in super::super) sender: Sender,
    /// The dispatcher's choice.
    pub(in super::super) dispatched: Option<Box<Selection>>,
}

/// What a root of `$xavp` is.
#[derive(Clone, Debug)]
pub(super) enum XavpValue {
    /// `$xavp(root)` was set.
    Plain(Datum),
    /// `$xavp(root=>key)` was set: the newest last.
    Keys(Vec<(Bytes, Datum)>),
}

/// Takes room for something that stays with the message: an edit, a reply.
///
/// # Errors
/// It would be more than a message may hold.
pub(in super::super) fn held(vars: &mut Vars, bytes: usize) -> Result<(), Raised> {
    vars.hold(bytes.saturating_add(OVERHEAD))
}

impl Vars {
    /// None.
    pub const fn new() -> Self {
        Self {
            script: Vec::new(),
            avps: Vec::new(),
            xavps: Vec::new(),
            held: 0,
            sender: Sender::new(),
            dispatched: None,
        }
    }

    /// What goes with a transaction to its routes: `$avp` and `$xavp`, who sent it and what it was
    /// dispatched to; not `$var`.
    #[must_use]
    pub fn kept(&self) -> Self {
        let (avps, xavps) = (self.avps.clone(), self.xavps.clone());
        let script = self.script.iter().map(|(name, value)| OVERHEAD + name.len() + value.size());
        let held = self.held.saturating_sub(script.sum());
        let (sender, dispatched) = (self.sender.clone(), self.dispatched.clone());
        Self { script: Vec::new(), avps, xavps, held, sender, dispatched }
    }

    /// Nothing is set that goes with a transaction.
    pub fn is_empty(&self) -> bool {
        self.avps.is_empty()
            && self.xavps.is_empty()
            && self.dispatched.is_none()
            && self.sender == Sender::new()
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Raised> {
        let held = self.held.saturating_add(bytes);
        if held > MOST {
            return Err(Raised::error("the message holds more than 1 MiB of variables and edits"));
        }
        self.held = held;
        Ok(())
    }

    fn hold_value(&mut self, name: &[u8], value: &Datum) -> Result<(), Raised> {
        self.hold(OVERHEAD + name.len() + value.size())
    }

    fn let_go(&mut self, name: &[u8], value: &Datum) {
        self.held = self.held.saturating_sub(OVERHEAD + name.len() + value.size());
    }

    /// `$var(name)`.
    pub(super) fn script(&self, name: &[u8]) -> Option<&Datum> {
        self.script.iter().find(|(there, _)| there == name).map(|(_, value)| value)
    }

    /// Sets `$var(name)`.
    pub(super) fn set_script(&mut self, name: &[u8], value: Datum) -> Result<(), Raised> {
        self.unset_script(name);
        self.hold_value(name, &value)?;
        self.script.push((Bytes::copy_from_slice(name), value));
        Ok(())
    }

    /// Lets `$var(name)` be 0 again.
    pub(super) fn unset_script(&mut self, name: &[u8]) {
        if let Some(at) = self.script.iter().position(|(there, _)| there == name) {
            let (name, value) = self.script.swap_remove(at);
            self.let_go(&name, &value);
        }
    }

    /// The values of `$avp(name)`, newest first.
    pub(super) fn avps<'a>(
        &'a self,
        name: &'a [u8],
    ) -> impl DoubleEndedIterator<Item = &'a Datum> + Clone {
        let named = move |(there, value): &'a (Bytes, Datum)| (there == name).then_some(value);
        self.avps.iter().rev().filter_map(named)
    }

    /// Puts a value in front of those of `$avp(name)`.
    pub(super) fn add_avp(&mut self, name: &[u8], value: Datum) -> Result<(), Raised> {
        self.hold_value(name, &value)?;
        self.avps.push((Bytes::copy_from_slice(name), value));
        Ok(())
    }

    /// Removes the newest value of `$avp(name)`, or all.
    pub(super) fn remove_avps(&mut self, name: &[u8], all: bool) {
        let mut held = self.held;
        let size = |value: &Datum| OVERHEAD + name.len() + value.size();
        if all {
            self.avps.retain(|(there, value)| {
                let stays = there != name;
                held = if stays { held } else { held.saturating_sub(size(value)) };
                stays
            });
        } else if let Some(at) = self.avps.iter().rposition(|(there, _)| there == name) {
            held = held.saturating_sub(size(&self.avps.remove(at).1));
        }
        self.held = held;
    }

    /// A value of `$xavp`.
    pub(super) fn xavp(&self, xavp: Xavp<'_>) -> Option<&Datum> {
        let mut roots = self.xavps.iter().rev().filter(|(root, _)| root == xavp.root);
        let (_, root) = roots.nth(usize::try_from(xavp.place).ok()?)?;
        match (root, xavp.key) {
            (XavpValue::Plain(value), None) => Some(value),
            (XavpValue::Keys(keys), Some((key, place))) => {
                let mut values = keys.iter().rev().filter(|(there, _)| there == key);
                values.nth(usize::try_from(place).ok()?).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// Sets a value of `$xavp`: a new root where no key is named, else the key of the newest root,
    /// which is made where there is none. False where the root has no keys.
    pub(super) fn set_xavp(&mut self, xavp: Xavp<'_>, value: Datum) -> Result<bool, Raised> {
        let root = || Bytes::copy_from_slice(xavp.root);
        let Some((key, _)) = xavp.key else {
            self.hold_value(xavp.root, &value)?;
            self.xavps.push((root(), XavpValue::Plain(value)));
            return Ok(true);
        };
        self.hold_value(key, &value)?;
        let there = self.xavps.iter_mut().rfind(|(there, _)| there == xavp.root);
        let pair = (Bytes::copy_from_slice(key), value);
        match there {
            None => {
                self.hold(OVERHEAD + xavp.root.len())?;
                self.xavps.push((root(), XavpValue::Keys(vec![pair])));
            }
            Some((_, XavpValue::Plain(_))) => return Ok(false),
            Some((_, XavpValue::Keys(keys))) => {
                let mut freed = 0;
                if let Some(at) = keys.iter().rposition(|(there, _)| there == key) {
                    freed = OVERHEAD + key.len() + keys.remove(at).1.size();
                }
                keys.push(pair);
                self.held = self.held.saturating_sub(freed);
            }
        }
        Ok(true)
    }

    /// Removes the newest root of `$xavp(root)`, or a key of it.
    pub(super) fn remove_xavp(&mut self, xavp: Xavp<'_>) {
        let Some(at) = self.xavps.iter().rposition(|(root, _)| root == xavp.root) else { return };
        match (&mut self.xavps[at].1, xavp.key) {
            (XavpValue::Keys(keys), Some((key, _))) => {
                keys.retain(|(there, _)| there != key);
            }
            (XavpValue::Plain(_), Some(_)) => {}
            (_, None) => {
                self.xavps.remove(at);
            }
        }
    }
}
