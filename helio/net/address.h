// SPDX-License-Identifier: Apache-2.0
// Making listening and connected sockets from addresses, and addresses from sockets.
#pragma once

#include <cstdint>
#include <string>

namespace helio {

// A listening, non-blocking TCP socket on `host` (an IPv4 or IPv6 address, a name, or "*" for all
// IPv4 addresses). Port 0: any free one. Returns the descriptor, or -1 with `*error` set. Thread:
// any; names are resolved, so it blocks.
int ListenTcp(const std::string& host, uint16_t port, int backlog, std::string* error);

// The same on a path; an old socket there is removed. `mode`: permission bits, 0 leaves them as
// umask makes them.
int ListenUnix(const std::string& path, uint32_t mode, int backlog, std::string* error);

// A connected, non-blocking socket to "host" and port. Blocks while it connects: for tools and
// tests.
int ConnectTcp(const std::string& host, uint16_t port, std::string* error);
// The same for a plain thread of a server: it gives up an address after so long.
int ConnectTcp(const std::string& host, uint16_t port, int timeout_ms, std::string* error);

// "127.0.0.1:6379", "[::1]:6379", "/run/x.sock:0" as redis-server writes them in CLIENT LIST; "?:0"
// if unknown.
std::string PeerAddress(int fd);
std::string LocalAddress(int fd);
// Whether the peer is on a unix socket, or comes from 127.0.0.1 or ::1.
bool IsLoopbackPeer(int fd);
// The port a TCP socket is bound to, or 0.
uint16_t LocalPort(int fd);

}  // namespace helio
