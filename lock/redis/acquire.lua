-- Takes a lock, or takes it once more, or says how long it is still held.
--
--   KEYS[1]  the lock: a hash  owner -> holds,  token -> N,  label -> TEXT, and
--            numbers of commands (numbers.lua):  attempt -> N,  renewed -> N
--   KEYS[2]  "done": see numbers.lua
--   KEYS[3]  the fence counter; absent = the lock has no tokens
--   ARGV     owner, lease ms, attempt, holds, fence floor, counter's life ms,
--            '1' if no other server counts, ...; the last one is the owner's label;
--            '-' = it has none
--
--   returns {1, holds, token}   yours
--           {0, ms}             somebody else's for that long; -1 = for ever
--           {-1}                a late copy of an attempt that is long over
--
-- A script runs alone: that is why "look, then write" is right here, and wrong when a
-- client does it in two commands.

local lock, fence = KEYS[1], KEYS[3]
local owner, lease = ARGV[1], tonumber(ARGV[2])
local attempt, holds = tonumber(ARGV[3]), tonumber(ARGV[4])
local label = ARGV[#ARGV]

-- Stuck in some buffer: granting it would lock for somebody who has gone home.
if is_late(attempt) then
    return {-1}
end

-- Tokens may only rise. The counter ends soon after its last use, or with this server's
-- data, and the next one begins with the time in microseconds: a grant takes longer than
-- one of these, so the old count is behind that by now. The floor, the last token that the
-- guarded resource has seen, counts if the clock was set back meanwhile. A server that
-- comes back from an old copy of its data, and a replica that takes over, have missed the
-- last grants: so each token is the time, or the one after the last. Not where several
-- servers count, because they would not agree: there the highest goes to enough of them
-- (quorum.c). From 2^53 on, in the year 2255, numbers cannot be told from the next one:
-- better no lock than a token that comes twice.
local function next_token()
    if not fence then
        return 0
    end
    local last = redis.call('get', fence)
    if not last or ARGV[7] == '1' then
        local clock = redis.call('time')
        last = math.max(last or 0, clock[1] * 1000000 + clock[2])
    end
    local token = math.max(last, tonumber(ARGV[5])) + 1
    if token >= 9007199254740992 then
        error('no token is left')
    end
    redis.call('set', fence, string.format('%.0f', token), 'px', ARGV[6])
    return token
end

local function begin()
    local token = next_token()
    redis.call('hset', lock, owner, 1, 'attempt', ARGV[3], 'token',
               string.format('%.0f', token))
    if label ~= '-' then
        redis.call('hset', lock, 'label', label)
    end
    return token
end

if redis.call('exists', lock) == 0 then
    local token = begin()
    redis.call('pexpire', lock, lease)
    return {1, 1, token}
end

if redis.call('hexists', lock, owner) == 0 then
    return {0, redis.call('pttl', lock)}
end

-- Ours already, and a newer command has been here: an old one again. Or it was this very
-- one, and only its reply got lost: then the answer is the same once more.
local last = tonumber(redis.call('hget', lock, 'attempt'))
if attempt < last then
    return {-1}
end
if attempt == last then
    return {1, tonumber(redis.call('hget', lock, owner)),
            tonumber(redis.call('hget', lock, 'token'))}
end

-- The caller says how many holds it knows to have. We do not count by ourselves: an earlier
-- command may have been given up as "don't know", a release may never have arrived. Each
-- would leave a hold that nobody releases and that every later re-entry renews.
holds = holds + 1

-- The caller knows of no hold: this one begins anew, as behind a release; a token must not
-- come twice. Or it came in without one, and wants one now: no token would mean no fence.
local token = tonumber(redis.call('hget', lock, 'token'))
if holds == 1 then
    token = begin()
else
    if fence and token == 0 then
        token = next_token()
        redis.call('hset', lock, 'token', string.format('%.0f', token))
    end
    redis.call('hset', lock, owner, holds, 'attempt', ARGV[3])
end

-- Never shorter: the outer holder counts on its own lease.
if redis.call('pttl', lock) < lease then
    redis.call('pexpire', lock, lease)
end
return {1, holds, token}
