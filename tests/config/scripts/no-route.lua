-- Nothing takes requests.
function ksr_reply_route()
end
