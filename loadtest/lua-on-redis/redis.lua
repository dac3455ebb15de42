-- The usual way to sell with Redis alone: one script looks and takes, and nothing is
-- on disk. nginx.lua calls it.
--
--   KEYS  units left, units of each user, order of each key, number of the last order
--   ARGV  user, quantity, limit of each user, key
--
-- Replies with the order's number; 0: the limit or the stock says no.
local earlier = redis.call("HGET", KEYS[3], ARGV[4])
if earlier then
    return tonumber(earlier)
end

local quantity = tonumber(ARGV[2])
local owned = tonumber(redis.call("HGET", KEYS[2], ARGV[1]) or "0")
if owned + quantity > tonumber(ARGV[3]) or tonumber(redis.call("GET", KEYS[1])) < quantity then
    return 0
end
redis.call("DECRBY", KEYS[1], quantity)
redis.call("HINCRBY", KEYS[2], ARGV[1], quantity)
local order = redis.call("INCR", KEYS[4])
redis.call("HSET", KEYS[3], ARGV[4], order)
return order
