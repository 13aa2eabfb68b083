# SPDX-License-Identifier: Apache-2.0
# Headers of other packages and of the standard library that nearly every file reads, compiled once. No header of ours is
# among them: a change of one is read by those who include it and by nobody else. A file includes what it uses as before:
# `cmake -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON` compiles without these. docs/contributing.md has the figures.
#
# There are two, as g++ takes one only with the same macros and options: for libraries and programs, and for tests.
# Only for g++: clang is for the preset `fuzz`, which is built rarely.
set(dfly_precompiled_headers <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <cstdint> <cstring> <deque>
  <functional> <map> <memory> <mutex> <optional> <set> <span> <sstream> <string> <string_view> <utility> <vector>
  <absl/container/flat_hash_map.h> <absl/container/inlined_vector.h> <absl/functional/any_invocable.h>
  <boost/context/fiber_fcontext.hpp> <fmt/format.h> <gflags/gflags.h> <glog/logging.h>)

set(dfly_precompiles OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  set(dfly_precompiles ON)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # what ccache asks for
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cc CONTENT "// Its target is there for the headers.\n")
  foreach(name dfly_precompiled dfly_precompiled_tests)
    add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/precompiled.cc)
    target_link_libraries(${name} PRIVATE fmt::fmt gflags PkgConfig::GLOG absl::flat_hash_map absl::inlined_vector
      absl::any_invocable Boost::context)
    target_precompile_headers(${name} PRIVATE ${dfly_precompiled_headers})
  endforeach()
  target_link_libraries(dfly_precompiled_tests PRIVATE GTest::gmock GTest::gtest)
  target_compile_options(dfly_precompiled_tests PRIVATE ${dfly_test_options})
  target_precompile_headers(dfly_precompiled_tests PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
endif()

# dfly_precompile(name precompiled): the target `name` uses what the target `precompiled` has compiled.
function(dfly_precompile name precompiled)
  if(dfly_precompiles)
    # The macros that Boost.Context mentions have to be the same for all who read it.
    target_compile_definitions(${name} PRIVATE $<TARGET_PROPERTY:Boost::context,INTERFACE_COMPILE_DEFINITIONS>)
    target_precompile_headers(${name} REUSE_FROM ${precompiled})
  endif()
endfunction()
