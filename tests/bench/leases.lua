-- Pairs of acquire and release, for tests/bench/leases: every connection asks for a resource that nobody else has, and
-- gives back what somebody was granted. The path and the token of each run are its own.

local run, next_one, granted, asked, failed

function init(args)
  run, next_one, granted, asked, failed = args[1], 0, {}, 0, 0
end

function request()
  local one = table.remove(granted)
  if one then
    return wrk.format("POST", "/v1/leases/" .. one[1] .. "/release", nil, '{"acquisition":"' .. one[2] .. '"}')
  end
  next_one = (next_one + 1) % 4096
  return wrk.format("POST", "/v1/leases/" .. run .. "-" .. next_one .. "/acquire", nil, '{"ttl":"30s"}')
end

function response(status, headers, body)
  if status == 200 then
    local resource, acquisition = body:match('"resource":"([^"]+)","acquisition":"([^"]+)"')
    granted[#granted + 1] = { resource, acquisition }
  end
end

function done(summary, latency, requests)
  local errors = summary.errors
  failed = errors.status + errors.connect + errors.read + errors.write + errors.timeout
  print(string.format("FIGURES %.1f %d %d %d", summary.requests / 2 / (summary.duration / 1e6),
    latency:percentile(50), latency:percentile(99), failed))
end
