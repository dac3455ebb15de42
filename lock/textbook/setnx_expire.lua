-- SETNX and EXPIRE in one: no crash can come between them any more.
--
--   KEYS[1] lock   ARGV id, lease ms   returns 1 = taken, 0 = somebody has it

ask_each('setnx pexpire')
if redis.call('setnx', KEYS[1], ARGV[1]) == 0 then
    return 0
end
return redis.call('pexpire', KEYS[1], ARGV[2])
