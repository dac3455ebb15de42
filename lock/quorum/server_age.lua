-- For how long has this server been up, and known of every lock it was asked for?
--
-- A replica that took over may have missed any number of them, and does not say
-- when that was. So all that is sure is that it was not after now.
--
--   returns {whole seconds, the id of this run}

ask('info')
local info = redis.call('info', 'server') .. redis.call('info', 'replication')
local up_s = tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
local never_took_over = string.match(info, 'second_repl_offset:(%-?%d+)') == '-1'

return {never_took_over and up_s or 0, string.match(info, 'run_id:(%x+)')}
