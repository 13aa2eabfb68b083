# SPDX-License-Identifier: Apache-2.0
# Jobs of Sidekiq during failovers. `sidekiq -r sidekiq_jobs.rb` carries them out,
# `ruby sidekiq_jobs.rb` adds them until its standard input ends. Both find the primary by Sentinel:
# SENTINELS="26379 26380 26381". What was done is in the file DONE, what was answered in ADDED.
require "sidekiq"

Redis.silence_deprecations = true # of calls that Sidekiq makes

PRIMARY = {
  url: "redis://mymaster", role: :master, reconnect_attempts: 0, timeout: 1,
  sentinels: ENV.fetch("SENTINELS").split.map { |port| {host: "127.0.0.1", port: port.to_i} }
}
Sidekiq.configure_server { |config| config.redis = PRIMARY }
Sidekiq.configure_client { |config| config.redis = PRIMARY }

def note(name, number)
  File.open(ENV.fetch(name), "a") { |file| file.syswrite("#{number}\n") }
end

class Job
  include Sidekiq::Worker

  def perform(number)
    note("DONE", number)
  end
end

if $PROGRAM_NAME == __FILE__
  stops = false
  Thread.new do
    $stdin.read
    stops = true
  end
  number = 0
  until stops
    begin
      number += 1 # one that had no answer is not added again
      note("ADDED", number) if Job.perform_async(number)
      sleep 0.002
    rescue Redis::BaseError
      sleep 0.02
    end
  end
end
