// SPDX-License-Identifier: Apache-2.0
#include "scripting/sha1.h"

#include <openssl/evp.h>

#include "helio/base/logging.h"

namespace dfly {

std::string Sha1Hex(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  CHECK_EQ(EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha1(), nullptr), 1);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

}  // namespace dfly
