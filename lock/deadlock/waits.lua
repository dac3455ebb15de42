-- After follow.lua: the waits from one lock on, for dlock_waits_for().
--
--   KEYS[1]  the lock to begin with    KEYS[2]  the stamp
--   ARGV     the stamp when a cycle was seen first or 0, which cycle
--
--   returns  {0, stamp, 0, "words"}      no deadlock is known
--            {1, stamp, cycle, "words"}  there may be one: look again soon
--            {2, stamp, cycle, "words"}  there is one

local chain = {}
local from, owner = follow(chain, KEYS[1])
local parts, lock = tell(chain, 1, KEYS[1])
local name = #chain == 0 and cut(KEYS[1], 40) or ', which'
if not owner then
    return {0, 0, 0, join(parts, #chain == waits_max and ', and so on' or
                          name .. ' is held by nobody')}
end
if not from then
    return {0, 0, 0, join(parts, name .. ' is held by ' .. who(owner, lock) ..
                          ', which is not known to wait')}
end
local stamp, cycle = next_stamp(KEYS[2]), hash_of(chain, from)
local sure = cycle == tonumber(ARGV[2]) and
    is_sure(chain, from, '', tonumber(ARGV[1]))
return {sure and 2 or 1, stamp, cycle,
        join(parts, ', held by ' .. who(owner, lock) .. ' again')}
