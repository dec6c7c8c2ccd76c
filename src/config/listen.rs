//! Two nodes can not have one address to listen on.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;
use std::sync::Arc;

use lineway_actors::settings::{NodeSettings, SipAddress};
use lineway_actors::wire::sip::own::Transport;
use lineway_wire::units::Port;
use lineway_wire::zmp::endpoint::Endpoint;

use super::AdminSettings;
use super::node::{BIND, Draft, LISTEN, is_chosen};
use super::reader::Reading;

/// Somebody who listens on a port.
#[derive(Clone)]
struct Listens<'a> {
    /// `None` for the admin interface.
    draft: Option<&'a Draft<'a>>,
    address: IpAddr,
    /// It is `*`, which is every address of both families.
    every: bool,
    interface: Option<&'a Arc<str>>,
    /// Where the file says so.
    span: Range<usize>,
}

impl Listens<'_> {
    /// Whether the system would refuse the second of the two.
    fn clashes(&self, other: &Self) -> bool {
        let same_family = self.address.is_ipv4() == other.address.is_ipv4();
        let overlap = self.address == other.address
            || self.every
            || other.every
            || same_family && (self.address.is_unspecified() || other.address.is_unspecified());
        let apart = matches!((self.interface, other.interface), (Some(a), Some(b)) if a != b);
        overlap && !apart
    }
}

/// Notes each pair of nodes that want one address, once.
pub(super) fn note_clashes(drafts: &[Draft<'_>], admin: &AdminSettings, reading: &Reading<'_>) {
    let mut taken = Taken { by_port: HashMap::new(), by_name: HashMap::new(), reading };
    let of_admin = Listens {
        draft: None,
        address: admin.listen.ip(),
        every: false,
        interface: None,
        span: 0..0,
    };
    taken.by_port.entry((Transport::Tcp, admin.listen.port())).or_default().push(of_admin);

    for draft in drafts {
        match &draft.settings {
            Some(NodeSettings::TcpListener(listener)) => {
                let interface = listener.socket.interface.as_ref();
                let (setting, span) = draft.ports();
                let address = listener.address;
                let this = Listens { draft: Some(draft), address, every: false, interface, span };
                let mut told = false;
                for &port in listener.ports.iter().filter(|&&port| port != Port::ANY) {
                    told |= taken.takes(Transport::Tcp, port, &this, &setting, &port, told);
                }
            }
            Some(NodeSettings::SipListener(listener)) => {
                for (index, listen) in listener.listen.iter().enumerate() {
                    taken.listens(draft, index, *listen);
                }
            }
            Some(settings) => {
                let binds = settings.messages().map_or(&[][..], |messages| &messages.bind);
                for (index, endpoint) in binds.iter().enumerate() {
                    taken.binds(draft, index, endpoint);
                }
            }
            None => {}
        }
    }
}

/// What is taken already.
struct Taken<'a> {
    by_port: HashMap<(Transport, u16), Vec<Listens<'a>>>,
    /// Endpoints without a port: paths and names.
    by_name: HashMap<String, (&'a Draft<'a>, Range<usize>)>,
    reading: &'a Reading<'a>,
}

impl<'a> Taken<'a> {
    /// Takes a port, and tells who has it already. True when it did.
    fn takes(
        &mut self,
        transport: Transport,
        port: Port,
        this: &Listens<'a>,
        setting: &str,
        found: &dyn std::fmt::Display,
        quietly: bool,
    ) -> bool {
        let others = self.by_port.entry((transport, port.get())).or_default();
        let other = others.iter().find(|other| other.clashes(this)).filter(|_| !quietly);
        let told = other.is_some();
        if let (Some(other), Some(draft)) = (other, this.draft) {
            let place = std::net::SocketAddr::new(other.address, port.get());
            let owner = other.draft.map_or("the admin interface", |draft| draft.title());
            let what = format!("found {found}, but {owner} already listens on {place}");
            let mut problem = draft.problem(setting, &this.span, what);
            problem.label = Some("already taken".to_owned());
            problem.also = other.draft.map(|_| (other.span.clone(), "first"));
            self.reading.note(problem);
        }
        others.push(this.clone());
        told
    }

    /// Takes an address of a SIP listener.
    fn listens(&mut self, draft: &'a Draft<'a>, index: usize, listen: SipAddress) {
        let (setting, span) = draft.bind(LISTEN, index);
        let address = listen.address.ip();
        if let Some(port) = Port::new(i64::from(listen.address.port())) {
            let this = Listens { draft: Some(draft), address, every: false, interface: None, span };
            self.takes(listen.transport, port, &this, &setting, &listen, false);
        }
    }

    /// Takes an endpoint of a message socket. A host name may stand for any address: then the start
    /// tells.
    fn binds(&mut self, draft: &'a Draft<'a>, index: usize, endpoint: &Endpoint) {
        let (setting, span) = draft.bind(BIND, index);
        if is_chosen(endpoint) {
            return;
        }
        if let Endpoint::Tcp { host, port } = endpoint {
            let every = &**host == "*";
            let address = if every {
                Some(IpAddr::from(Ipv6Addr::UNSPECIFIED))
            } else {
                host.parse().ok().map(|ip: IpAddr| ip.to_canonical())
            };
            let port = port.and_then(|port| Port::new(i64::from(port)));
            if let (Some(address), Some(port)) = (address, port) {
                let this = Listens { draft: Some(draft), address, every, interface: None, span };
                self.takes(Transport::Tcp, port, &this, &setting, endpoint, false);
            }
            return;
        }
        match self.by_name.entry(endpoint.to_string()) {
            Entry::Vacant(free) => {
                free.insert((draft, span));
            }
            Entry::Occupied(taken) => {
                let (owner, first) = taken.get();
                let what = format!("found {endpoint}, but {} already binds it", owner.title());
                let mut problem = draft.problem(&setting, &span, what);
                problem.label = Some("already taken".to_owned());
                problem.also = Some((first.clone(), "first"));
                self.reading.note(problem);
            }
        }
    }
}
