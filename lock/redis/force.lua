-- Frees a lock, whoever holds it, and leaves word for the holders. If the lock has
-- numbers (numbers.lua), the sender has to name the holder that it has seen, which
-- it is told first, because this command may be late, and somebody else inside by
-- now.
--
-- wake() stands in another part before this one; so does rights.lua, which takes the
-- channel of releases from the end of ARGV.
--
--   KEYS[1]  the lock: a hash with an owner for a field, or a string
--   KEYS[2]  the word: a hash, owner -> the attempt whose hold was ended
--   KEYS[3]  "done" of the owner that was seen, see numbers.lua
--   ARGV     life of the word in ms, owner and attempt that were seen, life of "done"
--            in ms, channel of releases
--
--   returns {1} freed, {0} nobody held it, {-1, attempt, owner} held by this one
--
-- A holder that lives asks for the word at the renewal that finds the lock gone. It
-- is about that hold, and about what the same owner had taken before; not about
-- what it takes later, which may end by itself. Where the lock tells which attempt
-- has it, the word may thus outlive the lease, for an owner that was stopped. Where
-- it does not, the word is about any attempt, and has to be gone before a lease
-- that begins now can end.

ask_each('type hkeys')
local lock, word = KEYS[1], KEYS[2]
local kind = redis.call('type', lock).ok
if kind == 'none' then
    return {0}
end

local any_attempt = '18446744073709551615'
local attempt = kind == 'hash' and redis.call('hget', lock, 'attempt')
local life = math.max(redis.call('pttl', lock), 0)
if attempt then
    life = life + tonumber(ARGV[1])
end
local owners = {}
if kind == 'hash' then
    for _, field in ipairs(redis.call('hkeys', lock)) do
        if field ~= 'attempt' and field ~= 'renewed' and field ~= 'token' and
            field ~= 'label' then
            owners[#owners + 1] = field
        end
    end
else
    owners[1] = redis.call('get', lock)
end

if attempt and (owners[1] ~= ARGV[2] or tonumber(attempt) > tonumber(ARGV[3])) then
    return {-1, tonumber(attempt), owners[1]}
end

-- The DEL comes first, as in release.lua: it works without memory.
redis.call('del', lock)
-- An old copy of the acquire must not lock for an owner that was put out.
if attempt then
    redis.call('set', KEYS[3], attempt .. ':-1', 'px', ARGV[4])
end
for _, owner in ipairs(owners) do
    redis.call('hset', word, owner, attempt or any_attempt)
end
-- Without a life this removes it: nobody renews what has no lease, nor asks.
if redis.call('pttl', word) < life then
    redis.call('pexpire', word, life)
end
wake(channel)
return {1}
