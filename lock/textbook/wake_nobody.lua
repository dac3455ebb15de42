-- Before renew.lua, for locks whose waiters look by themselves.

local function wake()
end
