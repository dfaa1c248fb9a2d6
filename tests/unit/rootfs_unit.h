/*
 * For the tests of rootfs: a bundle with busybox in a temporary directory, and
 * a way to build its root file system in new namespaces and to run a shell
 * script inside.
 */
#ifndef SANDLOCK_TESTS_ROOTFS_UNIT_H
#define SANDLOCK_TESTS_ROOTFS_UNIT_H

#include <sched.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include <linux/sched.h>

#include "kernel/userns.h"
#include "sandbox/rootfs.h"
#include "sandbox/sync.h"
#include "spec/spec.h"
#include "unit.h"

enum { SUB_BASE = 200000, SUB_COUNT = 65536 };

struct bundle {
	char dir[256]; /* holds rootfs/ */
	const char *const *hidden;
	bool userns; /* a new user namespace: 0 is SUB_BASE outside */
	uid_t user;  /* with userns, by this ordinary user: 0 is its id */
	bool no_pivot, network, terminal, readonly, host_mounts;
	struct branch *branch;
	struct cgroup *cgroup;
	/* In the child, between build and enter. */
	int (*hook)(struct rootfs *r, struct error *err);
	struct error err; /* of the last run */
	char made[4096];  /* what rootfs_made said, with blanks between */
	struct {
		long new_us, build_us, enter_us;
	} took;
};

/* The mounts of `runc spec`. */
/* clang-format off */
#define MOUNT(dest, type, opts) \
	"{\"destination\":\"" dest "\",\"type\":\"" type "\",\"source\":\"" type \
	"\",\"options\":[" opts "]}"
#define BIND(source, dest, opts) \
	"{\"destination\":\"" dest "\",\"source\":\"" source \
	"\",\"options\":[" opts "]}"
#define PROC MOUNT("/proc", "proc", "")
#define DEV MOUNT("/dev", "tmpfs", "\"nosuid\",\"strictatime\",\"mode=755\",\"size=65536k\"")
#define PTS_NO_GID MOUNT("/dev/pts", "devpts", "\"nosuid\",\"noexec\",\"newinstance\",\"ptmxmode=0666\",\"mode=0620\"")
#define PTS MOUNT("/dev/pts", "devpts", "\"nosuid\",\"noexec\",\"newinstance\",\"ptmxmode=0666\",\"mode=0620\",\"gid=5\"")
#define SHM MOUNT("/dev/shm", "tmpfs", "\"nosuid\",\"noexec\",\"nodev\",\"mode=1777\",\"size=65536k\"")
#define MQUEUE MOUNT("/dev/mqueue", "mqueue", "\"nosuid\",\"noexec\",\"nodev\"")
#define SYS MOUNT("/sys", "sysfs", "\"nosuid\",\"noexec\",\"nodev\",\"ro\"")
#define CGROUP MOUNT("/sys/fs/cgroup", "cgroup", "\"nosuid\",\"noexec\",\"nodev\",\"relatime\",\"ro\"")
#define DEFAULT_MOUNTS PROC "," DEV "," PTS "," SHM "," MQUEUE "," SYS "," CGROUP
#define DEFAULT_MASKS \
	"\"maskedPaths\":[\"/proc/acpi\",\"/proc/asound\",\"/proc/kcore\"," \
	"\"/proc/keys\",\"/proc/latency_stats\",\"/proc/timer_list\"," \
	"\"/proc/timer_stats\",\"/proc/sched_debug\",\"/sys/firmware\"," \
	"\"/proc/scsi\"],\"readonlyPaths\":[\"/proc/bus\",\"/proc/fs\"," \
	"\"/proc/irq\",\"/proc/sys\",\"/proc/sysrq-trigger\"]"
/* clang-format on */

