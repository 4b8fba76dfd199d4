/*
 * A disk that fails on command: loaded with LD_PRELOAD into the real binary by the fault tests.
 *
 * It stands between the program and what SQLite's unix VFS and Rust's std::fs call in libc. Its
 * orders come from the file that FENCEPOST_FAULTS names, which is read again at every call, so that a
 * test says "from now on" by renaming another file into its place. One order a line:
 *
 *   CALLS PATH ERROR [after=N] [short=N] [while=FILE]
 *     From the call after the first N on, those of CALLS that concern PATH (a file, or everything below
 *     a directory) fail with ERROR. CALLS, joined with commas: `open` (only to write or to create),
 *     `read`, `write`, `sync`, `truncate`, `names` (rename, unlink, mkdir; the old name counts).
 *     `short=N`: the first write to fail writes N bytes and says so. `while=FILE`: only as long as FILE
 *     exists.
 *   keep DIRECTORY INTO
 *     A copy of each file of DIRECTORY as it was at its last successful sync stands in INTO: what a
 *     power cut would leave. Names are taken to be durable at once.
 *
 * What always holds: without orders every call passes; orders that cannot be read as such end the
 * process, since a test that breaks nothing proves nothing; calls are counted anew when the orders
 * change, one at a time under a lock; every fault is noted in the file of the orders' name and
 * `.struck` before the call fails.
 *
 * What it does not see: what goes to the kernel past libc (rustix: flock, fstatfs, fallocate), vectored
 * writes (the register makes none), and memory maps (the database's shared memory, which no restart
 * needs).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum call { OPEN = 1, READ = 2, WRITE = 4, SYNC = 8, TRUNCATE = 16, NAMES = 32 };

struct order {
  unsigned calls;
  char path[PATH_MAX];
  int error;
  long after;
  long shortened; /* bytes; -1: the write fails at once */
  char while_there[PATH_MAX];
  long seen;
};

enum { ORDERS = 16, TEXT = 16 * 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *orders_path;
static char text[TEXT];
static struct order orders[ORDERS];
static int count;
static char kept_of[PATH_MAX], kept_in[PATH_MAX];

/* ---- Our own calls: straight to the kernel, so that they do not meet us again. ---- */

static int raw_open(const char *path, int flags) {
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
}

static void give_up(const char *why) {
  dprintf(STDERR_FILENO, "fault shim: %s\n", why);
  abort();
}

static int exists(const char *path) { return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0; }

static const struct { const char *name; int error; } errors[] = {
    {"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EROFS", EROFS}, {"EDQUOT", EDQUOT}};

static const char *name_of(int error) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].error == error) return errors[i].name;
  return "?";
}

static void note(const struct order *order, const char *call, const char *path) {
  char file[PATH_MAX + 8], line[PATH_MAX + 64];
  snprintf(file, sizeof file, "%s.struck", orders_path);
  int length = snprintf(line, sizeof line, "%s %s %s\n", call, path, name_of(order->error));
  int fd = raw_open(file, O_WRONLY | O_CREAT | O_APPEND);
  if (fd < 0 || syscall(SYS_write, fd, line, length) != length) give_up("a fault cannot be noted");
  syscall(SYS_close, fd);
}

/* ---- Orders ---- */

static unsigned calls_of(char *words) {
  static const struct { const char *word; unsigned call; } known[] = {
      {"open", OPEN}, {"read", READ},         {"write", WRITE},
      {"sync", SYNC}, {"truncate", TRUNCATE}, {"names", NAMES}};
  unsigned calls = 0;
  char *rest = NULL;
  for (char *word = strtok_r(words, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
    unsigned before = calls;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
      if (!strcmp(word, known[i].word)) calls |= known[i].call;
    if (calls == before) give_up("an order for calls that it does not know");
  }
  return calls;
}

static int error_of(const char *name) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (!strcmp(name, errors[i].name)) return errors[i].error;
  give_up("an order for an error that it does not know");
  return 0;
}

