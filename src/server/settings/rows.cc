// SPDX-License-Identifier: Apache-2.0
#include "server/settings/rows.h"

#include <vector>

namespace dfly {

std::span<const SettingRow> AllSettings() {
  static const std::vector<SettingRow> rows = [] {
    std::vector<SettingRow> all;
    for (const auto& part : {NetworkSettings(), DataSettings(), LogSettings(),
                             ReplicationSettings(), ClientSettings(), IgnoredSettings()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return rows;
}

ServerOptions DefaultOptions() {
  ServerOptions options = InitialOptions(AllSettings());
  options.threads = 1;
  return options;
}

}  // namespace dfly
