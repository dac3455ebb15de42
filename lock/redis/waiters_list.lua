-- After waiters.lua or fair_queue.lua: the waiters, in the order in which they will
-- be woken.
--
--   ARGV     how many to leave out, how many to tell at most
--   returns  {how many wait, "OWNER OWNER ..."}

local alive = in_line()
local from = tonumber(ARGV[1]) + 1
local to = math.min(#alive, from + tonumber(ARGV[2]) - 1)
return {#alive, table.concat(alive, ' ', from, to)}
