//! Header names.

macro_rules! names {
    ($($name:ident $long:literal $($compact:literal)?,)*) => {
        /// Which header a line is; compact and long names are one (RFC 3261 7.3.3), case does not
        /// matter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "each is the header of its name")]
        pub enum Name {
            $($name,)*
            /// Any other name.
            Other,
        }

        /// Every name with its long form and its compact one.
        const NAMES: &[(Name, &str, Option<u8>)] =
            &[$((Name::$name, $long, names!(@ $($compact)?)),)*];
    };
    (@) => { None };
    (@ $compact:literal) => { Some($compact) };
}

names! {
    Via "Via" b'v',
    From "From" b'f',
    To "To" b't',
    CallId "Call-ID" b'i',
    CSeq "CSeq",
    Contact "Contact" b'm',
    MaxForwards "Max-Forwards",
    Route "Route",
    RecordRoute "Record-Route",
    ContentLength "Content-Length" b'l',
    ContentType "Content-Type" b'c',
    ContentEncoding "Content-Encoding" b'e',
    Expires "Expires",
    MinExpires "Min-Expires",
    Subject "Subject" b's',
    Supported "Supported" b'k',
    Require "Require",
    ProxyRequire "Proxy-Require",
    Unsupported "Unsupported",
    Allow "Allow",
    Accept "Accept",
    UserAgent "User-Agent",
    Server "Server",
    Authorization "Authorization",
    ProxyAuthorization "Proxy-Authorization",
    WwwAuthenticate "WWW-Authenticate",
    ProxyAuthenticate "Proxy-Authenticate",
    Event "Event" b'o',
    AllowEvents "Allow-Events" b'u',
    ReferTo "Refer-To" b'r',
    ReferredBy "Referred-By" b'b',
    SessionExpires "Session-Expires" b'x',
    Path "Path",
    Date "Date",
    Reason "Reason",
    AcceptContact "Accept-Contact" b'a',
    RejectContact "Reject-Contact" b'j',
    RequestDisposition "Request-Disposition" b'd',
    Identity "Identity" b'y',
    IdentityInfo "Identity-Info" b'n',
}

/// One more than the longest name.
const LENGTHS: usize = 20;

/// The places in [`NAMES`] of the names of each length and first letter (its lower five bits), at
/// most two; `u8::MAX` for none.
static BY_SHAPE: [[[u8; 2]; 32]; LENGTHS] = {
    let mut table = [[[u8::MAX; 2]; 32]; LENGTHS];
    let mut place = 0;
    while place < NAMES.len() {
        let name = NAMES[place].1.as_bytes();
        let cell = &mut table[name.len()][(name[0] & 31) as usize];
        // A third one would not compile.
        cell[(cell[0] != u8::MAX) as usize + (cell[1] != u8::MAX) as usize] = place as u8;
        place += 1;
    }
    table
};

/// The names that one letter stands for, by the letter's place in the alphabet.
static COMPACT: [Name; 26] = compact();

const fn compact() -> [Name; 26] {
    let mut table = [Name::Other; 26];
    let mut place = 0;
    while place < NAMES.len() {
        if let Some(letter) = NAMES[place].2 {
            table[(letter - b'a') as usize] = NAMES[place].0;
        }
        place += 1;
    }
    table
}

impl Name {
    /// The name that a text is, compact or long, in any case.
    pub fn of(text: &[u8]) -> Self {
        if let [letter] = text {
            let place = (letter | 0x20).wrapping_sub(b'a');
            return COMPACT.get(usize::from(place)).copied().unwrap_or(Self::Other);
        }
        let (Some(row), Some(first)) = (BY_SHAPE.get(text.len()), text.first()) else {
            return Self::Other;
        };
        for place in row[usize::from(first & 31)] {
            let Some((name, long, _)) = NAMES.get(usize::from(place)) else { break };
            let long = long.as_bytes();
            // Most are spelt as in the document.
            if long == text || long.eq_ignore_ascii_case(text) {
                return *name;
            }
        }
        Self::Other
    }

    /// The long name; empty for [`Name::Other`].
    pub fn as_str(self) -> &'static str {
        NAMES.get(self as usize).map_or("", |(_, long, _)| long)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sip_r019_compact_names_are_the_long_ones() {
        for (place, (name, long, compact)) in NAMES.iter().enumerate() {
            assert_eq!(*name as usize, place);
            assert_eq!(name.as_str(), *long);
            for text in [long.to_string(), long.to_lowercase(), long.to_uppercase()] {
                assert_eq!(Name::of(text.as_bytes()), *name);
            }
            if let Some(letter) = compact {
                assert_eq!(Name::of(&[*letter]), *name);
                assert_eq!(Name::of(&[letter.to_ascii_uppercase()]), *name);
            }
        }
    }

    #[test]
    fn other_names_are_others() {
        for text in ["", "q", "@", "X-Via", "Viaa", "Vi", "Call_ID", "From\0", "{"] {
            assert_eq!(Name::of(text.as_bytes()), Name::Other, "{text}");
        }
        assert_eq!(Name::of(&[b'x'; 300]), Name::Other);
        assert_eq!(Name::Other.as_str(), "");
    }
}
