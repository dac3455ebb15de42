-- Writes a segment's count, as the database had it when the epoch began; or
-- removes it, if there is no such segment any more.
--
--   KEYS[1]  stock:{P:k}
--   ARGV     epoch, units, last order counted, k, segments there are, segments
--            whose keys were removed if there are none any more
--
--   returns {0, 0, 0, 0}
--           {1, epoch, 0, 0}     a later count is there already: nothing is
--                                written
--           {3, 0, 0, segments}  nor then: there were more segments, whose keys
--                                would be forgotten

local found = redis.pcall('hmget', KEYS[1], 'epoch', 'segments')
local epoch, before = tonumber(found[1]), tonumber(found[2])

-- 2^52: see take.lua.
if epoch and epoch <= 4503599627370496 and epoch > tonumber(ARGV[1]) then
    return {1, epoch, 0, 0}
end
if before and before <= 256
        and before > math.max(tonumber(ARGV[5]), tonumber(ARGV[6])) then
    return {3, 0, 0, before}
end
redis.call('del', KEYS[1])
if tonumber(ARGV[4]) < tonumber(ARGV[5]) then
    redis.call('hmset', KEYS[1], 'epoch', ARGV[1], 'units', ARGV[2],
               'order', ARGV[3], 'segments', ARGV[5])
end
return {0, 0, 0, 0}
