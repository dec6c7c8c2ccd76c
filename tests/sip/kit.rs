//! The program as a SIP proxy, with a script of the test's own or the built-in one.

#![allow(dead_code, reason = "each binary uses a part of it")]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use tempfile::TempDir;

use crate::common::Service;
use crate::raw::{Sip, Udp, reply, request};

/// One socket of each transport.
pub(crate) const BOTH: &str = "\"udp:127.0.0.1:0\", \"tcp:127.0.0.1:0\"";

/// Nothing is sent again while a test runs, which would come where nothing is expected.
pub(crate) const CALM: &str = ", retr-timer1-ms = 60000, retr-timer2-ms = 60000";

/// A running proxy.
pub(crate) struct Proxy {
    pub(crate) service: Service,
    /// The bound addresses, in the order of `listen`.
    pub(crate) at: Vec<SocketAddr>,
    _folder: TempDir,
}

/// How a proxy is set up.
pub(crate) struct Setup {
    pub(crate) workers: u32,
    pub(crate) listen: String,
    /// Further settings of the listener, each with a comma in front.
    pub(crate) listener: String,
    /// Further settings of the router, each with a comma in front.
    pub(crate) router: String,
    /// Further tables of the file.
    pub(crate) tables: String,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            workers: 2,
            listen: BOTH.to_owned(),
            listener: String::new(),
            router: String::new(),
            tables: String::new(),
        }
    }
}

impl Setup {
    /// With one worker, that handles all messages in the order in which they came.
    pub(crate) fn one_worker() -> Self {
        Self { workers: 1, ..Self::default() }
    }

    /// On other sockets.
    pub(crate) fn on(listen: &str) -> Self {
        Self { listen: listen.to_owned(), ..Self::default() }
    }

    /// With the built-in script.
    #[track_caller]
    pub(crate) fn built_in(self) -> Proxy {
        let folder = tempfile::tempdir().expect("a folder");
        let mode = if crate::STATEFUL { "stateful" } else { "stateless" };
        self.start(folder, &format!("mode = \"{mode}\""))
    }

    /// With this whole script.
    #[track_caller]
    pub(crate) fn script(self, lua: &str) -> Proxy {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("routes.lua");
        fs::write(&path, lua).expect("it is written");
        self.start(folder, &format!("script = \"{}\"", path.display()))
    }

    /// With the script in a file of the test's own.
    #[track_caller]
    pub(crate) fn script_at(self, path: &Path) -> Proxy {
        self.start(
            tempfile::tempdir().expect("a folder"),
            &format!("script = \"{}\"", path.display()),
        )
    }

    #[track_caller]
    fn start(self, folder: TempDir, script: &str) -> Proxy {
        let Self { workers, listen, listener, mut router, tables } = self;
        if crate::STATEFUL && !router.contains("retr-timer1") {
            router.push_str(CALM);
        }
        let service = Service::start(&format!(
            "[service]\nworkers = {workers}\n{tables}\
             [[node]]\nname = \"sip\"\ntype = \"SipListener\"\nnext = \"routes\"\n\
             settings = {{ listen = [{listen}]{listener} }}\n\
             [[node]]\nname = \"routes\"\ntype = \"SipRouter\"\nsettings = {{ {script}{router} }}\n"
        ));
        let at = service.all_at("sip");
        Proxy { service, at, _folder: folder }
    }
}

impl Proxy {
    /// The first socket, which speaks UDP wherever this is called.
    pub(crate) fn udp(&self) -> SocketAddr {
        self.at[0]
    }

    /// The second socket, which speaks TCP wherever this is called.
    pub(crate) fn tcp(&self) -> SocketAddr {
        self.at[1]
    }

    /// Nothing is on its way to a phone: what it asks the proxy is answered first. It belongs to a
    /// call, whose messages keep their order.
    #[track_caller]
    pub(crate) fn answers_first(&self, phone: &Udp, call: &str) {
        let uri = format!("sip:probe@{}", self.udp());
        phone.send(self.udp(), request("OPTIONS", &uri, &phone.via(&fresh("probe")), call));
        let answer = phone.hear();
        assert_eq!(answer.first(), "SIP/2.0 200 Probe", "something else came first: {answer:?}");
    }

    /// Nothing is on its way from one phone to the other: a further request of the call comes
    /// first.
    #[track_caller]
    pub(crate) fn sends_first(&self, from: &Udp, to: &Udp, call: &str) {
        let uri = format!("sip:fence@{}", to.at());
        from.send(self.udp(), request("INFO", &uri, &from.via(&fresh("fence")), call));
        let came = to.hear();
        assert_eq!(came.first(), format!("INFO {uri} SIP/2.0"), "something else came first");
    }

