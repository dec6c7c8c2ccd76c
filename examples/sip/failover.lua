-- Calls to the outside by one of several trunks: when one does not take a call, the next one is
-- tried, and the caller hears nothing of it.
--
-- The trunks are written here, or they are a set of the setting dispatcher, which spreads calls
-- over its targets and leaves out those that do not answer OPTIONS.

-- The trunks, in the order in which they are tried.
local TRUNKS = {
    "sip:trunk1.example.net",
    "sip:trunk2.example.net;transport=tcp",
}

-- A set of the setting dispatcher in place of them; 0 = none.
local DISPATCHER_SET = 0
-- How a target is chosen: 0 by the hash of Call-ID, 4 round robin, 8 the first that is up.
local DISPATCHER_ALGORITHM = 4

-- Milliseconds until a trunk that says nothing is given up.
local SILENCE_MS = 3000

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
    if not KSR.is_INVITE() then
        KSR.sl.sl_send_reply(405, "Method Not Allowed")
        return
    end
    KSR.hdr.remove("Route")
    KSR.rr.record_route()
    if not first_trunk() then
        KSR.sl.send_reply(503, "No trunk is up")
        return
    end
    to_trunk()
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

-- Chooses where the call goes first; false where there is nowhere.
function first_trunk()
    if DISPATCHER_SET > 0 then
        return KSR.dispatcher.ds_select_dst(DISPATCHER_SET, DISPATCHER_ALGORITHM) > 0
    end
    return trunk(1)
end

-- Chooses the next one, from the failure route.
function next_trunk()
    if DISPATCHER_SET > 0 then
        -- It gets no calls until its OPTIONS are answered.
        KSR.dispatcher.ds_mark_dst()
        return KSR.dispatcher.ds_next_dst() > 0
    end
    -- An $avp goes with the call from route to route; a variable of Lua would be of all calls.
    return trunk(KSR.pv.get("$avp(trunk)") + 1)
end

function trunk(place)
    if not TRUNKS[place] then
        return false
    end
    KSR.pv.seti("$(avp(trunk)[*])", place)
    return KSR.setdsturi(TRUNKS[place])
end

function to_trunk()
    KSR.tm.t_set_fr(0, SILENCE_MS)
    -- It is armed for one failure only.
    KSR.tm.t_on_failure("trunk_failed")
    KSR.tm.t_relay()
end

-- Runs when a trunk has refused the call or said nothing. What it does not handle goes up.
function trunk_failed()
    if KSR.tm.t_is_canceled() > 0 then
        return
    end
    -- A trunk that rang has reached somebody: that nobody answered is no fault of it. All other
    -- 4xx and 6xx are the callee's.
    local is_silent = KSR.tm.t_branch_timeout() > 0 and KSR.tm.t_branch_replied() < 0
    if is_silent or KSR.tm.t_check_status("^5[0-9][0-9]$") > 0 then
        KSR.info("a trunk failed with " .. KSR.pv.get("$T_reply_code"))
        if next_trunk() then
            to_trunk()
        end
    end
end
