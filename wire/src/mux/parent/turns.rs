//! Whose turn it is to send Data (M29).

use std::collections::VecDeque;

use crate::mux::child::ChildKey;

/// A child with no more than this to send goes before those with more.
const LITTLE: usize = 16 * 1024;

/// So much is sent by children with little, until one with more has its turn.
const MOST_AHEAD_OF_MUCH: usize = 32 * 1024;

/// Children with Data to send. Whoever has little, a request or a key press, goes first, within
/// bounds; whoever has much takes turns of a whole frame.
#[derive(Debug, Default)]
pub(super) struct Turns {
    little: VecDeque<ChildKey>,
    much: VecDeque<ChildKey>,
    /// Bytes of children with little since one with much had its turn.
    ahead: usize,
}

impl Turns {
    /// A child has so many bytes to send.
    pub(super) fn push(&mut self, key: ChildKey, bytes: usize) {
        let list = if bytes <= LITTLE { &mut self.little } else { &mut self.much };
        list.push_back(key);
    }

    /// The child whose turn it is, and whether it stands among those with little.
    pub(super) fn first(&self) -> Option<(ChildKey, bool)> {
        let little = self.little.front().map(|key| (*key, true));
        let much = self.much.front().map(|key| (*key, false));
        if self.ahead < MOST_AHEAD_OF_MUCH { little.or(much) } else { much.or(little) }
    }

    /// The child of [`Self::first`] had its turn, and sent so much.
    pub(super) fn had(&mut self, little: bool, bytes: usize) {
        if little {
            self.little.pop_front();
            self.ahead = self.ahead.saturating_add(bytes);
        } else {
            self.much.pop_front();
            self.ahead = 0;
        }
    }

    /// Every child in it.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ChildKey> {
        self.little.iter().chain(&self.much)
    }

    /// Both lists.
    pub(super) fn lists(&mut self) -> [&mut VecDeque<ChildKey>; 2] {
        [&mut self.little, &mut self.much]
    }
}

#[cfg(test)]
mod tests {
    use super::{ChildKey, LITTLE, Turns};

    #[test]
    fn mux_m29_little_goes_first_and_much_still_has_its_turn() {
        let mut turns = Turns::default();
        turns.push(ChildKey(1), LITTLE + 1);
        turns.push(ChildKey(2), LITTLE + 1);
        let mut order = Vec::new();
        for key in 10..100 {
            turns.push(ChildKey(key), 8 * 1024);
        }
        while let Some((ChildKey(key), little)) = turns.first() {
            order.push(key);
            turns.had(little, 8 * 1024);
        }
        assert_eq!(order[..7], [10, 11, 12, 13, 1, 14, 15]);
        assert_eq!(order.len(), 92);
        assert_eq!(order.iter().position(|key| *key == 2), Some(9));
    }
}
