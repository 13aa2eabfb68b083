// SPDX-License-Identifier: Apache-2.0
// What a client waits for, as those see it that list clients or end their waits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "commands/table/args.h"

namespace dfly {

// A command that waits for keys (BLPOP). Thread: the client's.
class ClientWait {
 public:
  enum class End : uint8_t {
    kNone,
    kServed,
    kWoken,  // there may be something, which it has to fetch itself
    kTimeout,
    kUnblocked,           // CLIENT UNBLOCK id TIMEOUT
    kUnblockedWithError,  // CLIENT UNBLOCK id ERROR
    kDenied,              // its user may not do it any more
    kGone                 // the client
  };

  // Ends the wait, unless it is being served already (false).
  virtual bool EndWait(End how) = 0;
  // Ends it with this error.
  virtual void Deny(std::string error) = 0;
  // Nothing has ended it yet.
  virtual bool waits() const = 0;
  virtual Args args() const = 0;
  // Each key once.
  virtual std::vector<std::string> Keys() const = 0;
  virtual uint64_t since_ns() const = 0;  // monotonic

 protected:
  ~ClientWait() = default;
};

// A call of RunAsClient (server/dispatch/inner_client.h) that is under way. Thread: that of the
// client on whose behalf it runs.
class RunningInnerCall {
 public:
  // The client has left, or will send no more. The inner client then ends its side of the
  // connection behind its commands: a command that waits for other clients (BLPOP) ends, and all
  // others are answered.
  virtual void EndSide() = 0;

 protected:
  ~RunningInnerCall() = default;
};

}  // namespace dfly
