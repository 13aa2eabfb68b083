# SPDX-License-Identifier: Apache-2.0
# Starts sidekiq processes and is their client: runs the cases one after the other, and prints a
# line of JSON for each.
#
#   REDIS_URL=redis://127.0.0.1:7000/0 ruby cases.rb [case...]
require "json"
require "sidekiq/api"
require_relative "jobs"

DEADLINE_S = Float(ENV.fetch("SIDEKIQ_DEADLINE_S", "20"))
PROCESSES = 3
JOBS = 10_000

class Failed < StandardError; end

def redis(&block) = Sidekiq.redis(&block)

def check(expected, got, what = "")
  raise Failed, "#{what} expected #{expected.inspect}, got #{got.inspect}" unless expected == got
end

def check_that(condition, what)
  raise Failed, what unless condition
end

# Polls until the block gives something; gives that.
def wait_for(what)
  last = Process.clock_gettime(Process::CLOCK_MONOTONIC) + DEADLINE_S
  loop do
    value = yield
    return value if value
    check_that(Process.clock_gettime(Process::CLOCK_MONOTONIC) < last, "timeout: #{what}")
    sleep 0.01
  end
end

# The same until a count has come to `goal`; on a busy machine that takes as long as it takes, as
# long as it goes on.
def wait_for_count(what, goal)
  count = nil
  while count != goal
    count = wait_for("#{what}: #{count} of #{goal}") do
      now = yield
      now if now != count
    end
  end
end

# With a timeout above the 2 s of its BRPOPs: a process that ends earlier gives its job back while
# its own idle threads still wait, takes it again, and loses it.
def start_process(*queues)
  options = queues.flat_map { |queue| ["-q", queue] }
  command = ["sidekiq", "-r", File.join(__dir__, "jobs.rb"), "-c", "5", "-t", "3", *options]
  pid = spawn(*command, out: ENV.fetch("SIDEKIQ_LOG", File::NULL), err: [:child, :out])
  PIDS << pid
  pid
end

PIDS = []

def stop_processes
  PIDS.each { |pid| Process.kill("TERM", pid) }
  PIDS.each { |pid| Process.wait(pid) }
  PIDS.clear
end

def notes(run)
  redis { |c| c.lrange("did:#{run}", 0, -1) }.map { |text| JSON.parse(text) }
end

CASES = {}

CASES["push"] = lambda do
  jid = Note.perform_async("push", 1, "two", {"three" => [3.5, nil, "é"]})
  check(24, jid.size)
  wait_for("the job") { notes("push").size == 1 }
  check([1, "two", {"three" => [3.5, nil, "é"]}], notes("push")[0][0])
  Sidekiq::Client.push("class" => "Note", "args" => ["push", "by name"], "queue" => "low")
  wait_for("the other job") { notes("push").size == 2 }
  check(["by name"], notes("push")[1][0])
  check(%w[default low], Sidekiq::Queue.all.map(&:name).sort)
  %w[{tag}high {tag}low].each { |queue| Note.set(queue: queue).perform_async("push", queue) }
  wait_for("jobs of queues with a hash tag") { notes("push").size == 4 }
  check(["{tag}high", "{tag}low"], notes("push").last(2).map { |args, _| args[0] }.sort)
end

# Nobody serves this queue, so its jobs lie there to be looked at.
CASES["queue API"] = lambda do
  Note.set(queue: "parked").perform_bulk((1..120).map { |i| ["parked", i] })
  queue = Sidekiq::Queue.new("parked")
  check(120, queue.size)
  check_that(queue.latency >= 0 && queue.latency < DEADLINE_S, "latency #{queue.latency}")
  check((1..120).to_a.reverse, queue.map { |job| job.args[1] })
  job = queue.find { |candidate| candidate.args[1] == 77 }
  check("Note", queue.find_job(job.jid).klass)
  check_that(job.delete, "the job was not there")
  check(119, queue.size)
  check(nil, queue.find_job(job.jid))
  check(119, Sidekiq::Stats::Queues.new.lengths["parked"])
  queue.clear
  check(0, queue.size)
  check_that(!Sidekiq::Queue.all.map(&:name).include?("parked"), "the cleared queue is listed")
end

CASES["10,000 jobs"] = lambda do
  before = Sidekiq::Stats.new.processed
  (0...JOBS).each_slice(1000) do |ids|
    # A list for each process, and one for all.
    queue = "counts#{ids.first / 1000 % (PROCESSES + 1)}"
    jids = Count.set(queue: queue).perform_bulk(ids.map { |id| ["count", id] })
    check(1000, jids.uniq.size)
  end
  wait_for_count("jobs", JOBS) { redis { |c| c.hlen("did:count") } }
  # Each was counted after its job had run, and the beat tells Stats.
  wait_for("the processed count") { Sidekiq::Stats.new.processed >= before + JOBS }
  check(["1"], redis { |c| c.hvals("did:count") }.uniq, "each job runs once:")
  check(0, Sidekiq::Stats.new.enqueued)
