-- After waiters.lua or fair_queue.lua, before release.lua: an owner that takes back
-- an acquire without an answer does not wait any more.

if ARGV[6] ~= '0' and not is_over(tonumber(ARGV[2])) then
    leave(ARGV[1])
end
