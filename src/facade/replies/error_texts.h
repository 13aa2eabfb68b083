// SPDX-License-Identifier: Apache-2.0
// Error replies that more than one place sends, letter for letter as redis-server 7.2 words them:
// clients match on them. Without the leading '-', as ReplySink::Error takes them. A text that only
// one command uses stands in that command's file.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dfly {

inline constexpr std::string_view kErrWrongType =
    "WRONGTYPE Operation against a key holding the wrong kind of value";
inline constexpr std::string_view kErrSyntax = "ERR syntax error";
inline constexpr std::string_view kErrNotInteger = "ERR value is not an integer or out of range";
inline constexpr std::string_view kErrNotFloat = "ERR value is not a valid float";
inline constexpr std::string_view kErrMinMaxNotFloat = "ERR min or max is not a float";
inline constexpr std::string_view kErrNotPositive = "ERR value is out of range, must be positive";
inline constexpr std::string_view kErrOutOfRange = "ERR value is out of range";
inline constexpr std::string_view kErrOverflow = "ERR increment or decrement would overflow";
inline constexpr std::string_view kErrDecrementOverflow = "ERR decrement would overflow";
inline constexpr std::string_view kErrIncrNanOrInf = "ERR increment would produce NaN or Infinity";
inline constexpr std::string_view kErrNoSuchKey = "ERR no such key";
inline constexpr std::string_view kErrIndexOutOfRange = "ERR index out of range";
inline constexpr std::string_view kErrOffsetOutOfRange = "ERR offset is out of range";
inline constexpr std::string_view kErrStringTooLong =
    "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
inline constexpr std::string_view kErrDbIndex = "ERR DB index is out of range";
inline constexpr std::string_view kErrSameObject =
    "ERR source and destination objects are the same";
inline constexpr std::string_view kErrInvalidCursor = "ERR invalid cursor";
inline constexpr std::string_view kErrTimeoutNotFloat =
    "ERR timeout is not a float or out of range";
inline constexpr std::string_view kErrTimeoutNotInteger =
    "ERR timeout is not an integer or out of range";
inline constexpr std::string_view kErrTimeoutNegative = "ERR timeout is negative";
inline constexpr std::string_view kErrTimeoutOutOfRange = "ERR timeout is out of range";

// As redis-server 7.0 words it, since tools look for it; a whole reply.
inline constexpr std::string_view kErrProtectedMode =
    "-DENIED Redis is running in protected mode because protected mode is enabled and no "
    "password is set for the default user. In this mode connections are only accepted from the "
    "loopback interface. If you want to connect from external computers to Redis you may adopt "
    "one of the following solutions: 1) Just disable protected mode sending the command "
    "'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from "
    "the same host the server is running, however MAKE SURE Redis is not publicly accessible "
    "from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) "
    "Alternatively you can just disable the protected mode by editing the Redis configuration "
    "file, and setting the protected mode option to 'no', and then restarting the server. 3) "
    "If you started the server manually just for testing, restart it with the "
    "'--protected-mode no' option. 4) Setup a an authentication password for the default user. "
    "NOTE: You only need to do one of the above things in order for the server to start "
    "accepting connections from the outside.\r\n";
inline constexpr std::string_view kErrAdminPortOnly =
    "NOPERM this command is for clients of the admin port only (--restricted_commands)";
inline constexpr std::string_view kErrNoAuth = "NOAUTH Authentication required.";
inline constexpr std::string_view kErrWrongPass =
    "WRONGPASS invalid username-password pair or user is disabled.";
inline constexpr std::string_view kErrAuthWithoutPassword =
    "ERR AUTH <password> called without any password configured for the default user. Are you sure "
    "your configuration is correct?";
inline constexpr std::string_view kErrNoProto = "NOPROTO unsupported protocol version";
inline constexpr std::string_view kErrProtoNotInteger =
    "ERR Protocol version is not an integer or out of range";

