use super::kit::{Site, reply, run};
use crate::metrics::SipDrop;

const FORWARDS: &str = "function ksr_request_route() KSR.forward() end\n";

/// What the caller gets when the callee answers with this status.
async fn relayed(route: &str, status: &str) -> (Site, Option<String>) {
    let site = Site::new(&format!("{FORWARDS}function ksr_reply_route()\n{route}\nend"));
    let (alice, bob) = (site.phone().await, site.phone().await);
    alice.send(&alice.request("INVITE", &format!("sip:bob@{}", bob.at()), "c1", 1)).await;
    bob.send(&reply(&bob.receive().await, status)).await;
    let done = |metrics: &crate::metrics::SipRouterMetrics| {
        metrics.totals().replies_forwarded + metrics.totals().dropped > 0
    };
    site.until(done).await;
    let got = site.metrics.totals().replies_forwarded > 0;
    let came = if got { Some(alice.receive().await) } else { None };
    (site, came)
}

#[tokio::test]
async fn a_reply_route_edits_what_passes() {
    run(async {
        let (_, came) = relayed("KSR.hdr.append('X-Seen: 1\\r\\n')", "200 OK").await;
        assert!(came.unwrap().contains("\r\nX-Seen: 1\r\n"));
    })
    .await;
}

#[tokio::test]
async fn a_reply_route_drops() {
    run(async {
        let (site, came) = relayed("KSR.x.drop()", "180 Ringing").await;
        assert_eq!(came, None);
        assert_eq!(site.metrics.dropped_count(SipDrop::Script), 1);
    })
    .await;
}

#[tokio::test]
async fn a_reply_passes_unedited_when_its_route_fails() {
    run(async {
        let (site, came) = relayed("KSR.hdr.append('X-Seen: 1\\r\\n') error('oh')", "200 OK").await;
        assert!(!came.unwrap().contains("X-Seen"));
        assert_eq!(site.metrics.totals().script_errors, 1);
    })
    .await;
}

#[tokio::test]
async fn sip_r026_a_reply_without_a_second_via_is_dropped() {
    run(async {
        let site = Site::new(FORWARDS);
        let bob = site.phone().await;
        let request = bob.request("INVITE", "sip:bob@127.0.0.1", "c1", 1);
        bob.send(&reply(&request, "200 OK")).await;
        site.until(|metrics| metrics.dropped_count(SipDrop::NoVia) == 1).await;
        bob.assert_silent();
    })
    .await;
}
