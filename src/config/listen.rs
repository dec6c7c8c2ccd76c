//! Two listeners can not have one address and port.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use lineway_actors::settings::NodeSettings;
use lineway_wire::units::Port;

use super::AdminSettings;
use super::node::Draft;
use super::reader::Reading;

/// Somebody who listens on a port.
#[derive(Clone, Copy)]
struct Listens<'a> {
    /// `None` for the admin interface.
    draft: Option<&'a Draft<'a>>,
    address: IpAddr,
    interface: Option<&'a Arc<str>>,
}

impl Listens<'_> {
    /// Whether the system would refuse the second of the two.
    fn clashes(&self, other: &Self) -> bool {
        let same_family = self.address.is_ipv4() == other.address.is_ipv4();
        let overlap = self.address == other.address
            || same_family && (self.address.is_unspecified() || other.address.is_unspecified());
        let apart = matches!((self.interface, other.interface), (Some(a), Some(b)) if a != b);
        overlap && !apart
    }
}

/// Notes each pair of listeners that want one address and port, once.
pub(super) fn note_clashes(drafts: &[Draft<'_>], admin: &AdminSettings, reading: &Reading<'_>) {
    let mut by_port: HashMap<u16, Vec<Listens<'_>>> = HashMap::new();
    let of_admin = Listens { draft: None, address: admin.listen.ip(), interface: None };
    by_port.entry(admin.listen.port()).or_default().push(of_admin);

    for draft in drafts {
        let Some(NodeSettings::TcpListener(listener)) = &draft.settings else {
            continue;
        };
        let interface = listener.socket.interface.as_ref();
        let this = Listens { draft: Some(draft), address: listener.address, interface };
        let mut told = false;
        for &port in listener.ports.iter().filter(|&&port| port != Port::ANY) {
            let others = by_port.entry(port.get()).or_default();
            if let Some(other) = others.iter().find(|other| other.clashes(&this)).filter(|_| !told)
            {
                told = true;
                let place = std::net::SocketAddr::new(other.address, port.get());
                let owner = other.draft.map_or("the admin interface", |draft| draft.title());
                let mut problem = draft
                    .ports_problem(format!("found {port}, but {owner} already listens on {place}"));
                problem.label = Some("already taken".to_owned());
                problem.also = other.draft.map(|draft| (draft.ports_span(), "first"));
                reading.note(problem);
            }
            others.push(this);
        }
    }
}
