//! Which parents there are, which takes the next child, and how they end.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::peers::{
    Far, connect, echo, echoed, ended, finish, read, read_all, send, serve,
};
use crate::common::web::ask;
use crate::common::{PATIENCE, Service, Signal, connector, text, until};
use crate::far::{Peer, answer, asking, close, data, fin, open};
use crate::{
    ONE_WORKER, client_listener, client_to, closed, counter, fixed, mux_client, no_child_left,
    parents, server_to, timer,
};

/// Parents in the order in which they came, and which frames came by each.
struct Many {
    far: Far,
    peers: Vec<Peer>,
}

impl Many {
    fn new(far: Far) -> Self {
        Self { far, peers: Vec::new() }
    }

    /// Takes further parents until so many came in all.
    #[track_caller]
    fn take(&mut self, count: usize) {
        while self.peers.len() < count {
            self.peers.push(Peer::on(self.far.accept()));
        }
    }

    /// On which of them the next Open comes, and for which cid.
    #[track_caller]
    fn open(&mut self) -> (usize, u32) {
        let mut found = None;
        until("an Open", || {
            let waiting = self.far.waiting();
            self.peers.extend(waiting.map(Peer::on));
            let next =
                self.peers.iter().enumerate().find_map(|(at, peer)| Some((at, peer.next()?)));
            found = next.map(|(at, frame)| {
                assert_eq!(frame, asking(frame.cid));
                (at, frame.cid)
            });
            found.is_some()
        });
        found.expect("it came")
    }
}

fn exhausted(service: &Service, count: u32) {
    service.until_metric("lineway_mux_parents_exhausted", &[("node", "mux")], f64::from(count));
}

/// Ends a child from the server's side, and its client.
#[track_caller]
fn end(service: &Service, peer: &mut Peer, cid: u32, mut client: TcpStream) {
    let before = service.metric("lineway_mux_children_open", &[("node", "mux")]);
    peer.send([close(cid)]);
    assert_eq!(read_all(&mut client), b"");
    drop(client);
    service.until_metric("lineway_mux_children_open", &[("node", "mux")], before - 1.0);
}

#[test]
fn mux_m11_counter_counts_closed_children_and_m12_an_exhausted_parent_ends_with_its_last() {
    let far = Far::new();
    let service = client_to(far.address, &counter(3), "");
    let mut all = Many::new(far);
    let mut clients = Vec::new();
    for cid in 1..=3 {
        clients.push(connect(service.at("in")));
        assert_eq!(all.open(), (0, cid));
        if cid == 1 {
            // Closed ones are counted.
            end(&service, &mut all.peers[0], 1, clients.remove(0));
        }
    }
    exhausted(&service, 1);
    clients.push(connect(service.at("in")));
    assert_eq!(all.open(), (1, 1), "the fourth child has another parent");
    // The children of the exhausted one live on.
    for (cid, client) in [(2, 0), (3, 1)] {
        all.peers[0].send([data(cid, "alive")]);
        assert_eq!(read(&mut clients[client], 5), b"alive");
    }
    parents(&service, "mux", 2);
    end(&service, &mut all.peers[0], 2, clients.remove(0));
    assert!(!all.peers[0].has_ended());
    end(&service, &mut all.peers[0], 3, clients.remove(0));
    all.peers[0].ended();
    all.peers.remove(0);
    parents(&service, "mux", 1);
    exhausted(&service, 0);
    assert!(all.far.waiting().is_none());
}

#[test]
fn mux_m11_timer_counts_from_the_making_and_m12_an_empty_one_ends_at_that_moment() {
    let far = Far::new();
    let service = client_to(far.address, &timer(400), "");
    let mut all = Many::new(far);
    let begun = Instant::now();
    let first = connect(service.at("in"));
    assert_eq!(all.open(), (0, 1));
    end(&service, &mut all.peers[0], 1, first);
    // Without a child it ends by itself, and no next child is needed for that.
    all.peers[0].ended();
    assert!(begun.elapsed() >= Duration::from_millis(400), "{:?}", begun.elapsed());
    all.peers.clear();
    parents(&service, "mux", 0);

    let mut old = connect(service.at("in"));
    assert_eq!(all.open(), (0, 1));
    exhausted(&service, 1);
    let _young = connect(service.at("in"));
    assert_eq!(all.open(), (1, 1));
    all.peers[0].send([data(1, "old")]);
    assert_eq!(read(&mut old, 3), b"old");
    end(&service, &mut all.peers[0], 1, old);
    all.peers[0].ended();
    closed(&service, "mux", "peer-closed", 2);
}