inline constexpr std::string_view kErrOutOfMemory =
    "OOM command not allowed when used memory > 'maxmemory'.";
inline constexpr std::string_view kErrLoading = "LOADING Redis is loading the dataset in memory";
inline constexpr std::string_view kErrMisconf =
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to "
    "disk. Commands that may modify the data set are disabled, because this instance is configured "
    "to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error "
    "option). Please check the Redis logs for details about the RDB error.";
inline constexpr std::string_view kErrBusyScript =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
inline constexpr std::string_view kErrBusyFunction =
    "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
inline constexpr std::string_view kErrNoScript = "NOSCRIPT No matching script. Please use EVAL.";
inline constexpr std::string_view kErrNoFunction = "ERR Function not found";
inline constexpr std::string_view kErrReadOnly =
    "READONLY You can't write against a read only replica.";
inline constexpr std::string_view kErrReadOnlyScript =
    "READONLY Can not run script with write flag on readonly replica.";
inline constexpr std::string_view kErrMasterDown =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
inline constexpr std::string_view kErrNoReplicas = "NOREPLICAS Not enough good replicas to write.";
inline constexpr std::string_view kErrMisconfDisk =
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to "
    "disk. Commands that may modify the data set are disabled, because this instance is configured "
    "to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error "
    "option). Please check the Redis logs for details about the RDB error.";
inline constexpr std::string_view kErrExecAbort =
    "EXECABORT Transaction discarded because of previous errors.";
inline constexpr std::string_view kErrExecWithoutMulti = "ERR EXEC without MULTI";
inline constexpr std::string_view kErrDiscardWithoutMulti = "ERR DISCARD without MULTI";
inline constexpr std::string_view kErrNestedMulti = "ERR MULTI calls can not be nested";
inline constexpr std::string_view kErrWatchInMulti = "ERR WATCH inside MULTI is not allowed";
inline constexpr std::string_view kErrBusyKey = "BUSYKEY Target key name already exists.";
inline constexpr std::string_view kErrBusyGroup = "BUSYGROUP Consumer Group name already exists";
inline constexpr std::string_view kErrTooManyBlocked =
    "ERR too many clients wait for keys (--blocked_clients_max)";
inline constexpr std::string_view kErrUnblocked = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
inline constexpr std::string_view kErrNoSuchClient = "ERR No such client";
inline constexpr std::string_view kErrMaxClients = "ERR max number of clients reached";
inline constexpr std::string_view kErrCrossSlot =
    "CROSSSLOT Keys in request don't hash to the same slot";
inline constexpr std::string_view kErrClusterDisabled =
    "ERR This instance has cluster support disabled";

// `command` as COMMAND lists it, lower case, with '|' before a subcommand: "config|get".
std::string WrongArityError(std::string_view command);
// What --enable_debug_command refuses; any other `command` is MODULE's.
std::string ProtectedError(std::string_view command);
std::string InvalidExpireError(std::string_view command);

// What "%.*s" prints of an argument: nothing from its first NUL on, and at most `max` bytes.
std::string_view Printed(std::string_view text, size_t max = std::string_view::npos);

// `args` without the command's name. Arguments are quoted until 128 letters are full.
std::string UnknownCommandError(std::string_view name, std::span<const std::string_view> args);

// `command` is shown in upper case; `name` as the client sent it.
std::string UnknownSubcommandError(std::string_view command, std::string_view name);

// For a subcommand that refuses its arguments itself.
std::string SubcommandSyntaxError(std::string_view command, std::string_view name);

// "ERR Can't execute 'get': only (P|S)SUBSCRIBE / ..." of a RESP2 client that is subscribed.
std::string SubscribedContextError(std::string_view command);

// Of an EXEC that is not even looked at: "EXECABORT Transaction discarded because of: ..."
std::string ExecAbortError(std::string_view error);

// What ACL refuses: "NOPERM User alice has no permissions to run the 'get' command".

}  // namespace dfly
