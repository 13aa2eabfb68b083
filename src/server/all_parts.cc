// SPDX-License-Identifier: Apache-2.0
#include "server/all_parts.h"

#include "server/commands/families.h"
#include "server/http/http_pages.h"
#include "server/settings/rows.h"

namespace dfly {

ServerParts AllParts() {
  return {.add_commands = RegisterFamilies, .http = &HttpPages(), .settings = AllSettings()};
}

}  // namespace dfly
