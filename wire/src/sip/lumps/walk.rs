//! Putting an edit list to work: one walk over the message, from the front to the end.

use std::ops::Range;

use smallvec::SmallVec;

use super::super::message::Message;
use super::super::own::{DEFAULT_PORT, Socket, Transport};
use super::{Chain, Cut, Ends, Insert, Lumps, Marker, NONE, Patch, Place, narrow};

/// What a walk gives its pieces to.
trait Sink {
    /// The next bytes.
    fn bytes(&mut self, bytes: &[u8]);
    /// The next chain of inserts.
    fn chain(&mut self, chain: &[Insert]);
}

/// How long it is, without what waits for the sending socket.
struct Count(usize);

impl Sink for Count {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
    fn chain(&mut self, chain: &[Insert]) {
        for insert in chain {
            if let Insert::Bytes(bytes) = insert {
                self.0 += bytes.len();
            }
        }
    }
}

/// Writes it all.
struct Write<'a> {
    ends: Ends<'a>,
    out: &'a mut Vec<u8>,
}

impl Sink for Write<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }
    fn chain(&mut self, chain: &[Insert]) {
        resolve(chain, self.ends, |bytes| self.out.extend_from_slice(bytes));
    }
}

/// Writes what is known, keeps late chains for the list of what is written.
struct Settle<'a> {
    out: &'a mut Vec<u8>,
    late: Lumps,
}

impl Sink for Settle<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }
    fn chain(&mut self, chain: &[Insert]) {
        if chain.iter().any(Insert::is_late) {
            let lump = self.late.anchor(self.out.len());
            self.late.before(lump, chain.iter().cloned());
        } else {
            for insert in chain {
                if let Insert::Bytes(bytes) = insert {
                    self.out.extend_from_slice(bytes);
                }
            }
        }
    }
}

/// Gives the bytes of a chain, its markers resolved.
fn resolve(chain: &[Insert], ends: Ends<'_>, mut put: impl FnMut(&[u8])) {
    for insert in chain {
        match insert {
            Insert::Bytes(bytes) => put(bytes),
            Insert::Marker(marker) => mark(*marker, ends, &mut put),
            Insert::IfSocketsDiffer if are_same(ends) => return,
            Insert::IfSocketsSame if !are_same(ends) => return,
            Insert::IfSocketsDiffer | Insert::IfSocketsSame => {}
        }
    }
}

fn are_same(ends: Ends<'_>) -> bool {
    let (received, sending) = (ends.received, ends.sending);
    (received.transport, received.address) == (sending.transport, sending.address)
}

fn mark(marker: Marker, ends: Ends<'_>, put: &mut impl FnMut(&[u8])) {
    let (Ends { received, .. }, Ends { sending, .. }) = (ends, ends);
    match marker {
        Marker::ReceivedHost => put(&received.host),
        Marker::SendingHost => put(&sending.host),
        Marker::ReceivedPort => put(&digits(received.port.into())),
        Marker::SendingPort => put(&digits(sending.port.into())),
        Marker::ReceivedProto => put(received.transport.word().as_bytes()),
        Marker::SendingProto => put(sending.transport.word().as_bytes()),
        Marker::ReceivedAll => all(received, put),
        Marker::SendingAll => all(sending, put),
    }
}

fn all(socket: &Socket, put: &mut impl FnMut(&[u8])) {
    put(&socket.host);
    if socket.port != DEFAULT_PORT {
        put(b":");
        put(&digits(socket.port.into()));
    }
    if socket.transport != Transport::Udp {
        put(b";transport=");
        put(socket.transport.word().as_bytes());
    }
}

/// A number in decimal.
pub(super) fn digits(mut number: u64) -> SmallVec<[u8; 20]> {
    let mut text = SmallVec::new();
    loop {
        text.push(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.reverse();
    text
}

/// The walk: where it is, and what is still to come.
struct Walk<'a, S> {
    source: &'a [u8],
    at: usize,
    cuts: &'a [Cut],
    patches: &'a [Patch<'a>],
    sink: S,
}

impl<'a, S: Sink> Walk<'a, S> {
    /// Copies what came, up to an offset.
    fn copy(&mut self, to: usize) {
        let to = to.min(self.source.len());
        if to > self.at {
            self.sink.bytes(&self.source[self.at..to]);
            self.at = to;
        }
    }
    /// Everything in front of an offset, cuts and patches that start there not included.
    fn advance(&mut self, to: usize) {
        while let Some((at, text)) = self.next_before(to) {
            let gone = at.start < self.at && at.end <= self.at;
            if !gone {
                self.copy(at.start);
                self.sink.bytes(text);
                self.at = self.at.max(at.end);
            }
        }
        self.copy(to);
    }
    /// Takes the next cut or patch that starts in front of an offset.
    fn next_before(&mut self, to: usize) -> Option<(Range<usize>, &'a [u8])> {
        let (cuts, patches) = (self.cuts, self.patches);
        let cut =
            cuts.first().filter(|cut| patches.first().is_none_or(|patch| is_first(cut, patch)));
        if let Some(cut) = cut {
            let next = (cut.start as usize) < to;
            return next.then(|| {
                self.cuts = &cuts[1..];
                (range(cut), cut.text.as_ref())
            });
        }
        let patch = patches.first().filter(|patch| patch.at.start < to)?;
        self.patches = &patches[1..];
        Some((patch.at.clone(), patch.text))
    }
}