    /// A good request is served, whatever was sent before it and whatever became of that; what
    /// came to the two phones before it.
    #[track_caller]
    pub(crate) fn served_behind(&self, alice: &Udp, bob: &Udp) -> (Vec<Sip>, Vec<Sip>) {
        let good =
            request("INFO", &format!("sip:fence@{}", bob.at()), &alice.via(&fresh("good")), "c1");
        alice.send(self.udp(), good.replace("CSeq: 1", "CSeq: 4711"));
        let (mut at_bob, mut at_alice) = (vec![], vec![]);
        let is_good = |sip: &Sip| sip.lines().contains(&"CSeq: 4711 INFO".to_owned());
        loop {
            let came = bob.receive();
            if is_good(&came) {
                bob.send(self.udp(), reply(&came, "200 OK", ""));
                break;
            }
            at_bob.push(came);
        }
        loop {
            let came = alice.receive();
            if is_good(&came) {
                return (at_bob, at_alice);
            }
            at_alice.push(came);
        }
    }

    /// How many messages were dropped for a reason.
    pub(crate) fn dropped(&self, reason: &str) -> f64 {
        self.service.metric("lineway_sip_dropped_total", &[("node", "routes"), ("reason", reason)])
    }
}

/// A name that nothing else in this process has.
pub(crate) fn fresh(name: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{name}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A script for requests: `lua` is its body, with `BOB` for the URI of a phone. What [`Proxy`] asks
/// by itself is answered or sent on without state. `SEND` stands for how the body sends a request on
/// in this binary: `KSR.forward`, or `KSR.tm.t_relay`.
pub(crate) fn plan(bob: SocketAddr, lua: &str) -> String {
    let lua =
        lua.replace("SEND(", if crate::STATEFUL { "KSR.tm.t_relay(" } else { "KSR.forward(" });
    format!(
        "BOB = \"sip:bob@{bob}\"\n\
         function ksr_request_route()\n\
         if KSR.kx.gete_ruser() == \"probe\" then KSR.sl.sl_send_reply(200, \"Probe\") return end\n\
         if KSR.kx.gete_ruser() == \"fence\" then KSR.forward() return end\n\
         {lua}\nend\n"
    )
}

/// To Bob, with his address in the Request-URI.
pub(crate) const TO_BOB: &str = "KSR.seturi(BOB)\nSEND()";

/// To Bob, with the Request-URI as it came.
pub(crate) const PAST_TO_BOB: &str = "KSR.setdsturi(BOB)\nSEND()";

/// A proxy between two phones.
pub(crate) struct Scene {
    pub(crate) proxy: Proxy,
    pub(crate) alice: Udp,
    pub(crate) bob: Udp,
}

impl Scene {
    /// With this body of the script, see [`plan`].
    #[track_caller]
    pub(crate) fn new(lua: &str) -> Self {
        Self::with(Setup::default(), lua)
    }

    #[track_caller]
    pub(crate) fn with(setup: Setup, lua: &str) -> Self {
        let bob = Udp::new();
        let proxy = setup.script(&plan(bob.at(), lua));
        Self { proxy, alice: Udp::new(), bob }
    }

    #[track_caller]
    pub(crate) fn built_in() -> Self {
        let proxy = Setup::default().built_in();
        Self { proxy, alice: Udp::new(), bob: Udp::new() }
    }

    /// A request of Alice's to Bob at the proxy, by the method's name.
    pub(crate) fn request(&self, method: &str, call: &str) -> String {
        let uri = format!("sip:bob@{}", self.proxy.udp());
        request(method, &uri, &self.alice.via(call), call)
    }

    /// A request of Alice's to Bob's own address.
    pub(crate) fn direct(&self, method: &str, call: &str) -> String {
        request(method, &format!("sip:bob@{}", self.bob.at()), &self.alice.via(call), call)
    }

    /// Sends a request of Alice's, without waiting.
    #[track_caller]
    pub(crate) fn send(&self, request: impl AsRef<[u8]>) {
        self.alice.send(self.proxy.udp(), request);
    }

    /// A request of Alice's as it comes to Bob.
    #[track_caller]
    pub(crate) fn pass(&self, request: impl AsRef<[u8]>) -> Sip {
        self.send(request);
        self.bob.receive()
    }

    /// A reply of Bob's as it comes to Alice.
    #[track_caller]
    pub(crate) fn back(&self, reply: impl AsRef<[u8]>) -> Sip {
        self.bob.send(self.proxy.udp(), reply);
        self.alice.receive()
    }

    /// A request of Alice's as the proxy answers it.
    #[track_caller]
    pub(crate) fn ask(&self, request: impl AsRef<[u8]>) -> Sip {
        self.send(request);
        self.alice.receive()
    }

    /// Bob answers with this status; Alice gets it.
    #[track_caller]
    pub(crate) fn answer(&self, request: &Sip, status: &str) -> Sip {
        self.back(reply(request, status, ""))
    }

    /// The own Via of a message, but for its branch.
    pub(crate) fn own_via(&self) -> String {
        format!("Via: SIP/2.0/UDP {};branch=z9hG4bK", self.proxy.udp())
    }
}
