#include "opts.h"

/*
 * The order is the order in help and man pages. --format and --json are one
 * thing for every verb that prints data: `--json` is the short spelling.
 */
/* clang-format off */
const struct opt opt_table[] = {
/* before the verb */
{ V(GLOBAL), "root", 0, OPT_VALUE, "DIR", NULL, COMPLETE_DIR, 0,
  "directory for what is known of running sandboxes (default: $SANDLOCK_ROOT, else /dev/shm/sandlock-UID)" },
{ V(GLOBAL), "log", 0, OPT_VALUE, "FILE", NULL, COMPLETE_FILE, 0,
  "append errors and warnings to FILE, too" },
{ V(GLOBAL), "log-format", 0, OPT_ENUM, "FORMAT", "text|json", COMPLETE_NONE, 0,
  "format of the lines in the log" },
{ V(GLOBAL), "log-level", 0, OPT_ENUM, "LEVEL", "error|warning|info|debug", COMPLETE_NONE, 0,
  "least important lines to write (default: warning)" },
{ V(GLOBAL), "debug", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "the same as --log-level=debug" },
{ V(GLOBAL), "cgroup-manager", 0, OPT_ENUM, "MANAGER", "cgroupfs|systemd|disabled", COMPLETE_NONE, 0,
  "who makes cgroups; disabled: none are made (systemd is refused)" },
{ V(GLOBAL), "systemd-cgroup", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "the same as --cgroup-manager=systemd" },
{ V(GLOBAL), "rootless", 0, OPT_ENUM, "WHEN", "auto|true|false", COMPLETE_NONE, 0,
  "accepted for compatibility; what is possible is found out" },
{ V(GLOBAL), "version", 'v', OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "print the version and what is built in" },

/* bundles */
{ V(CREATE) | V(RUN) | V(SPEC), "bundle", 'b', OPT_VALUE, "DIR", NULL, COMPLETE_DIR, 0,
  "directory of the bundle (default: the current one)" },
{ V(CREATE) | V(RUN), "config", 0, OPT_VALUE, "FILE", NULL, COMPLETE_FILE, 0,
  "configuration to use instead of config.json in the bundle" },
{ V(RUN) | V(EXEC), "detach", 'd', OPT_FLAG, NULL, NULL, COMPLETE_NONE, OPT_NEGATABLE,
  "return once the program has started" },
{ V(RUN), "keep", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "keep the ended sandbox until it is deleted" },
{ V(RUN), "no-subreaper", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, OPT_HIDDEN,
  "accepted for compatibility" },

/* branches of bundles */
{ V(CREATE) | V(RUN), "branch", 0, OPT_ENUM, "WHICH", "auto|none", COMPLETE_NONE, 0,
  "none: writes go to the root file system itself, at once" },
{ V(CREATE) | V(RUN), "on-exit", 0, OPT_ENUM, "WHAT", "commit|abort|keep|defer", COMPLETE_NONE, 0,
  "what becomes of the branch after success (default: defer)" },
{ V(CREATE) | V(RUN), "on-error", 0, OPT_ENUM, "WHAT", "commit|abort|keep|defer", COMPLETE_NONE, 0,
  "what becomes of it after a failure, signal or timeout (default: defer)" },
{ V(CREATE) | V(RUN), "storage", 0, OPT_VALUE, "DIR", NULL, COMPLETE_DIR, 0,
  "where the branch is stored" },
{ V(CREATE) | V(RUN), "durable", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, OPT_NEGATABLE,
  "honour every fsync inside, at the price of slower writes" },

/* exec */
{ V(EXEC), "process", 'p', OPT_VALUE, "FILE", NULL, COMPLETE_FILE, 0,
  "process.json to run instead of a command line" },
{ V(EXEC), "cwd", 0, OPT_VALUE, "DIR", NULL, COMPLETE_NONE, 0,
  "working directory inside" },
{ V(EXEC), "user", 'u', OPT_VALUE, "UID[:GID]", NULL, COMPLETE_NONE, 0,
  "user and group inside, as numbers" },
{ V(EXEC), "additional-gids", 'g', OPT_LIST, "GID", NULL, COMPLETE_NONE, 0,
  "additional group (may be repeated)" },
{ V(EXEC), "env", 'e', OPT_LIST, "NAME=VALUE", NULL, COMPLETE_NONE, 0,
  "add a variable to the environment (may be repeated)" },
{ V(EXEC), "tty", 't', OPT_FLAG, NULL, NULL, COMPLETE_NONE, OPT_NEGATABLE,
  "give the process a terminal" },
{ V(EXEC), "cap", 'c', OPT_LIST, "CAP", NULL, COMPLETE_NONE, 0,
  "add a capability to every set (may be repeated)" },
{ V(EXEC), "no-new-privs", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "set-id programs and file capabilities have no effect" },
{ V(EXEC), "apparmor", 0, OPT_VALUE, "PROFILE", NULL, COMPLETE_NONE, 0,
  "AppArmor profile of the process" },
{ V(EXEC), "process-label", 0, OPT_VALUE, "LABEL", NULL, COMPLETE_NONE, 0,
  "SELinux label of the process" },
{ V(EXEC), "cgroup", 0, OPT_LIST, "[CTL:]PATH", NULL, COMPLETE_NONE, 0,
  "run in this cgroup below the sandbox's own (may be repeated)" },
{ V(EXEC), "ignore-paused", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "go on although the sandbox is paused; the process then waits, too" },

/* plumbing for engines */
{ V(CREATE) | V(RUN) | V(EXEC), "console-socket", 0, OPT_VALUE, "SOCKET", NULL, COMPLETE_FILE, 0,
  "unix socket that is sent the terminal's master" },
{ V(CREATE) | V(RUN) | V(EXEC), "pidfd-socket", 0, OPT_VALUE, "SOCKET", NULL, COMPLETE_FILE, 0,
  "unix socket that is sent a pidfd of the process" },
{ V(CREATE) | V(RUN) | V(EXEC), "pid-file", 0, OPT_VALUE, "FILE", NULL, COMPLETE_FILE, 0,
  "write the process id there" },
{ V(CREATE) | V(RUN), "no-pivot", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "move the root instead of pivot_root, for a root on ramfs" },
{ V(CREATE) | V(RUN), "no-new-keyring", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "stay in the session keyring of the caller" },
{ V(CREATE) | V(RUN) | V(EXEC), "preserve-fds", 0, OPT_NUMBER, "N", NULL, COMPLETE_NONE, 0,
  "pass N further file descriptors, from 3 on" },

/* kill, delete */
{ V(KILL), "all", 'a', OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "send the signal to every process inside" },
{ V(DELETE), "force", 'f', OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "kill it first if it runs; no error if it does not exist" },

/* update */
{ V(UPDATE), "resources", 'r', OPT_VALUE, "FILE", NULL, COMPLETE_FILE, 0,
  "a JSON object as linux.resources of config.json; -: standard input" },
{ V(UPDATE), "memory", 0, OPT_VALUE, "BYTES", NULL, COMPLETE_NONE, 0,
  "memory limit; k, m, g are understood, -1: none" },
{ V(UPDATE), "memory-reservation", 0, OPT_VALUE, "BYTES", NULL, COMPLETE_NONE, 0,
  "soft memory limit" },
{ V(UPDATE), "memory-swap", 0, OPT_VALUE, "BYTES", NULL, COMPLETE_NONE, 0,
  "limit of memory and swap together, -1: none" },
{ V(UPDATE), "kernel-memory", 0, OPT_VALUE, "BYTES", NULL, COMPLETE_NONE, OPT_HIDDEN,
  "accepted for compatibility" },
{ V(UPDATE), "kernel-memory-tcp", 0, OPT_VALUE, "BYTES", NULL, COMPLETE_NONE, OPT_HIDDEN,
  "accepted for compatibility" },
{ V(UPDATE), "pids-limit", 0, OPT_NUMBER, "N", NULL, COMPLETE_NONE, 0,
  "number of processes and threads, -1: no limit" },
{ V(UPDATE), "cpu-share", 0, OPT_NUMBER, "N", NULL, COMPLETE_NONE, 0,
  "relative weight for CPU time" },
{ V(UPDATE), "cpu-quota", 0, OPT_NUMBER, "USEC", NULL, COMPLETE_NONE, 0,
  "CPU time in each period, -1: no limit" },
{ V(UPDATE), "cpu-period", 0, OPT_NUMBER, "USEC", NULL, COMPLETE_NONE, 0,
  "length of the period" },
{ V(UPDATE), "cpu-burst", 0, OPT_NUMBER, "USEC", NULL, COMPLETE_NONE, 0,
  "unused time that may be saved for later periods" },
{ V(UPDATE), "cpu-idle", 0, OPT_NUMBER, "N", NULL, COMPLETE_NONE, 0,
  "1: run only when nobody else wants the CPU" },
{ V(UPDATE), "cpu-rt-runtime", 0, OPT_NUMBER, "USEC", NULL, COMPLETE_NONE, 0,
  "real-time share of each real-time period" },
{ V(UPDATE), "cpu-rt-period", 0, OPT_NUMBER, "USEC", NULL, COMPLETE_NONE, 0,
  "length of the real-time period" },
{ V(UPDATE), "cpuset-cpus", 0, OPT_VALUE, "LIST", NULL, COMPLETE_NONE, 0,
  "CPUs that may be used, such as 0-3,8" },
{ V(UPDATE), "cpuset-mems", 0, OPT_VALUE, "LIST", NULL, COMPLETE_NONE, 0,
  "memory nodes that may be used" },
{ V(UPDATE), "blkio-weight", 0, OPT_NUMBER, "N", NULL, COMPLETE_NONE, 0,
  "relative weight for block I/O, 10 to 1000" },

/* events */
{ V(EVENTS), "stats", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "print the statistics once and end" },
{ V(EVENTS), "interval", 0, OPT_VALUE, "TIME", NULL, COMPLETE_NONE, 0,
  "time between two lines, such as 500ms, 5s, 1m (default: 5s)" },

/* spec */
{ V(SPEC), "rootless", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "for a user without privileges: with a user namespace" },

/* diff */
{ V(DIFF), "name-status", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "only the letter and the name of each change" },
{ V(DIFF), "null", 'z', OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "with --name-status: end letters and names with NUL, quote nothing" },
{ V(DIFF), "stat", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "how much of each file changed, and the sum" },
{ V(DIFF), "patch", 'p', OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "the contents of the changes as a patch in git's format" },
{ V(DIFF), "digest", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "with --format=json: the SHA-256 of both sides of each file" },
{ V(DIFF), "verbose", 'v', OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "also what was below deleted directories, and mere changes of mtime" },
{ V(DIFF), "exit-code", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "exit with 1 if there are changes" },
{ V(DIFF), "color", 0, OPT_ENUM, "WHEN", "auto|always|never", COMPLETE_NONE, 0,
  "colour the letters and the patch (default: auto, on a terminal)" },

/* commit, recover */
{ V(COMMIT), "skip-conflicts", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "publish the rest; what is in conflict stays in the branch" },
{ V(COMMIT), "force", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "overwrite what the host changed meanwhile, and commit a torn branch" },
{ V(COMMIT), "special", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "publish sockets and device nodes, too" },
{ V(COMMIT) | V(ABORT), "quiet", 'q', OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "say nothing about success" },
{ V(RECOVER), "all", 'a', OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "every branch that needs it" },
{ V(RECOVER), "rollback", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "take an interrupted commit back instead of finishing it" },

/* lists */
{ V(PS), "all", 'a', OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "also ended sandboxes that still have a branch" },
{ V(LIST) | V(BRANCHES), "quiet", 'q', OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "only the names" },
{ V(LIST) | V(PS), "format", 'f', OPT_ENUM, "FORMAT", "table|json", COMPLETE_NONE, 0,
  "how to print it (default: table)" },
{ V(DIFF) | V(COMMIT) | V(ABORT) | V(BRANCHES) | V(RECOVER) | V(VERSION) |
  V(FEATURES) | V(STATE) | V(EVENTS), "format", 0, OPT_ENUM, "FORMAT", "text|json", COMPLETE_NONE, 0,
  "how to print it" },
{ V(LIST) | V(PS) | V(DIFF) | V(COMMIT) | V(ABORT) | V(BRANCHES) | V(RECOVER) |
  V(VERSION) | V(FEATURES) | V(STATE) | V(EVENTS), "json", 0, OPT_FLAG, NULL, NULL, COMPLETE_NONE, OPT_HIDDEN,
  "the same as --format=json" },

/* completion: for the build and for the scripts themselves */
{ V(COMPLETION), "man", 0, OPT_VALUE, "VERB", NULL, COMPLETE_NONE, OPT_HIDDEN,
  "the OPTIONS of a man page" },

{ ~UINT64_C(0), "help", 'h', OPT_FLAG, NULL, NULL, COMPLETE_NONE, 0,
  "print this help" },
};
/* clang-format on */

const size_t opt_table_len = ARRAY_LEN(opt_table);
