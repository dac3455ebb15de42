-- Before acquire.lua and force.lua: asks for all that the lock will take up to its release,
-- so that nobody gets what it cannot give back. The rights are those of dlock(3).
--
--   KEYS[2]    of acquire.lua: an owner that has given it back before is not asked
--   last ARGV  what channels begin with

local channel = table.remove(ARGV)

ask('exists', KEYS[2])
if redis.acl_check_cmd and redis.call('exists', KEYS[2]) == 0 then
    ask_each('get set del hset hget hexists pexpire pttl time ping ' .. WAKE_NEEDS)
    ask('eval', '', '0')
    ask('publish', channel)
    ask('subscribe', channel)
    ask('unsubscribe', channel)
end
