//! Whole calls in virtual time: a caller, the proxy's machines, phones, and a network between them
//! that loses, copies, delays and swaps. Every message is bytes and is matched as such.

use std::time::Duration;

use super::{Options, Timing};

mod net;
mod peers;
mod property;
mod proxy;
mod scenarios;
mod world;

const TIMING: Timing = Timing {
    fr: Duration::from_secs(3),
    fr_inv: Duration::from_secs(5),
    t1: Duration::from_millis(500),
    t2: Duration::from_secs(4),
    wt: Duration::from_secs(5),
    max_inv: Duration::from_secs(180),
    max_noninv: Duration::from_secs(32),
};

const OPTIONS: Options = Options {
    relay_503: false,
    prefer_real_replies: false,
    cancel_b_method: 1,
    rfc6026: false,
    rfc4320: false,
};

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
