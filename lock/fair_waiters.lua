-- After fair_queue.lua: who waits, in the order in which they will be served.
--
--   ARGV     how many to leave out, how many to tell at most
--   returns  {how many wait, "OWNER OWNER ..."}

local alive = {}
for _, waiter in ipairs(redis.call('zrange', queue, 0, -1)) do
    if is_alive(waiter) then
        alive[#alive + 1] = waiter
    end
end
local from = tonumber(ARGV[1]) + 1
local to = math.min(#alive, from + tonumber(ARGV[2]) - 1)
return {#alive, table.concat(alive, ' ', from, to)}
