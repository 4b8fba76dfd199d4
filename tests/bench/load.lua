-- One stream of payments, each with an idempotency key of its own; prints one line of figures.
-- Argument: a word that no other run uses, so that no key repeats while the register lives.

local run, count = "", 0
local body = '{"order":"2026-09-13-000042","amount":2000,"currency":"EUR","to":"account-42","note":"x"}'
local fields = { ["Content-Type"] = "application/json" }

function init(arguments)
  run = arguments[1]
end

function request()
  count = count + 1
  fields["Idempotency-Key"] = run .. "-" .. count
  return wrk.format("POST", nil, fields, body)
end

function done(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.timeout + errors.status
  io.write(string.format("FIGURES %.0f %.0f %.0f %d\n",
    summary.requests / (summary.duration / 1e6), latency:percentile(50), latency:percentile(99), failed))
end
