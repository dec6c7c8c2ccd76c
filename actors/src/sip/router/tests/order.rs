use super::kit::{Site, run};

const PLAN: &str = "function ksr_request_route()
  if KSR.forward() < 0 then KSR.sl.sl_reply_error() end
end";

#[tokio::test]
async fn messages_of_a_call_wait_behind_one_that_waits_and_those_of_others_do_not() {
    run(async {
        let site = Site::new(PLAN);
        site.names.hang("slow.example");
        let (alice, bob) = (site.phone().await, site.phone().await);
        let to_bob = format!("sip:bob@{}", bob.at());
        alice.send(&alice.request("INVITE", "sip:bob@slow.example:5060", "c1", 1)).await;
        alice.send(&alice.request("INFO", &to_bob, "c1", 2)).await;
        alice.send(&alice.request("INFO", &to_bob, "c2", 3)).await;
        assert!(bob.receive().await.contains("CSeq: 3 INFO"), "another call does not wait");
        assert_eq!((site.metrics.suspended.get(), site.metrics.waiting.get()), (1, 1));
        bob.assert_silent();
        // Its name has no answer within `resolve-timeout-ms`.
        assert!(alice.receive().await.starts_with("SIP/2.0 478 Unresolvable destination"));
        assert!(bob.receive().await.contains("CSeq: 2 INFO"));
        assert_eq!((site.metrics.suspended.get(), site.metrics.waiting.get()), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn a_name_leads_to_its_address() {
    run(async {
        let site = Site::new(PLAN);
        site.names.set("bob.example", &["127.0.0.1".parse().unwrap()]);
        let (alice, bob) = (site.phone().await, site.phone().await);
        let uri = format!("sip:bob@bob.example:{}", bob.at().port());
        alice.send(&alice.request("INVITE", &uri, "c1", 1)).await;
        assert!(bob.receive().await.starts_with(&format!("INVITE {uri} SIP/2.0\r\n")));
    })
    .await;
}

#[tokio::test]
async fn what_waits_of_one_call_is_bounded() {
    run(async {
        let site = Site::new(PLAN);
        site.names.hang("slow.example");
        let alice = site.phone().await;
        alice.send(&alice.request("INVITE", "sip:bob@slow.example:5060", "c1", 1)).await;
        site.until(|metrics| metrics.suspended.get() == 1).await;
        for number in 2..=100 {
            alice.send(&alice.request("INFO", "sip:bob@127.0.0.1:9", "c1", number)).await;
        }
        let overload = |metrics: &crate::metrics::SipRouterMetrics| {
            metrics.dropped_count(crate::metrics::SipDrop::Overload) > 0
        };
        site.until(overload).await;
        assert!(site.metrics.waiting.get() <= 64);
    })
    .await;
}
