use std::sync::Arc;

use super::kit::{Site, run, source};
use crate::settings::SipRouterSettings;
use crate::sip::router::Refusal;

fn answers(code: u16) -> String {
    format!("function ksr_request_route() KSR.sl.sl_send_reply({code}, 'Well') end")
}

async fn status(site: &Site, number: u32) -> String {
    let alice = site.phone().await;
    alice.send(&alice.request("OPTIONS", "sip:127.0.0.1", "c1", number)).await;
    alice.receive().await[8..11].to_owned()
}

fn with(site: &Site, script: &str) -> Arc<SipRouterSettings> {
    Arc::new(SipRouterSettings { script: source(script), ..site.settings.clone() })
}

#[tokio::test]
async fn another_script_is_in_force_once_it_is_adopted() {
    run(async {
        let site = Site::new(&answers(201));
        assert_eq!(status(&site, 1).await, "201");
        site.handle.prepare(with(&site, &answers(202))).await.unwrap();
        assert_eq!(status(&site, 2).await, "201", "made ready is not in force");
        site.handle.adopt(true).await;
        assert_eq!(status(&site, 3).await, "202");
        site.handle.prepare(with(&site, &answers(203))).await.unwrap();
        site.handle.adopt(false).await;
        assert_eq!(status(&site, 4).await, "202");
    })
    .await;
}

#[tokio::test]
async fn a_wrong_script_changes_nothing() {
    run(async {
        let site = Site::new(&answers(201));
        let refused = site.handle.prepare(with(&site, "function oh(")).await;
        assert!(matches!(refused, Err(Refusal::Script(_))), "{refused:?}");
        site.handle.adopt(true).await;
        assert_eq!(status(&site, 1).await, "201");
    })
    .await;
}

#[tokio::test]
async fn a_fifth_script_waits_until_an_earlier_one_is_done() {
    run(async {
        let waits = "function ksr_request_route() KSR.forward() end";
        let site = Site::with(waits, |settings| {
            settings.resolve_timeout = lineway_wire::units::Millis::new(2_000);
        });
        site.names.hang("slow.example");
        let alice = site.phone().await;
        for number in 1..=4 {
            let call = format!("c{number}");
            alice.send(&alice.request("INFO", "sip:slow.example:5060", &call, number)).await;
            site.until(|metrics| metrics.suspended.get() == i64::from(number)).await;
            let next = site.handle.prepare(with(&site, waits)).await;
            if number == 4 {
                assert_eq!(next, Err(Refusal::Generations));
            } else {
                next.unwrap();
                site.handle.adopt(true).await;
            }
        }
        site.until(|metrics| metrics.suspended.get() == 0).await;
        site.handle.prepare(with(&site, waits)).await.unwrap();
    })
    .await;
}
