-- The queue of a fair lock. This part stands before acquire.lua, release.lua
-- and others: the server gets both as one script.
--
--   the last two KEYS   queue: owner -> place in it
--                       beats: owner -> until when it counts as alive
--
-- All times are this server's own. Clients' clocks differ, and deadlines made
-- of them drift for hours. A waiter's heartbeat is refreshed by its own tries
-- and touched by nobody else's.

local beats = table.remove(KEYS)
local queue = table.remove(KEYS)
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function is_alive(waiter)
    return tonumber(redis.call('zscore', beats, waiter) or '0') > now
end

local function leave(waiter)
    redis.call('zrem', queue, waiter)
    redis.call('zrem', beats, waiter)
end

-- Whose turn it is; nil = nobody waits. The dead are thrown out when they have
-- come to the front: that is early enough, and cheap.
local function head()
    local waiter = redis.call('zrange', queue, 0, 0)[1]
    while waiter and not is_alive(waiter) do
        leave(waiter)
        waiter = redis.call('zrange', queue, 0, 0)[1]
    end
    return waiter
end

local function in_line()
    local alive = {}
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
