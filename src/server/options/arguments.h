// SPDX-License-Identifier: Apache-2.0
// Where the flags get their values from. Each of these overrules those before it:
//   the environment       DFLY_port=7000, DFLY_PORT=7000
//   a configuration file  dragonfly /etc/redis/redis.conf, with what it includes; "-": stdin
//   the command line      --port=7000, --port 7000, --save 60 1000 --save 300 10, --flagfile=path
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dfly {

struct Arguments {
  std::string config_file;  // its absolute path; empty: none
  // What is left out or unknown, for the log.
  std::vector<std::string> warnings;
};

// Sets the flags. `arguments`: without the program's name. `environment`: "NAME=value".
// Empty, or what is wrong. To be called once, before there are threads.
[[nodiscard]] std::string ReadArguments(std::span<const std::string> arguments,
                                        std::span<const std::string_view> environment,
                                        Arguments* out);

}  // namespace dfly
