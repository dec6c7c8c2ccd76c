//! Registrations as texts: a REGISTER goes in, the lines of its answer come out.

mod forms;
mod network;
mod property;
mod rules;

use super::*;
use crate::sip::draft::Target;
use crate::sip::kit::{self, Text};
use crate::sip::message::{Message, Method, Uri};
use crate::sip::own::{Own, SocketId};

/// When the tests begin.
const START: u64 = 1_800_000_000;

const RULES: Rules = Rules { min_expires: 60, max_expires: 0, max_contacts: 0 };

/// A REGISTER of bob's.
fn register(call_id: &str, cseq: u32, lines: &[&str]) -> Message {
    let text = kit::request("REGISTER")
        .without("Contact")
        .set("Call-ID", call_id)
        .set("CSeq", &format!("{cseq} REGISTER"));
    lines.iter().fold(text, |text: Text, line| text.line(line)).message()
}

/// What the registrar has of bob, as scripts see it.
struct Bob {
    bindings: Vec<Binding>,
    rules: Rules,
    now: u64,
    origin: Origin,
    own: Own,
}

impl Bob {
    fn new() -> Self {
        let origin = Origin { received: None, socket: None, flags: 0, only_one: false, ruid: 1 };
        Self { bindings: Vec::new(), rules: RULES, now: START, origin, own: kit::own() }
    }

    fn with(rules: Rules) -> Self {
        Self { rules, ..Self::new() }
    }

    fn update(&mut self, message: &Message) -> Result<(Saved, Vec<String>), Refusal> {
        let register = Register::read(message, &self.rules)?;
        let update = register.update(&self.bindings, &self.origin, &self.rules, self.now)?;
        self.origin.ruid += register.contacts() as u64;
        self.bindings = update.bindings;
        let lines = lines(&register, &self.bindings, self.now);
        let text = |line: &Bytes| String::from_utf8(line.to_vec()).unwrap();
        Ok((update.saved, lines.iter().map(text).collect()))
    }

    /// A REGISTER, and the Contact of its 200 or what it was refused with.
    fn says(&mut self, call_id: &str, cseq: u32, lines: &[&str]) -> String {
        match self.update(&register(call_id, cseq, lines)) {
            Ok((_, lines)) => {
                let contact = lines.iter().find_map(|line| line.strip_prefix("Contact: "));
                contact.unwrap_or_default().to_owned()
            }
            Err(refusal) => format!("{} {}", refusal.code, refusal.error),
        }
    }

    fn finds(&self, method: &str, uri: &str) -> Result<Vec<Target>, Missed> {
        let uri = Uri::parse(uri.as_bytes()).unwrap();
        let method = Method::of(method.as_bytes());
        lookup(&self.bindings, &uri, method, &self.own, 12, self.now)
    }

    /// The URIs that an INVITE goes to.
    fn rings(&self) -> Vec<String> {
        let found = self.finds("INVITE", "sip:bob@127.0.0.1").unwrap_or_default();
        found.iter().map(|target| String::from_utf8(target.uri.to_vec()).unwrap()).collect()
    }
}
