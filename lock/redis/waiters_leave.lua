-- After waiters.lua or fair_queue.lua: a waiter gives up, and leaves nothing
-- behind.
--
--   KEYS[1]  the lock            KEYS[2]  "done": see release.lua
--   ARGV     owner, attempt, life of "done" in ms, what channels begin with
--   returns  1
--
-- A late copy of one of its tries would wait again: "done" tells it that it is
-- over. And if the lock was just given back, this waiter may have been the one
-- that was woken: it passes that on.

leave(ARGV[1])
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    redis.call('set', KEYS[2], ARGV[2] .. ':-1', 'px', ARGV[3])
end
if redis.call('exists', KEYS[1]) == 0 then
    wake(ARGV[4])
end
return 1
