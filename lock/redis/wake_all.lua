-- Before release.lua, force.lua and renew.lua: a release wakes one waiter of each
-- client, as clients listen on one channel for all of theirs.

local function wake(channel)
    redis.call('publish', channel, '1')
end
