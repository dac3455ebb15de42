-- For how long has this server been up?
--
--   returns {whole seconds, the id of this run}

local info = redis.call('info', 'server')
return {tonumber(string.match(info, 'uptime_in_seconds:(%d+)')),
        string.match(info, 'run_id:(%x+)')}
