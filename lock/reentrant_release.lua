-- Gives back one hold; with the last one the lock is gone. Tells nobody.
--
--   KEYS[1] lock, a hash owner -> holds   ARGV owner
--   returns holds left; -1 = this owner does not hold it

local holds = tonumber(redis.call('hget', KEYS[1], ARGV[1]))
if not holds then
    return -1
end
if holds > 1 then
    return redis.call('hincrby', KEYS[1], ARGV[1], -1)
end
redis.call('del', KEYS[1])
return 0
