//! Whole transactions, under paused time: retransmission, timeouts, forks, CANCEL, failure routes.

use std::time::Duration;

use lineway_wire::units::Millis;

use super::kit::{Phone, Site, reply, run};
use crate::metrics::ActorKind;

/// Sends each request to the URIs of its X-To headers, in one leg.
const FORK: &str = "function ksr_request_route()
  if KSR.is_CANCEL() then
    if KSR.tm.t_check_trans() > 0 then KSR.tm.t_relay() end
    return
  end
  if KSR.tm.t_check_trans() == 0 then return end
  KSR.tm.t_on_failure('again')
  local first = true
  for uri in KSR.hdr.get('X-To'):gmatch('%S+') do
    if first then KSR.seturi(uri) else KSR.corex.append_branch_uri(uri) end
    first = false
  end
  KSR.tm.t_relay()
end
function again()
  local next = KSR.hdr.get('X-Next')
  if next then
    KSR.seturi(next)
    KSR.tm.t_relay()
  end
end";

impl Phone {
    fn invite(&self, call: &str, to: &[&Phone], more: &str) -> String {
        let uris: Vec<_> = to.iter().map(|phone| format!("sip:x@{}", phone.at())).collect();
        let lines = format!("X-To: {}\r\n{more}Content-Length", uris.join(" "));
        self.request("INVITE", "sip:bob@127.0.0.1", call, 1).replace("Content-Length", &lines)
    }

    async fn expect(&self, start: &str) -> String {
        let got = self.receive().await;
        assert!(got.starts_with(start), "{start} was to come: {got}");
        got
    }
}

fn ack(invite: &str, answer: &str) -> String {
    let to = answer.lines().find(|line| line.starts_with("To:")).unwrap();
    let kept = invite.lines().filter(|line| !line.starts_with("To:") && !line.starts_with("X-"));
    let text: Vec<_> = kept.collect();
    text.join("\r\n").replace("INVITE", "ACK").replacen("From:", &format!("{to}\r\nFrom:"), 1)
        + "\r\n\r\n"
}

fn alive(site: &Site) -> i64 {
    let actors = site.actors();
    actors.kind(ActorKind::SipTransaction).alive.get()
        + actors.kind(ActorKind::SipBranch).alive.get()
}

