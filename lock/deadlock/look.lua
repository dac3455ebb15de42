-- After follow.lua: a waiter tells what it waits for, and looks whether that is a
-- deadlock.
--
--   KEYS[1]  the lock that it waits for
--   KEYS[2]  its own wait         KEYS[3]  the stamp
--   ARGV     owner, number of the wait, the stamp of the last answer, the stamp when
--            a cycle was seen first or 0, which cycle, life of its own wait in ms
--
--   returns  {0, stamp, 0}               no deadlock
--            {1, stamp, cycle}           there may be one: look again soon
--            {2, stamp, cycle, "words"}  there is one, and this waiter is to end it

local me, number = ARGV[1], ARGV[2]
local stamp = next_stamp(KEYS[3])
local known = tonumber(redis.call('hget', KEYS[2], 'number') or '0')

-- A copy that was held up, while its owner waits for something else by now.
if known > tonumber(number) then
    return {0, stamp, 0}
end
if known < tonumber(number) then
    redis.call('hset', KEYS[2], 'number', number, 'name', KEYS[1], 'since',
               digits(stamp))
end
redis.call('hset', KEYS[2], 'heard', ARGV[3])
redis.call('pexpire', KEYS[2], ARGV[6])

local chain = {wait_of(me)}
if follow(chain, KEYS[1]) ~= 1 then
    return {0, stamp, 0}
end
local cycle, last = hash_of(chain, 1), chain[1]
if cycle ~= tonumber(ARGV[5]) or not is_sure(chain, 1, me, tonumber(ARGV[4])) then
    return {1, stamp, cycle}
end

-- One of them is to give way, the same by everybody's look.
for _, wait in ipairs(chain) do
    if wait.since > last.since then
        last = wait
    end
end
if last.owner ~= me then
    return {1, stamp, cycle}
end
return {2, stamp, cycle, join(tell(chain, 2, KEYS[1]), ', which you hold')}
