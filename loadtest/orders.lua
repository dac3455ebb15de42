-- A wrk script: customers who order one product, each order another user's,
-- each with an idempotency key of its own.
--
-- Settings come from the environment, since every thread of wrk has a Lua state of
-- its own and they share nothing else:
--   LOADTEST_TARGETS   "127.0.0.1:4001 127.0.0.1:4002": threads take turns
--   LOADTEST_QUANTITY  units an order of product 1
--   LOADTEST_BURST     so many orders of each thread, one a connection, at random
--                      moments of one second, instead of one after the other
--   LOADTEST_OUT       file for the result, JSON
--
-- Latencies are measured here: wrk's own histogram mixes orders with refusals,
-- which are answered much faster, and adds samples that were never measured.

local ffi = require "ffi"
ffi.cdef [[
    struct loadtest_time { long s; long ns; };
    int clock_gettime(int clock, struct loadtest_time *time);
]]
local CLOCK_MONOTONIC = 1
local GENERATION = 10000  -- requests; far more than are in flight at a time

local function setting(name, preset)
    local value = os.getenv("LOADTEST_" .. name)
    return value and value ~= "" and value or preset
end

-- ---- in wrk's main state: once ---------------------------------------------

local threads = {}

function setup(thread)
    local targets = {}
    for host, port in setting("TARGETS", wrk.host .. ":" .. wrk.port):gmatch("(%S+):(%d+)") do
        targets[#targets + 1] = { host = host, port = port }
    end
    local target = targets[#threads % #targets + 1]
    threads[#threads + 1] = thread
    thread.addr = wrk.lookup(target.host, target.port)[1]
    thread:set("number", #threads)
    thread:set("host", target.host .. ":" .. target.port)
end

-- ---- in each thread's state ------------------------------------------------

-- Global: done() gets them from the threads.
outcomes = {}      -- "201", "409 sold-out" -> how many
latencies_us = {}  -- of accepted orders, from sending to the reply
first_us = 0       -- the first request was made
accepted_us = 0    -- the last order was accepted

local clock = ffi.new("struct loadtest_time")
local head, body_format, key_prefix
local sent_us, sent_before_us = {}, {}  -- user id -> when
local requests = 0
local burst = tonumber(setting("BURST"))
local delays, replies = 0, 0

local function now_us()
    ffi.C.clock_gettime(CLOCK_MONOTONIC, clock)
    return tonumber(clock.s) * 1000000 + math.floor(tonumber(clock.ns) / 1000)
end

function init()
    math.randomseed(now_us() + number)
    key_prefix = string.format("%d-%d-", now_us(), number)
    body_format = '{"product_id":1,"user_id":%s,"quantity":' .. setting("QUANTITY", "1") .. "}"
    head = "POST /api/orders HTTP/1.1\r\nHost: " .. host
        .. "\r\nContent-Type: application/json\r\nIdempotency-Key: "
end

-- A random user id that no other thread draws, and that is not in flight.
local function new_user()
    local user
    repeat
        user = string.format("%d%02d", math.random(1, 2147483647), number % 100)
    until not sent_us[user] and not sent_before_us[user]
    return user
end

-- Refusals do not say which user they are for, so when an order was sent is kept
-- for this generation of requests and the next one.
local function remember(user, time_us)
    if requests % GENERATION == 0 then
        sent_before_us, sent_us = sent_us, {}
    end
    sent_us[user] = time_us
end

function request()
    local user = new_user()
    local body = body_format:format(user)
    local time_us = now_us()
    if requests == 0 then first_us = time_us end
    requests = requests + 1
    remember(user, time_us)
    return head .. key_prefix .. requests .. "\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
end

-- wrk asks before each request how many milliseconds to wait. The first of each
-- connection are for the second; there is no other one.
if burst then
    function delay()
        delays = delays + 1
        return delays <= burst and math.random(0, 999) or 3600000
    end
end

local function accept(body)
    local user = body:match('"user_id": *(%d+)')
    local begin = sent_us[user] or sent_before_us[user]
    accepted_us = now_us()
    if begin then latencies_us[#latencies_us + 1] = accepted_us - begin end
end

function response(status, headers, body)
    local outcome = tostring(status)
    if status == 201 then
        accept(body)
    else
        local slug = body:match('"type": *"[^"]-([%w-]+)"')
        if slug then outcome = outcome .. " " .. slug end
    end
    outcomes[outcome] = (outcomes[outcome] or 0) + 1
    replies = replies + 1
    -- For who has started wrk, which itself ends by the clock only.
    if replies == burst then assert(io.open(setting("OUT", "") .. ".done." .. number, "w")):close() end
end

-- ---- in wrk's main state again, at the end ---------------------------------

local function percentile_ms(sorted_us, p)
    if #sorted_us == 0 then return 0 end
    return sorted_us[math.max(1, math.ceil(#sorted_us * p / 100))] / 1000
end

local function json_object(counts)
    local parts = {}
    for name, n in pairs(counts) do
        parts[#parts + 1] = string.format('"%s":%d', name, n)
    end
    table.sort(parts)
    return "{" .. table.concat(parts, ",") .. "}"
end

-- Sums what the threads have: outcomes, sorted latencies, begin and end.
local function collect()
    local sum = { outcomes = {}, latencies_us = {}, first_us = math.huge, accepted_us = 0 }
    for _, thread in ipairs(threads) do
        for outcome, n in pairs(thread:get("outcomes")) do
            sum.outcomes[outcome] = (sum.outcomes[outcome] or 0) + n
        end
        for _, us in ipairs(thread:get("latencies_us")) do
            sum.latencies_us[#sum.latencies_us + 1] = us
        end
        sum.first_us = math.min(sum.first_us, thread:get("first_us"))
        sum.accepted_us = math.max(sum.accepted_us, thread:get("accepted_us"))
    end
    table.sort(sum.latencies_us)
    return sum
end

function done(summary, latency)
    local sum = collect()
    local accepted = sum.outcomes["201"] or 0
    local seconds = accepted > 0 and (sum.accepted_us - sum.first_us) / 1e6 or 0
    local out = assert(io.open(setting("OUT", "/dev/stdout"), "w"))
    out:write(string.format(
        '{"accepted":%d,"accepted_seconds":%.3f,"orders_per_s":%.1f,'
            .. '"p50_ms":%.2f,"p99_ms":%.2f,"max_ms":%.2f,'
            .. '"replies":%d,"replies_seconds":%.3f,"wrk_p50_ms":%.2f,"wrk_p99_ms":%.2f,'
            .. '"outcomes":%s,"errors":%s}\n',
        accepted, seconds, seconds > 0 and accepted / seconds or 0,
        percentile_ms(sum.latencies_us, 50), percentile_ms(sum.latencies_us, 99),
        percentile_ms(sum.latencies_us, 100),
        summary.requests, summary.duration / 1e6,
        latency:percentile(50) / 1000, latency:percentile(99) / 1000,
        json_object(sum.outcomes),
        json_object({
            connect = summary.errors.connect, read = summary.errors.read,
            write = summary.errors.write, timeout = summary.errors.timeout,
        })))
    out:close()
end
