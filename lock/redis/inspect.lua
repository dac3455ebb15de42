-- The holder of the lock.
--
--   KEYS[1]  the lock
--   returns  {} = nobody, or {owner, holds, token, lease left in ms}; if the owner has
--            a label, "OWNER LABEL". A hash of somebody else's is held as well: nobody
--            gets a lock of that name

ask_each('hgetall pttl')
local fields = redis.call('hgetall', KEYS[1])
local found, label = {'', 0, 0}, ''
for i = 1, #fields, 2 do
    if fields[i] == 'token' then
        found[3] = tonumber(fields[i + 1]) or 0
    elseif fields[i] == 'label' then
        label = ' ' .. fields[i + 1]
    elseif fields[i] ~= 'attempt' and fields[i] ~= 'renewed' then
        found[1], found[2] = fields[i], tonumber(fields[i + 1]) or 0
    end
end
if #fields == 0 then
    return {}
end
found[1] = found[1] .. label
found[4] = redis.call('pttl', KEYS[1])
return found
