-- Run once in each state, before the script. It gives back the function that carries invocations,
-- and wraps what could hold one beyond its end: pcall, xpcall and coroutines.

local native, WAIT, QUIT, waiting = ...

local G = _G
local error, select, type = error, select, type
local rawequal, rawget, rawset = rawequal, rawget, rawset
local pcall, xpcall, setmetatable = pcall, xpcall, setmetatable
local create, resume, yield = coroutine.create, coroutine.resume, coroutine.yield
local running, isyieldable, close = coroutine.running, coroutine.isyieldable, coroutine.close
local is_over, message, failed = native.is_over, native.message, native.failed
local sub = string.sub

-- How an error begins that Lua found in this file; it is told of the line that called.
local OWN = "[lineway]:"

-- The coroutines that carry invocations; a script may not touch them.
local carriers = setmetatable({}, { __mode = "k" })

-- Errors: what is over is over, and errors of functions in Rust are strings to scripts.

local function guarded(ok, ...)
  if ok then return ok, ... end
  if is_over() then error(QUIT, 0) end
  local e = ...
  if type(e) == "userdata" or type(e) == "string" and sub(e, 1, #OWN) == OWN then
    return false, message(e)
  end
  return false, ...
end

function G.pcall(...)
  if select("#", ...) == 0 then error("bad argument #1 to 'pcall' (value expected)", 2) end
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

local function wrong(f, want)
  error("bad argument #1 to '" .. f .. "' (" .. want .. " expected)", 4)
end

local function checked(c, f)
  if type(c) ~= "thread" then wrong(f, "coroutine") end
  if carriers[c] then error("the coroutine of an invocation is not the script's to handle", 3) end
  return c
end

function coroutine.resume(c, ...)
  return passed(c, resume(checked(c, "resume"), ...))
end

function coroutine.close(c)
  return guarded(close(checked(c, "close")))
end

local function unwrapped(c, ok, ...)
  if ok then return ... end
  local e = ...
  if coroutine.status(c) == "suspended" then close(c) end
  error(e, 0)
end

function coroutine.wrap(f)
  if type(f) ~= "function" then error("bad argument #1 to 'wrap' (function expected)", 2) end
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

-- Finalizers would run outside of every limit; what is closed when an invocation has failed for
-- good does nothing any more.

local has_failed = native.has_failed
local closers = setmetatable({}, { __mode = "k" })

local function closer(close)
  if type(close) ~= "function" or closers[close] then return close end
  local function closing(...)
    if not has_failed() then return close(...) end
  end
  closers[closing] = true
  return closing
end

function G.setmetatable(t, meta)
  if type(meta) == "table" then
    if rawget(meta, "__gc") ~= nil then
      error("__gc is not to be had in a SIP script", 2)
    end
    local close = rawget(meta, "__close")
    if close ~= nil then rawset(meta, "__close", closer(close)) end
  end
  return setmetatable(t, meta)
end

-- Text only: what is compiled elsewhere is not checked by Lua, and may do anything.

local load, loadfile = load, loadfile
local concat, unpack = table.concat, table.unpack
local searchpath = package.searchpath

local function collected(reader)
  local parts, size = {}, 0
  while true do
    local part = reader()
    if part == nil or part == "" then return concat(parts) end
    if type(part) ~= "string" then return nil, "reader function must return a string" end
    size = size + #part
    if size > native.max_chunk then return nil, "the chunk is too large" end
    parts[#parts + 1] = part
  end
end

function G.load(chunk, name, _, ...)
  if type(chunk) == "function" then
    local text, e = collected(chunk)
    if not text then return nil, e end
    chunk, name = text, name or "=(load)"
  elseif type(chunk) == "string" and #chunk > native.max_chunk then
    return nil, "the chunk is too large"
  end
  return load(chunk, name, "t", ...)
end

function G.loadfile(name, _, ...)
  if type(name) ~= "string" then error("bad argument #1 to 'loadfile' (string expected)", 2) end
  return loadfile(name, "t", ...)
end

function G.dofile(name)
  if type(name) ~= "string" then error("bad argument #1 to 'dofile' (string expected)", 2) end
  local f, e = loadfile(name, "t")
  if not f then error(e, 0) end
  return f()
end

package.searchers[2] = function(name)
  local path, e = searchpath(name, package.path)
  if not path then return e end
  local f, fault = loadfile(path, "t")
  if not f then error(fault, 0) end
  return f, path
end

if native.folder then
  local folder = native.folder
  package.path = folder .. "/?.lua;" .. folder .. "/?/init.lua;" .. package.path
end
package.cpath = ""

-- What would stop the worker or change the process is not there.

os.execute, os.exit, os.setlocale, os.tmpname = nil, nil, nil, nil
io.popen, io.read, io.stdin, io.input, io.output = nil, nil, nil, nil, nil
getmetatable(io.stdout).__metatable = "FILE*"

local function printed(separator, ...)
  local parts = { ... }
  for i = 1, select("#", ...) do parts[i] = G.tostring(parts[i]) end
  native.print(concat(parts, separator))
end

function G.print(...) printed("\t", ...) end
function io.write(...) printed("", ...) end

local lines, io_close = io.lines, io.close
function io.lines(name, ...)
  if type(name) ~= "string" then error("bad argument #1 to 'lines' (string expected)", 2) end
  return lines(name, ...)
end
function io.close(file)
  if file == nil then error("bad argument #1 to 'close' (FILE* expected, got no value)", 2) end
  return io_close(file)
end

debug = native.debug
package.loaded.debug = debug

-- Work in C that no hook sees: the time is looked at before it, and it has a most.

local look = native.look
local MANY, MOST = 5000, 5000000
local insert, remove, sort, move = table.insert, table.remove, table.sort, table.move
local collectgarbage = collectgarbage

function table.insert(t, ...)
  if type(t) == "table" and #t > MANY then look() end
  return insert(t, ...)
end

function table.remove(t, ...)
  if type(t) == "table" and #t > MANY then look() end
  return remove(t, ...)
end

local function less(a, b) return a < b end

function table.sort(t, by)
  if type(t) == "table" and #t > MANY then
    look()
    by = by or less
  end
  return sort(t, by)
end

function table.move(a, f, e, ...)
  if math.type(f) == "integer" and math.type(e) == "integer" and f <= e then
    local n = e - f
    if n < 0 or n > MOST then error("bad argument #3 to 'move' (too many elements to move)", 2) end
    if n > MANY then look() end
  end
  return move(a, f, e, ...)
end

function table.unpack(t, ...)
  if type(t) == "table" and (... or #t > MANY) then look() end
  return unpack(t, ...)
end

function table.concat(t, ...)
  if type(t) == "table" and #t > MANY then look() end
  return concat(t, ...)
end

function G.collectgarbage(what, ...)
  if what == "count" then return collectgarbage("count") end
  if what == nil or what == "collect" or what == "step" then
    look()
    return collectgarbage(what or "collect", ...)
  end
  if what == "isrunning" then return true end
  return 0
end

-- Functions that wait.

for _, f in ipairs(waiting) do
  local raw = f.raw
  f.at[f.name] = function(...)
    if not isyieldable() then
      error(native.placed(f.full .. " can not wait here: not inside sort, gsub or require"), 0)
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
