-- Sends everything on.
function ksr_request_route()
    KSR.forward()
end
