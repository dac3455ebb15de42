-- Takes the lock, or takes it once more. Either way the whole lease begins now:
-- whoever comes in again has as much time as whoever comes in first.
--
--   KEYS[1] lock, a hash owner -> holds   ARGV owner, lease ms
--   returns {1, holds} = yours, {0, ms} = somebody else's for that long
--
-- It cannot tell a caller who comes in twice from a command that arrives twice.
-- acquire.lua can; here a lost reply is a "don't know".

ask_each('exists hexists hget hincrby hset pexpire pttl del')
ask('eval', '', '0')
if redis.call('exists', KEYS[1]) == 1 and
   redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return {0, redis.call('pttl', KEYS[1])}
end
local holds = redis.call('hincrby', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return {1, holds}