end

CASES["scheduled set"] = lambda do
  begin_s = Time.now.to_f
  Note.perform_in(0.6, "later", "second")
  Note.perform_at(Time.now + 0.3, "later", "first")
  far = Note.perform_in(3600, "later", "far")
  gone = Note.perform_in(3600, "later", "gone")
  set = Sidekiq::ScheduledSet.new
  check(2, set.count { |job| [far, gone].include?(job.jid) })
  wait_for("2 jobs") { notes("later").size == 2 }
  at = notes("later").to_h { |args, seconds| [args[0], seconds - begin_s] }
  check_that(at["first"] >= 0.3 && at["second"] >= 0.6, "too early: #{at}")

  check_that(set.find_job(gone).delete, "the job was not there")
  check(1, set.size)
  check(far, set.scan("far").first.jid)
  set.find_job(far).reschedule(Time.now.to_f)
  wait_for("the rescheduled job") { notes("later").size == 3 }
  check(["far"], notes("later")[2][0])
  check(0, set.size)

  # Many at one moment, which all processes look for.
  ids = (0...200).map { |id| ["burst", id] }
  Sidekiq::Client.push_bulk("class" => Count, "args" => ids, "at" => Time.now.to_f + 0.3)
  wait_for_count("jobs", 200) { redis { |c| c.hlen("did:burst") } }
  wait_for("the queues to be empty") { Sidekiq::Stats.new.enqueued.zero? }
  check(["1"], redis { |c| c.hvals("did:burst") }.uniq, "each job runs once:")
end

# A job fails, is tried again, fails as often as it may, dies, and is revived.
CASES["retries and the dead set"] = lambda do
  failed = Sidekiq::Stats.new.failed
  jid = Flaky.perform_async("flaky")
  retries = Sidekiq::RetrySet.new
  2.times do |count|
    job = wait_for("try #{count}") { retries.find_job(jid) }
    check(["RuntimeError", "not repaired", count],
      [job["error_class"], job["error_message"], job["retry_count"]])
    check_that(job.at > Time.now, "the retry is due at once")
    job.reschedule(Time.now.to_f) # its own delay is 15 s and more
    wait_for("the retry") { redis { |c| c.get("did:flaky") }.to_i == count + 2 }
  end
  dead = Sidekiq::DeadSet.new
  job = wait_for("its death") { dead.find_job(jid) }
  check([0, 1], [retries.size, dead.size])
  check("not repaired", job["error_message"])
  wait_for("3 failures are counted") { Sidekiq::Stats.new.failed == failed + 3 }
  redis { |c| c.set("repaired:flaky", 1) }
  job.retry
  wait_for("the revived job") { redis { |c| c.get("did:flaky:end") } == "well" }
  check(["4", 0], [redis { |c| c.get("did:flaky") }, dead.size])

  # Sets as a whole.
  run = "sick"
  5.times { Flaky.perform_async(run) }
  wait_for("5 retries") { retries.size == 5 }
  retries.kill_all
  check([0, 5], [retries.size, dead.size])
  redis { |c| c.set("repaired:sick", 1) }
  dead.retry_all
  wait_for("10 tries") { redis { |c| c.get("did:sick") } == "10" }
  check(0, dead.size)
end

CASES["stats and processes"] = lambda do
  check(PROCESSES, Sidekiq::ProcessSet.new.size)
  check(5 * PROCESSES, Sidekiq::ProcessSet.new.total_concurrency)
  wait_for("nobody works") { Sidekiq::Workers.new.size.zero? } # as the last beat of each tells
  Busy.perform_async("busy")
  # A retry of an earlier case may be told as well.
  _, _, work = wait_for("the work to be told") do
    Sidekiq::Workers.new.find { |_, _, its| its["payload"]["class"] == "Busy" }
  end
  check(["default", "Busy"], [work["queue"], work["payload"]["class"]])
  check(PROCESSES, Sidekiq::Stats.new.processes_size)
  wait_for("it to be counted") { Sidekiq::Stats.new.workers_size == 1 }
  redis { |c| c.set("released:busy", 1) }
  wait_for("its end") { redis { |c| c.llen("did:busy:end") } == 1 }
  wait_for("nobody works") { Sidekiq::Workers.new.size.zero? }
  stats = Sidekiq::Stats.new
  days = Sidekiq::Stats::History.new(2) # the test may run at midnight
  check([stats.processed, stats.failed], [days.processed.values.sum, days.failed.values.sum])
  check([0, 0, 0, 0], [stats.scheduled_size, stats.retry_size, stats.dead_size, stats.enqueued])

  # The signal comes by a list that the process pops in its beat's MULTI.
  process = Sidekiq::ProcessSet.new.first
  process.quiet!
  wait_for("it is quiet") do
    Sidekiq::ProcessSet.new.find { |p| p.identity == process.identity }&.stopping?
  end
