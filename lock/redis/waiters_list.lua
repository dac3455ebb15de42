-- After waiters.lua or fair_queue.lua: the waiters, in the order in which they will
-- be woken. They are counted once, because a long line is told in many looks.
--
--   ARGV     how many places to leave out, how many to look at
--   returns  {how many wait; but 0 if places were left out, how many to leave out next,
--             "OWNER OWNER ..."}

local from = tonumber(ARGV[1])
local n = from == 0 and #in_line() or 0
local places = redis.call('zrange', line, from, from + tonumber(ARGV[2]) - 1)
local found = {}
for _, waiter in ipairs(places) do
    if is_alive(waiter) then
        found[#found + 1] = waiter
    end
end
return {n, from + #places, table.concat(found, ' ')}
