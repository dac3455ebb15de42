-- After waiters.lua and before acquire.lua: a waiter that finds the lock taken is
-- put on the list.
--
--   ARGV     acquire.lua's seven, then '1' = waits
--   returns  {0, ms} taken: look again within so long; else acquire.lua's

local function is_taken()
    return redis.call('exists', KEYS[1]) == 1 and
        redis.call('hexists', KEYS[1], ARGV[1]) == 0
end

-- A late copy of an attempt that is over: acquire.lua will tell it so.
local function is_late()
    local over = redis.call('get', KEYS[2])
    return over and tonumber(ARGV[3]) < tonumber(string.match(over, '^%d+'))
end

if ARGV[8] == '1' then
    if is_taken() and not is_late() then
        local left = redis.call('pttl', KEYS[1])
        stay(ARGV[1])
        return {0, left < 0 and BEAT_MS / 3 or math.min(left, BEAT_MS / 3)}
    end
    -- Without memory acquire.lua is to be refused: a first write that needs none
    -- would let it through.
    if redis.call('zscore', waiters, ARGV[1]) then
        leave(ARGV[1])
    end
end
