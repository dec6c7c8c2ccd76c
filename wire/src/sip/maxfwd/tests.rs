use super::*;
use crate::sip::kit;

/// What becomes of a value, and what the function says.
fn passed(value: &str) -> (i64, String) {
    let mut draft = kit::invite().set("Max-Forwards", value).draft();
    let result = process(&mut draft, 70);
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    (result, kit::lines(&sent, "Max-Forwards").join("|"))
}

#[test]
fn sip_r010_max_forwards_is_lowered_by_one() {
    assert_eq!(passed("70"), (1, "Max-Forwards: 69".into()));
    assert_eq!(passed("42"), (1, "Max-Forwards: 41".into()));
}

#[test]
fn sip_r011_a_missing_one_is_added_as_the_first_header() {
    let mut draft = kit::invite().without("Max-Forwards").draft();
    assert_eq!(process(&mut draft, 70), 2);
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    assert_eq!(sent.lines().nth(1), Some("Max-Forwards: 70"));
    assert_eq!(process(&mut draft, 70), 2, "asked twice");
    assert_eq!(kit::lines(&kit::forwarded(&draft, &kit::own(), 0), "Max-Forwards").len(), 1);
}

#[test]
fn sip_r012_max_forwards_0_is_refused() {
    assert_eq!(passed("0"), (-1, "Max-Forwards: 0".into()));
    assert_eq!(passed("000").0, -1);
}

#[test]
fn sip_r013_max_forwards_1_goes_on_as_0() {
    assert_eq!(passed("1"), (1, "Max-Forwards: 0".into()));
}

#[test]
fn sip_r014_the_width_is_kept_with_leading_spaces() {
    assert_eq!(passed("10"), (1, "Max-Forwards:  9".into()));
    assert_eq!(passed("010"), (1, "Max-Forwards:   9".into()));
    assert_eq!(passed("070"), (1, "Max-Forwards:  69".into()));
    assert_eq!(passed("9"), (1, "Max-Forwards: 8".into()));
}

#[test]
fn every_value_in_the_widths_that_are_seen() {
    for value in 1..=MOST {
        for width in 1..=3 {
            let text = format!("{value:0width$}");
            let wanted = format!("Max-Forwards: {:>width$}", value - 1, width = text.len());
            assert_eq!(passed(&text), (1, wanted));
        }
    }
}

#[test]
fn sip_r152_above_70_becomes_70() {
    assert_eq!(passed("71"), (1, "Max-Forwards: 70".into()));
    assert_eq!(passed("100"), (1, "Max-Forwards:  70".into()), "no digit is left over");
    assert_eq!(passed("256"), (1, "Max-Forwards:  70".into()));
    let huge = "9".repeat(30);
    assert_eq!(passed(&huge), (1, format!("Max-Forwards: {}", " ".repeat(28) + "70")));
}

#[test]
fn sip_r153_not_a_number_is_refused() {
    for bad in ["abc", "-1", "+5", "5x", "0x10", "7 0", ""] {
        assert_eq!(passed(bad).0, -2, "{bad}");
    }
}

#[test]
fn case_s24_white_space_around_the_value_stays() {
    let text = kit::invite().without("Max-Forwards").line("Max-Forwards :  9  ");
    let mut draft = text.draft();
    assert_eq!(process(&mut draft, 70), 1);
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    assert_eq!(kit::lines(&sent, "Max-Forwards"), ["Max-Forwards :  8  "]);
}

#[test]
fn case_s24_of_two_headers_the_first_counts() {
    let text = kit::invite().behind("Max-Forwards", "Max-Forwards: 5");
    let mut draft = text.draft();
    assert_eq!(process(&mut draft, 70), 1);
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    assert_eq!(kit::lines(&sent, "Max-Forwards"), ["Max-Forwards: 69", "Max-Forwards: 5"]);
}

#[test]
fn it_acts_on_what_earlier_edits_left() {
    let mut draft = kit::invite().set("Max-Forwards", "10").draft();
    assert_eq!((process(&mut draft, 70), process(&mut draft, 70)), (1, 1));
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    assert_eq!(kit::lines(&sent, "Max-Forwards"), ["Max-Forwards:  8"]);
    let line = draft.message.first(Name::MaxForwards).expect("it came").line;
    draft.lumps.delete(line);
    assert_eq!(process(&mut draft, 7), 2, "it was taken out");
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    assert_eq!(kit::lines(&sent, "Max-Forwards"), ["Max-Forwards: 7"]);
}

#[test]
fn is_maxfwd_lt_compares() {
    let draft = kit::invite().set("Max-Forwards", "5").draft();
    assert_eq!(is_lower(&draft, 6), 1);
    assert_eq!(is_lower(&draft, 5), -1);
    assert_eq!(is_lower(&kit::invite().without("Max-Forwards").draft(), 6), -2);
    assert_eq!(is_lower(&kit::invite().set("Max-Forwards", "x").draft(), 6), -3);
}
