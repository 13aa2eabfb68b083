// SPDX-License-Identifier: Apache-2.0
#include "scripting/lua/sha1.h"

#include <openssl/sha.h>

namespace dfly {

std::array<char, 40> Sha1Digits(std::string_view text) {
  unsigned char digest[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  std::array<char, 2 * SHA_DIGEST_LENGTH> hex;
  for (size_t i = 0; i < SHA_DIGEST_LENGTH; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex[2 * i] = kDigits[digest[i] >> 4];
    hex[2 * i + 1] = kDigits[digest[i] & 15];
  }
  return hex;
}

std::string Sha1Hex(std::string_view text) {
  const std::array<char, 40> hex = Sha1Digits(text);
  return {hex.data(), hex.size()};
}

}  // namespace dfly
