# SPDX-License-Identifier: Apache-2.0
# Writes 1, 2, 3, ... through Sentinel (SENTINELS="26379 26380") with the client's own settings
# until its standard input ends, and prints each number that was answered.
require "redis"

Redis.silence_deprecations = true # of what SADD returns
$stdout.sync = true
sentinels = ENV.fetch("SENTINELS").split.map { |port| {host: "127.0.0.1", port: port.to_i} }
redis = Redis.new(url: "redis://#{ENV.fetch("MASTER")}", role: :master, sentinels: sentinels)
ended = false
Thread.new do
  $stdin.read
  ended = true
end
number = 0
until ended
  begin
    number += 1
    redis.sadd(ENV.fetch("KEY"), number)
    puts number
  rescue Redis::BaseError => e
    warn "#{e.class}: #{e.message}"
    sleep 0.02
  end
end
