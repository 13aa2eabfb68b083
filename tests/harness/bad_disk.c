// SPDX-License-Identifier: Apache-2.0
// A disk that fails, for a server that is started with LD_PRELOAD and --force_epoll (io_uring makes
// no such calls). What it does to incremental files of the append-only log is the text of the file
// $BAD_DISK, which tests change while the server runs:
//
//   eio-sync   a sync fails, and the kernel has forgotten what was not on the disk
//   eio-write  a write fails
//   short      a write does half of what it is asked for
//   hang       a sync takes until the text is another one
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_log(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof(path) - 1);
  if (size < 0) return 0;
  path[size] = '\0';
  return strstr(path, ".incr.aof") != NULL;
}

static int is_told(const char* what) {
  char text[32];
  const int fd = open(getenv("BAD_DISK"), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t size = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (size < 0) return 0;
  text[size] = '\0';
  return strcmp(text, what) == 0;
}

ssize_t pwritev(int fd, const struct iovec* pieces, int count, off_t offset) {
  static ssize_t (*real)(int, const struct iovec*, int, off_t);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "pwritev");
  if (!is_log(fd)) return real(fd, pieces, count, offset);
  if (is_told("eio-write")) {
    errno = EIO;
    return -1;
  }
  if (is_told("short") && pieces[0].iov_len > 1) {
    // Half of it in blocks of a disk, as the file may be open with O_DIRECT.
    size_t half = pieces[0].iov_len / 2;
    if (half > 4096) half = half / 4096 * 4096;
    struct iovec part = {pieces[0].iov_base, half};
    if (half % 4096 == 0) return real(fd, &part, 1, offset);
  }
  return real(fd, pieces, count, offset);
}

static int sync_with(const char* name, int fd) {
  int (*real)(int);
  *(void**)&real = dlsym(RTLD_NEXT, name);
  if (!is_log(fd)) return real(fd);
  while (is_told("hang")) usleep(1000);
  if (is_told("eio-sync")) {
    errno = EIO;
    return -1;
  }
  return real(fd);
}

int fdatasync(int fd) { return sync_with("fdatasync", fd); }
int fsync(int fd) { return sync_with("fsync", fd); }
