# SPDX-License-Identifier: Apache-2.0
# Compiler flags for the whole tree and the ways to declare a target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # Paths relative to the checkout, so that several checkouts share what the cache has. The sloppiness is what ccache asks
  # for with precompiled headers; they are large, and the inode cache saves reading them again for each file.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_INODECACHE=1 ${CCACHE_PROGRAM})
endif()

# No -march: the release build runs on baseline x86-64 and armv8.0; anything faster is chosen at run time.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
add_compile_options(-Wall -Wextra -Werror)
include_directories(${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/src)

set(DFLY_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=: address,undefined or thread")
if(DFLY_SANITIZE)
  # Frame pointers are for their reports. Elsewhere they cost 4 % of a script's time, and perf has DWARF.
  add_compile_options(-fsanitize=${DFLY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${DFLY_SANITIZE})
  add_compile_definitions(DFLY_SANITIZED=1)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 and 13 find these where there is nothing, in std::string's own code (GCC's bugs 105329 and 105651). What they
  # inline decides where, and that is not the same with each version and with precompiled headers: shown, but no errors.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-error=array-bounds>
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-error=restrict> $<$<COMPILE_LANGUAGE:CXX>:-Wno-error=stringop-overflow>)
  # A seventh of a compiler's time went to its garbage collector, whose threshold is 128 MB. The largest file needs 0.8 GB.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1000000>)
endif()

# What tests test is optimised; optimising the tests themselves took a tenth of the whole build. With sanitizers
# dispatch_test.cc took 14 s, and 8 s as it is now: a test's own code is not what they are for.
set(dfly_test_options $<$<CONFIG:RelWithDebInfo>:-O1>)
if(DFLY_SANITIZE MATCHES "undefined")
  set(dfly_test_options -O0 -fno-sanitize=undefined)
elseif(DFLY_SANITIZE)
  set(dfly_test_options -O0)
endif()
include(precompiled)  # dfly_precompile

# Several files of a library, or of the tests of a folder, are compiled as one: they read the same headers and instantiate
# the same templates, which is half of the compiler's time or more (docs/contributing.md has the figures). Who changes one
# file again and again may want OFF: then it is compiled alone, and each test is a program of its own.
option(DFLY_UNITE "Compile several files as one: fastest when all is built" ON)
set(dfly_unites OFF)
if(DFLY_UNITE AND dfly_precompiles)
  set(dfly_unites ON)
endif()

# dfly_unite(name COUNT): so many files at a time.
function(dfly_unite name count)
  if(dfly_unites)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count})
  endif()
endfunction()

