//! Settings of the two ends of a connection race.

use lineway_actors::settings::{FisherClientSettings, FisherServerSettings, NodeSettings};

use super::Table;

/// Settings of a `ConnectionFisherClient`.
pub(super) fn client(table: &mut Table<'_>) -> NodeSettings {
    let tries = 1..=i64::from(FisherClientSettings::MOST_TRIES);
    let tries = table.number("simultaneous-tries-perline", tries);
    let settings = match tries.and_then(|tries| u32::try_from(tries).ok()) {
        Some(simultaneous_tries) => FisherClientSettings { simultaneous_tries },
        None => FisherClientSettings::default(),
    };
    NodeSettings::ConnectionFisherClient(settings)
}

/// Settings of a `ConnectionFisherServer`.
pub(super) fn server(table: &mut Table<'_>) -> NodeSettings {
    let server_first_delay = table.millis("server-first-delay-ms", 1000, 0);
    NodeSettings::ConnectionFisherServer(FisherServerSettings { server_first_delay })
}

#[cfg(test)]
mod tests;
