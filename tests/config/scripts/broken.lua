-- The second line is no Lua.
function ksr_request_route(
