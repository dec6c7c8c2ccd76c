//! What the routes of a transaction are told, and what they leave for each other.

use std::time::Duration;

use super::kit::{Phone, Site, reply, run};

/// What comes next, which begins so.
async fn next(phone: &Phone, start: &str) -> String {
    let got = phone.receive().await;
    assert!(got.starts_with(start), "{start} was to come: {got}");
    got
}

/// The line of a message that begins so.
fn line<'a>(message: &'a str, start: &str) -> &'a str {
    message.lines().find(|line| line.starts_with(start)).unwrap_or_default()
}

/// The ACK of what answered an INVITE.
fn ack(invite: &str, answer: &str) -> String {
    invite.replace("INVITE", "ACK").replace(line(invite, "To:"), line(answer, "To:"))
}

#[tokio::test(start_paused = true)]
async fn sip_r098_a_reply_route_sees_flags_and_is_the_one_of_its_branch() {
    run(async {
        let site = Site::new(
            "local function line(who)
               KSR.hdr.append('X-' .. who .. ': ' .. KSR.pv.get('$mf') .. ' ' .. KSR.pv.get('$bf')
                 .. ' ' .. tostring(KSR.tmx.t_is_reply_route()) .. '\\r\\n')
             end
             function ksr_request_route()
               KSR.setflag(1) KSR.setbflag(2)
               KSR.tm.t_on_branch('branch') KSR.tm.t_on_failure('failed')
               KSR.tm.t_relay()
             end
             function ksr_reply_route() line('Global') end
             function branch() KSR.setflag(9) KSR.setbflag(3) KSR.tm.t_on_reply('replied') end
             function replied() line('Branch') KSR.setflag(4) KSR.setbflag(5) end
             function failed()
               KSR.tm.t_reply(480, KSR.pv.get('$mf') .. ' ' .. KSR.tm.t_branch_replied())
             end",
        );
        let (alice, a) = (site.phone().await, site.phone().await);
        let invite = alice.request("INVITE", &format!("sip:x@{}", a.at()), "c1", 1);
        alice.send(&invite).await;
        next(&alice, "SIP/2.0 100").await;
        let to_a = next(&a, "INVITE").await;
        for (status, seen) in [("180 Ringing", "2 12"), ("183 Progress", "18 44")] {
            a.send(&reply(&to_a, status)).await;
            let got = next(&alice, "SIP/2.0 18").await;
            assert_eq!(line(&got, "X-Global"), "X-Global: 0 0 1");
            assert_eq!(line(&got, "X-Branch"), format!("X-Branch: {seen} 1"), "{status}");
        }
        a.send(&reply(&to_a, "486 Busy Here")).await;
        let answer = next(&alice, "SIP/2.0 480 18 1\r\n").await;
        alice.send(&ack(&invite, &answer)).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sip_r038_times_that_are_set_behind_t_relay_count() {
    run(async {
        let site =
            Site::new("function ksr_request_route() KSR.tm.t_relay() KSR.tm.t_set_fr(0, 300) end");
        let (alice, a) = (site.phone().await, site.phone().await);
        let began = tokio::time::Instant::now();
        alice.send(&alice.request("INVITE", &format!("sip:x@{}", a.at()), "c1", 1)).await;
        next(&alice, "SIP/2.0 100").await;
        next(&alice, "SIP/2.0 408").await;
        assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sip_r108_the_ack_of_a_2xx_that_was_made_here_ends_here() {
    for script in [
        "function ksr_request_route()
           if KSR.is_ACK() then KSR.tm.t_relay() else KSR.tm.t_reply(200, 'OK') end
         end",
        "function ksr_request_route()
           if not KSR.is_ACK() then KSR.tm.t_reply(200, 'OK')
           elseif KSR.tm.t_check_trans() ~= 0 then KSR.tm.t_relay() end
         end",
    ] {
        run(async {
            let site = Site::new(script);
            let (alice, a) = (site.phone().await, site.phone().await);
            let invite = alice.request("INVITE", &format!("sip:x@{}", a.at()), "c1", 1);
            alice.send(&invite).await;
            let answer = next(&alice, "SIP/2.0 200 OK").await;
            alice.send(&ack(&invite, &answer).replace("z9hG4bKc1", "z9hG4bKack")).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            alice.assert_silent();
            a.assert_silent();
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn sip_r088_a_target_without_an_address_leaves_the_failure_as_it_was() {
    // Nothing may be sent to the second one: it is for broadcasts.
    let (unknown, refused) = ("nowhere.invalid", "255.255.255.255");
    for (drops, host, code, expected) in [
        ("", unknown, 478, "SIP/2.0 486"),
        ("KSR.tm.t_drop_replies('n')", unknown, 478, "SIP/2.0 486"),
        ("KSR.tm.t_drop_replies_all()", unknown, 478, "SIP/2.0 478"),
        ("", refused, 477, "SIP/2.0 477"),
        ("KSR.tm.t_drop_replies('n')", refused, 477, "SIP/2.0 486"),
    ] {
        run(async {
            let site = Site::new(&format!(
                "function ksr_request_route() KSR.tm.t_on_failure('failed') KSR.tm.t_relay() end
                 function failed()
                   {drops}
                   KSR.seturi('sip:x@{host}')
                   if KSR.tm.t_relay() ~= -{code} then error('it is to be told of {code}') end
                 end"
            ));
            let (alice, a) = (site.phone().await, site.phone().await);
            let invite = alice.request("INVITE", &format!("sip:x@{}", a.at()), "c1", 1);
            alice.send(&invite).await;
            next(&alice, "SIP/2.0 100").await;
            let to_a = next(&a, "INVITE").await;
            a.send(&reply(&to_a, "486 Busy Here")).await;
            let answer = next(&alice, expected).await;
            alice.send(&ack(&invite, &answer)).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn sip_r111_a_redirection_names_the_targets_that_are_set_when_it_is_made() {
    for script in [
        "function ksr_request_route()
           KSR.tm.t_newtran()
           KSR.seturi('sip:m@127.0.0.9') KSR.corex.append_branch_uri_q('sip:n@127.0.0.9', '0.5')
           KSR.tm.t_reply(302, 'Moved')
         end",
        "function ksr_request_route() KSR.tm.t_on_failure('failed') KSR.tm.t_relay() end
         function failed()
           KSR.seturi('sip:m@127.0.0.9') KSR.corex.append_branch_uri_q('sip:n@127.0.0.9', '0.5')
           KSR.tm.t_reply(302, 'Moved')
         end",
    ] {
        run(async {
            let site = Site::new(script);
            let (alice, a) = (site.phone().await, site.phone().await);
            let invite = alice.request("INVITE", &format!("sip:x@{}", a.at()), "c1", 1);
            alice.send(&invite).await;
            if script.contains("failed") {
                next(&alice, "SIP/2.0 100").await;
                let to_a = next(&a, "INVITE").await;
                a.send(&reply(&to_a, "486 Busy Here")).await;
            }
            let answer = next(&alice, "SIP/2.0 302 Moved").await;
            let contact = "Contact: <sip:m@127.0.0.9>, <sip:n@127.0.0.9>;q=0.5";
            assert_eq!(line(&answer, "Contact"), contact);
            alice.send(&ack(&invite, &answer)).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn sip_r063_a_second_t_relay_to_nobody_else_sends_nothing() {
    run(async {
        let site = Site::new(
            "function ksr_request_route()
               local one, two = KSR.tm.t_relay(), KSR.tm.t_relay()
               if one ~= 1 or two >= 0 then error(one .. ' ' .. two) end
             end",
        );
        let (alice, a) = (site.phone().await, site.phone().await);
        let invite = alice.request("INVITE", &format!("sip:x@{}", a.at()), "c1", 1);
        alice.send(&invite).await;
        next(&alice, "SIP/2.0 100").await;
        let to_a = next(&a, "INVITE").await;
        a.send(&reply(&to_a, "486 Busy Here")).await;
        next(&a, "ACK").await;
        a.assert_silent();
        let answer = next(&alice, "SIP/2.0 486").await;
        alice.send(&ack(&invite, &answer)).await;
    })
    .await;
}
