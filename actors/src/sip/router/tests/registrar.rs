//! A script that is a registrar: phones register, and are found.

use super::kit::{Phone, Site, reply, run};
use crate::metrics::SipRegistration;

const SCRIPT: &str = r#"
function ksr_request_route()
    if KSR.is_method("REGISTER") then
        KSR.nathelper.fix_nated_register()
        KSR.registrar.save("location", 0)
        return
    end
    if KSR.registrar.lookup("location") ~= 1 then
        return KSR.sl.sl_send_reply(404, "Not Found")
    end
    KSR.forward()
end
"#;

/// A REGISTER of bob's, from this phone.
fn register(phone: &Phone, number: u32, contact: &str) -> String {
    let request = phone.request("REGISTER", "sip:127.0.0.1", "r1", number);
    request.replace("Content-Length", &format!("Contact: {contact}\r\nContent-Length"))
}

#[tokio::test]
async fn sip_r123_r124_a_phone_that_registers_gets_its_requests() {
    run(async {
        let site = Site::new(SCRIPT);
        let (alice, bob) = (site.phone().await, site.phone().await);
        let uri = format!("sip:BOB@{}", site.proxy);
        alice.send(&alice.request("OPTIONS", &uri, "c1", 1)).await;
        assert!(alice.receive().await.starts_with("SIP/2.0 404 "), "R131");

        let contact = format!("<sip:bob@{};x=y>;expires=120", bob.at());
        bob.send(&register(&bob, 1, &contact)).await;
        let saved = bob.receive().await;
        assert!(saved.starts_with("SIP/2.0 200 OK\r\n"), "{saved}");
        let received = format!(";received=\"sip:{}\"", bob.at());
        assert!(saved.contains(&format!("\r\nContact: {contact}{received}\r\n")), "{saved}");

        alice.send(&alice.request("OPTIONS", &uri, "c2", 1)).await;
        let came = bob.receive().await;
        let line = format!("OPTIONS sip:bob@{};x=y SIP/2.0\r\n", bob.at());
        assert!(came.starts_with(&line), "{came}");
        assert!(came.contains("\r\nTo: <sip:bob@127.0.0.1>\r\n"), "{came}");
        bob.send(&reply(&came, "200 Here")).await;
        assert!(alice.receive().await.starts_with("SIP/2.0 200 Here"));

        bob.send(&register(&bob, 2, &contact.replace("=120", "=0"))).await;
        assert!(!bob.receive().await.contains("Contact"));
        alice.send(&alice.request("OPTIONS", &uri, "c3", 1)).await;
        assert!(alice.receive().await.starts_with("SIP/2.0 404 "), "R125");
    })
    .await;
}

#[tokio::test]
async fn bindings_outlive_a_script() {
    run(async {
        let site = Site::new(SCRIPT);
        let (alice, bob) = (site.phone().await, site.phone().await);
        bob.send(&register(&bob, 1, &format!("<sip:bob@{}>", bob.at()))).await;
        bob.receive().await;
        let other = SCRIPT.replace("404", "480");
        let settings = crate::settings::SipRouterSettings {
            script: super::kit::source(&other),
            ..site.settings.clone()
        };
        site.handle.prepare(settings.into()).await.unwrap();
        site.handle.adopt(true).await;
        alice.send(&alice.request("OPTIONS", "sip:bob@127.0.0.1", "c1", 1)).await;
        assert!(bob.receive().await.starts_with("OPTIONS sip:bob@"));
        assert_eq!(site.locations.bindings(), 1);
        let counted = site.metrics.registrar.registrations();
        let counted: Vec<_> = counted.filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(SipRegistration::Registered, 1)]);
    })
    .await;
}