#[tokio::test(start_paused = true)]
async fn sip_r064_r065_r066_r067_the_first_2xx_goes_up_and_the_others_are_cancelled() {
    run(async {
        let site = Site::new(FORK);
        let (alice, a, b, c) =
            (site.phone().await, site.phone().await, site.phone().await, site.phone().await);
        let invite = alice.invite("c1", &[&a, &b, &c], "");
        alice.send(&invite).await;
        alice.expect("SIP/2.0 100 trying -- your call is important to us").await;
        let (to_a, to_b, to_c) =
            (a.expect("INVITE sip:x@").await, b.expect("INVITE ").await, c.expect("INVITE ").await);
        a.send(&reply(&to_a, "180 Ringing")).await;
        alice.expect("SIP/2.0 180").await;
        b.send(&reply(&to_b, "180 Ringing")).await;
        alice.expect("SIP/2.0 180").await;
        b.send(&reply(&to_b, "200 OK")).await;
        alice.expect("SIP/2.0 200").await;
        let cancel = a.expect("CANCEL sip:x@").await;
        assert!(cancel.contains("Reason: SIP ;cause=200 ;text=\"Call completed elsewhere\"\r\n"));
        a.send(&reply(&cancel, "200 canceling")).await;
        a.send(&reply(&to_a, "487 Request Terminated")).await;
        a.expect("ACK sip:x@").await;
        // It has not spoken, so that it is not cancelled until it does (R67).
        c.assert_silent();
        c.send(&reply(&to_c, "180 Ringing")).await;
        c.expect("CANCEL ").await;
        alice.assert_silent();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(alive(&site), 0, "nothing is left of it");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sip_r038_silence_is_408_after_fr_timer() {
    run(async {
        let site = Site::with(FORK, |settings| {
            settings.stateful.fr_timer = Millis::new(3000);
        });
        let (alice, a) = (site.phone().await, site.phone().await);
        let invite = alice.invite("c1", &[&a], "");
        let began = tokio::time::Instant::now();
        alice.send(&invite).await;
        alice.expect("SIP/2.0 100").await;
        let first = a.expect("INVITE ").await;
        for at in [500, 1500] {
            let again = a.expect("INVITE").await;
            assert_eq!(again, first, "the same bytes at {at}");
            assert_eq!(began.elapsed().as_millis() / 100, at / 100);
        }
        let answer = alice.expect("SIP/2.0 408 Request Timeout").await;
        assert_eq!(began.elapsed().as_millis() / 100, 30);
        alice.send(&ack(&invite, &answer)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        alice.assert_silent();
        assert_eq!(alive(&site), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sip_r085_r086_a_failure_route_tries_another_target() {
    run(async {
        let site = Site::new(FORK);
        let (alice, a, b) = (site.phone().await, site.phone().await, site.phone().await);
        let invite = alice.invite("c1", &[&a], &format!("X-Next: sip:next@{}\r\n", b.at()));
        alice.send(&invite).await;
        alice.expect("SIP/2.0 100").await;
        let to_a = a.expect("INVITE ").await;
        a.send(&reply(&to_a, "503 Service Unavailable")).await;
        a.expect("ACK ").await;
        let to_b = b.expect("INVITE sip:next@").await;
        let branch = |text: &str| {
            text.split("branch=").nth(1).unwrap().split(['\r', ';']).next().unwrap().to_owned()
        };
        let (one, two) = (branch(&to_a), branch(&to_b));
        assert_eq!(one.rsplit_once('.').unwrap().0, two.rsplit_once('.').unwrap().0);
        assert!(two.ends_with(".1"), "R86: {two}");
        b.send(&reply(&to_b, "486 Busy Here")).await;
        b.expect("ACK ").await;
        let answer = alice.expect("SIP/2.0 486 Busy Here").await;
        alice.send(&ack(&invite, &answer)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        alice.assert_silent();
        assert_eq!(alive(&site), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sip_r053_r055_a_cancel_is_answered_and_goes_down() {
    run(async {
        let site = Site::new(FORK);
        let (alice, a) = (site.phone().await, site.phone().await);
        let invite = alice.invite("c1", &[&a], "");
        alice.send(&invite).await;
        alice.expect("SIP/2.0 100").await;
        let to_a = a.expect("INVITE ").await;
        a.send(&reply(&to_a, "180 Ringing")).await;
        alice.expect("SIP/2.0 180").await;
        let cancel = alice.request("CANCEL", "sip:bob@127.0.0.1", "c1", 1);
        for _ in 0..3 {
            alice.send(&cancel).await;
            let answer = alice.expect("SIP/2.0 200 canceling").await;
            assert!(answer.contains("CSeq: 1 CANCEL"));
        }
        let down = a.expect("CANCEL sip:x@").await;
        a.send(&reply(&down, "200 OK")).await;
        a.send(&reply(&to_a, "487 Request Terminated")).await;
        a.expect("ACK ").await;
        let answer = alice.expect("SIP/2.0 487").await;
        alice.send(&ack(&invite, &answer)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        alice.assert_silent();
        a.assert_silent();
        assert_eq!(alive(&site), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sip_r102_a_target_that_can_not_be_reached_is_478_and_comes_once() {
    run(async {
        let site = Site::new(FORK);
        let alice = site.phone().await;
        let invite = alice
            .request("INVITE", "sip:bob@127.0.0.1", "c1", 1)
            .replace("Content-Length", "X-To: sip:x@nowhere.invalid\r\nContent-Length");
        alice.send(&invite).await;
        alice.expect("SIP/2.0 100").await;
        let answer = alice.expect("SIP/2.0 478 Unresolvable destination (478/TM)").await;
        alice.send(&ack(&invite, &answer)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        alice.assert_silent();
        assert_eq!(alive(&site), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn rfc3263_a_503_leads_to_the_next_address_by_another_branch() {
    run(async {
        let site = Site::with(FORK, |settings| settings.dns_failover = true);
        let (alice, a) = (site.phone().await, site.phone().await);
        let port = a.at().port();
        let b = site.phone_at(([127, 0, 0, 2], port).into()).await;
        site.names.set("two.example", &["127.0.0.1".parse().unwrap(), b.at().ip()]);
        let invite = alice.request("INVITE", "sip:bob@127.0.0.1", "c1", 1).replace(
            "Content-Length",
            &format!("X-To: sip:x@two.example:{port}\r\nContent-Length"),
        );
        alice.send(&invite).await;
        alice.expect("SIP/2.0 100").await;
        // The call decides which of two equal addresses goes first.
        let (first, second, invited) = tokio::select! {
            invited = a.receive() => (&a, &b, invited),
            invited = b.receive() => (&b, &a, invited),
        };
        first.send(&reply(&invited, "503 Service Unavailable")).await;
        first.expect("ACK ").await;
        let again = second.expect("INVITE ").await;
        assert_ne!(invited, again, "another branch");
        second.send(&reply(&again, "486 Busy Here")).await;
        second.expect("ACK ").await;
        // The 503 is no part of the choice, and nobody else is there.
        let answer = alice.expect("SIP/2.0 486 Busy Here").await;
        alice.send(&ack(&invite, &answer)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        alice.assert_silent();
        a.assert_silent();
        b.assert_silent();
        assert_eq!(alive(&site), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn rfc5393_breadth_is_split_over_the_branches_and_a_fork_beyond_it_is_440() {
    run(async {
        let site = Site::with(FORK, |settings| settings.stateful.max_breadth = 60);
        let (alice, a, b) = (site.phone().await, site.phone().await, site.phone().await);
        alice.send(&alice.invite("c1", &[&a, &b], "Max-Breadth: 5\r\n")).await;
        alice.expect("SIP/2.0 100").await;
        assert!(a.expect("INVITE ").await.contains("\r\nMax-Breadth: 3\r\n"));
        assert!(b.expect("INVITE ").await.contains("\r\nMax-Breadth: 2\r\n"));
        alice.send(&alice.invite("c2", &[&a, &b], "Max-Breadth: 1\r\n")).await;
        alice.expect("SIP/2.0 100").await;
        alice.expect("SIP/2.0 440 Max-Breadth Exceeded").await;
    })
    .await;
}

/// Two targets, with a branch route that marks the first and leaves the second out, and a reply
/// route that marks finals and drops 183.
const HOOKS: &str = "function ksr_request_route()
  if KSR.tm.t_check_trans() == 0 then return end
  KSR.tm.t_on_branch('branch')
  KSR.tm.t_on_reply('reply')
  KSR.seturi(KSR.hdr.get('X-A'))
  KSR.corex.append_branch_uri('sip:left-out@127.0.0.1:9')
  KSR.corex.append_branch_uri(KSR.hdr.get('X-B'))
  KSR.tm.t_relay()
end
function branch()
  if KSR.pv.get('$rU') == 'left-out' then KSR.x.drop() end
  if KSR.pv.get('$rU') == 'a' then KSR.hdr.append('X-Branch: a\\r\\n') end
end
function reply()
  if KSR.kx.get_status() == 183 then KSR.x.drop() end
  KSR.hdr.append('X-Seen: ' .. KSR.pv.get('$T_branch_idx') .. '\\r\\n')
end";

#[tokio::test(start_paused = true)]
async fn sip_r096_r097_r098_routes_of_branches_and_replies_edit_and_drop() {
    run(async {
        let site = Site::new(HOOKS);
        let (alice, a, b) = (site.phone().await, site.phone().await, site.phone().await);
        let lines = format!("X-A: sip:a@{}\r\nX-B: sip:b@{}\r\nContent-Length", a.at(), b.at());
        let invite = alice.request("INVITE", "sip:bob@127.0.0.1", "c1", 1);
        let invite = invite.replace("Content-Length", &lines);
        alice.send(&invite).await;
        alice.expect("SIP/2.0 100").await;
        let (to_a, to_b) = (a.expect("INVITE ").await, b.expect("INVITE ").await);
        assert!(to_a.contains("\r\nX-Branch: a\r\n"), "{to_a}");
        assert!(!to_b.contains("X-Branch"), "it stays in its branch: {to_b}");
        let via = to_b.lines().find(|line| line.starts_with("Via:")).unwrap();
        assert!(via.ends_with(".1"), "what was left out leaves no hole: {via}");
        b.send(&reply(&to_b, "183 Session Progress")).await;
        b.send(&reply(&to_b, "180 Ringing")).await;
        assert!(alice.expect("SIP/2.0 180").await.contains("\r\nX-Seen: 1\r\n"));
        a.send(&reply(&to_a, "200 OK")).await;
        assert!(alice.expect("SIP/2.0 200").await.contains("\r\nX-Seen: 0\r\n"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sip_r155_r156_behind_wt_timer_a_2xx_passes_and_an_invite_is_another_call() {
    run(async {
        let site = Site::new(FORK);
        let (alice, a) = (site.phone().await, site.phone().await);
        let invite = alice.invite("c1", &[&a], "");
        alice.send(&invite).await;
        alice.expect("SIP/2.0 100").await;
        let to_a = a.expect("INVITE ").await;
        a.send(&reply(&to_a, "200 OK")).await;
        let answer = alice.expect("SIP/2.0 200").await;
        alice.send(&invite).await;
        assert_eq!(alice.receive().await, answer, "R49: the copy gets the 2xx again");
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(alive(&site), 0);
        a.send(&reply(&to_a, "200 OK")).await;
        assert_eq!(alice.receive().await, answer, "without state");
        alice.send(&invite).await;
        alice.expect("SIP/2.0 100").await;
        assert_eq!(a.receive().await, to_a, "another call, with the same branch");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sip_r053_a_cancel_is_in_force_where_no_more_transactions_may_be() {
    run(async {
        let site = Site::with(FORK, |settings| settings.stateful.max_transactions = 1);
        let (alice, a) = (site.phone().await, site.phone().await);
        let invite = alice.invite("c1", &[&a], "");
        alice.send(&invite).await;
        alice.expect("SIP/2.0 100").await;
        let to_a = a.expect("INVITE ").await;
        a.send(&reply(&to_a, "180 Ringing")).await;
        alice.expect("SIP/2.0 180").await;
        let cancel = invite.replace("INVITE", "CANCEL");
        for _ in 0..2 {
            alice.send(&cancel).await;
            alice.expect("SIP/2.0 200 canceling").await;
        }
        let cancel = a.expect("CANCEL sip:x@").await;
        a.send(&reply(&cancel, "200 OK")).await;
        a.send(&reply(&to_a, "487 Request Terminated")).await;
        let answer = alice.expect("SIP/2.0 487").await;
        alice.send(&ack(&invite, &answer)).await;
        a.expect("ACK ").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        alice.assert_silent();
        a.assert_silent();
        assert_eq!(alive(&site), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn acks_to_names_that_are_slow_wait_in_bounded_number() {
    run(async {
        let site = Site::new("function ksr_request_route() KSR.tm.t_relay() end");
        site.names.hang("slow.example.com");
        let alice = site.phone().await;
        let most = 4096;
        for number in 1..=most + 100 {
            let uri = "sip:bob@slow.example.com";
            alice.send(&alice.request("ACK", uri, &format!("c{number}"), 1)).await;
            // The socket holds some hundred.
            if number % 100 == 0 || number == most {
                site.until(|metrics| metrics.suspended.get() == number.min(most)).await;
            }
        }
        let options = alice.request("OPTIONS", &format!("sip:{}", alice.at()), "last", 1);
        alice.send(&options).await;
        assert!(alice.receive().await.starts_with("OPTIONS "), "others are handled");
        assert_eq!(site.metrics.suspended.get(), most);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(site.metrics.suspended.get(), 0);
    })
    .await;
}