fn range(cut: &Cut) -> Range<usize> {
    cut.start as usize..cut.end as usize
}

/// Which of a cut and a patch comes first: at one offset a text of the list, then one of the patch,
/// then what covers the other.
fn is_first(cut: &Cut, patch: &Patch<'_>) -> bool {
    let cut = range(cut);
    if cut.start != patch.at.start {
        return cut.start < patch.at.start;
    }
    cut.is_empty() || (!patch.at.is_empty() && cut.end > patch.at.end)
}

impl Lumps {
    /// Bytes that [`Lumps::apply`] writes at most: what `out` needs room for.
    pub fn size(
        &self,
        message: &Message,
        from: usize,
        ends: Ends<'_>,
        patches: &[Patch<'_>],
    ) -> usize {
        self.most(message.bytes().len(), from, ends, patches)
    }
    pub(super) fn most(
        &self,
        length: usize,
        from: usize,
        ends: Ends<'_>,
        patches: &[Patch<'_>],
    ) -> usize {
        // A host, a port and a transport.
        let mark = ends.received.host.len().max(ends.sending.host.len()) + 24;
        let late = self.inserts.iter().filter(|insert| insert.is_late()).count();
        let patches: usize = patches.iter().map(|patch| patch.text.len()).sum();
        length.saturating_sub(from) + self.bytes + late * mark + patches
    }
    /// Writes everything from offset `from` of the message on, edits and patches applied, behind
    /// `out`. What is in front of it (the start line) is the caller's. Patches may stand in any
    /// order; those of one offset keep theirs.
    pub fn apply(
        &self,
        message: &Message,
        from: usize,
        ends: Ends<'_>,
        patches: &[Patch<'_>],
        out: &mut Vec<u8>,
    ) {
        self.apply_bytes(message.bytes(), from, ends, patches, out);
    }
    pub(super) fn apply_bytes(
        &self,
        source: &[u8],
        from: usize,
        ends: Ends<'_>,
        patches: &[Patch<'_>],
        out: &mut Vec<u8>,
    ) {
        let mut sorted = SmallVec::<[Patch<'_>; 8]>::new();
        let patches = if patches.is_sorted_by_key(|patch| patch.at.start) {
            patches
        } else {
            sorted.extend(patches.iter().cloned());
            sorted.sort_by_key(|patch| patch.at.start);
            &sorted
        };
        out.reserve(self.most(source.len(), from, ends, patches));
        self.walk(source, from, patches, Write { ends, out });
    }
    /// Writes the whole message, edits and patches applied, behind an empty `out`; gives the list
    /// for what was written: the chains that wait for the sending socket, at their new offsets.
    pub(in super::super) fn settle(
        &self,
        source: &[u8],
        patches: &[Patch<'_>],
        out: &mut Vec<u8>,
    ) -> Self {
        self.walk(source, 0, patches, Settle { out, late: Self::default() }).late
    }
    /// Bytes from an offset on, late markers apart.
    pub(super) fn walk_size(&self, source: &[u8], from: usize) -> usize {
        self.walk(source, from, &[], Count(0)).0
    }

    fn walk<S: Sink>(&self, source: &[u8], from: usize, patches: &[Patch<'_>], sink: S) -> S {
        let start = narrow(from);
        let (before, cuts) = self.cuts.split_at(self.cuts.partition_point(|cut| cut.start < start));
        let at = before.last().map_or(from, |cut| from.max(cut.end as usize));
        let patches = &patches[patches.partition_point(|patch| patch.at.start < from)..];
        let mut walk = Walk { source, at, cuts, patches, sink };
        if self.places.is_sorted_by_key(|place| place.at) {
            for place in &self.places {
                self.visit(place, start, &mut walk);
            }
        } else {
            let mut order: SmallVec<[&Place; 16]> = self.places.iter().collect();
            order.sort_by_key(|place| place.at);
            for place in order {
                self.visit(place, start, &mut walk);
            }
        }
        walk.advance(usize::MAX);
        walk.sink
    }
    fn visit<S: Sink>(&self, place: &Place, from: u32, walk: &mut Walk<'_, S>) {
        if place.at < from || (place.before == NONE && place.after == NONE) {
            return;
        }
        walk.advance(place.at as usize);
        self.chains_from(place.before, &mut walk.sink);
        if place.after != NONE {
            walk.advance(place.end as usize);
            self.chains_from(place.after, &mut walk.sink);
        }
    }
    fn chains_from(&self, head: u32, sink: &mut impl Sink) {
        let mut at = head;
        while let Some(&Chain { first, last, next }) = self.chains.get(at as usize) {
            sink.chain(&self.inserts[first as usize..last as usize]);
            at = next;
        }
    }
}
