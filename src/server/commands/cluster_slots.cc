// SPDX-License-Identifier: Apache-2.0
#include "server/commands/cluster_slots.h"

#include <boost/crc.hpp>

#include "helio/base/logging.h"

namespace dfly {

uint16_t ClusterSlotOf(std::string_view key) {
  const size_t open = key.find('{');
  if (open != std::string_view::npos) {
    const size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close > open + 1) {
      key = key.substr(open + 1, close - open - 1);
    }
  }
  boost::crc_xmodem_t crc;  // CRC-16/XMODEM
  crc.process_bytes(key.data(), key.size());
  return static_cast<uint16_t>(crc.checksum() % kClusterSlots);
}

std::string ClusterTagOf(uint16_t slot) {
  constexpr std::string_view kDigits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string tag(3, '0');
  for (char first : kDigits) {
    for (char second : kDigits) {
      for (char third : kDigits) {
        tag = {first, second, third};
        if (ClusterSlotOf(tag) == slot) return tag;
      }
    }
  }
  LOG(FATAL) << "no tag of three digits has slot " << slot;
}

}  // namespace dfly
