-- Sets the end of a lease anew, for its owner only. If that comes earlier than it
-- was to, those that wait are told: by wake(), which stands in another part before
-- this one. They have gone to sleep until the old end.
--
--   KEYS[1]  the lock
--   ARGV     owner, lease ms, number of the command,
--            'renew':    by the watchdog: never shortens the lease
--            'lengthen': by the holder, who has it more than once: the same
--            'set':      by the holder: the lease ends then,
--            channel of releases
--
--   returns  1 = done, 0 = it has expired, -1 = somebody else holds it,
--            -2 = a newer command of this owner was here, or renewal: too late
--
-- A renewal that does not ask "is it still mine?" keeps a stranger's lock alive.

local lock, owner, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
local number, way = tonumber(ARGV[3]), ARGV[4]

if redis.call('hexists', lock, owner) == 0 then
    return -redis.call('exists', lock)
end

-- See numbers.lua. A textbook lock has no numbers.
local last = tonumber(redis.call('hget', lock, 'attempt'))
local renewed = tonumber(redis.call('hget', lock, 'renewed') or 0)
if last and (number < last or number < renewed) then
    return -2
end
if last and (number == last or number == renewed) then
    return 1
end
if way == 'set' and ARGV[5] then
    ask('publish', ARGV[5])
end

-- The PEXPIRE comes first, because it works without memory, as the DEL of release.lua.
local left = redis.call('pttl', lock)
if way == 'set' or left < lease then
    redis.call('pexpire', lock, lease)
end
if last then
    redis.call('hset', lock, way == 'renew' and 'renewed' or 'attempt', ARGV[3])
end
if way == 'set' and lease < left then
    wake(ARGV[5], 'all')
end
return 1
