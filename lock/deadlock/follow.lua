-- Waits, followed from a lock on to keys that it finds on its way: one server has all of
-- them. A waiter has told it under its own owner id, see look.lua: a hash of
--
--   name    the lock
--   number  of the wait: another wait has another one
--   since   the stamp when it was told first
--   heard   a stamp that the waiter had been answered with before it told this again

ask_each('time get set type hkeys hget hmget hset pexpire')

local function digits(number)
    return string.format('%.0f', number)
end

-- Each look has a stamp, higher than all before: the time, unless the clock was set
-- back.
local function next_stamp(key)
    local clock = redis.call('time')
    local last = tonumber(redis.call('get', key) or '0')
    local stamp = math.max(last + 1, clock[1] * 1000000 + clock[2])
    redis.call('set', key, digits(stamp), 'px', 60000)
    return stamp
end

local function holder_of(lock)
    if redis.call('type', lock).ok == 'hash' then
        for _, field in ipairs(redis.call('hkeys', lock)) do
            if field ~= 'attempt' and field ~= 'renewed' and field ~= 'token' and
                field ~= 'label' then
                return field
            end
        end
    end
end

-- A lock that it has got by now it does not wait for any more.
local function wait_of(owner)
    local wait = redis.call('hmget', '{' .. owner .. '}:dlock-waits', 'name',
                            'number', 'since', 'heard')
    if wait[1] and holder_of(wait[1]) ~= owner then
        return {owner = owner, name = wait[1], number = wait[2],
                since = tonumber(wait[3]), heard = tonumber(wait[4])}
    end
end

local waits_max = 100

-- From the waiters in CHAIN, the last of which waits for LOCK, to one that does not wait, or
-- that is in the chain already: returns its place there, and the owner that it ended with.
-- Neither: the lock is free, or the chain is as long as waits_max.
local function follow(chain, lock)
    local place = {}
    for i, wait in ipairs(chain) do
        place[wait.owner] = i
    end
    while #chain < waits_max do
        local owner = holder_of(lock)
        if not owner or place[owner] then
            return owner and place[owner], owner
        end
        local wait = wait_of(owner)
        if not wait then
            return nil, owner
        end
        chain[#chain + 1] = wait
        place[owner] = #chain
        lock = wait.name
    end
end

-- Whether all in the cycle, but ME, have told their waits again, having been answered after
-- FIRST, when it was seen first. A command that arrives late does not have that answer.
local function is_sure(chain, from, me, first)
    for i = from, #chain do
        local wait = chain[i]
        if wait.owner ~= me and wait.heard <= first then
            return false
        end
    end
    return first > 0
end

-- A number that stands for the cycle: 48 bits, which a reply can carry.
local function hash_of(chain, from)
    local text = ''
    for i = from, #chain do
        text = text .. chain[i].owner .. ' ' .. chain[i].number .. ' '
    end
    return tonumber(string.sub(redis.sha1hex(text), 1, 12), 16)
end

-- ---- in words ----------------------------------------------------------------

local function cut(text, most)
    return #text > most and string.sub(text, 1, most - 2) .. '..' or text
end

-- The one that LOCK is held by: its label, if it has one, or OWNER.
local function who(owner, lock)
    return cut(redis.call('hget', lock, 'label') or owner, 40)
end

-- The waits in CHAIN from number FROM on, the first of which is by the holder of LOCK,
-- in words; and the lock that the last of them waits for.
local function tell(chain, from, lock)
    local parts = {}
    for i = from, #chain do
        parts[#parts + 1] = (i == from and cut(lock, 40) .. ' is held by ' or
                             ', held by ') ..
            who(chain[i].owner, lock) .. ', which waits for ' .. cut(chain[i].name, 40)
        lock = chain[i].name
    end
    return parts, lock
end

-- PARTS as one text, cut before TAIL if it is too long.
local function join(parts, tail)
    return cut(table.concat(parts), 155 - #tail) .. tail
end
