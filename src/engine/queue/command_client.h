// SPDX-License-Identifier: Apache-2.0
// The client whose command runs.
#pragma once

namespace dfly {

// Commands of keys only hand it on. The layer that has clients derives its class from this one, and
// its handlers cast back (SessionOf, ForSession in server/clients/session.h).
class CommandClient {
 public:
  CommandClient(const CommandClient&) = delete;
  CommandClient& operator=(const CommandClient&) = delete;

 protected:
  CommandClient() = default;
  ~CommandClient() = default;
};

}  // namespace dfly
