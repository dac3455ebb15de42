-- Gives back one hold; with the last one the lock is free, and somebody is woken:
-- by wake(), which stands in another part before this one.
--
--   KEYS[1]  the lock            KEYS[2]  "done": see numbers.lua
--   ARGV     owner, attempt, holds that are to be left, life of "done" in ms,
--            channel, the attempt to acquire that this takes back, or 0,
--            the release that this one repeats, or 0
--
--   returns holds left; -1 = this owner does not hold it; -2 = a newer command of
--           this owner was here: too late

local lock, done = KEYS[1], KEYS[2]
local owner, attempt = ARGV[1], tonumber(ARGV[2])
local holds = tonumber(ARGV[3])

-- Has this very release been done before, or the one that it repeats, and only the reply
-- got lost? Then answer as we did. Else the rightful owner would be told that it lost the
-- lock, and a second hold be given back. A lower number is an old copy.
local repeats = tonumber(ARGV[7])
if attempt <= released or (repeats > 0 and repeats <= released) then
    return left
end
if is_over(attempt) then
    return -2
end

-- An undo leaves alone what is known of the last release, which may yet be repeated.
local function remember(holds_left)
    if ARGV[6] ~= '0' then
        keep_over(attempt, ARGV[4])
        return
    end
    -- Usually no hold is left: then the number stands alone, to take less room.
    redis.call('set', done, holds_left == 0 and ARGV[2] or
               ARGV[2] .. ':' .. holds_left, 'px', ARGV[4])
end

-- Never free what somebody else holds by now. Remembered all the same: the
-- acquire that this was to end may be stuck in some buffer and come after it.
if redis.call('hexists', lock, owner) == 0 then
    remember(-1)
    return -1
end

-- The hold that this one was to give back has been taken anew since, or counted anew.
local last = tonumber(redis.call('hget', lock, 'attempt'))
if attempt < last then
    return -2
end

-- The acquire that is taken back began anew: the holds that are to be left had
-- been lost before, and do not come back with it.
if last == tonumber(ARGV[6]) and redis.call('hget', lock, owner) == '1' then
    holds = 0
end

-- The DEL comes first, because a server that is out of memory refuses a script whose first
-- write needs some. The wake-up comes last: if it fails, a copy hears of "done" that the
-- release worked.
ask('publish', ARGV[5])
if holds == 0 then
    redis.call('del', lock)
else
    redis.call('hset', lock, owner, holds, 'attempt', ARGV[2])
end
remember(holds)
if holds == 0 then
    wake(ARGV[5])
end
return holds
