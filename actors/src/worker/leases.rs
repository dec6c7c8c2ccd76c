//! The mux parents of a worker, as far as their leases of cids go (M08).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Recipient;

use crate::messages::{CidLease, LeaseCids};
use crate::registry::{LineId, LineView};

/// Who takes leases, and what was asked for and did not come.
///
/// A request can die with a supervisor, and an answer with an actor of the worker. The first is
/// repeated to the next supervisor. The second is seen by the parent's mark, which was set before
/// the answer was sent.
#[derive(Default)]
pub(super) struct Lessees {
    /// By the number of the line, in the same order in every run.
    parents: RefCell<BTreeMap<u64, Lessee>>,
}

struct Lessee {
    recipient: Recipient<CidLease>,
    asked: Option<Asked>,
}

/// A lease that was asked for and did not come.
struct Asked {
    parent: Arc<LineView>,
    most: u32,
    /// The mark when it was asked for.
    behind: u32,
}

impl Lessees {
    pub(super) fn enter(&self, id: LineId, recipient: Recipient<CidLease>) {
        self.parents.borrow_mut().insert(id.number, Lessee { recipient, asked: None });
    }

    pub(super) fn left(&self, id: LineId) {
        self.parents.borrow_mut().remove(&id.number);
    }

    /// Notes a request, and gives it back to be reported.
    pub(super) fn ask(&self, parent: &Arc<LineView>, most: u32) -> LeaseCids {
        if let Some(lessee) = self.parents.borrow_mut().get_mut(&parent.id.number) {
            let (behind, parent) = (parent.cids_leased(), Arc::clone(parent));
            lessee.asked = Some(Asked { parent, most, behind });
        }
        LeaseCids { parent: parent.id, most }
    }

    pub(super) fn pass_on(&self, lease: CidLease) {
        if let Some(lessee) = self.parents.borrow_mut().get_mut(&lease.parent.number) {
            // One that was found by its mark may come a second time, when the next is asked for.
            // The parent refuses it.
            lessee.asked.take_if(|asked| asked.behind < lease.first);
            lessee.recipient.do_send(lease);
        }
    }

    /// Passes on the leases that were granted and did not come.
    pub(super) fn find_lost(&self) {
        for lessee in self.parents.borrow_mut().values_mut() {
            let granted = |asked: &mut Asked| asked.parent.cids_leased() > asked.behind;
            if let Some(asked) = lessee.asked.take_if(granted) {
                let (first, last) = (asked.behind + 1, asked.parent.cids_leased());
                lessee.recipient.do_send(CidLease { parent: asked.parent.id, first, last });
            }
        }
    }

    /// Every lease that was asked for and is still to be granted; those that were granted and did
    /// not come are passed on.
    pub(super) fn outstanding(&self) -> Vec<LeaseCids> {
        self.find_lost();
        let parents = self.parents.borrow();
        let asked = parents.values().filter_map(|lessee| lessee.asked.as_ref());
        asked.map(|asked| LeaseCids { parent: asked.parent.id, most: asked.most }).collect()
    }
}

#[cfg(test)]
pub(super) mod tests;
