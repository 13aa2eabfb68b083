// SPDX-License-Identifier: Apache-2.0
// Which clients CLIENT LIST shows, and CLIENT KILL closes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/args.h"

namespace dfly {

class Session;
struct ServerState;

enum class ClientType : uint8_t { kNormal, kPubsub, kPrimary, kReplica };

// A client has to be what all that is set says. The texts are views into the arguments.
class ClientFilter {
 public:
  // Whose it is: what is wrong with ID has other words in each.
  enum class Of : uint8_t { kList, kKill };
  // Reads "<option> <value> ..." from args[2] on; an option again replaces the one before, but for
  // ID and NOT-ID, which add to it. Returns the error, or nothing.
  std::string Parse(const ServerState& server, Args args, Of of);
  // The old form of KILL: only the address counts.
  void SetAddress(std::string_view address) { address_.is = address; }
  void set_skip_me(bool skip) { skip_me_ = skip; }
  // Whether the client that asks is left out.
  bool skip_me() const { return skip_me_; }
  // Thread: the session's.
  bool Matches(const Session& session, uint64_t now_ns) const;

 private:
  // A value that a client must have, and one that it must not have.
  template <typename T>
  struct Wanted {
    std::optional<T> is;
    std::optional<T> is_not;

    template <typename Other>
    bool Matches(const Other& value) const {
      return (!is || *is == value) && (!is_not || *is_not != value);
    }
    bool empty() const { return !is && !is_not; }
    std::optional<T>& of(bool negated) { return negated ? is_not : is; }
  };
  using WantedText = Wanted<std::string_view>;

  // The numbers from args[*next] on, as many as there are. The error, or nothing.
  std::string ParseIds(Args args, size_t* next, Of of, bool is_negated);
  // `option` without NOT-. The error, or nothing.
  std::string Set(const ServerState& server, std::string_view option, bool is_negated,
                  std::string_view value);
  WantedText* TextOf(std::string_view option);

  std::vector<uint64_t> ids_;  // sorted, as the next ones; empty: any
  std::vector<uint64_t> other_ids_;
  Wanted<ClientType> type_;
  Wanted<int> db_;
  WantedText address_, local_address_, ip_, user_, name_, lib_name_, lib_version_;
  WantedText flags_;               // all of the letters, or not all of them
  Wanted<std::string_view> capa_;  // nobody has any
  uint64_t age_min_s_ = 0;
  uint64_t idle_min_s_ = 0;
  bool skip_me_ = false;
};

}  // namespace dfly
