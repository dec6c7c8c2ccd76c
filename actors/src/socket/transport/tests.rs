//! Endpoints on real sockets: binding, dialling, and binding again.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lineway_wire::dial::DialError;
use lineway_wire::zmp::endpoint::Endpoint;
use lineway_wire::zmp::outcome::{BindResult, Errno};
use lineway_wire::zmp::{RoutingId, SocketKind};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::LocalSet;

use super::{Arrived, Listening, Stream, dial};
use crate::dns::StaticNames;
use crate::metrics::Metrics;
use crate::net::{KernelNetwork, Socket};
use crate::socket::{Inproc, SocketEnv, SocketOptions, Total};
use crate::testkit::{Dials, Outcome};

fn env() -> SocketEnv {
    SocketEnv {
        network: Rc::new(KernelNetwork),
        names: Rc::new(StaticNames::new()),
        inproc: Inproc::default(),
        actors: Metrics::new("test").actors().clone(),
        total: Arc::new(Total::default()),
    }
}

fn options() -> SocketOptions {
    SocketOptions::new(SocketKind::Dealer, RoutingId::new("own").unwrap())
}

fn endpoint(text: &str) -> Endpoint {
    text.parse().unwrap()
}

async fn bind(text: &str, env: &SocketEnv) -> Listening {
    Listening::bind(&endpoint(text), &options(), env).await.unwrap()
}

async fn bind_error(text: &str, env: &SocketEnv) -> (BindResult, Errno) {
    let error = Listening::bind(&endpoint(text), &options(), env).await.unwrap_err();
    (error.result, error.errno)
}

/// Dials a bound endpoint; both ends of the connection.
async fn connect(listening: &mut Listening, env: &SocketEnv) -> (Arrived, Arrived) {
    let dialling = dial(listening.endpoint().clone(), Rc::new(options()), env.clone());
    let (dialled, accepted) = tokio::join!(dialling, poll_fn(|cx| listening.poll_accept(cx)));
    (dialled.unwrap(), accepted.unwrap())
}

async fn talk(one: &mut Arrived, other: &mut Arrived) {
    one.stream.write_all(b"there").await.unwrap();
    other.stream.write_all(b"back").await.unwrap();
    let mut got = [0; 5];
    other.stream.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"there");
    let mut got = [0; 4];
    one.stream.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"back");
}

#[tokio::test]
async fn endpoint_each_transport_carries_both_ways_and_tells_its_real_place() {
    let env = env();
    for text in ["tcp://127.0.0.1:0", "tcp://*:*", "ipc://*", "inproc://a"] {
        let mut listening = bind(text, &env).await;
        assert!(listening.endpoint().is_complete(), "{listening:?}");
        assert_eq!(endpoint(listening.name()), *listening.endpoint());
        let (mut dialled, mut accepted) = connect(&mut listening, &env).await;
        talk(&mut dialled, &mut accepted).await;
        assert_eq!(accepted.local, *listening.name());
        if text.starts_with("tcp://127") {
            assert_eq!(dialled.remote, *listening.name());
            assert_eq!(dialled.local, accepted.remote);
        }
    }
}

#[tokio::test]
async fn endpoint_a_taken_place_is_in_use_and_free_again_right_after_its_unbind() {
    let env = env();
    for text in ["tcp://127.0.0.1:0", "ipc://*", "inproc://a"] {
        let mut listening = bind(text, &env).await;
        let name = listening.name().to_string();
        assert_eq!(bind_error(&name, &env).await, (BindResult::InUse, Errno::EADDRINUSE));
        for _ in 0..3 {
            // Connections of the old one, open and closed, are in nobody's way.
            let (dialled, accepted) = connect(&mut listening, &env).await;
            drop(accepted);
            drop(listening);
            listening = bind(&name, &env).await;
            drop(dialled);
        }
    }
}

#[tokio::test]
async fn endpoint_ipc_replaces_the_file_of_a_dead_process_only() {
    let (env, folder) = (env(), tempfile::tempdir().unwrap());
    let path = folder.path().join("a.ipc");
    let text = format!("ipc://{}", path.display());

    drop(StdUnixListener::bind(&path).unwrap());
    assert!(path.exists(), "it is left behind");
    let listening = bind(&text, &env).await;
    drop(listening);
    assert!(!path.exists(), "an orderly unbind leaves nothing behind");

    let _alive = StdUnixListener::bind(&path).unwrap();
    assert_eq!(bind_error(&text, &env).await.0, BindResult::InUse);
    std::fs::remove_file(&path).unwrap();

    std::fs::write(&path, "a letter").unwrap();
    assert_eq!(bind_error(&text, &env).await.0, BindResult::InUse);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a letter");
    std::fs::remove_file(&path).unwrap();

    let listening = bind(&text, &env).await;
    std::fs::remove_file(&path).unwrap();
    let _other = StdUnixListener::bind(&path).unwrap();
    drop(listening);
    assert!(path.exists(), "the file of another one");
}

