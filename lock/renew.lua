-- Renews the lease of a lock, for its owner only.
--
--   KEYS[1]  the lock
--   ARGV     owner, lease ms, '1' = may shorten the lease as well
--
--   returns 1 = renewed, 0 = it has expired, -1 = somebody else holds it
--
-- The question "is it still mine?" is asked in here, where nothing can change
-- between the answer and the PEXPIRE. A renewal that does not ask keeps a
-- stranger's lock alive.

if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return -redis.call('exists', KEYS[1])
end
if ARGV[3] == '1' or redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1
