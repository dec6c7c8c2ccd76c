use super::*;
use crate::zmp::tester::hex;

const FREE: Credit = Credit { hwm: 0, taken: 0 };

/// A part of so many bytes.
fn part(more: bool, size: usize) -> Vec<u8> {
    let (header, length) = Header::part(Kind::Data, more, size as u32).encode();
    [&header[..length], &vec![b'x'; size]].concat()
}

fn next(decoder: &mut Decoder, input: &mut BytesMut, credit: Credit) -> Decoded {
    decoder.next(input, credit, |_| Ok(())).expect("no fault")
}

/// The code for these bytes, after records that are right.
fn code(decoder: &mut Decoder, bytes: &[u8]) -> Option<ErrorCode> {
    let mut input = BytesMut::from(bytes);
    loop {
        match decoder.next(&mut input, FREE, |_| Ok(())) {
            Ok(Decoded::NeedsMore) => return None,
            Ok(_) => {}
            Err(error) => return Some(error.code),
        }
    }
}

fn size(decoded: Decoded) -> usize {
    match decoded {
        Decoded::Record(_, record) => record.payload() as usize,
        other => panic!("no record but {other:?}"),
    }
}

#[test]
fn zmp_1_2_check_9_inside_of_a_record() {
    for second in [
        "5a 01 02 00 00 00 00 00",
        "5a 01 04 00 00 00 00 00",
        "5a 01 08 00 00 00 00 00",
        "5a 01 10 00 00 00 00 00",
        "5a 01 00 01 00 00 00 00 00 00 00 00 00 00 00 01",
        "5a 01 00 02 00 00 00 00 00 00 00 00 00 00 00 01",
        "5a 01 01 03 00 00 00 00 00 00 00 00 00 00 00 01",
    ] {
        let bytes = [part(true, 1), hex(second)].concat();
        assert_eq!(code(&mut Decoder::new(0), &bytes), Some(ErrorCode::Multipart), "{second}");
    }
    // Before check 10.
    let bytes = [part(true, 1), hex("5a 01 02 00 ff ff ff ff")].concat();
    assert_eq!(code(&mut Decoder::new(4), &bytes), Some(ErrorCode::Multipart));
}

#[test]
fn zmp_1_2_check_10_each_part_by_its_header() {
    assert_eq!(code(&mut Decoder::new(5), &part(false, 6)[..8]), Some(ErrorCode::Size));
    assert_eq!(code(&mut Decoder::new(5), &part(true, 6)[..8]), Some(ErrorCode::Size));
    assert_eq!(code(&mut Decoder::new(5), &part(false, 5)), None);
    let typed = hex("5a 01 00 01 00 00 00 05 00 00 00 00 00 00 00 01 00 00 00 00 00");
    assert_eq!(code(&mut Decoder::new(5), &typed), None, "the extension does not count");
}

#[test]
fn zmp_1_2_check_10_the_sum_of_a_record_by_each_header() {
    let parts = [part(true, 3), part(true, 2), part(true, 0)].concat();
    assert_eq!(code(&mut Decoder::new(5), &parts), None);
    let above = [parts.clone(), part(false, 1)[..8].to_vec()].concat();
    assert_eq!(code(&mut Decoder::new(5), &above), Some(ErrorCode::Size));
    let again = [parts, part(false, 0), part(false, 5)].concat();
    assert_eq!(code(&mut Decoder::new(5), &again), None, "another record counts afresh");
}

#[test]
fn zmp_1_2_check_10_control_has_its_own_bound() {
    let control = |size: u32| [&hex("5a 01 02 00")[..], &size.to_be_bytes()].concat();
    assert_eq!(code(&mut Decoder::new(0), &control(4097)), Some(ErrorCode::Size));
    let mut decoder = Decoder::new(4);
    assert_eq!(code(&mut decoder, &control(4096)), None);
    let mut body = BytesMut::from(&[9; 4096][..]);
    let Decoded::Control(body) = next(&mut decoder, &mut body, FREE) else {
        panic!("no control frame");
    };
    assert_eq!(body.len(), 4096);
    assert_eq!(decoder.reserved(), 0, "control frames skip the limit");
}

#[test]
fn zmp_1_2_parts_have_an_end() {
    let mut decoder = Decoder::new(0);
    let empty = part(true, 0);
    assert_eq!(code(&mut decoder, &empty.repeat(MOST_PARTS)), None);
    assert_eq!(code(&mut decoder, &empty), Some(ErrorCode::Size));
    let record = [empty.repeat(MOST_PARTS - 1), part(false, 0)].concat();
    assert_eq!(code(&mut Decoder::new(0), &record), None);
}

#[test]
fn zmp_1_2_check_11_the_end_inside_of_anything() {
    let stream = [part(true, 3), part(false, 2)].concat();
    for length in 0..=stream.len() {
        let mut decoder = Decoder::new(0);
        let mut input = BytesMut::from(&stream[..length]);
        while !matches!(next(&mut decoder, &mut input, FREE), Decoded::NeedsMore) {}
        let expected = (length > 0 && length < stream.len()).then_some(ErrorCode::Incomplete);
        assert_eq!(decoder.end(&input).err().map(|error| error.code), expected, "{length}");
    }
}

