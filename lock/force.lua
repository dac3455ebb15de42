-- Frees a lock, whoever holds it, and leaves word for the holders.
--
--   KEYS[1]  the lock: a hash with an owner for a field, or a string
--   KEYS[2]  the word: a hash, owner -> 1
--   ARGV     channel of releases, life of the word in ms
--
--   returns 1 = freed, 0 = nobody held it
--
-- The word outlives the lease: whoever held the lock and lives will ask for it
-- at the renewal that finds the lock gone.

local lock, word = KEYS[1], KEYS[2]
local kind = redis.call('type', lock).ok
if kind == 'none' then
    return 0
end

local life = math.max(redis.call('pttl', lock), 0) + tonumber(ARGV[2])
local owners = {}
if kind == 'hash' then
    for _, field in ipairs(redis.call('hkeys', lock)) do
        if field ~= 'attempt' and field ~= 'token' then
            owners[#owners + 1] = field
        end
    end
else
    owners[1] = redis.call('get', lock)
end

-- The DEL comes first, as in release.lua: it works without memory.
redis.call('del', lock)
redis.call('publish', ARGV[1], '1')
for _, owner in ipairs(owners) do
    redis.call('hset', word, owner, 1)
end
if redis.call('pttl', word) < life then
    redis.call('pexpire', word, life)
end
return 1
