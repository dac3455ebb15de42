-- A server's description of itself.
--
--   returns {replicas connected, 1 = without some of them it does not write}

ask('info')
local info = redis.call('info', 'replication')

return {tonumber(string.match(info, 'connected_slaves:(%d+)')),
        string.match(info, 'min_slaves_good_slaves') and 1 or 0}
