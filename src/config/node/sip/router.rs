//! Settings of a `SipRouter`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lineway_actors::settings::{
    DispatcherTarget, Location, NodeSettings, SipListenerSettings, SipMode, SipRouterSettings,
    StatefulSettings, UnmatchedCancel, built_in_script,
};
use lineway_actors::sip::script::{Script, Source};
use lineway_actors::sip::users::Users;
use lineway_wire::units::{ByteCount, Millis};

use super::super::Table;
use super::super::tcp::network;
use super::users;
use crate::config::problem::visible;
use crate::config::reader::{Value, did_you_mean};
use crate::suggest::nearest;

const SCRIPT: &str = "script";
const MODE: &str = "mode";
const TIMER1: &str = "retr-timer1-ms";

/// No script and no file of users is longer; something else was named by mistake.
const LONGEST_FILE: u64 = 8 << 20;
/// Seconds of a registration that a header can say.
const MOST_EXPIRES: i64 = u32::MAX as i64;

/// Settings of a `SipRouter`.
pub(crate) fn router(table: &mut Table<'_>) -> Option<NodeSettings> {
    let default = SipRouterSettings::default();
    let script = script(table);
    let mode = mode(table);
    let script_time_limit = table.millis("script-time-limit-ms", 50, 1);
    let resolve_timeout = table.millis("resolve-timeout-ms", 2000, 1);
    let script_memory = table.get("script-memory-bytes").and_then(|value| {
        let least = i64::from(SipRouterSettings::LEAST_MEMORY);
        value.bytes_of(least..=1 << 40)
    });
    let append_fromtag = table.boolean("append-fromtag", default.append_fromtag);
    let dns_failover = table.boolean("dns-failover", default.dns_failover);
    let udp_mtu = table.get("udp-mtu").and_then(|value| udp_mtu(&value));
    let branches = 1..=i64::from(SipRouterSettings::MOST_BRANCHES);
    let max_branches = count(table, "max-branches", branches, default.max_branches);
    let entries = 1..=i64::from(SipRouterSettings::MOST_ENTRIES);
    let max_htable_entries =
        count(table, "max-htable-entries", entries, default.max_htable_entries);
    let addresses = sets(table, "addresses", NETWORKS, network);
    let dispatcher = sets(table, "dispatcher", TARGETS, DispatcherTarget::parse);
    let stateful = stateful(table);
    let settings = SipRouterSettings {
        script: script?,
        mode: mode?,
        script_time_limit,
        resolve_timeout,
        script_memory: script_memory.unwrap_or(default.script_memory),
        append_fromtag,
        dns_failover,
        udp_mtu: udp_mtu.unwrap_or(default.udp_mtu),
        max_branches,
        max_htable_entries,
        addresses: addresses?,
        dispatcher: dispatcher?,
        stateful: stateful?,
    };
    try_script(table, &settings)?;
    Some(NodeSettings::SipRouter(Arc::new(settings)))
}

/// Loads the script as each worker will. `None` when it can not be, which is noted then.
fn try_script(table: &Table<'_>, settings: &SipRouterSettings) -> Option<()> {
    match Script::load(&settings.script, settings.limits()) {
        Ok(_) => Some(()),
        Err(error) => {
            let what = match error.line {
                0 => format!("{}: {}", error.file, error.message),
                _ => error.to_string(),
            };
            table.clash(SCRIPT, what);
            None
        }
    }
}

/// `script`: its file is read. `None` when a problem was noted.
fn script(table: &mut Table<'_>) -> Option<Source> {
    const EXPECTED: &str = "string, the path of a Lua file";
    let Some(value) = table.get(SCRIPT) else {
        return Some(built_in_script());
    };
    let path = path(&value, EXPECTED)?;
    let bytes = contents(&value, &path, "the script")?;
    let name = path.to_string_lossy();
    Some(Source { name: Arc::from(&*name), text: Arc::from(bytes) })
}

/// A path, relative to the folder of the configuration.
fn path(value: &Value<'_>, expected: &str) -> Option<PathBuf> {
    let right = |text: &str| (!text.is_empty() && !text.contains('\0')).then(|| text.to_owned());
    let written = value.parsed(expected, right)?;
    Some(value.folder().join(written))
}

/// What is in a file.
fn contents(value: &Value<'_>, path: &Path, what: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take(LONGEST_FILE + 1).read_to_end(&mut bytes))
        .map(|_| bytes);
    match read {
        Ok(bytes) if bytes.len() as u64 <= LONGEST_FILE => Some(bytes),
        Ok(_) => {
            let path = visible(&path.to_string_lossy());
            value.clash(format!("{what} {path} is longer than {LONGEST_FILE} bytes"));
            None
        }
        Err(error) => {
            let path = visible(&path.to_string_lossy());
            value.clash(format!("{what} {path} can not be read: {error}"));
            None
        }
    }
}

