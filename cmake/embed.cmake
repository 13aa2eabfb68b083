# SPDX-License-Identifier: Apache-2.0
# Writes files into a C++ header, as arrays named like them.
#   cmake -DOUTPUT=header.h "-DFILES=a.html;b.js" -P embed.cmake
set(text "#pragma once\n\n")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  string(MAKE_C_IDENTIFIER "${name}" name)
  file(READ "${file}" bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND text "inline constexpr unsigned char ${name}[] = {${bytes}};\n")
endforeach()
file(WRITE "${OUTPUT}" "${text}")
