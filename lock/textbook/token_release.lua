-- Deletes the lock if it still carries our token: compare and delete in one.
-- GET, compare, DEL from a client would be three steps, and the lease can end,
-- and the next owner come, between any two of them.
--
--   KEYS[1] lock   ARGV token   returns 1 = released, 0 = not ours any more

ask_each('get del')
if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
end
return 0
