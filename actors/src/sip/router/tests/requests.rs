use super::kit::{Site, reply, run};
use crate::metrics::SipDrop;

#[tokio::test]
async fn a_request_goes_on_and_its_reply_comes_back() {
    run(async {
        let site = Site::new("function ksr_request_route() KSR.forward() end");
        let (alice, bob) = (site.phone().await, site.phone().await);
        alice.send(&alice.request("INVITE", &format!("sip:bob@{}", bob.at()), "c1", 1)).await;
        let came = bob.receive().await;
        let own = format!("Via: SIP/2.0/UDP {};branch=z9hG4bK", site.proxy);
        assert!(came.lines().nth(1).unwrap().starts_with(&own), "{came}");
        bob.send(&reply(&came, "180 Ringing")).await;
        let ringing = alice.receive().await;
        assert!(ringing.starts_with("SIP/2.0 180 Ringing\r\nVia: SIP/2.0/UDP 127.0.0.1"));
        assert!(!ringing.contains(&own));
        let totals = site.metrics.totals();
        assert_eq!((totals.requests, totals.forwarded), (1, 1));
        assert_eq!((totals.replies, totals.replies_forwarded), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn a_script_error_is_a_500_and_harms_nobody_else() {
    run(async {
        let site = Site::new(
            "function ksr_request_route()\n  if KSR.is_method('OPTIONS') then error('oh') end\n  \
             KSR.sl.sl_send_reply(200, 'OK')\nend",
        );
        let alice = site.phone().await;
        alice.send(&alice.request("OPTIONS", "sip:127.0.0.1", "c1", 1)).await;
        assert!(alice.receive().await.starts_with("SIP/2.0 500 "));
        alice.send(&alice.request("INFO", "sip:127.0.0.1", "c1", 2)).await;
        assert!(alice.receive().await.starts_with("SIP/2.0 200 OK"));
        assert_eq!(site.metrics.totals().script_errors, 1);
    })
    .await;
}

#[tokio::test]
async fn a_script_error_behind_a_final_reply_or_for_an_ack_answers_nothing() {
    run(async {
        let site = Site::new(
            "function ksr_request_route()\n  if not KSR.is_method('ACK') then \
             KSR.sl.sl_send_reply(404, 'Not Found') end\n  error('oh')\nend",
        );
        let alice = site.phone().await;
        alice.send(&alice.request("OPTIONS", "sip:127.0.0.1", "c1", 1)).await;
        assert!(alice.receive().await.starts_with("SIP/2.0 404 "));
        alice.send(&alice.request("ACK", "sip:127.0.0.1", "c2", 1)).await;
        site.until(|metrics| metrics.totals().script_errors == 2).await;
        alice.assert_silent();
    })
    .await;
}

#[tokio::test]
async fn sip_r106_the_ack_of_a_reply_made_here_is_absorbed() {
    run(async {
        let site =
            Site::new("function ksr_request_route() KSR.sl.sl_send_reply(486, 'Busy Here') end");
        let alice = site.phone().await;
        let invite = alice.request("INVITE", "sip:bob@127.0.0.1", "c1", 1);
        alice.send(&invite).await;
        let busy = alice.receive().await;
        let to = busy.lines().find(|line| line.starts_with("To:")).unwrap();
        let ack = invite.replace("INVITE", "ACK").replace("To: <sip:bob@127.0.0.1>", to);
        alice.send(&ack).await;
        site.until(|metrics| metrics.dropped_count(SipDrop::Ack) == 1).await;
        alice.assert_silent();
    })
    .await;
}

#[tokio::test]
async fn case_s19_a_datagram_with_less_body_than_it_says_is_400() {
    run(async {
        let site = Site::new("function ksr_request_route() KSR.sl.sl_send_reply(200, 'OK') end");
        let alice = site.phone().await;
        for wrong in ["2000000000", "4294967301", "99999999999999999999", "-1", "5x"] {
            let request = alice.request("MESSAGE", "sip:bob@127.0.0.1", "c1", 1);
            alice.send(&request.replace("Length: 0", &format!("Length: {wrong}"))).await;
            assert!(alice.receive().await.starts_with("SIP/2.0 400 "), "{wrong}");
        }
        let request = alice.request("MESSAGE", "sip:bob@127.0.0.1", "c1", 1);
        alice.send(&request).await;
        assert!(alice.receive().await.starts_with("SIP/2.0 200 "));
    })
    .await;
}

#[tokio::test]
async fn sip_r145_what_lacks_a_header_that_all_need_is_dropped_and_counted() {
    run(async {
        let site = Site::new("function ksr_request_route() KSR.sl.sl_send_reply(200, 'OK') end");
        let alice = site.phone().await;
        let whole = alice.request("MESSAGE", "sip:bob@127.0.0.1", "c1", 1);
        let lacks = [("From:", SipDrop::From), ("To:", SipDrop::To), ("CSeq:", SipDrop::CSeq)];
        for (name, why) in lacks {
            let lines = whole.split("\r\n").filter(|line| !line.starts_with(name));
            alice.send(&lines.collect::<Vec<_>>().join("\r\n")).await;
            site.until(|metrics| metrics.dropped_count(why) == 1).await;
        }
        alice.send(&whole).await;
        assert!(alice.receive().await.starts_with("SIP/2.0 200 "), "the first answer of all");
    })
    .await;
}
