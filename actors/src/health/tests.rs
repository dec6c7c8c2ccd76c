use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{BEAT, Beating, Health, NotReady, ProcessReason, STANDS_STILL};
use crate::metrics::Metrics;

fn reasons(health: &Health, now: Instant) -> Vec<(Option<String>, String)> {
    let not = |n: NotReady| (n.node.map(|name| name.to_string()), n.reason.into_owned());
    health.ready(now).err().unwrap_or_default().into_iter().map(not).collect()
}

/// A service of one worker that has started.
fn started(now: Instant) -> Health {
    let health = Health::new(1, now);
    health.process(ProcessReason::Starting, false);
    health
}

#[test]
fn case_m22_only_the_blocked_loop_is_not_alive() {
    let start = Instant::now();
    let health = Health::new(2, start);
    let before = start + Duration::from_millis(2500);
    let later = before + STANDS_STILL;
    health.beat(Beating::Supervisor, later);
    health.beat(Beating::Worker(0), before);
    health.beat(Beating::Worker(9), later);
    let still = health.live(later).unwrap_err();
    assert_eq!(still.len(), 1);
    assert_eq!(still[0].what, Beating::Worker(1));
    assert_eq!(still[0].age, Duration::from_secs(5));
    health.beat(Beating::Worker(0), later);
    health.beat(Beating::Worker(1), later);
    assert_eq!(health.live(later + BEAT), Ok(()));
    let what = |now| health.live(now).unwrap_err().into_iter().map(|s| s.what).collect::<Vec<_>>();
    let all = [Beating::Supervisor, Beating::Worker(0), Beating::Worker(1)];
    assert_eq!(what(later + STANDS_STILL + Duration::from_millis(1)), all);
}

#[test]
fn case_m22_the_process_says_why_it_is_not_ready() {
    let now = Instant::now();
    let health = Health::new(1, now);
    assert_eq!(reasons(&health, now), [(None, "starting".to_owned())]);
    health.process(ProcessReason::Starting, false);
    assert_eq!(health.ready(now), Ok(()));
    health.process(ProcessReason::Draining, true);
    health.process(ProcessReason::DescriptorsExhausted, true);
    let texts = ["draining", "out of file descriptors"];
    assert_eq!(reasons(&health, now), texts.map(|text| (None, text.to_owned())));
    assert_eq!(health.live(now), Ok(()));
    health.process(ProcessReason::DescriptorsExhausted, false);
    assert_eq!(reasons(&health, now), [(None, "draining".to_owned())]);
}

#[test]
fn case_m22_a_node_is_ready_when_all_of_its_parts_are() {
    let now = Instant::now();
    let health = started(now);
    let name: Arc<str> = Arc::from("in");
    let (first, second) = (health.node(&name, 0, 0), health.node(&name, 1, 0));
    let node = Some("in".to_owned());
    assert_eq!(reasons(&health, now), [(node.clone(), "starting".to_owned())]);
    first.ready();
    assert_eq!(reasons(&health, now), [(node.clone(), "starting".to_owned())]);
    second.ready();
    assert_eq!(health.ready(now), Ok(()));
    second.not_ready(format!("bind: {}", 98));
    assert_eq!(reasons(&health, now), [(node.clone(), "bind: 98".to_owned())]);
    second.ready();
    drop(first);
    assert_eq!(reasons(&health, now), [(node, "not running".to_owned())]);
    health.node(&name, 0, 0).ready();
    assert!(health.ready(now).is_err(), "its handle is gone again");
    health.forget_node("in");
    assert_eq!(health.ready(now), Ok(()));
}

#[test]
fn a_part_that_was_taken_over_is_not_touched_by_its_former_owner() {
    let now = Instant::now();
    let health = started(now);
    let name: Arc<str> = Arc::from("in");
    let before = health.node(&name, 0, 0);
    let after = health.node(&name, 0, 0);
    after.ready();
    drop(before);
    assert_eq!(health.ready(now), Ok(()));
    health.forget_node("in");
    drop(after);
    assert_eq!(health.ready(now), Ok(()));
}

#[test]
fn a_place_that_a_node_lost_does_not_keep_it_from_being_ready() {
    let now = Instant::now();
    let health = started(now);
    let name: Arc<str> = Arc::from("in");
    let (first, second) = (health.node(&name, 0, 0), health.node(&name, 0, 1));
    first.ready();
    health.keep_places("in", 2);
    assert!(health.ready(now).is_err(), "the second one counts");
    health.keep_places("in", 1);
    drop(second);
    assert_eq!(health.ready(now), Ok(()));
    drop(first);
    assert!(health.ready(now).is_err(), "one that should run and does not");
}

#[test]
fn a_part_of_a_node_that_was_forgotten_and_is_back_is_entered_as_it_is() {
    let now = Instant::now();
    let health = started(now);
    let part = health.node(&Arc::from("in"), 0, 0);
    part.not_ready("ill");
    health.forget_node("in");
    health.passive(&Arc::from("in"));
    assert_eq!(health.ready(now), Ok(()));
    part.enter();
    assert_eq!(reasons(&health, now), [(Some("in".to_owned()), "ill".to_owned())]);
    part.ready();
    assert_eq!(health.ready(now), Ok(()));
}

#[test]
fn case_m22_a_connector_is_one_for_all_workers() {
    let now = Instant::now();
    let health = started(now);
    let name: Arc<str> = Arc::from("out");
    for seconds in [0, 10, 20] {
        health.connector(&name).failed(now + Duration::from_secs(seconds));
    }
    let later = now + Duration::from_secs(30);
    let text = "no connect succeeded for 30 s".to_owned();
    assert_eq!(reasons(&health, later), [(Some("out".to_owned()), text)]);
    health.connector(&name).succeeded();
    assert_eq!(health.ready(later), Ok(()));
}

#[test]
fn readiness_is_asked_at_each_scrape() {
    let metrics = Metrics::new("1");
    let health = started(Instant::now());
    metrics.register(health.collector()).unwrap();
    let page = metrics.text();
    assert!(page.contains("\nlineway_ready 1\n") && !page.contains("lineway_node_ready"));
    let part = health.node(&Arc::from("in\n"), 0, 0);
    health.passive(&Arc::from("echo"));
    let page = metrics.text();
    assert!(page.contains("\nlineway_ready 0\n"), "{page}");
    assert!(page.contains("\nlineway_node_ready{node=\"echo\"} 1\n"), "{page}");
    assert!(page.contains("\nlineway_node_ready{node=\"in\\n\"} 0\n"), "{page}");
    part.ready();
    assert!(metrics.text().contains("\nlineway_ready 1\n"));
    health.forget_node("in\n");
    let page = metrics.text();
    assert!(!page.contains("node=\"in\\n\""), "{page}");
}
