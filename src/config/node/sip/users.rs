//! `users` of a `SipRouter`: a TOML file of its own.
//!
//! What is wrong with it is told with its file, line and column, without what stands there: it may
//! be a password.

use std::path::Path;
use std::sync::Arc;

use lineway_actors::sip::users::{Secret, Users};
use lineway_actors::wire::sip::digest::{Algorithm, Hash, is_realm};

use super::super::Table;
use crate::config::problem::{Problem, Problems, visible};
use crate::config::reader::{Place, Reading, Value};
use crate::config::{LoadOptions, syntax};

const NAME: &str = "string of 1 to 255 bytes without control characters";
const PASSWORD: &str = "string of 1 to 255 bytes";
const HA1: &str = "table such as { md5 = \"...\", sha-256 = \"...\", sha-512-256 = \"...\" }";

/// What a realm can be.
pub(super) const REALM: &str =
    "string of 1 to 255 bytes without quotes, backslashes and control characters";

/// Reads the realm of a string.
pub(super) fn realm(text: &str) -> Option<Arc<str>> {
    let right = is_realm(text.as_bytes()) && !text.contains(char::is_control);
    right.then(|| Arc::from(text))
}

/// Reads a file of users; `realm` is theirs where they name none.
///
/// # Errors
/// What is wrong with it, one line each.
pub(super) fn users(bytes: &[u8], path: &Path, realm: Option<&str>) -> Result<Users, Vec<String>> {
    let name = path.to_string_lossy().into_owned();
    let lines = |text: String, list: Vec<Problem>| -> Vec<String> {
        Problems::new(name.clone(), text, list).lines().collect()
    };
    let Ok(text) = std::str::from_utf8(bytes) else {
        let (text, problems) = syntax::not_utf8(bytes);
        let shown = |problem| Problem { what: "not UTF-8".to_owned(), ..problem };
        return Err(lines(text, problems.into_iter().map(shown).collect()));
    };
    let (readable, errors) = syntax::readable(text);
    let parsed = syntax::parse(text, &readable, errors);
    let options = LoadOptions::default();
    let reading = Reading::new(text, &options);
    let users = read(Table::new(&parsed.table, 0..0, Place::default(), &reading), realm);
    let problems = parsed.with(text, reading.problems.into_inner());
    if problems.is_empty() { Ok(users) } else { Err(lines(text.to_owned(), problems)) }
}

/// The whole file.
fn read(mut root: Table<'_>, realm: Option<&str>) -> Users {
    let mut users = Users::default();
    // A file without users is one that somebody has yet to fill.
    let entries = root.get("user").and_then(|list| {
        let list = list.is_array().then_some(list.clone()).or_else(|| {
            list.clash("expected [[user]] for each user");
            None
        });
        list.and_then(|list| list.elements("[[user]] for each user"))
    });
    for entry in entries.into_iter().flatten() {
        if entry.as_table().is_none() {
            entry.clash("expected [[user]] for each user");
        } else if let Some(table) = entry.table("a table") {
            user(&entry, table, realm, &mut users);
        }
    }
    root.finish("a file of users", |_| None);
    users
}

fn user(entry: &Value<'_>, mut table: Table<'_>, default: Option<&str>, users: &mut Users) {
    let name = table.required("name", NAME).and_then(|value| value.parsed(NAME, self::name));
    let own_realm = table.get("realm").map(|value| value.parsed(REALM, realm));
    let password = table.get("password");
    let ha1 = table.get("ha1");
    let realm = match own_realm {
        None => default.map(Arc::from),
        Some(Some(realm)) => Some(realm),
        Some(None) => return table.finish("a user", |_| None),
    };
    let secret = match (password, ha1) {
        (Some(_), Some(ha1)) => {
            ha1.clash("there is a password already; write one of the two");
            None
        }
        (None, None) => {
            table.missing("password", PASSWORD, Some("or ha1, its hashes".to_owned()));
            None
        }
        (Some(value), None) => {
            let right = value.text().filter(|text| (1..=255).contains(&text.len()));
            if right.is_none() {
                value.clash(format!("expected {PASSWORD}"));
            }
            right.map(|text| Secret::Password(Arc::from(text)))
        }
        (None, Some(value)) if realm.is_none() => {
            value.clash("hashes are those of a realm, and neither realm here nor the setting realm is written");
            None
        }
        (None, Some(value)) => hashes(&value),
    };
    table.finish("a user", |_| None);
    if let (Some(name), Some(secret)) = (name, secret)
        && !users.add(Arc::clone(&name), realm, secret)
    {
        entry.clash(format!("there is a user {} of this realm already", visible(&name)));
    }
}

fn name(text: &str) -> Option<Arc<str>> {
    let right = (1..=255).contains(&text.len()) && !text.contains(char::is_control);
    right.then(|| Arc::from(text))
}

/// `ha1`: H(A1) of some algorithms.
fn hashes(value: &Value<'_>) -> Option<Secret> {
    if value.as_table().is_none() {
        value.clash(format!("expected {HA1}"));
        return None;
    }
    let mut table = value.table(HA1)?;
    let mut hashes = Vec::new();
    let mut wrong = false;
    for (name, algorithm) in [
        ("md5", Algorithm::Md5),
        ("sha-256", Algorithm::Sha256),
        ("sha-512-256", Algorithm::Sha512_256),
    ] {
        let Some(value) = table.get(name) else { continue };
        let hash = value.text().and_then(|text| Hash::parse(algorithm, text.as_bytes()));
        if let Some(hash) = hash {
            hashes.push(hash);
        } else {
            value.clash(format!("expected {} hexadecimal digits", algorithm.digits()));
            wrong = true;
        }
    }
    table.finish("ha1", |_| None);
    if hashes.is_empty() && !wrong {
        value.clash(format!("expected {HA1}"));
    }
    (!hashes.is_empty() && !wrong).then_some(Secret::Ha1(hashes))
}

#[cfg(test)]
mod tests;
