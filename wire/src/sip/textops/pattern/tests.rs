use super::*;

fn is_match(pattern: &str, text: &str) -> bool {
    is_match_with(pattern, Flags::default(), text.as_bytes())
}

fn is_match_with(pattern: &str, flags: Flags, text: &[u8]) -> bool {
    let regex = Patterns::new().get(pattern.as_bytes(), flags);
    regex.unwrap_or_else(|error| panic!("{pattern}: {error}")).is_match(text)
}

fn found<'a>(pattern: &str, text: &'a str) -> &'a [u8] {
    let regex = Patterns::new().get(pattern.as_bytes(), Flags::default()).expect("a pattern");
    regex.find(text.as_bytes()).map_or(b"-", |found| found.as_bytes())
}

#[test]
fn posix_syntax_means_what_it_means_there() {
    assert!(is_match("^a.c$", "abc"));
    assert!(is_match("a{,2}b", "aab"));
    assert!(is_match("^a{2}$", "aa") && !is_match("^a{2}$", "a"));
    assert!(is_match("^a{2,}$", "aaa"));
    assert!(is_match("x{y", "x{y"));
    assert!(is_match("^(a|b)+$", "abba"));
    assert!(is_match("a)b", "a)b"));
    assert!(is_match("^()$", ""));
    assert!(is_match("[[:digit:][:upper:]_]+", "_"));
    assert!(is_match("^[]x]+$", "]x"));
    assert!(is_match("^[^]x]$", "y") && !is_match("^[^]x]$", "]"));
    assert!(is_match("^[a\\]$", "\\"), "a backslash is itself between brackets");
    assert!(is_match("^[a-c-]+$", "b-"));
    assert!(is_match("^[[.-.]x]$", "-") && is_match("^[[=x=]]$", "x"));
    assert!(is_match("^[&&~~-]+$", "&~-"));
    assert!(is_match("\\<sip\\>", "a sip b") && !is_match("\\<sip\\>", "sips"));
    assert!(is_match("#x y#", "#x y#"), "nothing is a comment");
    assert!(is_match("\\.\\*\\/", ".*/"));
}

#[test]
fn two_repetitions_in_a_row_are_no_lazy_one() {
    assert_eq!(found("a+?", "aaa"), b"aaa");
    assert_eq!(found("(ab)*?x", "ababx"), b"ababx");
    assert_eq!(found("a{2}?", "aaa"), b"aa");
}

#[test]
fn lines_end_a_match_unless_it_is_asked_to_go_on() {
    let text = "one: 1\r\ntwo: 2\r\n";
    assert_eq!(found("one.*$", text), b"one: 1");
    assert_eq!(found("one[^z]*", text), b"one: 1");
    assert_eq!(found("^two", text), b"two");
    assert_eq!(found("one.*\r\n", text), b"one: 1\r\n");
    let one_line = Flags { one_line: true, ..Flags::default() };
    assert!(is_match_with("one.*two", one_line, text.as_bytes()));
    assert!(is_match_with("one[^z]*two", one_line, text.as_bytes()));
    assert!(!is_match_with("^two", one_line, text.as_bytes()));
}

#[test]
fn cases_fold_in_sets_too() {
    let flags = Flags::ANY_CASE;
    assert!(is_match_with("^x-[A-C]$", flags, b"X-b"));
    assert!(!is_match_with("^[^a]$", flags, b"A"));
}

#[test]
fn patterns_are_of_bytes() {
    assert!(
        Patterns::new()
            .get(b"^\xff[\x80-\x90]$", Flags::default())
            .expect("a pattern")
            .is_match(b"\xff\x85")
    );
    assert!(is_match_with("^.$", Flags::default(), b"\xfe"));
}

#[test]
fn what_is_no_pattern_is_refused() {
    let mut patterns = Patterns::new();
    for pattern in
        ["*a", "a|*", "(?i)a", "(a", "[a", "[[:word:]]", "[b-a]", "a\\", "(a)\\1", "[[.ab.]]", "^*"]
    {
        assert!(patterns.get(pattern.as_bytes(), Flags::default()).is_err(), "{pattern}");
    }
    let long = vec![b'a'; Patterns::MAX_BYTES + 1];
    assert_eq!(patterns.get(&long, Flags::default()).err(), Some(PatternError::TooLong));
    let large = "((((a{100}){100}){100}){100})";
    assert_eq!(
        patterns.get(large.as_bytes(), Flags::default()).err(),
        Some(PatternError::TooLarge)
    );
    let deep = "(".repeat(1000) + &")".repeat(1000);
    assert!(patterns.get(deep.as_bytes(), Flags::default()).is_err());
}

#[test]
fn what_is_used_stays_and_the_rest_goes() {
    let mut patterns = Patterns::new();
    let kept = patterns.get(b"kept", Flags::default()).expect("a pattern");
    for index in 0..1000 {
        patterns.get(format!("p{index}").as_bytes(), Flags::ANY_CASE).expect("a pattern");
        let again = patterns.get(b"kept", Flags::default()).expect("a pattern");
        assert!(Arc::ptr_eq(&kept, &again));
    }
    let count =
        |maps: &[HashMap<Box<[u8]>, Arc<Regex>>; 4]| maps.iter().map(HashMap::len).sum::<usize>();
    assert!(count(&patterns.young) + count(&patterns.old) <= 2 * Patterns::GENERATION);
}
