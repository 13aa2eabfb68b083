// SPDX-License-Identifier: Apache-2.0
// The worker's part of being a replica: the primary's stream is a pipeline like any other, but for
// its replies, its clock, and what may be in it. See server/clients/primary_stream.h.
//
// What a reply would be is a line in the connection's output that nobody is sent:
//
//   -ERR ...     a command has failed
//   +<offset>    all before it is carried out
//   :<offset>    the same, and the primary is told
#include <fmt/format.h>

#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "engine/journal/private_words.h"
#include "engine/keyspace/effects.h"
#include "facade/replies/resp_reader.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/net/address.h"
#include "helio/net/socket.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/dispatch/primary_replies.h"
#include "server/dispatch/worker.h"

namespace dfly {

namespace {

// "(superuser)" is who has no rights to be asked for, as in redis-server.
constexpr std::string_view kUserName = "(superuser)";

bool HasError(const RespValue& value) {
  if (value.kind == ReplyKind::kError) return true;
  for (const RespValue& item : value.items) {
    if (HasError(item)) return true;
  }
  return false;
}

// What a primary may send besides what reads or writes keys.
bool MayBeInStream(const Command& command) {
  if ((command.flags & (kWrite | kReadonly | kMayReplicate)) != 0) return true;
  if (command.runs_script || command.channel_at != 0) return true;
  constexpr std::string_view kOthers[] = {"select", "ping", "echo", "multi", "exec", "discard"};
  for (const std::string_view name : kOthers) {
    if (command.name == name) return true;
  }
  return command.full_name.starts_with("function|") || command.full_name.starts_with("script|");
}

// REPLCONF ACK <offset> [FACK <durable>]
std::string Acknowledgement(std::string_view offset, std::optional<int64_t> durable) {
  std::vector<std::string_view> words = {"REPLCONF", "ACK", offset};
  std::string digits;
  if (durable) {
    digits = fmt::format("{}", *durable);
    words.insert(words.end(), {"FACK", digits});
  }
  return CommandText(words);
}

}  // namespace

void DropReply(helio::IoBuf* out, size_t begin, bool keeps_error) {
  if (out->size() == begin) return;
  bool has_error = false;
  if (keeps_error) [[unlikely]] {
    const std::string_view reply = out->view().substr(begin);
    if (reply.front() == '-') return;
    if (reply.front() == '*' && reply.find("\r\n-") != std::string_view::npos) {
      RespValue value;
      has_error = ReadRespValue(reply, &value) != 0 && HasError(value);
    }
  }
  out->Truncate(begin);
  if (has_error) out->Append("-ERR a command inside of an EXEC has failed\r\n");
}

Session& Worker::AddPrimary(int fd, std::unique_ptr<helio::TlsSession> tls,
                            std::unique_ptr<PrimaryStream> stream, int db_index,
                            std::string_view received) {
  helio::SetTcpOptions(fd, server_.settings.tcp_keepalive_s.load(std::memory_order_relaxed));
  constexpr bool kIsAdmin = true;  // --maxclients is not for it
  server_.connections.OnInner(index(), kIsAdmin);
  Session& session = NewSession(fd, server_.next_client_id.fetch_add(1, std::memory_order_relaxed),
                                std::move(tls));
  session.peer_address = helio::PeerAddress(fd);
  session.local_address = helio::LocalAddress(fd);
  session.user.is_admin = kIsAdmin;
  session.user.name = kUserName;
  session.user.is_authenticated = true;
  session.UpdateChecked();
  session.no_evict = true;
  session.db_index = db_index;
  stream->whole = stream->marked = stream->begin;
  session.primary = std::move(stream);
  session.connection.SetAuthenticated(true);
  session.connection.KeepReplies();
  session.connection.StartWith(received);
  return session;
}

int64_t Worker::ReadOffset(const Session& session) {
  return session.primary->begin + static_cast<int64_t>(session.connection.executed_bytes());
}

int64_t Worker::WholeOffset(const Session& session) {
  return session.multi != nullptr ? session.primary->whole : ReadOffset(session);
}

// Before a command, and when none is under way.
void Worker::NoteWhole(Session& session) { session.primary->whole = WholeOffset(session); }

std::optional<CommandSink::Outcome> Worker::TakeOfPrimary(Connection* connection, Session& session,
                                                          Args args) {
  NoteWhole(session);
  if (connection->is_inline_command()) {
    session.primary->owner->OnStreamCorrupt();
    return EndPrimary("it has sent a line that is no command of a stream");
  }
  if (!IsWord(args.name(), "replconf")) return {};
  if (args.size() == 3 && IsWord(args[1], "getack")) {
    RunNoted();
    MarkPrimary(session, session.primary->whole, true);
  }
  return Outcome::kTaken;
}

std::optional<CommandSink::Outcome> Worker::DispatchPrimary(Connection* connection,
                                                            Session& session,
                                                            const Command& command, Args args) {
  const bool may_wait = command.blocking != nullptr && command.blocking->MayWait(args);
  const bool pushes = (command.flags & kPushes) != 0;
  if (may_wait || pushes || (command.flags & kBlocking) != 0) {
    return EndPrimary(fmt::format("it has sent {}, which waits", command.full_name));
  }
  if (!MayBeInStream(command)) {
    return Refuse(connection, &command, args,
                  {.error = fmt::format("ERR {} is not for streams", command.full_name)});
  }
  if (session.primary->believes_private_words && command.name == "echo" && args.size() == 2 &&
      args[1].starts_with(kPrivateMark)) {
    return RunPrivateWords(connection, session, args[1].substr(kPrivateMark.size()));
  }
  return {};
}

CommandSink::Outcome Worker::RunPrivateWords(Connection* connection, Session& session,
                                             std::string_view words) {
  RequestParser& parser = session.primary->private_parser;
  parser.Reset();
  const bool is_command = words.starts_with('*') &&
                          parser.Parse(words) == RequestParser::Status::kCommand &&
                          parser.consumed() == words.size();
  if (!is_command) {
    return Refuse(connection, nullptr, Args(parser.args()),
                  {.error = "ERR private words", .is_of_row = false});
  }
  const Args args(parser.args());
  const Lookup found = Find(commands_, args);
  if (!found.is_found()) return RefuseUnfound(connection, session, found, args);
  if (!MayBeInStream(*found.row) || found.row->name == "echo") {
    return Refuse(connection, found.row, args, {.error = "ERR private words"});
  }
  return Dispatch(connection, session, *found.row, args);
}

CommandSink::Outcome Worker::EndPrimary(std::string_view why) {
  LOG(WARNING) << "the link with the primary is ended: " << why;
  RunNoted();
  return Outcome::kClose;
}

void Worker::OnTakenBytes(Connection* connection, std::string_view bytes) {
  if (!bytes.empty()) SessionOf(connection).primary->owner->OnBytes(bytes);
}

void Worker::MarkPrimary(Session& session, int64_t offset, bool is_asked) {
  session.primary->owner->OnWhole(offset);
  session.primary->marked = offset;
  helio::IoBuf* const out = session.connection.replies().BeginLocal();
  out->Append(fmt::format("{}{}\r\n", is_asked ? ':' : '+', offset));
  session.connection.replies().EndLocal();
  session.connection.FlushSoon();
}

void Worker::PausePrimary(Connection* connection, Session& session) {
  RunNoted();
  batches_.Send();
  if (!connection->busy()) NoteWhole(session);
  if (session.primary->whole != session.primary->marked) {
    MarkPrimary(session, session.primary->whole, false);
  } else {
    session.primary->owner->OnWhole(session.primary->whole);
  }
}

void Worker::AckPrimary(Session& session) {
  Connection& connection = session.connection;
  if (connection.closing()) return;
  RunNoted();
  batches_.Send();
  if (!connection.busy()) NoteWhole(session);
  MarkPrimary(session, session.primary->whole, true);
}

void Worker::OnReplies(Connection* connection, helio::IoBuf* replies) {
  PrimaryStream& stream = *SessionOf(connection).primary;
  std::string out;
  for (std::string_view rest = replies->view(); !rest.empty();) {
    const size_t end = rest.find("\r\n");
    CHECK_NE(end, std::string_view::npos);
    const std::string_view text = rest.substr(1, end - 1);
    if (rest.front() == '-') {
      stream.owner->OnStreamError(text);
    } else {
      int64_t offset = 0;
      std::from_chars(text.data(), text.data() + text.size(), offset);
      stream.owner->OnApplied(offset);
      if (rest.front() == ':') out += Acknowledgement(text, stream.owner->durable());
    }
    rest.remove_prefix(end + 2);
  }
  replies->Clear();
  replies->Append(out);
}

void Worker::OnPrimaryClosed(const Connection& connection, Session& session) {
  PrimaryStream& stream = *session.primary;
  NoteWhole(session);
  stream.owner->OnStreamEnd(stream.whole, session.db_index, connection.has_ended_whole());
}

}  // namespace dfly