/// `mode`, which is for the built-in script. `None` when a problem was noted.
fn mode(table: &mut Table<'_>) -> Option<SipMode> {
    let Some(value) = table.get(MODE) else {
        return Some(SipRouterSettings::default().mode);
    };
    let words = [SipMode::Stateless, SipMode::Stateful].map(|mode| (mode.as_str(), mode));
    let mode = value.choice(&words)?;
    if table.has(SCRIPT) {
        table.warn(MODE, "it has no effect, it is for the built-in script");
    }
    Some(mode)
}

/// `udp-mtu`: 0, or what every host takes at least.
fn udp_mtu(value: &Value<'_>) -> Option<ByteCount> {
    let (least, most) = (SipRouterSettings::LEAST_MTU, SipListenerSettings::MOST_MESSAGE);
    let expected = format!("number ({least} to {most}), or 0 = off");
    let bytes = match value.as_integer() {
        Some(0) => 0,
        _ => value.integer(i64::from(least)..=i64::from(most), &expected)?,
    };
    Some(ByteCount::new(bytes.unsigned_abs()))
}

/// What only transactions, the registrar and authentication use. `None` when a problem was noted.
fn stateful(table: &mut Table<'_>) -> Option<StatefulSettings> {
    let default = StatefulSettings::default();
    let millis = |table: &mut Table<'_>, name: &'static str, default: Millis, least: i64| {
        table.get(name).and_then(|value| value.millis(least)).unwrap_or(default)
    };
    let retr_timer1 = millis(table, TIMER1, default.retr_timer1, 1);
    let retr_timer2 = retr_timer2(table, retr_timer1);
    let unmatched_cancel = table.get("unmatched-cancel").and_then(|value| {
        value.choice(&[
            ("relay", UnmatchedCancel::Relay),
            ("stateless", UnmatchedCancel::Stateless),
            ("drop", UnmatchedCancel::Drop),
        ])
    });
    let cancel_b_method = table.number("cancel-b-method", 0..=2);
    let min_expires = count(table, "min-expires", 0..=MOST_EXPIRES, default.min_expires);
    let max_expires = max_expires(table, min_expires);
    let entries = 1..=i64::from(SipRouterSettings::MOST_ENTRIES);
    let realm = table.get("realm").and_then(|value| value.parsed(users::REALM, users::realm));
    let users = table.get("users").map(|value| users(&value, realm.as_deref()));
    Some(StatefulSettings {
        fr_timer: millis(table, "fr-timer-ms", default.fr_timer, 1),
        fr_inv_timer: millis(table, "fr-inv-timer-ms", default.fr_inv_timer, 1),
        retr_timer1,
        retr_timer2,
        wt_timer: millis(table, "wt-timer-ms", default.wt_timer, 1),
        max_inv_lifetime: millis(table, "max-inv-lifetime-ms", default.max_inv_lifetime, 1),
        max_noninv_lifetime: millis(
            table,
            "max-noninv-lifetime-ms",
            default.max_noninv_lifetime,
            1,
        ),
        relay_503: table.boolean("relay-503", default.relay_503),
        prefer_real_replies: table.boolean("prefer-real-replies", default.prefer_real_replies),
        cancel_b_method: cancel_b_method
            .and_then(|method| u8::try_from(method).ok())
            .unwrap_or(default.cancel_b_method),
        unmatched_cancel: unmatched_cancel.unwrap_or(default.unmatched_cancel),
        rfc6026: table.boolean("rfc6026", default.rfc6026),
        rfc4320: table.boolean("rfc4320", default.rfc4320),
        loop_detection: table.boolean("loop-detection", default.loop_detection),
        max_breadth: count(table, "max-breadth", 0..=65_535, default.max_breadth),
        strict_answers: table.boolean("strict-answers", default.strict_answers),
        min_expires,
        max_expires,
        max_contacts: count(table, "max-contacts", 0..=100_000, default.max_contacts),
        dispatcher_ping: millis(table, "dispatcher-ping-ms", default.dispatcher_ping, 0),
        max_transactions: count(
            table,
            "max-transactions",
            entries.clone(),
            default.max_transactions,
        ),
        max_bindings: count(table, "max-bindings", entries, default.max_bindings),
        location: location(table)?,
        users: match users {
            None => Arc::default(),
            Some(users) => Arc::new(users?),
        },
        realm,
    })
}

