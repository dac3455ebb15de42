-- Gives back one hold; with the last one the lock is gone. Tells nobody.
--
--   KEYS[1] lock, a hash owner -> holds   ARGV owner, holds to be left
--   returns holds left; -1 = this owner does not hold it
--
-- The caller says what is to be left: a command that comes twice, because its
-- reply was lost, would count down twice, and free what is still held.

if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return -1
end
local left = tonumber(ARGV[2])
if left > 0 then
    redis.call('hset', KEYS[1], ARGV[1], left)
else
    redis.call('del', KEYS[1])
end
return left
