-- A value is told without blanks and line ends, because one that has them would look like
-- two.
local function plain(text)
  return (text:gsub('[%c =%%]', function(byte) return ('%%%02X'):format(byte:byte()) end))
end
local function all_plain(values)
  for i, value in ipairs(values) do values[i] = plain(value) end
  return values
end
local keys = redis.call('KEYS', '*')
table.sort(keys)
local out = {}
for _, key in ipairs(keys) do
  local type, value = redis.call('TYPE', key).ok, ''
  if type == 'string' then
    value = plain(redis.call('GET', key))
  elseif type == 'hash' then
    local flat, fields = all_plain(redis.call('HGETALL', key)), {}
    for i = 1, #flat, 2 do fields[#fields + 1] = flat[i] .. '=' .. flat[i + 1] end
    table.sort(fields)
    value = table.concat(fields, ' ')
  elseif type == 'list' then
    value = table.concat(all_plain(redis.call('LRANGE', key, 0, -1)), ' ')
  elseif type == 'set' then
    local members = all_plain(redis.call('SMEMBERS', key))
    table.sort(members)
    value = table.concat(members, ' ')
  elseif type == 'zset' then
    value = table.concat(all_plain(redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')), ' ')
  end
  out[#out + 1] = table.concat({key, type, redis.call('PTTL', key), value}, '\t')
end
local names, heard = redis.call('PUBSUB', 'CHANNELS'), {}
table.sort(names)
for _, name in ipairs(names) do
  heard[#heard + 1] = name .. redis.call('PUBSUB', 'NUMSUB', name)[2]
end
return {table.concat(out, '\n'), table.concat(heard, ' ')}
