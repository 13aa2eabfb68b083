// SPDX-License-Identifier: Apache-2.0
#include "server/options/protected_action.h"

#include "server/base/words.h"

namespace dfly {

std::optional<ProtectedAction> ParseProtectedAction(std::string_view text) {
  if (IsWord(text, "no")) return ProtectedAction::kNo;
  if (IsWord(text, "local")) return ProtectedAction::kLocal;
  if (IsWord(text, "yes")) return ProtectedAction::kYes;
  return {};
}

std::string_view ToText(ProtectedAction action) {
  switch (action) {
    case ProtectedAction::kNo:
      return "no";
    case ProtectedAction::kLocal:
      return "local";
    case ProtectedAction::kYes:
      return "yes";
  }
  return "";
}

}  // namespace dfly
