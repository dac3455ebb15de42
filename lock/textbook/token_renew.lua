-- Sets the lease anew if the lock still carries our token.
--
--   KEYS[1] lock   ARGV token, lease ms
--   returns 1 = done, 0 = it has expired, -1 = somebody else has it

ask_each('get exists pexpire')
if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('pexpire', KEYS[1], ARGV[2])
end
return -redis.call('exists', KEYS[1])
