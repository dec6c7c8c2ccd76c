//! Connecting to an endpoint: names asked, addresses raced (RFC 8305, T10).

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lineway_wire::dial::{Dial, DialError, Step};
use lineway_wire::zmp::endpoint::Endpoint;
use smallvec::SmallVec;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Arrived, FAMILIES, Stream, endpoint_of, lower, socket_settings, vigilance};
use crate::dns::{Answer, Lookup, Names};
use crate::net::{ConnectOptions, Connecting, Early, Network, Socket, Vigilance};
use crate::socket::{SocketEnv, SocketOptions};

/// One dial without `CONNECT_TIMEOUT` takes so long at most: longer than the system tries.
const LONGEST: Duration = Duration::from_secs(300);

/// Connects to an endpoint, within `CONNECT_TIMEOUT`. Dropped, it is given up.
///
/// # Errors
/// Why no address answered.
pub async fn dial(
    endpoint: Endpoint,
    options: Rc<SocketOptions>,
    env: SocketEnv,
) -> Result<Arrived, DialError> {
    let longest = options.connect_timeout.unwrap_or(LONGEST);
    let named = |stream| {
        let name: Arc<str> = endpoint.to_string().into();
        Arrived { stream, local: Arc::clone(&name), remote: name }
    };
    match &endpoint {
        Endpoint::Tcp { port: None, .. } | Endpoint::Ipc(None) => Err(DialError::Other),
        Endpoint::Tcp { host, port: Some(port) } => {
            let mut race = Race::new(host, *port, &options, &env, Instant::now() + longest);
            let (socket, address) = race.run().await?;
            let remote = endpoint_of(address).to_string().into();
            let local = socket.local_addr().map(|address| endpoint_of(address).to_string());
            let local = local.unwrap_or_else(|| "tcp://".to_owned()).into();
            Ok(Arrived { stream: Stream::Tcp(socket), local, remote })
        }
        Endpoint::Ipc(Some(path)) => match timeout(longest, UnixStream::connect(path)).await {
            Ok(connected) => connected.map(Stream::Ipc).map(named).map_err(|e| error_of(&e)),
            Err(_) => Err(DialError::Timeout),
        },
        Endpoint::Inproc(name) => {
            // It waits for a bind, which may come whenever it likes.
            let connecting = env.inproc.connect(name);
            let connected = match options.connect_timeout {
                Some(longest) => {
                    timeout(longest, connecting).await.map_err(|_| DialError::Timeout)?
                }
                None => connecting.await,
            };
            connected.map(Stream::Inproc).map(named).map_err(|error| error_of(&error))
        }
    }
}

/// The addresses of one host, of which the first that answers wins.
struct Race<'a> {
    dial: Dial,
    network: &'a dyn Network,
    names: &'a dyn Names,
    name: Option<Arc<str>>,
    port: u16,
    lookup: Option<(usize, Lookup)>,
    attempts: SmallVec<[(SocketAddr, Connecting); 1]>,
    options: ConnectOptions,
    vigilance: Vigilance,
}

impl<'a> Race<'a> {
    fn new(
        host: &str,
        port: u16,
        options: &SocketOptions,
        env: &'a SocketEnv,
        deadline: Instant,
    ) -> Self {
        let mut dial = Dial::new(deadline.into_std());
        let (mut name, mut lookup) = (None, None);
        if let Ok(ip) = host.parse::<IpAddr>() {
            dial.add_address(SocketAddr::new(ip, port));
        } else {
            let asked = lower(host);
            lookup = Some((dial.add_name(FAMILIES), env.names.lookup(&asked, FAMILIES)));
            name = Some(asked);
        }
        Self {
            dial,
            network: &*env.network,
            names: &*env.names,
            name,
            port,
            lookup,
            attempts: SmallVec::new(),
            options: ConnectOptions {
                socket: socket_settings(options),
                source: None,
                fastopen: false,
                keepalive: false,
            },
            vigilance: vigilance(options),
        }
    }

    async fn run(&mut self) -> Result<(Socket, SocketAddr), DialError> {
        let mut sleep = pin!(sleep_until(Instant::now()));
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(result) = self.poll(cx) {
                    return Poll::Ready(result);
                }
                sleep.as_mut().reset(Instant::from_std(self.dial.next_wake()));
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(Socket, SocketAddr), DialError>> {
        let now = Instant::now().into_std();
        self.poll_name(cx, now);
        loop {
            if let Some((socket, address)) = self.poll_attempts(cx) {
                if let Socket::Tcp(stream) = &socket
                    && let Err(error) = self.vigilance.apply(stream)
                {
                    tracing::debug!(%address, %error, "a socket has not all of its options");
                }
                return Poll::Ready(Ok((socket, address)));
            }
            match self.dial.step(now) {
                Step::Start { address, .. } => {
                    let nothing = Early { bytes: &[], in_syn: false, asks: false };
                    match self.network.connect(address, &self.options, nothing) {
                        Ok((connecting, _)) => self.attempts.push((address, connecting)),
                        Err(error) => self.failed(address, &error),
                    }
                }
                Step::Wait => return Poll::Pending,
                Step::Failed(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn poll_name(&mut self, cx: &mut Context<'_>, now: std::time::Instant) {
        let Some((target, lookup)) = &mut self.lookup else {
            return;
        };
        while let Poll::Ready(answer) = lookup.poll_next(cx) {
            let Some(Answer { family, result }) = answer else {
                self.lookup = None;
                return;
            };
            match result {
                Ok(list) => {
                    let list: SmallVec<[SocketAddr; 8]> =
                        list.iter().map(|ip| SocketAddr::new(*ip, self.port)).collect();
                    self.dial.answer(now, *target, family, Ok(&list));
                }
                Err(error) => self.dial.answer(now, *target, family, Err(error.into())),
            }
        }
    }

    fn poll_attempts(&mut self, cx: &mut Context<'_>) -> Option<(Socket, SocketAddr)> {
        let mut at = 0;
        while let Some((address, connecting)) = self.attempts.get_mut(at) {
            let address = *address;
            match connecting.poll(cx) {
                Poll::Pending => at += 1,
                Poll::Ready(Ok(socket)) => return Some((socket, address)),
                Poll::Ready(Err(error)) => {
                    self.attempts.swap_remove(at);
                    self.failed(address, &error);
                }
            }
        }
        None
    }

    fn failed(&mut self, address: SocketAddr, error: &io::Error) {
        tracing::debug!(%address, %error, "connect failed");
        self.dial.failed(error_of(error));
        // The address behind the name may have changed: the next dial asks again.
        if let Some(name) = &self.name {
            self.names.distrust(name);
        }
    }
}

fn error_of(error: &io::Error) -> DialError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::NotConnected
        | io::ErrorKind::NotFound => DialError::Refused,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown => DialError::Unreachable,
        io::ErrorKind::TimedOut => DialError::Timeout,
        _ => DialError::Other,
    }
}
