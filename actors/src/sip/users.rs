//! Who may authenticate (`users` of a `SipRouter`): names and what proves them, from a TOML file.
//!
//! Nothing here prints a password or a hash, and nobody outside gets one: what is asked is whether
//! credentials are right.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use lineway_wire::sip::digest::{Algorithm, Algorithms, Credentials, Hash};

#[cfg(test)]
mod tests;

/// What proves that somebody is a user.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The password, good for every algorithm.
    Password(Arc<str>),
    /// H(A1) of some algorithms, for the realm of the user.
    Ha1(Vec<Hash>),
}

impl Secret {
    fn algorithms(&self) -> Algorithms {
        match self {
            Self::Password(_) => Algorithms::ALL,
            Self::Ha1(hashes) => {
                hashes.iter().fold(Algorithms::NONE, |all, hash| all.with(hash.algorithm()))
            }
        }
    }

    fn ha1(&self, algorithm: Algorithm, user: &[u8], realm: &[u8]) -> Option<Hash> {
        match self {
            Self::Password(password) => {
                Some(Hash::ha1(algorithm, user, realm, password.as_bytes()))
            }
            Self::Ha1(hashes) => hashes.iter().find(|hash| hash.algorithm() == algorithm).copied(),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password(_) => "Password",
            Self::Ha1(_) => "Ha1",
        })
    }
}

/// What credentials are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// They are those of the user.
    Right,
    /// They are not.
    Wrong,
    /// There is no such user in the realm.
    UnknownUser,
}

/// Algorithms of several users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer {
    /// What each of them has.
    common: Algorithms,
    /// What one of them has.
    any: Algorithms,
}

impl Offer {
    const NOBODY: Self = Self { common: Algorithms::ALL, any: Algorithms::NONE };

    const fn and(self, other: Self) -> Self {
        Self { common: self.common.and(other.common), any: self.any.or(other.any) }
    }
}

/// The secret of a user in a realm.
type InRealm = (Option<Arc<str>>, Secret);

/// The users. `None` as realm stands for every realm.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Users {
    /// By name; for each realm one.
    by_name: HashMap<Arc<str>, Vec<InRealm>>,
    by_realm: HashMap<Option<Arc<str>>, Offer>,
}

impl Users {
    /// Adds a user; false where the realm has one of this name.
    pub fn add(&mut self, name: Arc<str>, realm: Option<Arc<str>>, secret: Secret) -> bool {
        let named = self.by_name.entry(name).or_default();
        if named.iter().any(|(there, _)| *there == realm) {
            return false;
        }
        let has = secret.algorithms();
        let offer = self.by_realm.entry(realm.clone()).or_insert(Offer::NOBODY);
        *offer = offer.and(Offer { common: has, any: has });
        named.push((realm, secret));
        true
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.values().map(Vec::len).sum()
    }

    /// True without a user.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The algorithms that a challenge for a realm offers: those that every user of it can be
    /// checked with, or where that is none those of somebody.
    pub fn algorithms(&self, realm: &[u8]) -> Algorithms {
        let of = |realm: Option<Arc<str>>| self.by_realm.get(&realm).copied();
        let own = std::str::from_utf8(realm).ok().and_then(|realm| of(Some(Arc::from(realm))));
        let offer = own.unwrap_or(Offer::NOBODY).and(of(None).unwrap_or(Offer::NOBODY));
        if offer.common.is_empty() { offer.any } else { offer.common }
    }

    /// What credentials for their realm are worth, in a request with this method and body. Who
    /// asks does not learn from the time whether there is such a user.
    pub fn prove(&self, credentials: &Credentials<'_>, method: &[u8], body: &[u8]) -> Proof {
        let (user, realm) = (&*credentials.username, &*credentials.realm);
        let algorithm = credentials.algorithm();
        let secret = std::str::from_utf8(user).ok().and_then(|user| self.secret(user, realm));
        let Some(secret) = secret else {
            let nobody = Hash::ha1(algorithm, user, realm, b"");
            credentials.prove(&nobody, method, body);
            return Proof::UnknownUser;
        };
        match secret.ha1(algorithm, user, realm) {
            Some(ha1) if credentials.prove(&ha1, method, body) => Proof::Right,
            _ => Proof::Wrong,
        }
    }

    /// The secret of a user in a realm, else in every realm.
    fn secret(&self, user: &str, realm: &[u8]) -> Option<&Secret> {
        let named = self.by_name.get(user)?;
        let own = named
            .iter()
            .find(|(there, _)| there.as_deref().is_some_and(|there| there.as_bytes() == realm));
        own.or_else(|| named.iter().find(|(there, _)| there.is_none())).map(|(_, secret)| secret)
    }
}

/// Their number alone.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} users", self.len())
    }
}
