-- Writes a product's count, as the database had it when the epoch began: the keys
-- of all its segments, in one step; and removes those of segments that there are
-- none of any more.
--
--   KEYS     stock:{P:0}, stock:{P:1}, ...: of all that may be there
--   ARGV     epoch, last order counted, units of segment 0, of segment 1, ...
--
--   returns {0, 0, 0}
--           {1, epoch, 0}  a later count is there already: nothing is written
--           {3, 0, 0}      nor then: there are segments beyond KEYS, which would
--                          be forgotten
--
-- All keys are of one count, so the first one speaks for them. They have hash
-- tags of their own, {P:0}, {P:1}, ...: a Redis Cluster would refuse to touch them
-- in one step, so this is for one server.

-- A number that somebody can have counted; nil for anything else, NaN as well.
local function counted(text)
    local number = tonumber(text)
    if number and number >= 0 and number <= 9007199254740991
            and number == math.floor(number) then
        return number
    end
end

-- An error of the call, should the key be something else, has no fields.
local found = redis.pcall('hmget', KEYS[1], 'epoch', 'segments')
local epoch, before = counted(found[1]), counted(found[2])
local segments = #ARGV - 2

-- Who wrote a later count began its epoch after ours: a few were begun since,
-- not 2^32. What says so is garbage; if we went above that, there would be an
-- end to epochs.
local ahead = epoch and epoch - tonumber(ARGV[1]) or 0
if ahead > 0 and ahead <= 4294967296 then
    return {1, epoch, 0}
end
if before and before > #KEYS and before <= 256 then
    return {3, 0, 0}
end
redis.call('del', unpack(KEYS))
for k = 1, segments do
    redis.call('hmset', KEYS[k], 'epoch', ARGV[1], 'units', ARGV[k + 2],
               'order', ARGV[2], 'segments', segments)
end
return {0, 0, 0}
