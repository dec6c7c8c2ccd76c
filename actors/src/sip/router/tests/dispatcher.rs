//! A target that is asked with OPTIONS stops answering and comes back.

use std::sync::Arc;
use std::time::Duration;

use lineway_wire::units::Millis;

use super::kit::{Phone, Site, reply, run};
use crate::settings::{DispatcherTarget, SipRouterSettings};

/// Answers 200 with a target, 503 without one.
const SCRIPT: &str = "function ksr_request_route()
    if KSR.dispatcher.ds_select_dst(1, 4) < 0 then
        KSR.sl.sl_send_reply(503, 'None') return
    end
    KSR.sl.sl_send_reply(200, KSR.pv.get('$du'))
end";

fn target(phone: &Phone) -> DispatcherTarget {
    DispatcherTarget::parse(&format!("sip:{}", phone.at())).unwrap()
}

/// What a caller is answered.
async fn chosen(site: &Site, caller: &Phone, number: u32) -> String {
    caller.send(&caller.request("INFO", &format!("sip:{}", site.proxy), "c1", number)).await;
    caller.receive().await.lines().next().unwrap().to_owned()
}

async fn asked(phone: &Phone) -> String {
    let request = phone.receive_within(Duration::from_secs(30)).await;
    assert!(request.starts_with("OPTIONS sip:127.0.0.1:"), "{request}");
    request
}

fn site(gateway: &Phone, change: impl FnOnce(&mut SipRouterSettings)) -> Site {
    Site::with(SCRIPT, |settings| {
        settings.dispatcher.insert(1, vec![target(gateway)]);
        settings.stateful.dispatcher_ping = Millis::new(10_000);
        change(settings);
    })
}

/// What is there by now has been handled once this is over.
async fn settle(site: &Site, caller: &Phone, number: u32, want: &str) {
    for _ in 0..10_000 {
        if chosen(site, caller, number).await == want {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it does not become {want}");
}

#[tokio::test(start_paused = true)]
async fn a_target_that_falls_silent_is_left_out_until_it_answers() {
    run(async {
        let gateway = Phone::alone().await;
        let site = site(&gateway, |_| {});
        let (gateway, caller) = (gateway.to(site.proxy), site.phone().await);
        let there = format!("SIP/2.0 200 sip:{}", gateway.at());

        let request = asked(&gateway).await;
        assert!(request.contains(&format!("\r\nVia: SIP/2.0/UDP {}", site.proxy)), "{request}");
        gateway.send(&reply(&request, "200 OK")).await;
        settle(&site, &caller, 1, &there).await;

        // From here on it is silent: the next probe is repeated, the same bytes, then given up.
        let first = asked(&gateway).await;
        assert_ne!(first, request);
        for _ in 0..4 {
            assert_eq!(asked(&gateway).await, first);
        }
        assert_eq!(chosen(&site, &caller, 2).await, there, "not given up yet");
        let next = asked(&gateway).await;
        assert_ne!(next, first);
        assert_eq!(chosen(&site, &caller, 3).await, "SIP/2.0 503 None");
        gateway.send(&reply(&first, "200 OK")).await;
        assert_eq!(chosen(&site, &caller, 4).await, "SIP/2.0 503 None", "too late");

        gateway.send(&reply(&next, "404 Not Found")).await;
        settle(&site, &caller, 5, &there).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_says_it_can_not_is_left_out_at_once() {
    run(async {
        let gateway = Phone::alone().await;
        let site = site(&gateway, |_| {});
        let (gateway, caller) = (gateway.to(site.proxy), site.phone().await);
        let request = asked(&gateway).await;
        gateway.send(&reply(&request, "503 Service Unavailable")).await;
        settle(&site, &caller, 1, "SIP/2.0 503 None").await;
        assert_eq!(site.targets(), [(1, 0, 1)]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_leads_nowhere_is_a_failed_probe() {
    run(async {
        let gateway = Phone::alone().await;
        let site = site(&gateway, |settings| {
            let nowhere = DispatcherTarget::parse("sip:nowhere.example:5060").unwrap();
            settings.dispatcher.insert(1, vec![nowhere]);
        });
        let caller = site.phone().await;
        settle(&site, &caller, 1, "SIP/2.0 503 None").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn other_targets_are_asked_once_they_are_adopted() {
    run(async {
        let (old, new) = (Phone::alone().await, Phone::alone().await);
        let site = site(&old, |_| {});
        let (old, new) = (old.to(site.proxy), new.to(site.proxy));
        let request = asked(&old).await;
        old.send(&reply(&request, "200 OK")).await;
        let mut settings = site.settings.clone();
        settings.dispatcher.insert(1, vec![target(&new)]);
        site.handle.prepare(Arc::new(settings)).await.unwrap();
        site.handle.adopt(true).await;
        let request = asked(&new).await;
        new.send(&reply(&request, "200 OK")).await;
        let caller = site.phone().await;
        settle(&site, &caller, 1, &format!("SIP/2.0 200 sip:{}", new.at())).await;

        // Nobody is asked after the end.
        site.handle.retire().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        old.assert_silent();
        new.assert_silent();
    })
    .await;
}