#[test]
fn mux_m13_fixed_opens_all_with_the_first_and_gives_to_the_fewest_in_turn() {
    let far = Far::new();
    let service = client_to(far.address, &fixed(3), "");
    let mut all = Many::new(far);
    // Slots are told apart by the order in which they get children.
    let mut clients: Vec<_> = vec![Some(connect(service.at("in")))];
    all.take(3);
    let mut places = vec![all.open()];
    parents(&service, "mux", 3);
    for _ in 1..6 {
        clients.push(Some(connect(service.at("in"))));
        places.push(all.open());
    }
    let slots: Vec<_> = places[..3].iter().map(|(peer, _)| *peer).collect();
    let slot = |peer: usize| slots.iter().position(|own| *own == peer).expect("one of three");
    let order: Vec<_> = places.iter().map(|(peer, cid)| (slot(*peer), *cid)).collect();
    assert_eq!(order, [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2)]);
    // Both children of slot 1 end.
    for child in [1, 4] {
        let (peer, cid) = places[child];
        let client = clients[child].take().expect("it is open");
        end(&service, &mut all.peers[peer], cid, client);
    }
    let mut next = || {
        clients.push(Some(connect(service.at("in"))));
        let (peer, cid) = all.open();
        (slot(peer), cid)
    };
    assert_eq!([next(), next(), next()], [(1, 3), (1, 4), (2, 3)]);
    assert!(all.far.waiting().is_none(), "no more than three");
    // A dead slot is filled again by the next child.
    let dead = slots[0];
    all.peers.remove(dead);
    parents(&service, "mux", 2);
    clients.push(Some(connect(service.at("in"))));
    let (peer, cid) = all.open();
    assert_eq!((peer, cid, all.peers.len()), (2, 1, 3), "a parent of its own");
    parents(&service, "mux", 3);
}

#[test]
fn mux_m10_every_worker_has_its_own_parents() {
    let nodes = client_listener() + &mux_client("out", &fixed(2), "");
    let far = Far::new();
    let three = "[service]\nworkers = 3\n".to_owned();
    let service = Service::start(&(three + &nodes + &connector("out", far.address, "")));
    let mut all = Many::new(far);
    let mut clients = Vec::new();
    let mut used = std::collections::BTreeMap::<usize, u32>::new();
    for _ in 0..60 {
        clients.push(connect(service.at("in")));
        let (peer, cid) = all.open();
        let last = used.entry(peer).or_default();
        *last += 1;
        assert_eq!(cid, *last, "M07 on each parent");
    }
    // Sixty clients on three workers: each worker got some.
    parents(&service, "mux", 6);
    until("six connections", || {
        let waiting = all.far.waiting();
        all.peers.extend(waiting.map(Peer::on));
        all.peers.len() == 6
    });
}

/// The number of the only line of a kind.
#[track_caller]
fn line_id(service: &Service, kind: &str) -> String {
    let mut id = None;
    until("one such line", || {
        let page: Value = service.json("/api/lines");
        let lines = page["lines"].as_array().expect("lines");
        let mut such = lines.iter().filter(|line| text(line, "kind") == kind);
        id = such.next().map(|line| text(line, "id").to_owned());
        id.is_some() && such.next().is_none()
    });
    id.expect("it is there")
}

#[track_caller]
fn close_by_hand(service: &Service, id: &str) {
    let path = format!("/api/lines/{id}/close");
    let reply = ask(service.admin(), "POST", &path, "X-Lineway: 1\r\nContent-Length: 0\r\n");
    assert!((200..300).contains(&reply.status), "{}", reply.text());
}

#[test]
fn a_parent_of_a_client_that_is_closed_by_hand_ends_with_its_last_child() {
    let far = Far::new();
    let service = client_to(far.address, &counter(100), "");
    let mut all = Many::new(far);
    let mut old = connect(service.at("in"));
    assert_eq!(all.open(), (0, 1));
    close_by_hand(&service, &line_id(&service, "parent"));
    exhausted(&service, 1);
    let _young = connect(service.at("in"));
    assert_eq!(all.open(), (1, 1), "no further child");
    send(&mut old, "goes on");
    assert_eq!(all.peers[0].payload(1, 7), b"goes on");
    end(&service, &mut all.peers[0], 1, old);
    all.peers[0].ended();
    all.peers.remove(0);
    parents(&service, "mux", 1);
    exhausted(&service, 0);
}

#[test]
fn a_parent_that_is_closed_by_hand_ends_after_the_drain_limit_at_the_latest() {
    let far = Far::new();
    let drain = "[service]\nworkers = 1\ndrain-timeout-ms = 500\n".to_owned();
    let nodes = client_listener() + &mux_client("out", &counter(100), "");
    let service = Service::start(&(drain + &nodes + &connector("out", far.address, "")));
    let mut client = connect(service.at("in"));
    let peer = Peer::on(far.accept());
    peer.expect([asking(1)]);
    let begun = Instant::now();
    close_by_hand(&service, &line_id(&service, "parent"));
    ended(&mut client);
    peer.expect([close(1)]);
    peer.ended();
    let took = begun.elapsed();
    assert!((500..2000).contains(&took.as_millis()), "{took:?}");
    drop((peer, client));
    closed(&service, "mux", "admin", 1);
    no_child_left(&service);
    parents(&service, "mux", 0);
}

