//! A URI with one of its parts replaced (`setuser`, `sethost`, `$rp`), and what may be a URI at all.

use super::message::Uri;

/// A part of a URI that is replaced; `None` leaves it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The user. Without one the password goes too. Parameters of a telephone number stay, unless
    /// the new one has its own.
    User(Option<&'a [u8]>),
    /// The host, IPv6 in brackets, without a port.
    Host(&'a [u8]),
    /// The port.
    Port(Option<u16>),
}

/// The URI with the part replaced; `None` where it is none or where the new part does not fit into
/// one. Everything else stays as written.
pub fn rewrite(uri: &[u8], part: Part<'_>) -> Option<Vec<u8>> {
    let old = Uri::parse(uri).ok()?;
    let (mut new, number);
    new = old;
    match part {
        Part::User(user) => {
            new.user = user;
            let params = old.number_params();
            if let Some(user) = user
                && !params.is_empty()
                && !user.contains(&b';')
            {
                number = [user, params].concat();
                new.user = Some(&number);
            }
            new.password = old.password.filter(|_| user.is_some());
        }
        Part::Host(host) => new.host = host,
        Part::Port(port) => new.port = port,
    }
    let out = write(&new);
    // What was put in must come out again as that part and nothing else.
    let read = Uri::parse(&out).ok().filter(|_| is_clean(&out))?;
    let same = (read.user, read.password, read.host, read.port, read.params.0, read.headers)
        == (new.user, new.password, new.host, new.port, new.params.0, new.headers);
    same.then_some(out)
}

/// Whether a text can stand in a start line or between angle brackets: not empty, and without white
/// space, control bytes and angle brackets, so that it never ends the line or the header around it.
pub fn is_clean(uri: &[u8]) -> bool {
    let bad = |byte: &u8| byte.is_ascii_control() || matches!(byte, b' ' | b'<' | b'>');
    !uri.is_empty() && !uri.iter().any(bad)
}

fn write(uri: &Uri<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(uri.text.len() + 32);
    out.extend_from_slice(uri.scheme);
    out.push(b':');
    if let Some(user) = uri.user {
        out.extend_from_slice(user);
        if let Some(password) = uri.password {
            out.push(b':');
            out.extend_from_slice(password);
        }
        if !uri.is_tel() {
            out.push(b'@');
        }
    }
    out.extend_from_slice(uri.host);
    if let Some(port) = uri.port {
        out.push(b':');
        out.extend_from_slice(port.to_string().as_bytes());
    }
    if !uri.params.0.is_empty() {
        out.push(b';');
        out.extend_from_slice(uri.params.0);
    }
    if let Some(headers) = uri.headers {
        out.push(b'?');
        out.extend_from_slice(headers);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(uri: &str, part: Part<'_>) -> Option<String> {
        rewrite(uri.as_bytes(), part).map(|uri| String::from_utf8(uri).unwrap())
    }

    #[test]
    fn sip_r016_a_part_is_replaced_and_the_rest_stays() {
        let uri = "sip:u:pw@h:5061;a=b;transport=tcp?x=y";
        let user = rewritten(uri, Part::User(Some(b"carl")));
        assert_eq!(user.as_deref(), Some("sip:carl:pw@h:5061;a=b;transport=tcp?x=y"));
        let user = rewritten(uri, Part::User(None));
        assert_eq!(user.as_deref(), Some("sip:h:5061;a=b;transport=tcp?x=y"));
        let host = rewritten(uri, Part::Host(b"[::1]"));
        assert_eq!(host.as_deref(), Some("sip:u:pw@[::1]:5061;a=b;transport=tcp?x=y"));
        let port = rewritten(uri, Part::Port(None));
        assert_eq!(port.as_deref(), Some("sip:u:pw@h;a=b;transport=tcp?x=y"));
        let user = rewritten("sip:h", Part::User(Some(b"new")));
        assert_eq!(user.as_deref(), Some("sip:new@h"));
        let phone = "sip:+1;npdi@h;user=phone";
        let user = rewritten(phone, Part::User(Some(b"+2")));
        assert_eq!(user.as_deref(), Some("sip:+2;npdi@h;user=phone"));
        let user = rewritten(phone, Part::User(Some(b"+2;rn=3")));
        assert_eq!(user.as_deref(), Some("sip:+2;rn=3@h;user=phone"));
        let user = rewritten("tel:+123;ext=4", Part::User(Some(b"9")));
        assert_eq!(user.as_deref(), Some("tel:9;ext=4"));
    }

    #[test]
    fn what_would_be_more_than_its_part_is_refused() {
        for user in ["a@b", "a b", "a\r\nX: y", "a:b", "<", "a;b@c", ""] {
            assert_eq!(rewritten("sip:u@h", Part::User(Some(user.as_bytes()))), None, "{user:?}");
        }
        for host in ["h:5", "h;x", "a@h", "h?x", "", "h\n"] {
            assert_eq!(rewritten("sip:u@h", Part::Host(host.as_bytes())), None, "{host:?}");
        }
        assert_eq!(rewritten("nonsense", Part::Port(Some(1))), None);
    }

    #[test]
    fn a_uri_that_would_end_its_line_is_not_clean() {
        assert!(is_clean(b"sip:u@h;a=b"));
        for bad in ["", "sip:a b", "sip:a\r\nX: y", "sip:a>", "sip:\0", "sip:a\x7f"] {
            assert!(!is_clean(bad.as_bytes()), "{bad:?}");
        }
    }
}
