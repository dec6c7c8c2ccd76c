//! Endpoints: where a socket binds and connects (4.4).

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use super::outcome::Errno;

/// Where a socket binds or connects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `tcp://host:port`.
    Tcp {
        /// A name or an address, an IPv6 one without its brackets; `*` means every address of the
        /// machine and can only be bound.
        host: Arc<str>,
        /// `None` (`*` or 0): a free one, to bind only.
        port: Option<u16>,
    },
    /// `ipc://path`; `None` (`*`): a free one, to bind only.
    Ipc(Option<PathBuf>),
    /// `inproc://name`.
    Inproc(Arc<str>),
}

/// Why a text is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// A transport that the contract names and Lineway does not have yet.
    #[error("the transport {0} comes later; tcp, ipc and inproc are there")]
    Later(String),
    /// A transport that nobody knows.
    #[error("there is no transport {0:?}; tcp, ipc and inproc are there")]
    Unknown(String),
    /// A transport that is there, and a wrong place.
    #[error("{text:?} is no endpoint: {why}")]
    Invalid {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl EndpointError {
    /// EPROTONOSUPPORT or EINVAL.
    pub const fn errno(&self) -> Errno {
        match self {
            Self::Later(_) | Self::Unknown(_) => Errno::EPROTONOSUPPORT,
            Self::Invalid { .. } => Errno::EINVAL,
        }
    }
}

impl Endpoint {
    /// It names one place: it can be connected to.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Tcp { host, port } => &**host != "*" && port.is_some(),
            Self::Ipc(path) => path.is_some(),
            Self::Inproc(_) => true,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => {
                f.write_str("tcp://")?;
                if host.contains(':') {
                    write!(f, "[{host}]:")?;
                } else {
                    write!(f, "{host}:")?;
                }
                match port {
                    Some(port) => write!(f, "{port}"),
                    None => f.write_str("*"),
                }
            }
            Self::Ipc(Some(path)) => write!(f, "ipc://{}", path.display()),
            Self::Ipc(None) => f.write_str("ipc://*"),
            Self::Inproc(name) => write!(f, "inproc://{name}"),
        }
    }
}

/// The longest path of a socket, in bytes: `sun_path` without its end.
const LONGEST_PATH: usize = 107;

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let invalid = |why| EndpointError::Invalid { text: text.to_owned(), why };
        let Some((transport, place)) = text.split_once("://") else {
            return Err(invalid("it has no transport, such as tcp://"));
        };
        match transport {
            "tcp" => tcp(place).map_err(invalid),
            "ipc" if place == "*" => Ok(Self::Ipc(None)),
            "ipc" | "inproc" if place.is_empty() => Err(invalid("it names nothing")),
            "ipc" if place.contains('\0') => Err(invalid("a path has no zero byte")),
            "ipc" if place.len() > LONGEST_PATH => {
                Err(invalid("the path of a socket has at most 107 bytes"))
            }
            "ipc" => Ok(Self::Ipc(Some(place.into()))),
            "inproc" => Ok(Self::Inproc(place.into())),
            "tls" | "ws" | "wss" => Err(EndpointError::Later(transport.to_owned())),
            _ => Err(EndpointError::Unknown(transport.to_owned())),
        }
    }
}

fn tcp(place: &str) -> Result<Endpoint, &'static str> {
    let Some((host, port)) = place.rsplit_once(':') else {
        return Err("it has no port, such as :5555, or :* for a free one");
    };
    let port = match port {
        "*" => None,
        _ if !port.bytes().all(|byte| byte.is_ascii_digit()) => {
            return Err("a port is a number, or * for a free one");
        }
        _ => {
            Some(port.parse::<u16>().map_err(|_| "a port is 0 to 65535")?).filter(|port| *port > 0)
        }
    };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match bracketed {
        Some(address) if address.parse::<std::net::Ipv6Addr>().is_err() => {
            return Err("there is no IPv6 address in the brackets");
        }
        Some(address) => address,
        None if host.contains(':') => return Err("an IPv6 address stands in brackets"),
        None if host.is_empty() => return Err("it has no host; * is every address"),
        None if host != "*"
            && host.contains(|c: char| "/*@?#[]".contains(c) || c.is_whitespace()) =>
        {
            return Err("the host is neither a name nor an address");
        }
        None => host,
    };
    Ok(Endpoint::Tcp { host: host.into(), port })
}

#[cfg(test)]
mod tests;
