// SPDX-License-Identifier: Apache-2.0
// Who fills the output of a connection by itself, as there is room: the stream that a replica gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dfly {

// What a client has said with REPLCONF before it asks for the stream.
struct ReplicaOffer {
  std::string announced_ip;  // empty: the peer's address
  uint16_t port = 0;         // where it listens; 0: it has not said
  bool has_eof = false;      // it takes a copy whose size is not known in advance
  bool has_psync2 = false;   // +CONTINUE may name another id
  bool is_rdb_only = false;  // the copy, and then the end
  bool wants_keys = true;    // rdb-filter-only: what the copy has
  bool wants_functions = true;
};

// Owner: a session, on its thread. Suspends: never.
class OutputFeed {
 public:
  virtual ~OutputFeed() = default;
  // The connection has sent what it had.
  virtual void OnRoom() = 0;
  // Its connection begins to close: nothing can be sent any more. Called once, before the end.
  virtual void OnClosing() = 0;
  // Bytes that are kept for it alone, and that its connection does not know of.
  virtual size_t held_bytes() const = 0;
  // Ends its connection, and logs why.
  virtual void End(std::string_view why) = 0;
};

}  // namespace dfly
