-- After waiters.lua or fair_queue.lua: a waiter gives up, and leaves nothing
-- behind.
--
--   KEYS[1]  the lock            KEYS[2]  "done": see numbers.lua
--   ARGV     owner, attempt, life of "done" in ms, what channels begin with
--   returns  1
--
-- A late copy of one of its tries is told by "done" that it is over. If the lock was just
-- given back, this waiter may have been the one that was woken: it passes that on.

if is_over(tonumber(ARGV[2])) then
    return 1
end
leave(ARGV[1])
keep_over(tonumber(ARGV[2]), ARGV[3])
if redis.call('exists', KEYS[1]) == 0 then
    wake(ARGV[4])
end
return 1
