# SPDX-License-Identifier: Apache-2.0
# The steps of multi_queue_bench: push fills the queues, drain waits until they are empty while the
# processes with the given pids live, check compares Sidekiq's statistics with what was pushed.
require "sidekiq"
require "sidekiq/api"
require_relative "noop_job"

QUEUES = Integer(ENV.fetch("BENCH_QUEUES"))
JOBS = Integer(ENV.fetch("BENCH_JOBS"))
NAMES = Array.new(QUEUES) { |i| "bench_#{i}" }
BATCH = 1000
STALL_SECONDS = 60
BEFORE = "bench_processed_before" # Sidekiq's count of processed and failed jobs before the run

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

def left = Sidekiq.redis { |r| r.pipelined { |p| NAMES.each { |n| p.llen("queue:#{n}") } } }.sum

def counts = Sidekiq::Stats.new.then { |stats| [stats.processed, stats.failed] }

def report(what, jobs, seconds)
  printf("%-10s %d jobs in %.2f s, %.0f jobs/s\n", what, jobs, seconds, jobs / seconds)
end

def push
  NAMES.each { |name| Sidekiq::Queue.new(name).clear }
  Sidekiq.redis { |r| r.set(BEFORE, counts.join(" ")) }
  begin_s = now
  (0...JOBS).each_slice(BATCH).with_index do |numbers, batch|
    Sidekiq::Client.push_bulk("class" => NoopJob, "queue" => NAMES[batch % QUEUES],
                              "args" => numbers.map { |number| [number] })
  end
  report("pushed", JOBS, now - begin_s)
end

def alive?(pid)
  Process.kill(0, pid)
  File.read("/proc/#{pid}/stat").split(") ").last[0] != "Z"
rescue Errno::ESRCH, Errno::ENOENT
  false
end

def drain(pids)
  last_left, last_change, begin_s = JOBS, now, nil
  until (count = left).zero?
    if count < last_left
      begin_s ||= now
      last_left, last_change = count, now
    end
    abort "a Sidekiq process has ended" unless pids.all? { |pid| alive?(pid) }
    abort "#{count} jobs are left and nobody takes them" if now - last_change > STALL_SECONDS
    sleep 0.02
  end
  # The jobs taken before the first look are few; the rate does not count their time nor them.
  report("processed", JOBS, now - (begin_s || now))
end

def check
  before = Sidekiq.redis { |r| r.get(BEFORE).tap { r.del(BEFORE) } }.split.map(&:to_i)
  processed, failed = counts.zip(before).map { |after, first| after - first }
  return if processed == JOBS && failed.zero?
  abort "#{JOBS} jobs were pushed, #{processed} processed, #{failed} failed"
end

begin
  case ARGV.shift
  when "push" then push
  when "drain" then drain(ARGV.map { |pid| Integer(pid) })
  when "check" then check
  else abort "usage: bench.rb push | drain PID... | check"
  end
rescue Redis::BaseError => e
  abort "#{ENV["REDIS_URL"]}: #{e.message}"
end