#[test]
fn a_parent_of_a_server_that_is_closed_by_hand_takes_no_further_child() {
    let service = server_to(echo(), "");
    let mut peer = Peer::connect(service.at("in"));
    peer.send([open(1), data(1, "one")]);
    peer.expect([data(1, "one")]);
    // It came by a listener.
    close_by_hand(&service, &line_id(&service, "main"));
    service.until_metric("lineway_mux_parents_exhausted", &[("node", "demux")], 1.0);
    peer.send([open(2), data(2, "two"), data(1, "more")]);
    assert_eq!(peer.frame(), close(2));
    peer.expect([data(1, "more")]);
    peer.send([close(1)]);
    peer.ended();
    drop(peer);
    no_child_left(&service);
    parents(&service, "demux", 0);
}

#[test]
fn sigterm_drains_parents_with_their_children() {
    for late in [false, true] {
        let far = Far::new();
        let limit = if late { 700 } else { 60_000 };
        let drain = format!("[service]\nworkers = 1\ndrain-timeout-ms = {limit}\n");
        let nodes = client_listener() + &mux_client("out", &counter(100), "");
        let mut service = Service::start(&(drain + &nodes + &connector("out", far.address, "")));
        let mut client = connect(service.at("in"));
        let mut peer = Peer::on(far.accept());
        peer.expect([asking(1)]);
        peer.send([answer(1)]);
        let begun = Instant::now();
        service.signal(Signal::TERM);
        until("no new lines", || TcpStream::connect(service.at("in")).is_err());
        // The child goes on.
        send(&mut client, "still");
        assert_eq!(peer.payload(1, 5), b"still");
        peer.send([data(1, "there")]);
        assert_eq!(read(&mut client, 5), b"there");
        if late {
            ended(&mut client);
            assert!(begun.elapsed() >= Duration::from_millis(700), "{:?}", begun.elapsed());
        } else {
            finish(&client);
            peer.expect([fin(1)]);
            peer.send([data(1, "last"), fin(1)]);
            assert_eq!(read_all(&mut client), b"last");
            drop(client);
        }
        assert_eq!(service.wait(PATIENCE).code(), Some(0));
        // The end of the parent is the end of its children: no Close is owed.
        peer.ended();
    }
}

#[test]
fn sigterm_drains_the_children_of_a_server() {
    let mut service = server_to(echo(), "");
    let mut peer = Peer::connect(service.at("in"));
    peer.send([asking(1), data(1, "one")]);
    peer.expect([answer(1), data(1, "one")]);
    service.signal(Signal::TERM);
    until("no new parents", || TcpStream::connect(service.at("in")).is_err());
    peer.send([data(1, "more")]);
    peer.expect([data(1, "more")]);
    peer.send([fin(1)]);
    peer.expect([fin(1)]);
    assert_eq!(service.wait(PATIENCE).code(), Some(0));
    peer.ended();
}

/// A server that answers each byte with its own name.
fn named(name: &'static str) -> std::net::SocketAddr {
    serve(move |mut stream| {
        while let Ok(1..) = std::io::Read::read(&mut stream, &mut [0; 16]) {
            send(&mut stream, name);
        }
    })
}

#[test]
fn a_reload_behind_a_client_gives_new_children_the_new_way_and_old_ones_live_on() {
    let [old, new] = ["old", "new"].map(|name| server_to(named(name), ""));
    let nodes = |to: &Service| {
        ONE_WORKER.to_owned()
            + &client_listener()
            + &mux_client("out", &counter(100), "")
            + &connector("out", to.at("in"), "")
    };
    let service = Service::start(&nodes(&old));
    let ask = |client: &mut TcpStream| {
        send(client, "?");
        String::from_utf8(read(client, 3)).expect("a name")
    };
    let mut before = connect(service.at("in"));
    assert_eq!(ask(&mut before), "old");
    service.reload_and_wait(&nodes(&new));
    let mut after = connect(service.at("in"));
    assert_eq!(ask(&mut after), "new");
    assert_eq!(ask(&mut before), "old");
    drop(before);
    // The parent of the old way goes with its last child.
    parents(&service, "mux", 1);
    parents(&old, "demux", 0);
    assert_eq!(ask(&mut after), "new");
    // Back to the old one, twice: nothing piles up.
    for _ in 0..2 {
        for (to, name) in [(&old, "old"), (&new, "new")] {
            service.reload_and_wait(&nodes(to));
            assert_eq!(ask(&mut connect(service.at("in"))), name);
        }
    }
    drop(after);
    no_child_left(&service);
    parents(&service, "mux", 1);
}

#[test]
fn a_reload_that_changes_nothing_of_a_client_keeps_its_parents() {
    let far = server_to(echo(), "");
    let nodes = |level: &str| {
        format!("[service]\nworkers = 1\ndrain-timeout-ms = {level}\n")
            + &client_listener()
            + &mux_client("out", &counter(100), "")
            + &connector("out", far.at("in"), "")
    };
    let service = Service::start(&nodes("1000"));
    let mut first = connect(service.at("in"));
    echoed(&mut first, "one");
    service.reload_and_wait(&nodes("2000"));
    let mut second = connect(service.at("in"));
    echoed(&mut second, "two");
    echoed(&mut first, "more");
    let opened = service.metric("lineway_lines_opened_total", &[("kind", "parent")]);
    assert!(opened.total_cmp(&1.0).is_eq(), "{opened} parents");
    parents(&service, "mux", 1);
}