static void parse_order(char *line) {
  char *rest = NULL;
  char *calls = strtok_r(line, " ", &rest);
  char *path = strtok_r(NULL, " ", &rest);
  char *third = strtok_r(NULL, " ", &rest);
  if (!third || strlen(path) >= PATH_MAX || strlen(third) >= PATH_MAX)
    give_up("an order has three words at least");
  if (!strcmp(calls, "keep")) {
    strcpy(kept_of, path);
    strcpy(kept_in, third);
    return;
  }
  if (count == ORDERS) give_up("too many orders");
  struct order *order = &orders[count++];
  *order = (struct order){.calls = calls_of(calls), .error = error_of(third), .shortened = -1};
  strcpy(order->path, path);
  for (char *word = strtok_r(NULL, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    if (!strncmp(word, "after=", 6)) order->after = atol(word + 6);
    else if (!strncmp(word, "short=", 6)) order->shortened = atol(word + 6);
    else if (!strncmp(word, "while=", 6) && strlen(word + 6) < PATH_MAX)
      strcpy(order->while_there, word + 6);
    else give_up("an order with a condition that it does not know");
  }
}

/* Reads the orders if they are new. Under the lock. */
static void follow_orders(void) {
  static char now[TEXT];
  long length = 0;
  int fd = orders_path ? raw_open(orders_path, O_RDONLY) : -1;
  if (fd >= 0) {
    length = syscall(SYS_read, fd, now, sizeof now - 1);
    syscall(SYS_close, fd);
    if (length < 0 || length == sizeof now - 1) give_up("the orders cannot be read");
  }
  now[length] = 0;
  if (!strcmp(now, text)) return;
  strcpy(text, now);
  count = 0;
  kept_of[0] = 0;
  char *rest = NULL;
  for (char *line = strtok_r(now, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
    parse_order(line);
}

static int concerns(const char *path, const char *asked) {
  size_t length = strlen(path);
  return !strncmp(asked, path, length) && (asked[length] == 0 || asked[length] == '/');
}

/* The order that this call meets, if it is to fail. Under the lock. */
static struct order *met(enum call call, const char *path) {
  for (int i = 0; i < count; i++) {
    struct order *order = &orders[i];
    if (!(order->calls & call) || !concerns(order->path, path)) continue;
    if (order->while_there[0] && !exists(order->while_there)) continue;
    if (order->seen++ >= order->after) return order;
  }
  return NULL;
}

static int path_of(int fd, char path[PATH_MAX]) {
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  long length = syscall(SYS_readlink, link, path, PATH_MAX - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return path[0] == '/';
}

/* Does this call fail? Sets errno if so. `cut`: how many bytes are written before it does. */
static int strikes(enum call call, const char *name, int fd, const char *path, long *cut) {
  char resolved[PATH_MAX];
  int saved = errno, error = 0;
  pthread_mutex_lock(&lock);
  follow_orders();
  if (count && (path || path_of(fd, resolved))) {
    struct order *order = met(call, path ? path : resolved);
    if (order) {
      note(order, name, path ? path : resolved);
      error = order->error;
      if (cut && order->shortened >= 0) {
        *cut = order->shortened;
        order->shortened = -1;
      }
    }
  }
  pthread_mutex_unlock(&lock);
  errno = error ? error : saved;
  return error != 0;
}

/* ---- What a power cut would leave ---- */

static int in_kept(const char *path, char copy[2 * PATH_MAX], const char *end) {
  if (!kept_of[0] || !concerns(kept_of, path) || !path[strlen(kept_of)]) return 0;
  const char *name = path + strlen(kept_of) + 1;
  return !strchr(name, '/') && snprintf(copy, 2 * PATH_MAX, "%s/%s%s", kept_in, name, end) > 0;
}

/* What is open for writing only is read by a descriptor of its own. SQLite's files never are: closing another
   descriptor of such a file would give up the locks that it holds on it. */
static void copy_aside(int fd, const char *path, const char *aside) {
  char piece[64 * 1024];
  long length;
  off_t at = 0;
  int own = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY ? raw_open(path, O_RDONLY) : -1;
  if (own >= 0) fd = own;
  int into = raw_open(aside, O_WRONLY | O_CREAT | O_TRUNC);
  if (into < 0) give_up("a copy cannot be made");
  while ((length = syscall(SYS_pread64, fd, piece, sizeof piece, at)) > 0) {
    if (syscall(SYS_write, into, piece, length) != length) give_up("a copy cannot be written");
    at += length;
  }
  if (length < 0) give_up("a file cannot be read for its copy");
  if (own >= 0) syscall(SYS_close, own);
  syscall(SYS_close, into);
}

/* Copies what is there when the sync begins, and lets it count once the sync has succeeded. */
static int sync_and_keep(int fd, int (*sync)(int)) {
  char path[PATH_MAX], copy[2 * PATH_MAX], aside[2 * PATH_MAX];
  struct stat found;
  pthread_mutex_lock(&lock);
  follow_orders();
  int kept = kept_of[0] && fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && path_of(fd, path) &&
             in_kept(path, copy, "") && in_kept(path, aside, ".aside");
  if (kept) copy_aside(fd, path, aside);
  int done = sync(fd);
  int saved = errno;
  if (kept && done == 0) syscall(SYS_rename, aside, copy);
  pthread_mutex_unlock(&lock);
  errno = saved;
  return done;
}

static void keep_names(const char *old, const char *new) {
  char from[2 * PATH_MAX], to[2 * PATH_MAX];
  int saved = errno;
  pthread_mutex_lock(&lock);
  if (in_kept(old, from, "")) {
    if (!new) syscall(SYS_unlink, from);
    else if (in_kept(new, to, "")) syscall(SYS_rename, from, to);
  }
  pthread_mutex_unlock(&lock);
  errno = saved;
}

/* ---- In front of libc ---- */

static int (*real_open)(const char *, int, ...);
static ssize_t (*real_read)(int, void *, size_t);
static ssize_t (*real_pread)(int, void *, size_t, off64_t);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off64_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_ftruncate)(int, off64_t);
static int (*real_rename)(const char *, const char *);
static int (*real_unlink)(const char *);
static int (*real_mkdir)(const char *, mode_t);

static void *real(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) give_up(name);
  return found;
}

__attribute__((constructor)) static void begin(void) {
  orders_path = getenv("FENCEPOST_FAULTS");
  real_open = real("open64");
  real_read = real("read");
  real_pread = real("pread64");
  real_write = real("write");
  real_pwrite = real("pwrite64");
  real_fsync = real("fsync");
  real_fdatasync = real("fdatasync");
  real_ftruncate = real("ftruncate64");
  real_rename = real("rename");
  real_unlink = real("unlink");
  real_mkdir = real("mkdir");
}

int open64(const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & (O_CREAT | O_TMPFILE)) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  int changes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
  if (changes && strikes(OPEN, "open", -1, path, NULL)) return -1;
  return real_open(path, flags, mode);
}

ssize_t read(int fd, void *into, size_t length) {
  return strikes(READ, "read", fd, NULL, NULL) ? -1 : real_read(fd, into, length);
}

ssize_t pread64(int fd, void *into, size_t length, off64_t at) {
  return strikes(READ, "read", fd, NULL, NULL) ? -1 : real_pread(fd, into, length, at);
}

ssize_t write(int fd, const void *from, size_t length) {
  long cut = -1;
  if (!strikes(WRITE, "write", fd, NULL, &cut)) return real_write(fd, from, length);
  return cut < 0 ? -1 : real_write(fd, from, (size_t)cut < length ? (size_t)cut : length);
}

ssize_t pwrite64(int fd, const void *from, size_t length, off64_t at) {
  long cut = -1;
  if (!strikes(WRITE, "write", fd, NULL, &cut)) return real_pwrite(fd, from, length, at);
  return cut < 0 ? -1 : real_pwrite(fd, from, (size_t)cut < length ? (size_t)cut : length, at);
}

int fsync(int fd) {
  return strikes(SYNC, "sync", fd, NULL, NULL) ? -1 : sync_and_keep(fd, real_fsync);
}

int fdatasync(int fd) {
  return strikes(SYNC, "sync", fd, NULL, NULL) ? -1 : sync_and_keep(fd, real_fdatasync);
}

int ftruncate64(int fd, off64_t length) {
  return strikes(TRUNCATE, "truncate", fd, NULL, NULL) ? -1 : real_ftruncate(fd, length);
}

int rename(const char *old, const char *new) {
  if (strikes(NAMES, "rename", -1, old, NULL)) return -1;
  int done = real_rename(old, new);
  if (done == 0) keep_names(old, new);
  return done;
}

int unlink(const char *path) {
  if (strikes(NAMES, "unlink", -1, path, NULL)) return -1;
  int done = real_unlink(path);
  if (done == 0) keep_names(path, NULL);
  return done;
}

int mkdir(const char *path, mode_t mode) {
  return strikes(NAMES, "mkdir", -1, path, NULL) ? -1 : real_mkdir(path, mode);
}

/* The same with the other width of offsets: one width on every 64-bit Linux. */
int open(const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & (O_CREAT | O_TMPFILE)) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  return open64(path, flags, mode);
}

ssize_t pread(int fd, void *into, size_t length, off_t at) { return pread64(fd, into, length, at); }

ssize_t pwrite(int fd, const void *from, size_t length, off_t at) {
  return pwrite64(fd, from, length, at);
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }
