// SPDX-License-Identifier: Apache-2.0
// The text of INFO.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "commands/table/command_table.h"
#include "server/info/info_facts.h"
#include "server/info/metric_rows.h"

namespace dfly {

// `sections` as the arguments of INFO: names in any case; none is "default". Unknown ones are
// ignored.
std::string FormatInfo(const InfoFacts& facts, std::span<const std::string_view> sections);
// The lines of one section.
std::string FormatRows(const InfoFacts& facts, std::span<const MetricRow> rows);

// The INFO command. For RegisterFamilies.
void RegisterInfoCommands(CommandTable* table);

}  // namespace dfly
