-- A server's description of itself.
--
--   returns {first number of the version, replicas connected, 1 = without some of
--            them it does not write}

ask('info')
local info = redis.call('info', 'server') .. redis.call('info', 'replication')

return {tonumber(string.match(info, 'redis_version:(%d+)')),
        tonumber(string.match(info, 'connected_slaves:(%d+)')),
        string.match(info, 'min_slaves_good_slaves') and 1 or 0}
