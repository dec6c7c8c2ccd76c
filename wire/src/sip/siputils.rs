//! Small questions about a message: what scripts know as `siputils`. Each gives 1 for yes and a
//! negative number for no.

use super::draft::Draft;
use super::message::Name;
use super::own::Own;

/// `has_totag()`: the message belongs to a dialog. An empty tag is none.
pub fn has_totag(draft: &Draft) -> i64 {
    yes(draft.message.to().tag().is_some_and(|tag| !tag.is_empty()))
}

/// `is_request()`.
pub fn is_request(draft: &Draft) -> i64 {
    yes(draft.message.is_request())
}

/// `is_reply()`.
pub fn is_reply(draft: &Draft) -> i64 {
    yes(!draft.message.is_request())
}

/// `is_first_hop()`: a request came straight from its sender, so it has one Via; a reply comes
/// straight from the one who made it, so the Record-Route on top is own, or there is none.
pub fn is_first_hop(draft: &Draft, own: &Own) -> i64 {
    let message = &draft.message;
    if message.is_request() {
        return yes(!message.via().shares_line && message.all(Name::Via).nth(1).is_none());
    }
    let Some(top) = message.addresses(Name::RecordRoute).next() else { return 1 };
    let uri = top.ok().and_then(|address| address.parsed_uri().ok());
    yes(uri.is_some_and(|uri| own.is_own_uri(&uri)))
}

/// `is_tel_number(text)`: digits, with a `+` in front or without.
pub fn is_tel_number(text: &[u8]) -> i64 {
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if is_number { 1 } else { -2 }
}

fn yes(is: bool) -> i64 {
    if is { 1 } else { -1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sip::kit;

    #[test]
    fn a_dialog_has_a_to_tag_that_is_not_empty() {
        for (to, expected) in [
            ("<sip:bob@127.0.0.1>;tag=ta", 1),
            ("<sip:bob@127.0.0.1>;tag=", -1),
            ("<sip:bob@127.0.0.1;tag=x>", -1),
            ("<sip:bob@127.0.0.1>", -1),
        ] {
            assert_eq!(has_totag(&kit::invite().set("To", to).draft()), expected, "{to}");
        }
    }

    #[test]
    fn requests_and_replies_are_told_apart() {
        let (request, reply) = (kit::invite().draft(), kit::reply(200, "OK").draft());
        assert_eq!([is_request(&request), is_reply(&request)], [1, -1]);
        assert_eq!([is_request(&reply), is_reply(&reply)], [-1, 1]);
    }

    #[test]
    fn a_request_with_one_via_came_straight_from_its_sender() {
        let own = kit::own();
        let second = "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKx";
        let one = kit::invite();
        assert_eq!(is_first_hop(&one.draft(), &own), 1);
        let two = one.clone().behind("Via", &format!("v: {second}"));
        assert_eq!(is_first_hop(&two.draft(), &own), -1);
        let both = format!("{}, {second}", one.value("Via"));
        assert_eq!(is_first_hop(&one.clone().set("Via", &both).draft(), &own), -1);
    }

    #[test]
    fn a_reply_whose_top_record_route_is_own_came_straight_from_its_maker() {
        let own = kit::own();
        for (route, expected) in [
            ("<sip:127.0.0.1;lr>", 1),
            ("<sip:127.0.0.1;lr>, <sip:192.0.2.1;lr>", 1),
            ("<sip:192.0.2.1;lr>, <sip:127.0.0.1;lr>", -1),
            ("<nonsense>", -1),
        ] {
            let reply = kit::reply(200, "OK").line(&format!("Record-Route: {route}"));
            assert_eq!(is_first_hop(&reply.draft(), &own), expected, "{route}");
        }
        assert_eq!(is_first_hop(&kit::reply(200, "OK").draft(), &own), 1);
    }

    #[test]
    fn a_number_is_digits_with_or_without_a_plus() {
        for number in ["123", "+123", "0"] {
            assert_eq!(is_tel_number(number.as_bytes()), 1, "{number}");
        }
        for other in ["", "+", "++1", "1+", "1-2", "+1 2", "12a", "*12", "#1"] {
            assert_eq!(is_tel_number(other.as_bytes()), -2, "{other}");
        }
    }
}
