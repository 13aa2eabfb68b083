# SPDX-License-Identifier: Apache-2.0
# What the sidekiq processes run (sidekiq -r jobs.rb), and what cases.rb pushes. A job leaves its
# traces in keys that begin with "did:".
require "sidekiq"

Redis.silence_deprecations = true # of calls that Sidekiq makes

Sidekiq.configure_server do |config|
  config.redis = {url: ENV.fetch("REDIS_URL")}
  # As often as a test needs it; the interval is varied at random by as much as half.
  config.options[:poll_interval_average] = 0.2
  Sidekiq::Scheduled::Poller.class_eval { private def initial_wait = nil } # up to 5 s
  Sidekiq::Launcher.send(:remove_const, :BEAT_PAUSE)
  Sidekiq::Launcher.const_set(:BEAT_PAUSE, 0.2)
end

Sidekiq.configure_client { |config| config.redis = {url: ENV.fetch("REDIS_URL")} }

# Counts how often each of its arguments came.
class Count
  include Sidekiq::Worker
  sidekiq_options queue: "counts"

  def perform(run, id)
    Sidekiq.redis { |c| c.hincrby("did:#{run}", id, 1) }
  end
end

# Notes what it was given, in order, and when.
class Note
  include Sidekiq::Worker

  def perform(run, *args)
    Sidekiq.redis { |c| c.rpush("did:#{run}", Sidekiq.dump_json([args, Time.now.to_f])) }
  end
end

# Fails until somebody repairs it.
class Flaky
  include Sidekiq::Worker
  sidekiq_options retry: 2

  def perform(run)
    Sidekiq.redis do |c|
      c.incr("did:#{run}")
      raise "not repaired" unless c.exists?("repaired:#{run}")
      c.set("did:#{run}:end", "well")
    end
  end
end

# Is busy until somebody lets it go.
class Busy
  include Sidekiq::Worker

  def perform(run)
    Sidekiq.redis { |c| c.rpush("did:#{run}", Process.pid) }
    sleep 0.02 until Sidekiq.redis { |c| c.exists?("released:#{run}") }
    Sidekiq.redis { |c| c.rpush("did:#{run}:end", Process.pid) }
  end
end
