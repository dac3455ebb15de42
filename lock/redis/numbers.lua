-- The numbers of commands, by which a late one is known, or one that comes twice. This
-- part stands before acquire.lua, release.lua and waiters_leave.lua.
--
-- A client numbers its commands upwards. The server keeps, for each owner, the
-- highest that it has carried out, and refuses what is lower:
--
--   in the lock   attempt   of its owner's commands (the session's)
--                 renewed   of renewals: the watchdog's thread draws numbers beside
--                           those of the session, which would else refuse its own
--   in "done"     released  of releases, and how many holds that one left
--                 over      of what else may not be overtaken: a wait, its end, an
--                           acquire that was taken back
--
--   command            is refused if lower than                    keeps
--   acquire, re-entry  attempt, released, over                     attempt
--     that waits       released, over                              over
--   renew              attempt, renewed                            renewed
--   extend             attempt, renewed                            attempt
--   release            attempt, released, over                     attempt, released
--   undo, withdraw     attempt, released, over                     attempt, over
--   leave              released, over                              over
--   force              if attempt is not what its sender has seen  released
--   fence              if attempt is not its acquire's             the higher token
--
-- If the number is the one that was kept, it is the same command once more: it changes
-- nothing, and its answer is that of the first time. An extend that a renewal has overtaken
-- is sent again by a new number (node.c).
--
-- An acquire that was told no leaves no number, unless it waits where the server knows its
-- waiters. If it comes twice, and the lock is free by then, it locks for its lease.
--
--   KEYS[2]  "done": "RELEASED:LEFT:OVER", or "RELEASED" alone, if nothing was left

local released, left, over = string.match(redis.call('get', KEYS[2]) or '0',
                                          '^(%d+):?(-?%d*):?(%d*)$')
released, left, over = tonumber(released), tonumber(left) or 0, tonumber(over) or 0

-- Whether a command that ends something comes too late.
local function is_over(number)
    return number <= released or number <= over
end

-- The same of an acquire: each try of a wait has the number that the wait keeps.
local function is_late(number)
    return number <= released or number < over
end

local function keep_over(number, life)
    if number > over then
        redis.call('set', KEYS[2],
                   string.format('%.0f:%d:%.0f', released, left, number), 'px', life)
    end
end
