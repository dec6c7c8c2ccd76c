-- It fails while it is loaded.
local hosts = nil
hosts.first = "192.0.2.1"
