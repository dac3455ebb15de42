-- An order of the bench's load `keys`, as nginx sells it by redis.lua: as cheap as it
-- can be, because stockade is compared to it. SHA and SOCKET are the configuration's
-- (Bench::Rig).
ngx.req.read_body()
local user, quantity = ngx.req.get_body_data():match('"user_id":(%d+),"quantity":(%d+)')
local words = { "EVALSHA", SHA, "4", "units", "owned", "keys", "last",
    user, quantity, "1", ngx.var.http_idempotency_key }
local command = { "*" .. #words .. "\r\n" }
for i, word in ipairs(words) do
    command[i + 1] = "$" .. #word .. "\r\n" .. word .. "\r\n"
end

local redis = ngx.socket.tcp()
assert(redis:connect(SOCKET))
assert(redis:send(command))
local order = assert(redis:receive()):match("^:(%d+)$")
redis:setkeepalive(60000, 1000)

ngx.status = not order and 500 or order == "0" and 409 or 201
ngx.header.content_type = "application/json"
ngx.print('{"id":', order or "null", "}")
