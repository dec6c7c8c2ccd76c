use super::*;

fn text(text: &str) -> Datum {
    Datum::Text(Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn a_key_has_its_last_value_until_it_is_removed() {
    let (tables, now) = (Tables::default(), Instant::now());
    assert_eq!(tables.get(b"t", b"k", now), None);
    tables.set(b"t", b"k", text("v"), 10, now).unwrap();
    tables.set(b"t", b"k", Datum::Int(4), 10, now).unwrap();
    assert_eq!(tables.get(b"t", b"k", now), Some(Datum::Int(4)));
    assert_eq!(tables.get(b"other", b"k", now), None);
    assert!(tables.remove(b"t", b"k"));
    assert_eq!(tables.get(b"t", b"k", now), None);
    assert!(!tables.remove(b"nope", b"k"), "there is no such table");
}

#[test]
fn a_full_table_takes_no_key_more_but_changes_those_it_has() {
    let (tables, now) = (Tables::default(), Instant::now());
    for key in [b"a", b"b"] {
        tables.set(b"t", key, text("v"), 2, now).unwrap();
    }
    assert_eq!(tables.set(b"t", b"c", text("v"), 2, now), Err(Refused::Full));
    tables.set(b"t", b"a", text("w"), 2, now).unwrap();
    assert!(tables.remove(b"t", b"b"));
    tables.set(b"t", b"c", text("v"), 2, now).unwrap();
    assert_eq!(tables.get(b"t", b"a", now), Some(text("w")));
}

#[test]
fn long_values_fill_a_table_before_its_entries_do() {
    let (tables, now) = (Tables::default(), Instant::now());
    let long = text(&"x".repeat(LONGEST_VALUE));
    let mut taken = 0_u32;
    while tables.set(b"t", &taken.to_be_bytes(), long.clone(), 200, now).is_ok() {
        taken += 1;
        assert!(taken < 10, "200 entries hold about 200 KiB");
    }
    assert_eq!(taken, 3);
    let longer = text(&"x".repeat(LONGEST_VALUE + 1));
    assert_eq!(tables.set(b"u", b"k", longer, 200, now), Err(Refused::TooLong));
    assert_eq!(tables.set(b"u", &[0; 1025], text(""), 200, now), Err(Refused::TooLong));
}

#[test]
fn tables_are_bounded_in_number() {
    let (tables, now) = (Tables::default(), Instant::now());
    for number in 0..256_u32 {
        tables.set(&number.to_be_bytes(), b"k", Datum::Int(1), 1, now).unwrap();
    }
    assert_eq!(tables.set(b"more", b"k", Datum::Int(1), 1, now), Err(Refused::Tables));
}

#[test]
fn an_entry_is_gone_at_its_end_and_makes_room() {
    let (tables, start) = (Tables::default(), Instant::now());
    tables.set(b"ban", b"a", Datum::Int(1), 1, start).unwrap();
    assert_eq!(tables.left(b"ban", b"a", start), Some(None));
    assert!(tables.expire(b"ban", b"a", Duration::from_secs(10), start));
    let later = start + Duration::from_secs(4);
    assert_eq!(tables.left(b"ban", b"a", later), Some(Some(Duration::from_secs(6))));
    assert_eq!(tables.get(b"ban", b"a", later), Some(Datum::Int(1)));
    let over = start + Duration::from_secs(10);
    assert!(!tables.any_key(b"ban", over, |_| true));
    tables.set(b"ban", b"b", Datum::Int(2), 1, over).unwrap();
    assert_eq!(tables.get(b"ban", b"a", over), None);
    assert_eq!(tables.get(b"ban", b"b", over), Some(Datum::Int(2)));
    assert!(!tables.expire(b"ban", b"a", Duration::from_secs(10), start));
}

#[test]
fn a_key_that_is_set_again_after_its_end_has_none() {
    let (tables, start) = (Tables::default(), Instant::now());
    tables.set(b"t", b"k", Datum::Int(5), 9, start).unwrap();
    tables.expire(b"t", b"k", Duration::from_secs(1), start);
    let over = start + Duration::from_secs(2);
    assert_eq!(tables.add(b"t", b"k", 1, 9, over), Ok(1), "what is over does not count");
    assert_eq!(tables.left(b"t", b"k", over), Some(None));
}

#[test]
fn no_two_threads_count_to_the_same_number() {
    let (tables, now) = (Tables::default(), Instant::now());
    let count =
        || -> Vec<i64> { (0..1000).map(|_| tables.add(b"t", b"k", 1, 9, now).unwrap()).collect() };
    let mut all: Vec<i64> = std::thread::scope(|scope| {
        let threads = [scope.spawn(count), scope.spawn(count)];
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort_unstable();
    assert_eq!(all, (1..=2000).collect::<Vec<_>>());
}

#[test]
fn many_threads_never_fill_a_table_above_its_limit() {
    let (tables, now) = (Tables::default(), Instant::now());
    let fill = |from: u32| {
        (from..from + 500)
            .filter(|key| tables.set(b"t", &key.to_be_bytes(), Datum::Int(0), 600, now).is_ok())
    };
    let taken: usize = std::thread::scope(|scope| {
        let threads = [0, 500, 1000].map(|from| scope.spawn(move || fill(from).count()));
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(taken, 600);
}

#[test]
fn a_search_sees_every_key() {
    let (tables, now) = (Tables::default(), Instant::now());
    tables.set(b"t", b"ab:1", Datum::Int(1), 9, now).unwrap();
    tables.set(b"t", b"xab", Datum::Int(1), 9, now).unwrap();
    assert!(tables.any_key(b"t", now, |key| key.starts_with(b"ab")));
    assert!(!tables.any_key(b"t", now, |key| key == b"ab"));
    assert!(!tables.any_key(b"nope", now, |_| true));
}
