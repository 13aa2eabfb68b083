// SPDX-License-Identifier: Apache-2.0
// What a Server consists of besides this folder and those above it, which know nothing of the
// folders with commands, settings and pages. server/all_parts.h has them.
#pragma once

#include <span>

#include "commands/table/command_table.h"
#include "server/clients/http_frontend.h"
#include "server/clients/memcached_rows.h"
#include "server/options/setting_row.h"

namespace dfly {

struct ServerParts {
  void (*add_commands)(CommandTable* table, MemcachedRows* memcached) = nullptr;
  HttpFrontend* http = nullptr;
  std::span<const SettingRow> settings = {};
};

}  // namespace dfly