#[test]
fn zmp_x_3_a_record_that_fits_and_one_that_waits() {
    let hwm = 2 * 164;
    let mut decoder = Decoder::new(0);
    let mut input = BytesMut::from(&part(false, 100).repeat(3)[..]);
    for _ in 0..2 {
        assert_eq!(size(next(&mut decoder, &mut input, Credit { hwm, taken: 0 })), 100);
    }
    assert!(matches!(next(&mut decoder, &mut input, Credit { hwm, taken: 0 }), Decoded::Blocked));
    assert!(matches!(next(&mut decoder, &mut input, Credit { hwm, taken: 163 }), Decoded::Blocked));
    assert_eq!(decoder.reserved(), 328);
    assert_eq!(size(next(&mut decoder, &mut input, Credit { hwm, taken: 164 })), 100);
    assert_eq!(decoder.reserved(), 492);
}

#[test]
fn zmp_x_3_the_first_record_of_an_empty_queue_is_admitted_whole() {
    for parts in [1, 3, 100] {
        let record = [part(true, 1000).repeat(parts - 1), part(false, 1000)].concat();
        let mut decoder = Decoder::new(0);
        let mut input = BytesMut::from(&[&record[..], &part(false, 0)].concat()[..]);
        let credit = Credit { hwm: 1, taken: 0 };
        assert_eq!(size(next(&mut decoder, &mut input, credit)), parts * 1000);
        assert!(matches!(next(&mut decoder, &mut input, credit), Decoded::Blocked), "a second one");
        let taken = decoder.reserved();
        assert_eq!(size(next(&mut decoder, &mut input, Credit { hwm: 1, taken })), 0);
    }
}

/// Its first frames fit beside what was before; the next one waits until that is taken, and not
/// until its own frames are.
#[test]
fn zmp_x_3_a_record_goes_on_once_everything_before_it_has_drained() {
    let hwm = 500;
    let mut decoder = Decoder::new(0);
    let stream = [part(false, 36), part(true, 136), part(true, 236), part(false, 936)].concat();
    let mut input = BytesMut::from(&stream[..]);
    let credit = |taken| Credit { hwm, taken };
    assert_eq!(size(next(&mut decoder, &mut input, credit(0))), 36);
    // 100 + 200 are reserved, 300 more are too many.
    assert!(matches!(next(&mut decoder, &mut input, credit(0)), Decoded::Blocked));
    assert_eq!(decoder.reserved(), 300);
    assert!(matches!(next(&mut decoder, &mut input, credit(99)), Decoded::Blocked));
    assert_eq!(size(next(&mut decoder, &mut input, credit(100))), 136 + 236 + 936);
    assert_eq!(decoder.reserved(), 1600);
}

#[test]
fn zmp_x_3_the_charge_is_reserved_once_before_the_payload_comes() {
    let mut decoder = Decoder::new(0);
    let record = part(false, 100);
    let mut input = BytesMut::from(&record[..8]);
    for byte in &record[8..] {
        assert!(matches!(next(&mut decoder, &mut input, FREE), Decoded::NeedsMore));
        assert_eq!(decoder.reserved(), 164);
        input.extend_from_slice(&[*byte]);
    }
    assert_eq!(size(next(&mut decoder, &mut input, FREE)), 100);
    assert_eq!(decoder.reserved(), 164);
}

#[test]
fn zmp_case_z14_c_room_grows_with_what_came() {
    let mut decoder = Decoder::new(0);
    let mut input = BytesMut::from(&hex("5a 01 00 00 ff ff ff ff")[..]);
    assert_eq!(decoder.wanted(), HEADER_BYTES);
    assert!(matches!(next(&mut decoder, &mut input, FREE), Decoded::NeedsMore));
    assert!(decoder.wanted() <= 16 * 1024, "nothing has come");
    for came in [10, 20_000, 1 << 20] {
        input.resize(came, 0);
        assert!(matches!(next(&mut decoder, &mut input, FREE), Decoded::NeedsMore));
        assert!(decoder.wanted() <= (2 * came).max(16 * 1024), "{} for {came}", decoder.wanted());
    }
}

/// As a connection reads: a payload of 1 MiB is moved a few times and not for each read.
#[test]
fn zmp_a_large_part_is_read_into_one_buffer() {
    const SIZE: usize = 1 << 20;
    let stream = part(false, SIZE);
    let (mut decoder, mut input) = (Decoder::new(0), BytesMut::new());
    let (mut at, mut moved, mut reads) = (0, 0, 0);
    let record = loop {
        if let Decoded::Record(_, record) = next(&mut decoder, &mut input, FREE) {
            break record;
        }
        let place = input.as_ptr();
        input.reserve(decoder.wanted());
        moved += if input.as_ptr() == place { 0 } else { input.len() };
        let room = input.capacity() - input.len();
        let read = room.min(stream.len() - at).min(64 * 1024);
        input.extend_from_slice(&stream[at..at + read]);
        at += read;
        reads += 1;
    };
    assert_eq!(record.payload(), SIZE as u64);
    assert!(moved <= 2 * SIZE, "{moved} bytes were moved");
    assert!(reads <= 40, "{reads} reads");
}

#[test]
fn zmp_a_payload_is_not_copied() {
    let mut decoder = Decoder::new(0);
    let mut input = BytesMut::from(&[part(true, 5000), part(false, 7)].concat()[..]);
    let first = input[8..].as_ptr();
    let Decoded::Record(_, record) = next(&mut decoder, &mut input, FREE) else {
        panic!("no record");
    };
    assert_eq!(record.parts()[0].as_ptr(), first);
    assert_eq!(record.parts()[1].as_ptr(), first.wrapping_add(5008));
}