#[tokio::test]
async fn endpoint_ipc_paths_have_a_length() {
    let (env, folder) = (env(), tempfile::tempdir().unwrap());
    let base = folder.path().join("x");
    let longest = 107 - base.as_os_str().len();
    let path = format!("{}{}", base.display(), "y".repeat(longest));
    assert_eq!(path.len(), 107);
    let mut listening = bind(&format!("ipc://{path}"), &env).await;
    connect(&mut listening, &env).await;
    assert!(format!("ipc://{path}z").parse::<Endpoint>().is_err());
    let gone = format!("ipc://{}/none/a", folder.path().display());
    assert_eq!(bind_error(&gone, &env).await, (BindResult::InvalidArgument, Errno::ENOENT));
}

#[tokio::test]
async fn endpoint_a_place_of_another_machine_is_not_bound() {
    let (result, _) = bind_error("tcp://192.0.2.1:0", &env()).await;
    assert_eq!(result, BindResult::InvalidArgument);
    let (result, _) = bind_error("tcp://nowhere.invalid:0", &env()).await;
    assert_eq!(result, BindResult::InvalidArgument);
}

#[tokio::test]
async fn endpoint_names_are_resolved_to_bind_and_to_dial() {
    let names = StaticNames::new();
    names.set("here.test", &[Ipv4Addr::LOCALHOST.into()]);
    let env = SocketEnv { names: Rc::new(names), ..env() };
    let mut listening = bind("tcp://Here.Test:0", &env).await;
    let Endpoint::Tcp { port, .. } = *listening.endpoint() else { unreachable!("it is tcp") };
    let there = Endpoint::Tcp { host: "here.test.".into(), port };
    let dialling = dial(there, Rc::new(options()), env.clone());
    let (dialled, accepted) = tokio::join!(dialling, poll_fn(|cx| listening.poll_accept(cx)));
    talk(&mut dialled.unwrap(), &mut accepted.unwrap()).await;

    let nowhere = dial(endpoint("tcp://nowhere.test:1"), Rc::new(options()), env).await;
    assert_eq!(nowhere.unwrap_err(), DialError::NameNotFound);
}

#[tokio::test]
async fn endpoint_a_dial_nobody_answers_fails() {
    let env = env();
    let listening = bind("tcp://127.0.0.1:0", &env).await;
    let free = listening.endpoint().clone();
    drop(listening);
    let refused = dial(free, Rc::new(options()), env.clone()).await;
    assert_eq!(refused.unwrap_err(), DialError::Refused);
    let refused = dial(endpoint("ipc:///nowhere/a"), Rc::new(options()), env.clone()).await;
    assert_eq!(refused.unwrap_err(), DialError::Refused);
}

#[tokio::test(start_paused = true)]
async fn endpoint_connect_timeout_ends_a_dial() {
    let dials = Dials::new();
    let env = SocketEnv { network: Rc::new(dials.clone()), ..env() };
    let limited = SocketOptions { connect_timeout: Some(Duration::from_secs(3)), ..options() };
    let options = Rc::new(limited);
    dials.plan(Outcome::Hangs);
    for text in ["tcp://192.0.2.1:5", "inproc://nobody"] {
        let began = tokio::time::Instant::now();
        let late = dial(endpoint(text), Rc::clone(&options), env.clone()).await;
        assert_eq!(late.unwrap_err(), DialError::Timeout, "{text}");
        assert_eq!(began.elapsed().as_secs(), 3);
    }
    assert_eq!(dials.pending(), 0);
}

#[tokio::test]
async fn endpoint_accepted_and_dialled_sockets_find_out_that_a_peer_is_gone() {
    let env = env();
    let mut listening = bind("tcp://127.0.0.1:0", &env).await;
    let (dialled, accepted) = connect(&mut listening, &env).await;
    for Arrived { stream, .. } in [dialled, accepted] {
        let Stream::Tcp(Socket::Tcp(stream)) = stream else { unreachable!("it is the kernel's") };
        let kernel = SockRef::from(&stream);
        assert!(kernel.tcp_nodelay().unwrap() && kernel.keepalive().unwrap());
        assert_eq!(kernel.tcp_keepalive_time().unwrap(), Duration::from_secs(10));
        assert_eq!(kernel.tcp_user_timeout().unwrap(), Some(Duration::from_secs(30)));
    }
}

#[tokio::test]
async fn endpoint_a_socket_that_listens_already_is_taken_over() {
    let env = env();
    let socket = std::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let mut listening = Listening::adopt(socket, &options()).unwrap();
    let (mut dialled, mut accepted) = connect(&mut listening, &env).await;
    talk(&mut dialled, &mut accepted).await;
}

#[test]
fn case_z14_last_words_reach_a_peer_whose_bytes_nobody_wanted() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let env = env();
        for text in ["tcp://127.0.0.1:0", "ipc://*", "inproc://a"] {
            let mut listening = bind(text, &env).await;
            let (mut peer, accepted) = connect(&mut listening, &env).await;
            crate::socket::connection::tests::accept_for_good(accepted.stream);
            // It is over with the first of these, and the others are still on their way.
            for _ in 0..50 {
                if let Err(error) = peer.stream.write_all(&[0xfb; 10_000]).await {
                    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
                    break;
                }
            }
            let mut got = Vec::new();
            peer.stream.read_to_end(&mut got).await.expect("no reset");
            assert_eq!(crate::testkit::zmp::errors(&got), [1], "{text}");
        }
    });
}