static inline void shell(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

/* For preparing and cleaning up; must succeed. */
static inline void shell(const char *format, ...)
{
	char cmd[2048];
	va_list ap;

	va_start(ap, format);
	assert_true(vsnprintf(cmd, sizeof(cmd), format, ap) < (int)sizeof(cmd));
	va_end(ap);
	assert_int_equal(system(cmd), 0);
}

static inline int bundle_setup(void **state)
{
	struct bundle *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	*state = b;
	if (geteuid() != 0)
		return 0;
	(void)close(unit_tmpdir(b->dir));
	shell("chmod 755 %s && cd %s && mkdir -p rootfs/bin rootfs/tmp && "
	      "cp /bin/busybox rootfs/bin/ && cd rootfs/bin && "
	      "for i in sh ls cat stat mount grep test readlink touch id "
	      "umount mkdir sed wc find head echo ln; do ln -s busybox $i; "
	      "done",
	      b->dir, b->dir);
	return 0;
}

static inline int bundle_teardown(void **state)
{
	struct bundle *b = *state;

	/* What a discarded branch held goes in the background. */
	if (b->dir[0])
		shell("for i in 1 2 3 4 5 6 7 8; do "
		      "rm -rf --one-file-system %s 2>/dev/null && exit 0;"
		      "sleep 0.1; done; exit 1",
		      b->dir);
	free(b);
	return 0;
}

static inline struct bundle *bundle_of(void **state)
{
	struct bundle *b = *state;

	if (geteuid() != 0) {
		print_message("needs root\n");
		skip();
	}
	if (access("/bin/busybox", X_OK) < 0) {
		print_message("needs busybox-static\n");
		skip();
	}
	return b;
}

static inline long now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* What the child tells the parent. */
struct report {
	int status;
	struct error err;
	long build_us, enter_us;
	char made[4096];
};

static inline void get_made(const struct rootfs *r, struct report *rep)
{
	const char *made;
	size_t i, n;

	rootfs_made(r, &made, &n);
	for (i = 0; i < n && i < sizeof(rep->made) - 1; i++)
		rep->made[i] = made[i] ? made[i] : ' ';
}

static inline void run_script(const char *script)
{
	(void)execl("/bin/sh", "sh", "-c", script, (char *)NULL);
	_exit(99);
}

static inline int give_branch(void *data, int fd, struct error *err)
{
	const int *sock = data;

	return sync_send_fd(*sock, SYNC_BRANCH, fd);
}

static inline int take_branch(void *data, int *ret_fd, struct error *err)
{
	const int *sock = data;

	return sync_expect_fd(*sock, SYNC_BRANCH, ret_fd);
}

/* Pid 1 of the sandbox. */
static inline void inside(struct bundle *b, struct rootfs *r, int in_fd,
			  int out_fd, const char *script)
{
	static struct report rep;
	long start;
	char c;

	if (read(in_fd, &c, 1) != 1)
		_exit(98);
	if (b->userns && (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0))
		_exit(97);
	start = now_us();
	rep.status = rootfs_build(r, take_branch, &in_fd, &rep.err);
	rep.build_us = now_us() - start;
	if (rep.status == 0 && b->hook)
		rep.status = b->hook(r, &rep.err);
	start = now_us();
	if (rep.status == 0)
		rep.status = rootfs_enter(r, &rep.err);
	rep.enter_us = now_us() - start;
	get_made(r, &rep);
	if (write(out_fd, &rep, sizeof(rep)) != sizeof(rep) || rep.status < 0)
		_exit(96);
	if (script)
		run_script(script);
	_exit(0);
}

static inline int run_child(struct bundle *b, struct rootfs *r,
			    const struct idmap *maps, const char *script)
{
	struct clone_args args = {
		.flags = CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC |
			 (b->host_mounts ? 0 : CLONE_NEWNS) |
			 (b->userns ? CLONE_NEWUSER : 0) |
			 (b->network ? CLONE_NEWNET : 0),
		.exit_signal = SIGCHLD,
	};
	struct report rep = { .status = -EIO, .err = ERROR_INIT };
	int to[2], from[2], status;
	ssize_t got = 0;
	pid_t pid;

	assert_return_code(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, to), 0);
	assert_return_code(pipe2(from, O_CLOEXEC), 0);
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)close(to[1]);
		inside(b, r, to[0], from[1], script);
	}
	(void)close(from[1]);
	if (b->userns)
		rep.status = userns_write_maps(pid, maps, &rep.err);
	if (!b->userns || rep.status == 0) {
		assert_int_equal(write(to[1], "x", 1), 1);
		if (rootfs_make_branch(r, give_branch, &to[1], &rep.err) < 0)
			(void)shutdown(to[1], SHUT_RDWR);
		got = read(from[0], &rep, sizeof(rep));
	}
	(void)close(from[0]);
	(void)close(to[0]);
	(void)close(to[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (got != sizeof(rep) && rep.status >= 0)
		rep.status = -EIO;
	b->took.build_us = rep.build_us;
	b->took.enter_us = rep.enter_us;
	b->err = rep.err;
	memcpy(b->made, rep.made, sizeof(b->made));
	if (rep.status < 0)
		return rep.status;
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static inline char *bundle_config(const struct bundle *b, const char *mounts,
				  const char *members)
{
	char maps[256] = "";
	char *json = NULL;

	if (b->userns)
		(void)snprintf(
			maps, sizeof(maps),
			"\"uidMappings\":[{\"containerID\":0,\"hostID\":%u,"
			"\"size\":%d}],\"gidMappings\":[{\"containerID\":0,"
			"\"hostID\":%u,\"size\":%d}],",
			b->user ? b->user : SUB_BASE, b->user ? 1 : SUB_COUNT,
			b->user ? b->user : SUB_BASE, b->user ? 1 : SUB_COUNT);
	assert_true(
		asprintf(
			&json,
			"{\"ociVersion\":\"1.0.0\",\"root\":{\"path\":"
			"\"rootfs\","
			"\"readonly\":%s},\"process\":{\"user\":{\"uid\":0,"
			"\"gid\":0},\"cwd\":\"/\",\"args\":[\"sh\"],"
			"\"terminal\":%s},\"mounts\":[%s],\"linux\":{%s%s%s"
			"\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"uts\"},"
			"{\"type\":\"ipc\"}%s%s%s]}}",
			b->readonly ? "true" : "false",
			b->terminal ? "true" : "false", mounts, maps, members,
			*members ? "," : "",
			b->host_mounts ? "" : ",{\"type\":\"mount\"}",
			b->network ? ",{\"type\":\"network\"}" : "",
			b->userns ? ",{\"type\":\"user\"}" : "") > 0);
	return json;
}

/*
 * Builds the root file system of the bundle with @mounts (members of the array
 * of that name) and @members (of "linux"), and runs @script inside. Returns its
 * exit status, or a negative errno with b->err filled.
 */
static inline int bundle_run(struct bundle *b, const char *mounts,
			     const char *members, const char *script)
{
	auto_free char *json = bundle_config(b, mounts, members);
	struct rootfs_options o = {
		.userns_fd = -1,
		.new_userns = b->userns,
		.privileged = !b->user,
		.no_pivot = b->no_pivot,
		.branch = b->branch,
		.cgroup = b->cgroup,
		.hidden = b->hidden,
	};
	struct rootfs *r = NULL;
	struct spec *spec = NULL;
	long start;
	int n;

	b->err = (struct error)ERROR_INIT;
	n = spec_parse(json, strlen(json), b->dir, NULL, &spec, &b->err);
	if (n < 0)
		return n;
	o.spec = spec;
	start = now_us();
	n = rootfs_new(&o, &r, &b->err);
	b->took.new_us = now_us() - start;
	if (n == 0)
		n = run_child(b, r, &spec->idmap, script);
	rootfs_free(r);
	spec_free(spec);
	return n;
}

/* As bundle_run, and it must succeed. */
static inline void bundle_ok(struct bundle *b, const char *mounts,
			     const char *members, const char *script)
{
	int n = bundle_run(b, mounts, members, script);

	if (n != 0)
		print_message("%d: %s (%s)\n", n, b->err.msg, b->err.hint);
	assert_int_equal(n, 0);
}

/* As bundle_run, and it must fail with a message that contains @text. */
static inline void bundle_fails(struct bundle *b, const char *mounts,
				const char *members, int errnum,
				const char *text)
{
	int n = bundle_run(b, mounts, members, NULL);

	if (n != -errnum || !strstr(b->err.msg, text))
		print_message("%d: %s (%s)\n", n, b->err.msg, b->err.hint);
	assert_int_equal(n, -errnum);
	assert_non_null(strstr(b->err.msg, text));
}

#endif
