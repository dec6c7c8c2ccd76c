-- A registrar whose users have several phones, tried one after the other: those with the highest q
-- first, those of one q side by side, for some seconds each. Somebody who answers nowhere gets a
-- last try at a voice mail.

-- Milliseconds that the phones of one q ring.
local RING_MS = 15000
-- Where a call goes that nobody takes; an empty text: nowhere.
local VOICE_MAIL = "sip:voicemail.example.com"

function ksr_request_route()
    if KSR.maxfwd.process_maxfwd(70) < 0 then
        KSR.sl.sl_send_reply(483, "Too Many Hops")
        return
    end
    if KSR.sanity.sanity_check(17895, 7) < 0 then
        return
    end
    if KSR.is_CANCEL() then
        if KSR.tm.t_check_trans() > 0 then
            KSR.tm.t_relay()
        end
        return
    end
    if KSR.siputils.has_totag() > 0 then
        return in_dialog()
    end
    if KSR.is_REGISTER() then
        KSR.registrar.save("location", 0)
        return
    end
    KSR.hdr.remove("Route")
    KSR.rr.record_route()
    local found = KSR.registrar.lookup("location")
    if found == -2 then
        KSR.sl.send_reply(405, "Method Not Allowed")
        return
    end
    if found < 0 and not to_voice_mail() then
        KSR.sl.send_reply(404, "Not here")
        return
    end
    if found > 0 then
        KSR.tm.t_load_contacts()
        next_phones()
    end
end

function in_dialog()
    if KSR.rr.loose_route() > 0 then
        KSR.tm.t_relay()
    elseif KSR.is_ACK() then
        KSR.tm.t_check_trans()
    else
        KSR.sl.sl_send_reply(404, "Not here")
    end
end

-- Runs for the first phones, and as failure route for the next ones.
function next_phones()
    -- It runs for a call that was cancelled too, and for one that was refused: 6xx is meant for all
    -- phones of the user.
    if KSR.tm.t_is_canceled() > 0 or KSR.tm.t_check_status("^6") > 0 then
        return
    end
    if KSR.tm.t_next_contacts() > 0 then
        KSR.tm.t_set_fr_inv(RING_MS)
        KSR.tm.t_on_failure("next_phones")
        KSR.tm.t_relay()
    else
        to_voice_mail()
    end
end

-- Sends a call to the voice mail; false where there is none.
function to_voice_mail()
    if VOICE_MAIL == "" or not KSR.is_INVITE() then
        return false
    end
    -- It is asked by the name that was called, not by that of the last phone.
    KSR.seturi(KSR.pv.get("$ou"))
    KSR.setdsturi(VOICE_MAIL)
    KSR.tm.t_reset_fr()
    KSR.tm.t_relay()
    return true
end
