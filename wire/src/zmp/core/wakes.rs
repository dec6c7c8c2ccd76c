//! Who is to be told, each once.

use super::links::Pipe;
use super::{CompletionId, WaiterId, Wake};

/// What is to be told after a step.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    list: Vec<Wake>,
    readable: bool,
    completions: bool,
    timer: bool,
    monitor: bool,
    drained: bool,
}

macro_rules! once {
    ($($name:ident, $wake:ident;)*) => {
        $(pub(super) fn $name(&mut self) {
            if !std::mem::replace(&mut self.$name, true) {
                self.list.push(Wake::$wake);
            }
        })*
    };
}

impl Wakes {
    once! {
        readable, Readable;
        completions, Completions;
        timer, Timer;
        monitor, Monitor;
        drained, Drained;
    }

    /// Tells a connection once until its next turn.
    pub(super) fn connection(&mut self, pipe: &mut Pipe) {
        if !std::mem::replace(&mut pipe.told, true) {
            self.list.push(Wake::Connection(pipe.id));
        }
    }

    pub(super) fn completion(&mut self, id: CompletionId) {
        self.list.push(Wake::Completion(id));
    }

    pub(super) fn waiter(&mut self, id: WaiterId) {
        self.list.push(Wake::Waiter(id));
    }

    pub(super) fn take(&mut self, wakes: &mut Vec<Wake>) {
        let list = std::mem::take(&mut self.list);
        *self = Self::default();
        wakes.extend_from_slice(&list);
        // Its memory is used again.
        self.list = list;
        self.list.clear();
    }
}
