-- The holder's token, which another server counted higher than this one: from
-- now on this one counts on from there as well.
--
--   KEYS[1]  the lock            KEYS[2]  the fence counter
--   ARGV     owner, token, counter's life in ms, the number of the acquire that it
--            is about
--
--   returns 1, or 0 = this owner does not hold it here by that acquire

if redis.call('hexists', KEYS[1], ARGV[1]) == 0 or
    redis.call('hget', KEYS[1], 'attempt') ~= ARGV[4] then
    return 0
end
if tonumber(redis.call('get', KEYS[2]) or '0') < tonumber(ARGV[2]) then
    redis.call('set', KEYS[2], ARGV[2], 'px', ARGV[3])
end
redis.call('hset', KEYS[1], 'token', ARGV[2])
return 1
