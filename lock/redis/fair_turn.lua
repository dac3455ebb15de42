-- Before acquire.lua: is it this owner's turn? If not, a place in the queue.
--
--   ARGV     acquire.lua's seven, then the life of "done" in ms; 0 = does not wait
--   returns  {0, ms} not yet: come again within so long; else acquire.lua's

local function take_place(me)
    if not redis.call('zscore', queue, me) then
        local last = redis.call('zrevrange', queue, 0, 0, 'withscores')
        redis.call('zadd', queue, tonumber(last[2] or '0') + 1, me)
    end
    redis.call('zadd', beats, now + BEAT_MS, me)
    -- Everybody who lives renews this, so it ends with the last of them.
    redis.call('pexpire', queue, KEPT_MS)
    redis.call('pexpire', beats, KEPT_MS)
end

-- When it is worth looking again: in time for the next heartbeat; when the holder's lease
-- ends; if the lock is free, when the head is given up.
local function come_again(held, first)
    local left = redis.call('pttl', KEYS[1])
    if not held then
        left = beat_of(first) - now
    end
    if left < 0 or left > BEAT_MS / 3 then
        left = math.floor(BEAT_MS / 3)
    end
    return left
end

-- Its holder comes in again past the queue. A late copy gets no place: see acquire.lua.
if not is_late(tonumber(ARGV[3])) and
    redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    local held = redis.call('exists', KEYS[1]) == 1
    local first = head()
    if held or (first and first ~= ARGV[1]) then
        local ms = come_again(held, first)
        if ARGV[8] ~= '0' then
            take_place(ARGV[1])
            keep_over(tonumber(ARGV[3]), ARGV[8])
        end
        return {0, ms}
    end
    if first then
        leave(ARGV[1])
    end
end

