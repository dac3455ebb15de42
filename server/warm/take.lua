-- Takes what was sold off a segment's count; or, with 0 units, only asks.
--
--   KEYS[1]  stock:{P:k}
--   ARGV     epoch, units
--
--   returns {0, units left, last order counted, segments there were then}
--           {1, epoch, 0, segments}  it was counted under another epoch:
--                                    nothing is taken
--           {2, 0, 0, 0}             there is no count
--
-- The question "is it still the same count?" is asked in here: a new one may
-- know of the sale already, and must not be told of it again.

-- An error of the call, should the key be something else, has no fields.
local found = redis.pcall('hmget', KEYS[1], 'epoch', 'units', 'order',
                         'segments')
local epoch, units = tonumber(found[1]), tonumber(found[2])
local order, segments = tonumber(found[3]) or 0, tonumber(found[4]) or 0

-- Above 2^52, or 2^53 units, nobody has counted. "not (a and b)" and not "or",
-- because of NaN, which compares as false.
if not (epoch and epoch >= 1 and epoch <= 4503599627370496
        and units and units >= 0 and units < 9007199254740992) then
    return {2, 0, 0, 0}
end
if epoch ~= tonumber(ARGV[1]) then
    return {1, epoch, 0, segments}
end
if tonumber(ARGV[2]) > 0 then
    units = math.max(units - tonumber(ARGV[2]), 0)
    redis.call('hset', KEYS[1], 'units', string.format('%.0f', units))
end
return {0, units, order, segments}
