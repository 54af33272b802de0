-- What wrk sends and prints. `submit SALT`: a new job each time. `status FILE`: the jobs whose ids are in the file.
local sent, wrong, wanted = 0, 0, 0
local ids = {}
local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function init(args)
  kind = args[1]
  if kind == "submit" then
    salt, wanted = args[2], 202
  else
    wanted = 200
    for id in io.lines(args[2]) do table.insert(ids, id) end
  end
end

function request()
  sent = sent + 1
  if kind == "submit" then
    local body = string.format('{"salt":"%s","number":%d}', salt, sent)
    local headers = {["Content-Type"] = "application/json", ["Idempotency-Key"] = salt .. "-" .. sent}
    return wrk.format("POST", "/api/jobs/submit/bench_one", headers, body)
  end
  return wrk.format("GET", "/api/jobs/status/" .. ids[(sent - 1) % #ids + 1])
end

function response(status)
  if status ~= wanted then wrong = wrong + 1 end
  unexpected = wrong
end

function done(summary, latency)
  local errors = summary.errors
  local bad = errors.connect + errors.read + errors.write + errors.timeout
  for _, thread in ipairs(threads) do bad = bad + (thread:get("unexpected") or 0) end
  print(string.format('{"requests":%d,"seconds":%f,"p50_ms":%f,"p99_ms":%f,"errors":%d}',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, bad))
end