end

# A process that has to end before its job does gives the job back.
CASES["a job of a process that ends"] = lambda do
  Busy.perform_async("torn")
  pid = wait_for("the job runs") { redis { |c| c.lindex("did:torn", 0) } }.to_i
  check_that(PIDS.delete(pid), "the job runs somewhere else")
  Process.kill("TERM", pid) # it waits for its jobs for 3 s
  other = wait_for("the job runs again") { redis { |c| c.lindex("did:torn", 1) } }.to_i
  Process.wait(pid)
  check_that(PIDS.include?(other), "the job runs somewhere else")
  redis { |c| c.set("released:torn", 1) }
  wait_for("its end") { redis { |c| c.llen("did:torn:end") } == 1 }
  check([other.to_s], redis { |c| c.lrange("did:torn:end", 0, -1) })
end

# The processes know the sha of the script that takes a due job; the server has forgotten it.
CASES["NOSCRIPT"] = lambda do
  script = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
  sha = redis { |c| c.script(:load, script) }
  check(5, redis { |c| c.evalsha(sha, keys: ["did:script"], argv: [5]) })
  check(true, redis { |c| c.script(:exists, sha) })
  redis { |c| c.script(:flush) }
  begin
    redis { |c| c.evalsha(sha, keys: ["did:script"], argv: [5]) }
    check_that(false, "the script is still there")
  rescue Redis::CommandError => e
    check_that(e.message.start_with?("NOSCRIPT"), e.message)
  end
  20.times { |i| Note.perform_in(0.2, "noscript", i) }
  wait_for_count("jobs", 20) { notes("noscript").size }
  check((0...20).to_a, notes("noscript").map { |args, _| args[0] }.sort)
end

# What super_fetch and its kind do: a job moves to a list of its worker, and is removed from there
# when it is done; what a dead worker has left is moved back.
CASES["reliable fetch by LMOVE"] = lambda do
  total = 400
  taken = Queue.new
  worker = lambda do |name, fails_at|
    own = "fetch:#{name}"
    connection = Redis.new(url: ENV.fetch("REDIS_URL"))
    done = 0
    loop do
      job = connection.blmove("fetch:queue", own, "RIGHT", "LEFT", timeout: DEADLINE_S)
      check_that(job, "no job came")
      break connection.lrem(own, -1, job) if job == "end"
      break if done == fails_at # dies with its job
      taken << job
      check(1, connection.lrem(own, -1, job))
      done += 1
    end
    connection.close
  end
  doomed = [5, 9].map { |at| Thread.new { worker.call("doomed#{at}", at) } }
  pusher = Thread.new do
    (0...total).each_slice(20) { |jobs| redis { |c| c.lpush("fetch:queue", jobs.map(&:to_s)) } }
  end
  doomed.each(&:join)
  living = %w[w1 w2 w3].map { |name| Thread.new { worker.call(name, nil) } }
  orphans = %w[fetch:doomed5 fetch:doomed9].flat_map do |own|
    redis { |c| Array.new(c.llen(own)) { c.lmove(own, "fetch:queue", "LEFT", "RIGHT") } }
  end
  check(2, orphans.size)
  wait_for("all jobs") { taken.size == total }
  redis { |c| c.lpush("fetch:queue", %w[end end end]) }
  [pusher, *living].each(&:join)
  check((0...total).to_a, Array.new(total) { taken.pop.to_i }.sort)
  check([], redis { |c| c.keys("fetch:*") }, "left over:")
end

def run(name)
  begin_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  error = nil
  begin
    CASES.fetch(name).call
  rescue => e
    error = "#{e.class}: #{e.message}\n#{e.backtrace.first(5).join("\n")}"
  end
  ms = ((Process.clock_gettime(Process::CLOCK_MONOTONIC) - begin_s) * 1000).round
  puts JSON.generate({case: name, ms: ms, error: error})
  error.nil?
end

begin
  names = ARGV.empty? ? CASES.keys : ARGV
  common = %W[default low {tag}high {tag}low counts counts#{PROCESSES}]
  PROCESSES.times { |i| start_process(*common, "counts#{i},2") } # the latter twice as often
  wait_for("the processes") { Sidekiq::ProcessSet.new.size == PROCESSES }
  passed = names.map { |name| run(name) }
ensure
  stop_processes
end
exit(passed&.all? ? 0 : 1)
