-- The built-in script of a SipRouter, and the one to start your own from: copy it, change it, and
-- name it in the settings (script = "my.lua"). docs/sip-scripting.md has every function.
--
-- It is a proxy and a registrar: what is addressed to somebody else is sent on, a call's later
-- messages come back through here (Record-Route) and follow their route, phones that register here
-- are called, all of a user at once. With the setting mode = "stateless" it keeps nothing: it is a
-- proxy for other domains only.

-- Switches -----------------------------------------------------------------------------------

-- Replies go to the port that a request came from, even if it did not ask for that with rport.
-- Phones behind a NAT without rport need it; RFC 3581 wants it off.
local FORCE_RPORT = false

-- Clients behind a NAT: their real address goes into the Contact as ;alias=..., and requests to
-- that Contact go there.
local NAT = false

-- Sources that send more than 30 requests in 2 seconds are not heard.
local PIKE = false

-- Whoever registers, or calls in the name of a domain of ours, proves to be one of the setting
-- users; nothing is sent on from a stranger to a stranger. It is on by itself where that setting
-- names a file with users. Not for mode "stateless".
local AUTH = false

-- The phones of a user ring one after the other, by the q that they have registered with, each for
-- SERIAL_MS. Otherwise all at once. Not for mode "stateless".
local SERIAL = false
local SERIAL_MS = 20000

-- Requests -----------------------------------------------------------------------------------

-- Runs for each request that comes in.
function ksr_request_route()
    if not is_sound() then
        return
    end
    if is_stateful() and is_known() then
        return
    end
    if KSR.siputils.has_totag() > 0 then
        return in_dialog()
    end
    if is_stateful() and asks_who() and not is_authentic() then
        return
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

-- Whether users have to prove who they are.
function asks_who()
    return AUTH or KSR.kx.ifdef("USERS")
end

-- Whether this router has transactions: the setting mode.
function is_stateful()
    return KSR.kx.ifdef("STATEFUL")
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
        if KSR.is_REGISTER() then
            KSR.nathelper.fix_nated_register()
        elseif KSR.is_method("INVITE|SUBSCRIBE|UPDATE") then
            KSR.nathelper.set_contact_alias()
        end
    end
    return true
end

-- Whether a request is a matter of a transaction that is there: then that is all there is to do.
function is_known()
    if KSR.is_CANCEL() then
        -- It goes where its INVITE went; one without an INVITE goes nowhere.
        if KSR.tm.t_check_trans() > 0 then
            KSR.tm.t_relay()
        end
        return true
    end
    -- A copy gets the last reply again.
    return not KSR.is_ACK() and KSR.tm.t_check_trans() == 0
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
        -- The ACK of a failure has no route; nothing answers an ACK.
        if is_stateful() then
            -- It ends at its transaction.
            KSR.tm.t_check_trans()
        elseif not KSR.is_myself_ruri() then
            -- It goes where its INVITE went.
            relay()
        end
        return
    end
    KSR.sl.sl_send_reply(404, "Not here")
end

-- Whether the sender is who it says; one that is not has its answer then.
function is_authentic()
    local is_ours = KSR.is_myself_furi()
    if KSR.is_REGISTER() or is_ours then
        -- Of the realm that the setting realm names, else of the sender's domain.
        if KSR.auth_db.auth_check("", "users", 1) < 0 then
            -- 401 for REGISTER, 407 for others.
            KSR.auth.auth_challenge("", 1)
            return false
        end
        -- What is meant for this proxy goes no further.
        KSR.auth.consume_credentials()
    end
    if not is_ours and not KSR.is_myself_ruri() then
        KSR.sl.sl_send_reply(403, "Not relaying")
        return false
    end
    return true
end

-- A request that is addressed to this proxy.
function for_us()
    if KSR.is_OPTIONS() and KSR.corex.has_ruri_user() < 0 then
        KSR.sl.sl_send_reply(200, "OK")
    elseif is_stateful() then
        if KSR.is_REGISTER() then
            -- It answers with the phones that are there, or with what is wrong.
            KSR.registrar.save("location", 0)
        else
            to_user()
        end
    elseif KSR.is_REGISTER() then
        -- There is no registrar without state.
        KSR.hdr.append_to_reply("Allow: INVITE, ACK, CANCEL, BYE, OPTIONS\r\n")
        KSR.sl.sl_send_reply(405, "Method Not Allowed")
    elseif KSR.is_CANCEL() then
        -- Its INVITE went nowhere.
        KSR.sl.sl_send_reply(481, "Call/Transaction Does Not Exist")
    else
        KSR.sl.sl_send_reply(404, "Not here")
    end
end

-- A request to a user of ours goes to the phones that have registered.
function to_user()
    local found = KSR.registrar.lookup("location")
    if found == -2 then
        -- None of them takes this method.
        KSR.sl.send_reply(405, "Method Not Allowed")
    elseif found < 0 then
        KSR.sl.send_reply(404, "Not here")
    elseif SERIAL then
        KSR.tm.t_load_contacts()
        next_phones()
    else
        relay()
    end
end

-- Sends the request on, to $du if there is one, else to the Request-URI.
function relay()
    if is_stateful() then
        if NAT then
            KSR.tm.t_on_reply("on_reply")
        end
        -- It answers by itself where it can not send.
        KSR.tm.t_relay()
    elseif KSR.forward() < 0 then
        -- CANCEL and the ACK of a failure come the same way as their INVITE and go the same way.
        KSR.sl.sl_reply_error()
    end
end

-- Failures -----------------------------------------------------------------------------------

-- Tries the phones of the next q: at first, and whenever those of the last one have failed. When
-- none is left that failure goes up.
function next_phones()
    if KSR.tm.t_is_canceled() > 0 then
        return
    end
    if KSR.tm.t_next_contacts() > 0 then
        KSR.tm.t_set_fr_inv(SERIAL_MS)
        KSR.tm.t_on_failure("next_phones")
        relay()
    end
end

-- Replies ------------------------------------------------------------------------------------

-- Runs for the replies of what was sent on, if clients are behind a NAT.
function on_reply()
    if KSR.nathelper.nat_uac_test(1) > 0 then
        KSR.nathelper.set_contact_alias()
    end
end

-- A function ksr_reply_route() would run for each reply. Without one replies go back along their
-- Via as they came.
