use super::*;
use crate::zmp::tester::hex;

fn code(bytes: &str) -> Option<u8> {
    Header::parse(&hex(bytes)).err().map(|error| error.code.byte())
}

#[test]
fn zmp_1_2_codes_and_their_texts() {
    let table: Vec<_> = ErrorCode::ALL.iter().map(|code| (code.byte(), code.text())).collect();
    assert_eq!(
        table,
        [
            (0x01, "invalid magic"),
            (0x02, "version mismatch"),
            (0x03, "flags invalid"),
            (0x04, "body too large"),
            (0x05, "socket type mismatch"),
            (0x06, "handshake timeout"),
            (0x07, "message kind invalid"),
            (0x08, "request sequence invalid"),
            (0x09, "multipart frame invalid"),
            (0x0A, "frame incomplete"),
            (0x7F, "internal error"),
        ]
    );
}

#[test]
fn zmp_1_2_check_1_magic_by_the_first_byte() {
    assert_eq!(code("5b"), Some(1));
    assert_eq!(code("fb 18 ff fb 1f ff fb 20"), Some(1));
    assert_eq!(code("5a"), None);
}

#[test]
fn zmp_1_2_check_2_version() {
    assert_eq!(code("5a 00"), Some(2));
    assert_eq!(code("5a 02 ff ff ff ff ff ff"), Some(2));
}

#[test]
fn zmp_1_2_check_3_kind_before_flags() {
    assert_eq!(code("5a 01 e0 04"), Some(7));
    assert_eq!(code("5a 01 00 09 00 00 00 00"), Some(7));
    assert_eq!(code("5a 01 00 03"), None);
}

#[test]
fn zmp_1_2_check_4_flags_that_do_not_exist() {
    for flag in ["20", "40", "80", "21", "ff"] {
        assert_eq!(code(&format!("5a 01 {flag} 00 00 00 00 00")), Some(3), "{flag}");
    }
}

#[test]
fn zmp_1_2_check_5_control_with_more_or_identity() {
    for flag in ["03", "06", "07"] {
        assert_eq!(code(&format!("5a 01 {flag} 00 00 00 00 00")), Some(3), "{flag}");
    }
    assert_eq!(code("5a 01 02 00 00 00 00 00"), None);
}

#[test]
fn zmp_1_2_check_6_subscribe_and_cancel_alone() {
    for flag in ["18", "09", "11", "0a", "12", "0c", "14"] {
        assert_eq!(code(&format!("5a 01 {flag} 00 00 00 00 00")), Some(3), "{flag}");
    }
    for flag in ["08", "10", "04", "05"] {
        assert_eq!(code(&format!("5a 01 {flag} 00 00 00 00 00")), None, "{flag}");
    }
}

#[test]
fn zmp_1_2_check_7_sequence_zero_before_special_flags() {
    for kind in ["01", "02", "03"] {
        let zero = format!("5a 01 00 {kind} 00 00 00 04 00 00 00 00 00 00 00 00");
        assert_eq!(code(&zero), Some(8), "{kind}");
        assert_eq!(code(&zero.replace("01 00 0", "01 02 0")), Some(8), "{kind}, special");
    }
}

#[test]
fn zmp_1_2_check_8_special_flags_on_typed_records() {
    for flag in ["02", "04", "08", "10"] {
        let typed = format!("5a 01 {flag} 01 00 00 00 04 00 00 00 00 00 00 00 01");
        assert_eq!(code(&typed), Some(3), "{flag}");
        assert_eq!(code(&typed[..45]), None, "{flag}, known by the extension only");
    }
}

#[test]
fn zmp_1_1_a_header_is_whole_or_none() {
    let typed = hex("5a 01 01 03 00 01 00 02 80 00 00 00 00 00 00 07");
    for length in 0..16 {
        assert_eq!(Header::parse(&typed[..length]), Ok(None), "{length}");
    }
    let header = Header::parse(&typed).unwrap().expect("a header");
    let sequence = Sequence::new(0x8000_0000_0000_0007).unwrap();
    assert_eq!((header.kind, header.size), (Kind::ErrorReply(sequence), 0x1_0002));
    assert!(header.has_more() && !header.is_special());
    assert_eq!((header.length(), header.charge()), (16, 0x1_0002 + 64));
    assert_eq!(header, Header::part(header.kind, true, header.size));
    assert_eq!(header.encode().0[..], typed);
}

/// Each of the 65,536 pairs of flags and kind gives what the conditions of 1.2 say, in order.
#[test]
fn zmp_1_2_every_pair_of_flags_and_kind() {
    for (flags, kind) in (0..=255u8).flat_map(|flags| (0..=255u8).map(move |kind| (flags, kind))) {
        let special = flags & 0x1E != 0;
        let expected = if kind > 3 {
            Some(ErrorCode::Kind)
        } else if flags & 0xE0 != 0
            || (flags & 2 != 0 && flags & 5 != 0)
            || (flags & 0x18 != 0 && flags.count_ones() != 1)
            || (kind > 0 && special)
        {
            Some(ErrorCode::Flags)
        } else {
            None
        };
        let mut bytes = hex("5a 01 00 00 00 00 00 00 00 00 00 00 00 00 00 01");
        (bytes[2], bytes[3]) = (flags, kind);
        let code = Header::parse(&bytes).err().map(|error| error.code);
        assert_eq!(code, expected, "flags {flags:02x}, kind {kind:02x}");
    }
}
