// SPDX-License-Identifier: Apache-2.0
// The stream of a primary, which a connection of this server carries out as it does a client's
// pipeline.
//
//   offset    what it counts                                       who wants it
//   read      all bytes that were parsed, also between MULTI and   INFO slave_read_repl_offset
//             EXEC
//   whole     those of commands that are dispatched as a whole:    where to go on after a break
//             a MULTI counts when its EXEC does
//   applied   those of whole commands that are carried out, and    REPLCONF ACK,
//             durable if replies wait for that                     INFO slave_repl_offset
//
// Applied follows whole by the order of replies: none leaves the connection, but between them stand
// marks with offsets, and a mark comes out when all before it is done.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "facade/parsers/request_parser.h"

namespace dfly {

class Session;

// Who follows the primary. Thread: the connection's. None of it suspends.
class PrimaryStreamOwner {
 public:
  // The next bytes of the stream that were parsed, whole commands.
  virtual void OnBytes(std::string_view bytes) = 0;
  // Up to this offset they are whole units, which are dispatched (PrimaryStream::whole).
  virtual void OnWhole(int64_t offset) = 0;
  // It was asked to rest (Connection::AskForRest), and all that was dispatched is carried out.
  virtual void OnRest() = 0;
  // All before this offset is carried out.
  virtual void OnApplied(int64_t offset) = 0;
  // Up to where it is on this server's disk as well; none: there is no log.
  virtual std::optional<int64_t> durable() = 0;
  // A command was answered with an error, which the primary did not get.
  virtual void OnStreamError(std::string_view error) = 0;
  // What is known of the stream is worth nothing: it has to be copied anew.
  virtual void OnStreamCorrupt() = 0;
  // It is over: nothing of it runs any more. `db_index` is the one that it has selected, `offset`
  // that of what is carried out. `is_exact`: false if that is not sure.
  virtual void OnStreamEnd(int64_t offset, int db_index, bool is_exact) = 0;

 protected:
  ~PrimaryStreamOwner() = default;
};

// Owner: the session. Thread: its own.
struct PrimaryStream {
  PrimaryStreamOwner* owner = nullptr;
  int64_t begin = 0;   // offset of what came before the connection's first byte
  int64_t whole = 0;   // see above
  int64_t marked = 0;  // by the last mark
  // Words behind ECHO that only this kind of server knows are carried out.
  bool believes_private_words = false;
  RequestParser private_parser;  // of these
};

}  // namespace dfly
