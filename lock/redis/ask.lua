-- A right that this user of the server lacks has to be found out before the first write,
-- since a script that is refused later has been carried out by half. Before version 7 a
-- server cannot be asked. It takes the keys and channels of COMMAND from its arguments.

local function ask(command, ...)
    if redis.acl_check_cmd and not redis.acl_check_cmd(command, ...) then
        error({err = 'NORIGHT ' .. table.concat({command, ...}, ' ')})
    end
end

-- COMMANDS, a list with blanks, begin with the lock's key, or take none.
local function ask_each(commands)
    for command in string.gmatch(commands, '%a+') do
        ask(command, KEYS[1])
    end
end
