-- Run once in each state, before the script. It gives back the function that carries invocations,
-- and wraps what could hold one beyond its end: pcall, xpcall and coroutines.

local native, WAIT, QUIT, waiting = ...

local G = _G
local error, rawequal, rawget, select, type = error, rawequal, rawget, select, type
local pcall, xpcall, setmetatable = pcall, xpcall, setmetatable
local create, resume, yield = coroutine.create, coroutine.resume, coroutine.yield
local running, isyieldable, close = coroutine.running, coroutine.isyieldable, coroutine.close
local is_over, message, failed = native.is_over, native.message, native.failed

-- The coroutines that carry invocations; a script may not touch them.
local carriers = setmetatable({}, { __mode = "k" })

-- Errors: what is over is over, and errors of functions in Rust are strings to scripts.

local function guarded(ok, ...)
  if ok then return ok, ... end
  if is_over() then error(QUIT, 0) end
  local e = ...
  if type(e) == "userdata" then return false, message(e) end
  return false, ...
end

function G.pcall(...)
  return guarded(pcall(...))
end

function G.xpcall(f, handler, ...)
  if type(handler) ~= "function" then
    error("bad argument #2 to 'xpcall' (function expected)", 2)
  end
  local function handle(e)
    if is_over() then return QUIT end
    return handler(message(e))
  end
  return guarded(xpcall(f, handle, ...))
end

-- Coroutines: a wait inside of one is handed on to the engine.

local function passed(c, ...)
  local ok, first = ...
  if ok then
    if rawequal(first, WAIT) then return passed(c, resume(c, yield(WAIT))) end
    return ...
  end
  return guarded(...)
end

local function checked(c)
  if carriers[c] then error("the coroutine of an invocation is not the script's to handle", 3) end
  return c
end

function coroutine.resume(c, ...)
  return passed(c, resume(checked(c), ...))
end

function coroutine.close(c)
  return guarded(close(checked(c)))
end

local function unwrapped(c, ok, ...)
  if ok then return ... end
  local e = ...
  if coroutine.status(c) == "suspended" then close(c) end
  error(e, 0)
end

function coroutine.wrap(f)
  local c = create(f)
  return function(...)
    return unwrapped(c, passed(c, resume(c, ...)))
  end
end

function coroutine.yield(...)
  if carriers[running()] then error("attempt to yield from outside a coroutine", 2) end
  return yield(...)
end

function coroutine.running()
  local c, main = running()
  return c, main or carriers[c] == true
end

function coroutine.isyieldable(...)
  local c = ... or running()
  return not carriers[c] and isyieldable(c)
end

-- Finalizers would run outside of every limit.

local function no_finalizer(meta)
  if type(meta) == "table" and rawget(meta, "__gc") ~= nil then
    error("__gc is not to be had in a SIP script", 3)
  end
  return meta
end

function G.setmetatable(t, meta)
  return setmetatable(t, no_finalizer(meta))
end

-- Functions that wait.

for _, f in ipairs(waiting) do
  local raw = f.raw
  f.at[f.name] = function(...)
    if not isyieldable() then
      error(f.full .. " can not wait here: not inside sort, gsub, load or require", 2)
    end
    local given = raw(...)
    if rawequal(given, WAIT) then return yield(WAIT) end
    return given
  end
end

KSR.x = {
  exit = function() native.over(1) error(QUIT, 0) end,
  drop = function() native.over(2) error(QUIT, 0) end,
}

-- The carrier of invocations: one after the other, so that a coroutine serves many.

local function caught(e)
  if is_over() then return QUIT end
  return failed(e)
end

return function(what)
  carriers[running()] = true
  while true do
    local route = what
    if what == 1 then
      route = rawget(G, "ksr_request_route")
    elseif what == 2 then
      route = rawget(G, "ksr_reply_route")
    elseif type(what) == "string" then
      route = rawget(G, what)
    end
    what = yield(xpcall(route, caught))
  end
end
