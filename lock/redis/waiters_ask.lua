-- After waiters.lua and before acquire.lua: a waiter that finds the lock taken is
-- put on the list.
--
--   ARGV     acquire.lua's seven, then the life of "done" in ms; 0 = does not wait
--   returns  {0, ms} taken: look again within so long; else acquire.lua's

local function is_taken()
    return redis.call('exists', KEYS[1]) == 1 and
        redis.call('hexists', KEYS[1], ARGV[1]) == 0
end

-- A late copy of an attempt that is over: acquire.lua will tell it so.
if ARGV[8] ~= '0' and not is_late(tonumber(ARGV[3])) then
    if is_taken() then
        local ms = redis.call('pttl', KEYS[1])
        stay(ARGV[1])
        keep_over(tonumber(ARGV[3]), ARGV[8])
        return {0, ms < 0 and BEAT_MS / 3 or math.min(ms, BEAT_MS / 3)}
    end
    -- Without memory acquire.lua is to be refused: a first write that needs none
    -- would let it through.
    if redis.call('zscore', waiters, ARGV[1]) then
        leave(ARGV[1])
    end
end
