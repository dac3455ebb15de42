-- A wrk script for benches, as cheap as it can be: while Lua works, wrk sends
-- nothing. So requests are made before the run where that is possible, replies are
-- not looked at (wrk itself counts statuses), and nginx is asked by the same script.
-- orders.lua, which looks at every reply, is for tests of correctness.
--
--   BENCH_LOAD      same:   one order, again and again
--                   spread: products 1..BENCH_PRODUCTS at random
--                   keys:   product 2, a random user and a random key each
--   BENCH_PRODUCTS  how many
--   BENCH_PART, BENCH_PARTS
--                   spread: of each so many products only the first, second ...
--   BENCH_OUT       file for the result, JSON

local load = os.getenv("BENCH_LOAD") or "same"
local products = tonumber(os.getenv("BENCH_PRODUCTS") or "1")
local part = tonumber(os.getenv("BENCH_PART") or "1")
local parts = tonumber(os.getenv("BENCH_PARTS") or "1")
local VARIANTS = 8192  -- of prepared requests: more is more than caches hold

wrk.method = "POST"
wrk.path = "/api/orders"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"product_id":1,"user_id":42,"quantity":1}'

-- ---- in the thread's state --------------------------------------------------

local head, prepared

local function prepare_spread()
    prepared = {}
    for i = part, math.max(products, math.min(VARIANTS, products * 8)), parts do
        local body = string.format('{"product_id":%d,"user_id":%d,"quantity":1}', (i - 1) % products + 1, i)
        prepared[#prepared + 1] = wrk.format(nil, nil, nil, body)
    end
end

local function next_spread()
    return prepared[math.random(#prepared)]
end

-- In pieces of at most 31 bits, since LuaJIT's random numbers are doubles.
local function next_keyed()
    local body = string.format('{"product_id":2,"user_id":%.0f,"quantity":1}',
        math.random(0, 0x1fffff) * 4294967296 + math.random(1, 0x7fffffff))
    return string.format("%s%08x%08x\r\nContent-Length: %d\r\n\r\n%s", head,
        math.random(0, 0x7fffffff), math.random(0, 0x7fffffff), #body, body)
end

function init()
    local urandom = assert(io.open("/dev/urandom", "rb"))
    local a, b, c = urandom:read(3):byte(1, 3)
    urandom:close()
    math.randomseed(a + b * 256 + c * 65536)
    head = "POST /api/orders HTTP/1.1\r\nHost: " .. wrk.headers["Host"]
        .. "\r\nContent-Type: application/json\r\nIdempotency-Key: "
    if load == "spread" then prepare_spread() end
end

if load == "spread" then
    request = next_spread
elseif load == "keys" then
    request = next_keyed
end

-- ---- in the main state, at the end ------------------------------------------

-- For each latency of twice the mean or more wrk has added samples below it that
-- were never measured ("stats_correct"). Which ones follows from the samples above:
-- so from the top downwards all can be taken back. `requests` samples have to be
-- left.
local function measured(latency, summary)
    local connections = tonumber(os.getenv("BENCH_CONNECTIONS"))
    local expected = math.floor(summary.duration / math.floor(summary.requests / connections))
    local values, counts = {}, {}
    for i = 1, #latency do
        local value, count = latency(i)
        values[i], counts[value] = value, tonumber(count)
    end
    for i = #values, 1, -1 do
        local count = counts[values[i]]
        if values[i] < expected * 2 then break end
        if count > 0 then
            for value = values[i] - expected, expected + 1, -expected do
                counts[value] = counts[value] - count
            end
        end
    end
    return values, counts
end

local function percentiles_ms(latency, summary, wanted)
    local values, counts = measured(latency, summary)
    local total, seen, found = 0, 0, {}
    for _, value in ipairs(values) do total = total + counts[value] end
    local next_one = 1
    for _, value in ipairs(values) do
        seen = seen + counts[value]
        while wanted[next_one] and seen >= total * wanted[next_one] / 100 do
            found[next_one] = value / 1000
            next_one = next_one + 1
        end
    end
    return found, total
end

function done(summary, latency)
    local cpu_s = os.clock()  -- of the load alone: what follows takes time as well
    local errors = summary.errors
    local ms, samples = { 0, 0, 0 }, 0
    if summary.requests >= tonumber(os.getenv("BENCH_CONNECTIONS")) then
        ms, samples = percentiles_ms(latency, summary, { 50, 99, 99.9 })
    end
    local out = assert(io.open(os.getenv("BENCH_OUT"), "w"))
    out:write(string.format('{"requests":%d,"refused":%d,"seconds":%.6f,"samples":%d,'
            .. '"p50_ms":%.3f,"p99_ms":%.3f,"p999_ms":%.3f,"cpu_s":%.3f,"broken":%d}\n',
        summary.requests, errors.status, summary.duration / 1e6, samples,
        ms[1], ms[2], ms[3], cpu_s,
        errors.connect + errors.read + errors.write + errors.timeout))
    out:close()
end
