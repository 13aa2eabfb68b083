// SPDX-License-Identifier: Apache-2.0
// LATENCY: what was slow (latency_events.h), and histograms of all commands.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "commands/table/rows.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "helio/base/clock.h"
#include "helio/base/cycle_clock.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"
#include "server/commands/families.h"
#include "server/info/latency_report.h"

namespace dfly {

namespace {

using AllSeries = std::array<LatencySeries, kLatencyEvents>;

AllSeries Gather(ServerState& server) {
  std::vector<AllSeries> parts(server.pool.size());
  AwaitOnAll<WorkerState>(server, [&](WorkerState& worker) {
    for (size_t i = 0; i < kLatencyEvents; ++i) {
      parts[worker.index()][i] = worker.timer.events().series(i);
    }
  });
  AllSeries all;
  for (const AllSeries& part : parts) {
    for (size_t i = 0; i < kLatencyEvents; ++i) all[i].Merge(part[i]);
  }
  return all;
}

void Latest(CoordinatorContext&, Args, ReplySink& reply) {
  const AllSeries all = Gather(WorkerState::Here().server);
  const auto seen = std::count_if(all.begin(), all.end(),
                                  [](const LatencySeries& one) { return !one.samples.empty(); });
  reply.Array(static_cast<size_t>(seen));
  for (size_t i = 0; i < kLatencyEvents; ++i) {
    if (all[i].samples.empty()) continue;
    reply.Array(4);
    reply.Bulk(NameOf(static_cast<LatencyEvent>(i)));
    reply.Integer(all[i].samples.back().time_s);
    reply.Integer(all[i].samples.back().ms);
    reply.Integer(all[i].max_ms);
  }
}

void History(CoordinatorContext&, Args args, ReplySink& reply) {
  const size_t event = LatencyEventOf(args[2]);
  if (event == kLatencyEvents) return reply.Array(0);
  const LatencySeries series = Gather(WorkerState::Here().server)[event];
  reply.Array(series.samples.size());
  for (const LatencySample& sample : series.samples) {
    reply.Array(2);
    reply.Integer(sample.time_s);
    reply.Integer(sample.ms);
  }
}

void Reset(CoordinatorContext&, Args args, ReplySink& reply) {
  std::array<std::atomic<bool>, kLatencyEvents> had{};
  AwaitOnAll<WorkerState>(WorkerState::Here().server, [&](WorkerState& worker) {
    for (size_t i = 0; i < kLatencyEvents; ++i) {
      const auto names = args.from(2);
      const bool is_named = std::any_of(names.begin(), names.end(), [i](std::string_view name) {
        return LatencyEventOf(name) == i;
      });
      if (!names.empty() && !is_named) continue;
      LatencySeries& series = worker.timer.events().series(i);
      if (!series.samples.empty()) had[i] = true;
      series.Clear();
    }
  });
  reply.Integer(std::count(had.begin(), had.end(), true));
}

// A column for each sample, oldest first, with its age below.
std::string Draw(std::string_view event, const LatencySeries& series, int64_t now_s) {
  constexpr size_t kColumnsMax = 80;
  constexpr uint32_t kRows = 4;
  const size_t count = std::min(series.samples.size(), kColumnsMax);
  const std::vector<LatencySample> shown(series.samples.end() - static_cast<ptrdiff_t>(count),
                                         series.samples.end());
  const auto [low, high] = std::minmax_element(
      shown.begin(), shown.end(),
      [](const LatencySample& a, const LatencySample& b) { return a.ms < b.ms; });
  std::string text = fmt::format("{} - high {} ms, low {} ms (all time high {} ms)\n", event,
                                 high->ms, low->ms, series.max_ms);
  text.append(kColumnsMax, '-') += '\n';
  for (uint32_t row = kRows; row > 0; --row) {
    for (const LatencySample& sample : shown) {
      const uint32_t range = std::max(1u, high->ms - low->ms);
      const uint32_t level = 1 + (sample.ms - low->ms) * (kRows - 1) / range;
      text += level > row ? '|' : level == row ? (row == 1 ? '_' : '#') : ' ';
    }
    text += '\n';
  }
  text += '\n';
  const auto age_of = [now_s](int64_t time_s) {
    const int64_t age_s = std::max<int64_t>(0, now_s - time_s);
    if (age_s < 60) return fmt::format("{}s", age_s);
    if (age_s < 3600) return fmt::format("{}m", age_s / 60);
    if (age_s < 86400) return fmt::format("{}h", age_s / 3600);
    return fmt::format("{}d", age_s / 86400);
  };
  size_t lines = 0;
  for (const LatencySample& sample : shown) lines = std::max(lines, age_of(sample.time_s).size());
  for (size_t line = 0; line < lines; ++line) {
    for (const LatencySample& sample : shown) {
      const std::string age = age_of(sample.time_s);
      text += line < age.size() ? age[line] : ' ';
    }
    text += '\n';
  }
  return text;
}

void Graph(CoordinatorContext&, Args args, ReplySink& reply) {
  const size_t event = LatencyEventOf(args[2]);
  LatencySeries series;
  if (event != kLatencyEvents) series = Gather(WorkerState::Here().server)[event];
  if (series.samples.empty()) {
    return reply.Error(fmt::format("ERR No samples available for event '{}'", Printed(args[2])));
  }
  reply.Verbatim(
      "txt", Draw(NameOf(static_cast<LatencyEvent>(event)), series, helio::UnixMillis() / 1000));
}

// --- DOCTOR ---

std::string_view AdviceOn(LatencyEvent event) {
  switch (event) {
    case LatencyEvent::kCommand:
      return "SLOWLOG EXPLAIN tells which commands these are, and whether they ran long or waited "
             "for locks. A command over all keys (KEYS, SORT, a long script) keeps its thread, or "
             "others from their locks, for as long; SCAN and smaller collections do not.";
    case LatencyEvent::kFastCommand:
      return "Commands of constant cost were slow: their values are very large, or the thread did "
             "not get the processor. Compare used_cpu_* of INFO with what else runs on the "
             "machine, and the number of --proactor_threads with that of its cores.";
    case LatencyEvent::kExpireCycle:
      return "The expiry's slices took longer than they should. Many large values with the same "
             "deadline cause that: spread the deadlines.";
    case LatencyEvent::kEvictionCycle:
      return "Making room took long. More memory, smaller values, or a lower rate of writes help; "
             "evicted_keys of INFO tells how many keys go.";
    case LatencyEvent::kDefragCycle:
      return "Moving memory took long: lower active-defrag-cycle-max, or switch activedefrag off.";
    case LatencyEvent::kEventLoop:
      return "A thread was busy for that long before it looked for what had arrived. What is "
             "listed "
             "above tells with what; if nothing is, it was many small commands at once (long "
             "pipelines, many clients), a snapshot, or other programs that had the processor.";
    case LatencyEvent::kLogWrite:
      return "Writes to the append-only log took long: the disk is slow, or others use it.";
    case LatencyEvent::kLogPendingSync:
      return "Writes to the append-only log took long while it was being synced: some file systems "
             "let them wait for each other. No client waits for that before journal_buffer_limit.";
    case LatencyEvent::kLogSyncAlways:
      return "With appendfsync always, replies of writes waited so long for the disk. A faster "
             "disk helps, or appendfsync everysec.";
  }
  return "";
}

std::string Diagnose(const AllSeries& all, uint32_t threshold_ms) {
  std::string text;
  std::string advice;
  for (size_t i = 0; i < kLatencyEvents; ++i) {
    const LatencySeries& series = all[i];
    if (series.samples.empty()) continue;
    double sum = 0;
    for (const LatencySample& sample : series.samples) sum += sample.ms;
    const double mean = sum / static_cast<double>(series.samples.size());
    double deviation = 0;
    for (const LatencySample& sample : series.samples) deviation += std::abs(sample.ms - mean);
    deviation /= static_cast<double>(series.samples.size());
    const int64_t span_s = series.samples.back().time_s - series.samples.front().time_s;
    const auto event = static_cast<LatencyEvent>(i);
    text += fmt::format(
        "{}: in {} seconds of {}; {:.0f} ms on average (mean deviation {:.0f} ms), "
        "{} ms at worst.\n",
        NameOf(event), series.samples.size(), span_s + 1, mean, deviation, series.max_ms);
    advice += fmt::format("- {}: {}\n", NameOf(event), AdviceOn(event));
  }
  if (text.empty()) {
    if (threshold_ms == 0) {
      return "The latency monitor is off. CONFIG SET latency-monitor-threshold <milliseconds> "
             "switches it on.\n";
    }
    return fmt::format("Nothing took {} ms or longer since the monitor is on.\n", threshold_ms);
  }
  return fmt::format("What took {} ms or longer:\n\n{}\nWhat may help:\n\n{}", threshold_ms, text,
                     advice);
}

void Doctor(CoordinatorContext&, Args, ReplySink& reply) {
  ServerState& server = WorkerState::Here().server;
  const AllSeries all = Gather(server);
  reply.Verbatim("txt",
                 Diagnose(all, server.settings.latency_monitor_ms.load(std::memory_order_relaxed)));
}

// --- HISTOGRAM ---

void ReplyHistogram(const CommandLatency& latency, ReplySink& reply) {
  // As Redis: how many were below each power of two of microseconds.
  std::map<int64_t, uint64_t> by_bound;
  latency.histogram.ForEach([&](int64_t cycles, uint64_t count) {
    const int64_t nanos = helio::CycleClock::ToNanos(cycles);
    int64_t bound_us = 1;
    while (nanos > bound_us * 1000) bound_us *= 2;
    by_bound[bound_us] += count;
  });
  reply.Map(2);
  reply.Bulk("calls");
  reply.Integer(static_cast<int64_t>(latency.calls));
  reply.Bulk("histogram_usec");
  reply.Map(by_bound.size());
  const auto all = static_cast<double>(latency.histogram.count());
  uint64_t sum = 0;
  for (const auto& [bound_us, count] : by_bound) {
    sum += count;
    reply.Integer(bound_us);
    reply.Integer(
        std::llround(static_cast<double>(sum) / all * static_cast<double>(latency.calls)));
  }
}

void Histogram(CoordinatorContext&, Args args, ReplySink& reply) {
  ServerState& server = WorkerState::Here().server;
  std::vector<const Command*> wanted;
  const auto add = [&wanted](const Command& command) {
    if (command.subcommands.empty()) wanted.push_back(&command);
    for (const Command& subcommand : command.subcommands) wanted.push_back(&subcommand);
  };
  for (std::string_view name : args.from(2)) {
    const size_t bar = name.find('|');
    const Command* command = server.commands.Find(name.substr(0, bar));
    if (command != nullptr && bar != std::string_view::npos) {
      command = CommandTable::FindSubcommand(*command, name.substr(bar + 1));
    }
    if (command != nullptr) add(*command);
  }
  if (args.size() == 2) {
    for (const Command& command : server.commands.all()) add(command);
  }
  std::map<std::string, CommandLatency> by_name;
  for (CommandLatency& latency : GatherHistograms(server, wanted)) {
    const std::string& name = latency.command->full_name;
    by_name.emplace(name, std::move(latency));
  }
  reply.Map(by_name.size());
  for (const auto& [name, latency] : by_name) {
    reply.Bulk(name);
    ReplyHistogram(latency, reply);
  }
}

void Help(Args, ReplySink& reply) {
  ReplyHelp(reply, "LATENCY",
            {"DOCTOR", "    Return a human readable latency analysis report.", "GRAPH <event>",
             "    Return an ASCII latency graph for the <event> class.", "HISTORY <event>",
             "    Return time-latency samples for the <event> class.", "LATEST",
             "    Return the latest latency samples for all events.", "RESET [<event> ...]",
             "    Reset latency data of one or more <event> classes.",
             "    (default: reset all data for all event classes)", "HISTOGRAM [COMMAND ...]",
             "    Return a cumulative distribution of latencies in the format of a histogram for "
             "the specified command names.",
             "    If no commands are specified then all histograms are replied."});
}

}  // namespace

void RegisterLatencyCommands(CommandTable* table) {
  constexpr uint32_t kFlags = kAdmin | kNoScript | kLoading | kStale;
  const auto docs = [](std::string_view summary, std::string_view since,
                       std::string_view complexity = "O(1)") {
    return CommandDocs{summary, since, "server", complexity};
  };
  constexpr std::string_view kTips =
      "nondeterministic_output request_policy:all_nodes response_policy:special";
  const auto row = [&](std::string_view name, CoordinatorHandler handler, int arity,
                       CommandDocs its_docs) {
    return Command{.name = name,
                   .coordinate = handler,
                   .arity = arity,
                   .flags = kFlags,
                   .docs = its_docs,
                   .tips = kTips};
  };
  Command latency = {.name = "latency",
                     .arity = -2,
                     .docs = docs("A container for latency diagnostics commands.", "2.8.13",
                                  "Depends on subcommand.")};
  latency.subcommands = {
      row("doctor", Doctor, 2, docs("Tells what was slow, and what may help.", "2.8.13")),
      row("graph", Graph, 3, docs("Draws the slow moments of an event.", "2.8.13")),
      row("history", History, 3, docs("Returns the slow moments of an event.", "2.8.13")),
      row("latest", Latest, 2, docs("Returns the last slow moment of each event.", "2.8.13")),
      row("reset", Reset, -2, docs("Forgets the slow moments of events.", "2.8.13")),
      row("histogram", Histogram, -2,
          docs("Returns how long commands took.", "7.0.0", "O(N), N commands")),
      HelpRow<Help>("2.8.13", "server"),
  };
  for (Command& subcommand : latency.subcommands) {
    if (subcommand.name == "reset") {
      subcommand.tips = "request_policy:all_nodes response_policy:all_succeeded";
    }
  }
  table->Add(std::move(latency));
}

}  // namespace dfly