# dfly_alone(SOURCES...): they have functions with the names of others in the same folder.
function(dfly_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# dfly_library(name SOURCES... DEPS targets...)
function(dfly_library name)
  cmake_parse_arguments(A "" "" "DEPS" ${ARGN})
  add_library(${name} STATIC ${A_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC ${A_DEPS})
  dfly_precompile(${name} dfly_precompiled)
  dfly_unite(${name} 8)
endfunction()

# dfly_all(name library): a name for all libraries of a folder; `library` is the last of them.
function(dfly_all name library)
  add_library(${name} INTERFACE)
  target_link_libraries(${name} INTERFACE ${library})
endfunction()

# dfly_binary(name SOURCES... DEPS targets...)
function(dfly_binary name)
  cmake_parse_arguments(A "" "" "DEPS" ${ARGN})
  add_executable(${name} ${A_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${A_DEPS})
  dfly_precompile(${name} dfly_precompiled)
endfunction()

# dfly_test(name [ONE_THREAD | THREADS] DEPS targets...): name.cc is a GoogleTest program that ctest runs as a whole.
function(dfly_test name)
  cmake_parse_arguments(A "ONE_THREAD;THREADS" "" "DEPS" ${ARGN})
  # The tests of values and of commands, and those whose server has one thread, have nothing that the thread sanitizer
  # could see; building and running them with it took twenty minutes.
  if(DFLY_SANITIZE STREQUAL "thread" AND NOT A_THREADS AND (A_ONE_THREAD OR CMAKE_CURRENT_SOURCE_DIR MATCHES "/src/(core|commands)/"))
    return()
  endif()
  if(dfly_unites AND NOT name MATCHES "_fuzz$")  # a fuzzer's file defines a function that there can be only once
    dfly_join_test(${name} ${A_DEPS})
  else()
    dfly_test_program(${name} ${name}.cc DEPS ${A_DEPS})
    set_target_properties(${name} PROPERTIES DFLY_PROGRAM ${name})
    add_test(NAME ${name} COMMAND ${name})
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
  # Those that take long begin first, also where ctest has not seen them before: one that began last would run beside an
  # idle core.
  if(name MATCHES "schedule|slices|slow_disk|_operations_test|shared_keys|dispatch_test|starvation|load_run|defrag|deadline_table")
    set_tests_properties(${name} PROPERTIES COST 100)
  endif()
endfunction()

# dfly_test_program(name SOURCES... DEPS targets...)
function(dfly_test_program name)
  cmake_parse_arguments(A "" "" "DEPS" ${ARGN})
  set(main GTest::gtest_main)
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/src/" AND NOT CMAKE_CURRENT_SOURCE_DIR MATCHES "/src/facade(/|$)")
    set(main dfly_test_main)  # where keys are hashed
  endif()
  add_executable(${name} ${A_UNPARSED_ARGUMENTS})
  target_compile_options(${name} PRIVATE ${dfly_test_options})
  target_link_libraries(${name} PRIVATE ${A_DEPS} GTest::gmock GTest::gtest ${main})
  dfly_precompile(${name} dfly_precompiled_tests)
endfunction()

# dfly_join_test(name DEPS...): name.cc becomes a part of the one program of this folder's tests, and `name` a script and a
# target: the script runs, of that program, the tests of name.cc. So one can work with it as with a program of its own.
function(dfly_join_test name)
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "/" "_" program ${folder}_tests)
  if(NOT TARGET ${program})
    dfly_test_program(${program})
    dfly_unite(${program} 6)
  endif()
  target_sources(${program} PRIVATE ${name}.cc)
  target_link_libraries(${program} PRIVATE ${ARGN})
  add_custom_target(${name} DEPENDS ${program})
  set_target_properties(${name} PROPERTIES DFLY_PROGRAM ${program})

  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${name}.cc)  # it may get another suite
  file(STRINGS ${name}.cc lines REGEX "^TEST(_[FP])?\\(")
  set(suites "")
  foreach(line ${lines})
    string(REGEX REPLACE "^TEST(_[FP])?\\(([A-Za-z0-9_]+).*" "\\2" suite "${line}")
    list(APPEND suites "${suite}.*" "*/${suite}.*")
  endforeach()
  list(REMOVE_DUPLICATES suites)
  list(JOIN suites ":" filter)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/${name}
    CONTENT "#!/bin/sh\nexec \"$(dirname \"$0\")/${program}\" '--gtest_filter=${filter}' \"$@\"\n"
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  add_test(NAME ${name} COMMAND ${CMAKE_BINARY_DIR}/${name})
endfunction()

# dfly_reads_source(name): the test `name` reads files of the checkout, which is DFLY_SOURCE.
function(dfly_reads_source name)
  if(TARGET ${name})
    get_target_property(program ${name} DFLY_PROGRAM)
    target_compile_definitions(${program} PRIVATE DFLY_SOURCE="${CMAKE_SOURCE_DIR}")
  endif()
endfunction()

# dfly_fuzz(name DEPS targets...): name.cc has a FUZZ_TARGET (helio/base/fuzz_target.h). It is a test like the others, or,
# in the preset `fuzz`, a libFuzzer program.
function(dfly_fuzz name)
  cmake_parse_arguments(A "" "" "DEPS" ${ARGN})
  if(NOT DFLY_SANITIZE MATCHES "fuzzer")
    dfly_test(${name} DEPS ${A_DEPS})
    set(kept ${CMAKE_SOURCE_DIR}/tests/corpus/${name}.hex)
    if(TEST ${name} AND EXISTS ${kept})
      set_tests_properties(${name} PROPERTIES ENVIRONMENT "DFLY_FUZZ_KEPT=${kept}")
    endif()
    return()
  endif()
  add_executable(${name} ${name}.cc)
  target_link_libraries(${name} PRIVATE ${A_DEPS} GTest::gtest)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()

# dfly_microbench(name DEPS targets...): name.cc is a google-benchmark program; ctest runs it shortly so that it never rots.
function(dfly_microbench name)
  cmake_parse_arguments(A "" "" "DEPS" ${ARGN})
  if(DFLY_SANITIZE)
    return()  # figures under a sanitizer mean nothing
  endif()
  add_executable(${name} ${name}.cc)
  target_link_libraries(${name} PRIVATE ${A_DEPS} benchmark::benchmark)
  dfly_precompile(${name} dfly_precompiled)
  add_test(NAME ${name}_runs COMMAND ${name} --benchmark_min_time=0.001)
  set_tests_properties(${name}_runs PROPERTIES ENVIRONMENT "DFLY_BENCH_SMALL=1")
endfunction()
