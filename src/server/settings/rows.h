// SPDX-License-Identifier: Apache-2.0
// The rows of all settings. What puts a change of one into effect stands above its row.
#pragma once

#include <span>

#include "server/options/options.h"
#include "server/options/setting_row.h"
#include "server/run/server.h"

namespace dfly {

// In the order of docs/configuration.md, and of CONFIG GET.
std::span<const SettingRow> AllSettings();
// What a server is told that is told nothing. It has one thread, and uses as much memory as it
// likes: OptionsFromFlags asks the machine.
ServerOptions DefaultOptions();

// The parts of the table.
std::span<const SettingRow> NetworkSettings();  // and security, memcached, TLS
std::span<const SettingRow> DataSettings();     // and threads, snapshots, cluster, tags
std::span<const SettingRow> LogSettings();
std::span<const SettingRow> ReplicationSettings();
std::span<const SettingRow> ClientSettings();   // and scripts, limits, events, logs, the process
std::span<const SettingRow> IgnoredSettings();  // of Redis, without effect here

inline Server& ServerOf(SettingHost& host) { return static_cast<Server&>(host); }

}  // namespace dfly
