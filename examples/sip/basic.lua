-- The built-in script of a SipRouter.
function ksr_request_route()
    KSR.forward()
end
