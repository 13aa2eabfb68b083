# SPDX-License-Identifier: Apache-2.0
# Every dependency is a Debian package. A missing one stops the configuration with its package's name.

function(need_package name debian)
  find_package(${name} QUIET ${ARGN})
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${name} was not found. On Debian and Ubuntu: apt-get install ${debian}")
  endif()
endfunction()

macro(need_pkgconfig target module debian)
  pkg_check_modules(${target} QUIET IMPORTED_TARGET ${module})
  if(NOT ${target}_FOUND)
    message(FATAL_ERROR "${module} was not found. On Debian and Ubuntu: apt-get install ${debian}")
  endif()
endmacro()

find_package(PkgConfig QUIET)
if(NOT PKG_CONFIG_FOUND)
  message(FATAL_ERROR "pkg-config was not found. On Debian and Ubuntu: apt-get install pkg-config")
endif()
find_package(Threads REQUIRED)
need_pkgconfig(URING liburing liburing-dev)
need_pkgconfig(GLOG libglog libgoogle-glog-dev)
need_pkgconfig(XXHASH libxxhash libxxhash-dev)
need_package(gflags libgflags-dev)
need_package(Boost libboost-context-dev COMPONENTS context)
need_package(absl libabsl-dev)
need_package(fmt libfmt-dev)
need_package(GTest libgtest-dev)
need_package(benchmark libbenchmark-dev)
need_package(mimalloc libmimalloc-dev)
need_pkgconfig(LIBCRYPTO libcrypto libssl-dev)

# liblzf's sources, which Debian has beside the shared library: src/core/lzf.h says why.
find_path(LZF_SOURCES lzf_c.c HINTS /usr/src/liblzf)
if(NOT LZF_SOURCES)
  message(FATAL_ERROR "liblzf's sources were not found. On Debian and Ubuntu: apt-get install liblzf-dev")
endif()

# Lua's archives, not its shared libraries: the linker changes calls inside of them (src/scripting/lua_numbers.cc).
need_pkgconfig(LUA lua5.4 liblua5.4-dev)
need_pkgconfig(LUA_CJSON lua5.4-cjson lua-cjson-dev)
find_library(LUA_ARCHIVE liblua5.4.a HINTS ${LUA_LIBRARY_DIRS})
find_library(LUA_CJSON_ARCHIVE liblua5.4-cjson.a HINTS ${LUA_CJSON_LIBRARY_DIRS})
if(NOT LUA_ARCHIVE OR NOT LUA_CJSON_ARCHIVE)
  message(FATAL_ERROR "liblua5.4.a or liblua5.4-cjson.a was not found. On Debian and Ubuntu: apt-get install liblua5.4-dev lua-cjson-dev")
endif()
