-- Takes what was sold off a segment's count; or, with 0 units, only asks.
--
--   KEYS[1]  stock:{P:k}
--   ARGV     epoch, units
--
--   returns {0, units left, last order counted}
--           {1, epoch, 0}  it was counted under another epoch: nothing is taken
--           {2, 0, 0}      there is no count
--
-- The question "is it still the same count?" is asked in here: a new one may
-- know of the sale already, and must not be told of it again.

-- See load.lua.
local function counted(text)
    local number = tonumber(text)
    if number and number >= 0 and number <= 9007199254740991
            and number == math.floor(number) then
        return number
    end
end

-- An error of the call, should the key be something else, has no fields.
local found = redis.pcall('hmget', KEYS[1], 'epoch', 'units', 'order')
local epoch, units = counted(found[1]), counted(found[2])
local order = counted(found[3])

if not (epoch and units and order) then
    return {2, 0, 0}
end
if epoch ~= tonumber(ARGV[1]) then
    return {1, epoch, 0}
end
if tonumber(ARGV[2]) > 0 then
    units = math.max(units - tonumber(ARGV[2]), 0)
    redis.call('hset', KEYS[1], 'units', string.format('%.0f', units))
end
return {0, units, order}
