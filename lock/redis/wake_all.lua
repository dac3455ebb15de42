-- Before release.lua, force.lua and renew.lua: a release wakes one waiter of each
-- client, as clients listen on one channel for all of theirs. WHOM 'all' wakes all.

local WAKE_NEEDS = ''

local function wake(channel, whom)
    redis.call('publish', channel, whom or 'one')
end
