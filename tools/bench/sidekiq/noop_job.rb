# SPDX-License-Identifier: Apache-2.0
# What the processes of multi_queue_bench load.
require "sidekiq"

Redis.silence_deprecations = true # Debian's ruby-redis has words on each SADD of its Sidekiq
Sidekiq.logger.level = Logger::WARN # a line for each job would be most of the work

class NoopJob
  include Sidekiq::Worker
  sidekiq_options retry: false

  def perform(_number) = nil
end