fn count(
    table: &mut Table<'_>,
    name: &'static str,
    range: RangeInclusive<i64>,
    default: u32,
) -> u32 {
    table.number(name, range).and_then(|count| u32::try_from(count).ok()).unwrap_or(default)
}

/// `retr-timer2-ms`: not below the first interval.
fn retr_timer2(table: &mut Table<'_>, timer1: Millis) -> Millis {
    let default = StatefulSettings::default().retr_timer2.max(timer1);
    let Some(value) = table.get("retr-timer2-ms") else {
        return default;
    };
    let timer2 = value.millis(1).unwrap_or(default);
    if timer2 < timer1 {
        let left_out = if table.has(TIMER1) { "" } else { ", its default" };
        value.wrong(&format!("milliseconds, not below {TIMER1} ({}{left_out})", timer1.get()));
    }
    timer2
}

/// `max-expires`: 0, or not below `min-expires`.
fn max_expires(table: &mut Table<'_>, min: u32) -> u32 {
    let Some(value) = table.get("max-expires") else {
        return 0;
    };
    let expected = format!("number ({min} to {MOST_EXPIRES}), or 0 = no limit");
    let most = match value.as_integer() {
        Some(0) => Some(0),
        _ => value.integer(i64::from(min)..=MOST_EXPIRES, &expected),
    };
    most.and_then(|most| u32::try_from(most).ok()).unwrap_or(0)
}

/// `users`: a TOML file. `None` when a problem was noted.
fn users(value: &Value<'_>, realm: Option<&str>) -> Option<Users> {
    let path = path(value, "string, the path of a TOML file")?;
    let bytes = contents(value, &path, "the file of users")?;
    match users::users(&bytes, &path, realm) {
        Ok(users) => Some(users),
        Err(lines) => {
            for line in lines {
                value.clash(line);
            }
            None
        }
    }
}

/// `location`. `None` when a problem was noted.
fn location(table: &mut Table<'_>) -> Option<Location> {
    const EXPECTED: &str = "\"memory\", or \"redb:FILE\"";
    let Some(value) = table.get("location") else {
        return Some(Location::Memory);
    };
    let text = value.text().unwrap_or_default();
    if let Some(file) = text.strip_prefix("redb:").filter(|file| !file.is_empty()) {
        return Some(Location::Redb(value.folder().join(file)));
    }
    match text {
        "memory" => return Some(Location::Memory),
        text if text.starts_with("redis:") || text.starts_with("rediss:") => {
            value.wrong_but(EXPECTED, Some("redis comes later".to_owned()));
        }
        text => value.wrong_but(EXPECTED, nearest(text, ["memory", "redb:"]).map(did_you_mean)),
    }
    None
}

/// What a table of numbered sets has, for messages.
struct Sets {
    table: &'static str,
    array: &'static str,
    element: &'static str,
}

const NETWORKS: Sets = Sets {
    table: "table of groups, such as { 1 = [\"10.0.0.0/8\"] }",
    array: "array of IP addresses and networks such as \"10.0.0.0/8\"",
    element: "IP address or network, \"10.0.0.0/8\"",
};
const TARGETS: Sets = Sets {
    table: "table of sets, such as { 1 = [\"sip:192.0.2.1:5060\"] }",
    array: "array of SIP URIs such as \"sip:192.0.2.1:5060\"",
    element: "SIP URI such as \"sip:192.0.2.1:5060\"",
};

/// A table whose keys are numbers; empty where it is left out. `None` when a problem was noted.
fn sets<T>(
    table: &mut Table<'_>,
    name: &'static str,
    words: Sets,
    read: fn(&str) -> Option<T>,
) -> Option<BTreeMap<u32, Vec<T>>> {
    let Some(value) = table.get(name) else {
        return Some(BTreeMap::new());
    };
    let mut sets = BTreeMap::new();
    let mut all_right = true;
    for (key, set) in value.entries(words.table)? {
        // Another spelling of a number would be a second set of it.
        let number = key.parse().ok().filter(|number: &u32| number.to_string() == key);
        let Some(number) = number else {
            set.clash("the key is no number (0 to 4294967295)");
            all_right = false;
            continue;
        };
        let elements = set.elements(words.array);
        let count = elements.as_ref().map(Vec::len);
        let elements = elements.into_iter().flatten();
        let of_set: Vec<_> = elements.filter_map(|at| at.parsed(words.element, read)).collect();
        if count == Some(0) {
            set.wrong(words.array);
        }
        all_right &= count == Some(of_set.len()) && count != Some(0);
        sets.insert(number, of_set);
    }
    all_right.then_some(sets)
}
