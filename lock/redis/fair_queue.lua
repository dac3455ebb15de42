-- The queue of a fair lock. This part stands before acquire.lua, release.lua
-- and others: the server gets both as one script.
--
--   the last two KEYS   queue: owner -> place in it
--                       beats: owner -> until when it counts as alive; if that
--                              is no whole number, spare() has set it
--
-- All times are this server's own, because clients' clocks differ. A waiter's heartbeat is
-- refreshed by its own tries, of which there are three in BEAT_MS, and by nobody else's.
-- When nobody has been heard of for KEPT_MS, both keys end.

local BEAT_MS, KEPT_MS = 2000, 10000

local WAKE_NEEDS = 'zadd zrem zscore zrange zrevrange zrangebyscore'

local beats = table.remove(KEYS)
local queue = table.remove(KEYS)
local line = queue
ask('time')
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function beat_of(waiter)
    return tonumber(redis.call('zscore', beats, waiter) or '0')
end

local function is_alive(waiter)
    return beat_of(waiter) > now
end

local function leave(waiter)
    redis.call('zrem', queue, waiter)
    redis.call('zrem', beats, waiter)
end

-- Gives a heartbeat from now on to those who may be alive, whatever their beats say.
--
-- If nobody at all was heard of for half a heartbeat, the server was stopped, or could not
-- be reached: a waiter that was alive when the last one was heard of must have the time to
-- come back. Only once, until it does come, because there may be none but the dead.
--
-- If a beat is further ahead than it can be, the clock was set back, and the dead would
-- stand in the way for as long as that.
local function spare()
    local newest = redis.call('zrevrange', beats, 0, 0, 'withscores')
    local heard = tonumber(newest[2] or '0') - BEAT_MS
    local set_back = heard > now + 1
    local silent = heard + BEAT_MS / 2 < now and heard + KEPT_MS > now
    if not set_back and not silent then
        return
    end
    local from = set_back and now + BEAT_MS + 1 or heard
    from = string.format('(%.1f', from)
    for _, waiter in ipairs(redis.call('zrangebyscore', beats, from, '+inf')) do
        if set_back or beat_of(waiter) % 1 == 0 then
            redis.call('zadd', beats, now + BEAT_MS + 0.5, waiter)
        end
    end
end

-- The waiter whose turn it is; nil = nobody waits. The dead are thrown out at the front.
local function head()
    if redis.call('exists', queue) == 0 then
        return nil
    end
    spare()
    local waiter = redis.call('zrange', queue, 0, 0)[1]
    while waiter and not is_alive(waiter) do
        leave(waiter)
        waiter = redis.call('zrange', queue, 0, 0)[1]
    end
    return waiter
end

local function in_line()
    local alive = {}
    spare()
    for _, waiter in ipairs(redis.call('zrange', queue, 0, -1)) do
        if is_alive(waiter) then
            alive[#alive + 1] = waiter
        end
    end
    return alive
end

-- Only the head is woken, on a channel of its own.
local function wake(channel)
    redis.call('publish', channel .. (head() or ''), '1')
end
