-- Frees a lock, whoever holds it, and leaves word for the holders.
--
-- wake() stands in another part before this one.
--
--   KEYS[1]  the lock: a hash with an owner for a field, or a string
--   KEYS[2]  the word: a hash, owner -> the attempt whose hold was ended
--   ARGV     channel of releases, life of the word in ms
--
--   returns 1 = freed, 0 = nobody held it
--
-- Whoever held the lock and lives will ask for the word at the renewal that
-- finds the lock gone. It is about that hold, and about what the same owner had
-- taken before; not about what it takes later, which may end by itself. Where
-- the lock tells which attempt has it, the word may thus outlive the lease, for
-- an owner that was stopped. Where it does not, the word is about any attempt,
-- and has to be gone before a lease that begins now can end.

local lock, word = KEYS[1], KEYS[2]
local kind = redis.call('type', lock).ok
if kind == 'none' then
    return 0
end

local any_attempt = '18446744073709551615'
local attempt = kind == 'hash' and redis.call('hget', lock, 'attempt')
local life = math.max(redis.call('pttl', lock), 0)
if attempt then
    life = life + tonumber(ARGV[2])
end
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
wake(ARGV[1])
for _, owner in ipairs(owners) do
    redis.call('hset', word, owner, attempt or any_attempt)
end
-- Without a life this removes it: nobody renews what has no lease, nor asks.
if redis.call('pttl', word) < life then
    redis.call('pexpire', word, life)
end
return 1
