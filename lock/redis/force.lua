-- Frees a lock, whoever holds it, and leaves word for the holder. The sender has to name
-- the holder that it has seen, which it is told first, because this command may be late,
-- and somebody else inside by now. wake() and rights.lua, which takes the channel of
-- releases from the end of ARGV, stand in other parts before this one.
--
--   KEYS[1]  the lock
--   KEYS[2]  the word: a hash, owner -> the attempt whose hold was ended
--   KEYS[3]  "done" of the owner that was seen, see numbers.lua
--   ARGV     life of the word in ms, owner and attempt that were seen, life of "done"
--            in ms, channel of releases
--
--   returns {1} freed, {0} nobody held it, {-1, attempt, owner} held by this one
--
-- A holder that lives asks for the word at the renewal that finds the lock gone. It is about
-- that hold and those before; so it may outlive the lease, for an owner that was stopped.

ask('hkeys', KEYS[1])
local lock, word = KEYS[1], KEYS[2]
if redis.call('exists', lock) == 0 then
    return {0}
end

local attempt, owner = redis.call('hget', lock, 'attempt') or '0', ''
for _, field in ipairs(redis.call('hkeys', lock)) do
    if field ~= 'attempt' and field ~= 'renewed' and field ~= 'token' and
        field ~= 'label' then
        owner = field
    end
end
if owner ~= ARGV[2] or tonumber(attempt) > tonumber(ARGV[3]) then
    return {-1, tonumber(attempt), owner}
end

-- The DEL comes first, as in release.lua: it works without memory.
local life = math.max(redis.call('pttl', lock), 0) + tonumber(ARGV[1])
redis.call('del', lock)
-- An old copy of the acquire must not lock for an owner that was put out.
redis.call('set', KEYS[3], attempt .. ':-1', 'px', ARGV[4])
redis.call('hset', word, owner, attempt)
if redis.call('pttl', word) < life then
    redis.call('pexpire', word, life)
end
wake(channel)
return {1}
