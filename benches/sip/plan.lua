-- The dial plan of the bench: what the other side's configuration does, in the same order.
function ksr_request_route()
    if KSR.maxfwd.process_maxfwd(10) < 0 then
        KSR.sl.sl_send_reply(483, "Too Many Hops")
        return
    end
    if KSR.is_method("OPTIONS") and KSR.is_myself_ruri() then
        KSR.sl.sl_send_reply(200, "OK")
        return
    end
    if KSR.is_method("INVITE") then
        KSR.rr.record_route()
    end
ROUTE
end
