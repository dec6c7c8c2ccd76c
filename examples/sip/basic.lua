-- The built-in script of a SipRouter, and the one to start your own from: copy it, change it, and
-- name it in the settings (script = "my.lua"). docs/sip-scripting.md has every function.
--
-- It is a proxy for other domains: what is addressed to somebody else is sent on, a call's later
-- messages come back through here (Record-Route) and follow their route, and what is addressed to
-- this proxy is answered.

-- Switches -----------------------------------------------------------------------------------

-- Replies go to the port that a request came from, even if it did not ask for that with rport.
-- Phones behind a NAT without rport need it; RFC 3581 wants it off.
local FORCE_RPORT = false

-- Clients behind a NAT: their real address goes into the Contact as ;alias=..., and requests to
-- that Contact go there.
local NAT = false

-- Sources that send more than 30 requests in 2 seconds are not heard.
local PIKE = false

-- Requests -----------------------------------------------------------------------------------

-- Runs for each request that comes in.
function ksr_request_route()
    if not is_sound() then
        return
    end
    if KSR.siputils.has_totag() > 0 then
        return in_dialog()
    end

    -- A route that somebody chose beforehand is not followed: the Request-URI says where to.
    KSR.hdr.remove("Route")
    if KSR.is_method("INVITE|SUBSCRIBE|REFER") then
        KSR.rr.record_route()
    end
    if KSR.is_myself_ruri() then
        return for_us()
    end
    relay()
end

-- Whether a request is fit to be handled; one that is not has its answer then.
function is_sound()
    if FORCE_RPORT then
        KSR.force_rport()
    end
    if PIKE and KSR.pike.pike_check_req() < 0 then
        return false
    end
    -- A loop ends here. Without the header the request gets one, of 70.
    if KSR.maxfwd.process_maxfwd(70) < 0 then
        KSR.sl.sl_send_reply(483, "Too Many Hops")
        return false
    end
    -- It answers 400 and says what is wrong.
    if KSR.sanity.sanity_check(17895, 7) < 0 then
        return false
    end
    if NAT and KSR.nathelper.nat_uac_test(19) > 0 then
        KSR.force_rport()
        if KSR.is_method("INVITE|SUBSCRIBE|UPDATE") then
            KSR.nathelper.set_contact_alias()
        end
    end
    return true
end

-- A request within a dialog follows the route that was recorded when the dialog began.
function in_dialog()
    if KSR.rr.loose_route() > 0 then
        if NAT then
            KSR.nathelper.handle_ruri_alias()
        end
        return relay()
    end
    if KSR.is_ACK() then
        -- The ACK of a failure has no route and goes where its INVITE went; nothing answers an ACK.
        if not KSR.is_myself_ruri() then
            relay()
        end
        return
    end
    KSR.sl.sl_send_reply(404, "Not here")
end

-- A request that is addressed to this proxy.
function for_us()
    if KSR.is_OPTIONS() and KSR.corex.has_ruri_user() < 0 then
        KSR.sl.sl_send_reply(200, "OK")
    elseif KSR.is_REGISTER() then
        -- There is no registrar here.
        KSR.hdr.append_to_reply("Allow: INVITE, ACK, CANCEL, BYE, OPTIONS\r\n")
        KSR.sl.sl_send_reply(405, "Method Not Allowed")
    elseif KSR.is_CANCEL() then
        -- Its INVITE went nowhere.
        KSR.sl.sl_send_reply(481, "Call/Transaction Does Not Exist")
    else
        KSR.sl.sl_send_reply(404, "Not here")
    end
end

-- Sends the request on, to $du if there is one, else to the Request-URI. Its CANCEL and the ACK of
-- a failure come the same way and go the same way.
function relay()
    if KSR.kx.ifdef("STATEFUL") then
        -- It answers by itself where it can not send.
        KSR.tm.t_relay()
    elseif KSR.forward() < 0 then
        KSR.sl.sl_reply_error()
    end
end

-- Replies ------------------------------------------------------------------------------------

-- A function ksr_reply_route() would run for each reply. Without one replies go back along their
-- Via as they came.
