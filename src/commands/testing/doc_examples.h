// SPDX-License-Identifier: Apache-2.0
// Examples of docs that are compiled: a test has them between two marks, and docs have the same
// lines.
//
//   // doc-example: begin <name>
//   // doc-example: end
//
// DFLY_SOURCE is the root of the checkout (cmake: dfly_reads_source(<test>)).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace dfly {

inline std::string PathInSource(std::string_view path) {
  return std::string(DFLY_SOURCE "/").append(path);
}

inline std::string ReadSource(std::string_view path) {
  std::ifstream file(PathInSource(path));
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// The lines of the example, as docs have them: four columns from the left.
inline std::string DocExample(std::string_view source, std::string_view name) {
  std::istringstream lines(ReadSource(source));
  std::vector<std::string> example;
  bool is_inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("// doc-example: end") != std::string::npos) is_inside = false;
    if (is_inside) example.push_back(line);
    if (line.ends_with(std::string("// doc-example: begin ").append(name))) is_inside = true;
  }
  size_t indent = std::string::npos;
  for (const std::string& line : example) {
    indent = std::min(indent, line.find_first_not_of(' '));
  }
  std::string text;
  for (const std::string& line : example) {
    text += line.empty() ? "\n" : "    " + line.substr(indent) + "\n";
  }
  return text;
}

inline void ExpectInDocs(std::string_view page, std::string_view source, std::string_view name) {
  const std::string example = DocExample(source, name);
  EXPECT_FALSE(example.empty()) << name;
  EXPECT_NE(ReadSource(page).find(example), std::string::npos)
      << page << " does not have this text of " << source << ":\n"
      << example;
}

}  // namespace dfly
