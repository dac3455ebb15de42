-- Waiters of a lock. This part stands before acquire.lua, release.lua and others: the
-- server gets both as one script.
--
--   the last KEY   waiters: owner -> until when it counts as alive
--
-- All times are this server's own. A waiter refreshes its entry with each of its tries. It
-- ends when the waiter gets the lock or gives up, or has not tried for so long:

local BEAT_MS = 2000

local WAKE_NEEDS = 'zadd zrem zscore zrange zrangebyscore zremrangebyscore info'

local waiters = table.remove(KEYS)
local line = waiters

local function now()
    local clock = redis.call('time')
    return clock[1] * 1000 + math.floor(clock[2] / 1000)
end

local function stay(waiter)
    redis.call('zadd', waiters, now() + BEAT_MS, waiter)
    redis.call('pexpire', waiters, BEAT_MS)
end

local function leave(waiter)
    redis.call('zrem', waiters, waiter)
end

-- The others are not in line any more, see in_line().
local function is_alive()
    return true
end

-- Those that are alive, the one that tried longest ago first. If one is so for longer than
-- can be, the clock was set back.
local function in_line()
    if redis.call('exists', waiters) == 0 then
        return {}
    end
    local most = string.format('(%.0f', now() + BEAT_MS)
    redis.call('zremrangebyscore', waiters, '-inf', now())
    for _, waiter in ipairs(redis.call('zrangebyscore', waiters, most, '+inf')) do
        stay(waiter)
    end
    return redis.call('zrange', waiters, 0, -1)
end

-- Wakes one of them, on a channel of its own. If nobody listens there, it is the next one's
-- turn. The one that is woken stays on the list, behind all others, until it has the lock.
--
-- In a cluster it may listen at another node, of which nobody is told. So there the first
-- one is the only one: it leaves the list, and comes back with its next try.
local function wake(channel)
    for i, waiter in ipairs(in_line()) do
        if redis.call('publish', channel .. waiter, '1') > 0 then
            return stay(waiter)
        end
        leave(waiter)
        if i == 1 and string.find(redis.call('info', 'cluster'), 'enabled:1') then
            return
        end
    end
end
