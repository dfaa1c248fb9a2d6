#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "kernel/seccomp.h"
#include "kernel/seccomp_cache.h"
#include "spec/spec.h"

#define CHECK(cond)                                                      \
	do {                                                             \
		if (!(cond)) {                                           \
			(void)fprintf(stderr, "%s:%d: %s (errno %d)\n",  \
				      __FILE__, __LINE__, #cond, errno); \
			return 1;                                        \
		}                                                        \
	} while (0)

#define STRINGS(...)                                                     \
	{                                                                \
		.v = (char *[]){ __VA_ARGS__, NULL },                    \
		.n = sizeof((char *[]){ __VA_ARGS__ }) / sizeof(char *), \
	}
#define S(text) ((char *)(text))

static char dir[] = "/tmp/sandlock-seccomp-XXXXXX";
static char cache[64];
static struct error err;

static void empty_dir(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	if (!d)
		return;
	while ((e = readdir(d)))
		(void)unlinkat(dirfd(d), e->d_name, 0);
	(void)closedir(d);
}

static int setup(void **state)
{
	(void)snprintf(cache, sizeof(cache), "%s/cache", dir);
	empty_dir(cache);
	(void)rmdir(cache);
	(void)unlink(cache);
	err = (struct error)ERROR_INIT;
	return 0;
}

static int group_setup(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int group_teardown(void **state)
{
	(void)setup(state);
	return rmdir(dir);
}

static void in_child(int (*fn)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		int r = fn();

		if (r && err.kind)
			(void)fprintf(stderr, "%s (%s)\n", err.msg, err.hint);
		_exit(r);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Everything is allowed but one call. */
static struct spec_seccomp deny_one(struct spec_seccomp_rule *rule)
{
	return (struct spec_seccomp){ .default_action = SECCOMP_RET_ALLOW,
				      .rules = rule,
				      .n_rules = 1 };
}

static struct spec_seccomp_rule deny_getppid(uint32_t value)
{
	static char *names[] = { S("getppid"), NULL };

	return (struct spec_seccomp_rule){ .names = { names, 1 },
					   .action = SECCOMP_RET_ERRNO,
					   .has_errno = true,
					   .errno_ret = value };
}

static int load(const struct spec_seccomp *s, const char *from)
{
	struct seccomp_program p = { .insns = NULL };
	int r;

	CHECK(seccomp_program_get(s, from, NULL, &p, &err) == 0);
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	r = seccomp_program_load(&p, &err);
	seccomp_program_done(&p);
	return r;
}

static int errno_of(long nr, long a0, long a1)
{
	errno = 0;
	return syscall(nr, a0, a1) < 0 ? errno : 0;
}

static int errno_is_returned(void)
{
	struct spec_seccomp_rule rule = deny_getppid(77);
	struct spec_seccomp s = deny_one(&rule);

	CHECK(load(&s, NULL) == 0);
	CHECK(errno_of(SYS_getppid, 0, 0) == 77);
	CHECK(errno_of(SYS_getuid, 0, 0) == 0);
	return 0;
}

static int errno_defaults_to_eperm(void)
{
	struct spec_seccomp_rule rule = deny_getppid(0);
	struct spec_seccomp s = deny_one(&rule);

	rule.has_errno = false;
	CHECK(load(&s, NULL) == 0);
	CHECK(errno_of(SYS_getppid, 0, 0) == EPERM);
	return 0;
}

static int arguments_are_joined_by_and(void)
{
	struct spec_seccomp_arg args[] = {
		{ .index = 0, .value = 5, .op = SCMP_CMP_EQ },
		{ .index = 1,
		  .value = 0xf0,
		  .value_two = 0x30,
		  .op = SCMP_CMP_MASKED_EQ },
	};
	struct spec_seccomp_rule rule = deny_getppid(77);
	struct spec_seccomp s = deny_one(&rule);

	rule.args = args;
	rule.n_args = 2;
	CHECK(load(&s, NULL) == 0);
	CHECK(errno_of(SYS_getppid, 5, 0x3f) == 77);
	CHECK(errno_of(SYS_getppid, 5, 0x4f) == 0);
	CHECK(errno_of(SYS_getppid, 4, 0x3f) == 0);
	return 0;
}

static int repeated_argument_means_or(void)
{
	struct spec_seccomp_arg args[] = {
		{ .index = 0, .value = 5, .op = SCMP_CMP_EQ },
		{ .index = 0, .value = 7, .op = SCMP_CMP_EQ },
	};
	struct spec_seccomp_rule rule = deny_getppid(77);
	struct spec_seccomp s = deny_one(&rule);

	rule.args = args;
	rule.n_args = 2;
	CHECK(load(&s, NULL) == 0);
	CHECK(errno_of(SYS_getppid, 5, 0) == 77);
	CHECK(errno_of(SYS_getppid, 7, 0) == 77);
	CHECK(errno_of(SYS_getppid, 6, 0) == 0);
	return 0;
}

static int odd_rules_are_skipped(void)
{
	struct spec_seccomp_rule rules[] = {
		{ .names = STRINGS(S("no_such_call"), S("getppid")),
		  .action = SECCOMP_RET_ERRNO,
		  .has_errno = true,
		  .errno_ret = 77 },
		{ .names = STRINGS(S("getuid")), .action = SECCOMP_RET_ALLOW },
	};
	struct spec_seccomp s = {
		.default_action = SECCOMP_RET_ALLOW,
		.architectures =
			STRINGS(S("SCMP_ARCH_X86_64"), S("SCMP_ARCH_X86"),
				S("SCMP_ARCH_X32"), S("SCMP_ARCH_AARCH64")),
		.rules = rules,
		.n_rules = 2
	};

	CHECK(load(&s, NULL) == 0);
	CHECK(errno_of(SYS_getppid, 0, 0) == 77);
	CHECK(errno_of(SYS_getuid, 0, 0) == 0);
	return 0;
}

/* landlock_add_rule is the newest call that the profile names. */
static int newer_calls_are_unknown(void)
{
	struct spec_seccomp_rule rule = {
		.names = STRINGS(S("read"), S("write"), S("close"),
				 S("exit_group"), S("exit"), S("futex"),
				 S("mmap"), S("munmap"), S("mprotect"),
				 S("madvise"), S("sigaltstack"),
				 S("landlock_add_rule")),
		.action = SECCOMP_RET_ALLOW
	};
	struct spec_seccomp s = {
		.default_action = SECCOMP_RET_ERRNO,
		.architectures =
			STRINGS(S("SCMP_ARCH_X86_64"), S("SCMP_ARCH_X86"),
				S("SCMP_ARCH_X32"), S("SCMP_ARCH_AARCH64")),
		.rules = &rule,
		.n_rules = 1
	};

	CHECK(load(&s, NULL) == 0);
	CHECK(errno_of(SYS_getppid, 0, 0) == EPERM);
	CHECK(errno_of(SYS_landlock_restrict_self, 0, 0) == ENOSYS);
	CHECK(errno_of(1000, 0, 0) == ENOSYS);
	CHECK(errno_of(SYS_close, -1, 0) == EBADF);
#ifdef __x86_64__
	/* Calls of x32 are no newer ones. */
	CHECK(errno_of(0x40000000 + SYS_getppid, 0, 0) == EPERM);
#endif
	return 0;
}

static int notify_gives_a_listener(void)
{
	struct spec_seccomp_rule rule = { .names = STRINGS(S("getppid")),
					  .action = SECCOMP_RET_USER_NOTIF };
	struct spec_seccomp s = deny_one(&rule);
	int fd;

	s.flags = (struct spec_strings)STRINGS(
		S("SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"),
		S("SECCOMP_FILTER_FLAG_TSYNC"));
	fd = load(&s, NULL);
	CHECK(fd > 0);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	return 0;
}

static int flags_without_listener(void)
{
	struct spec_seccomp_rule rule = deny_getppid(77);
	struct spec_seccomp s = deny_one(&rule);

	s.flags = (struct spec_strings)STRINGS(
		S("SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"),
		S("SECCOMP_FILTER_FLAG_TSYNC"), S("SECCOMP_FILTER_FLAG_LOG"),
		S("SECCOMP_FILTER_FLAG_SPEC_ALLOW"));
	CHECK(load(&s, NULL) == 0);
	CHECK(errno_of(SYS_getppid, 0, 0) == 77);
	return 0;
}

#define CHILD_TEST(fn)                      \
	static void test_##fn(void **state) \
	{                                   \
		in_child(fn);               \
	}

CHILD_TEST(errno_is_returned)
CHILD_TEST(newer_calls_are_unknown)
CHILD_TEST(errno_defaults_to_eperm)
CHILD_TEST(arguments_are_joined_by_and)
CHILD_TEST(repeated_argument_means_or)
CHILD_TEST(odd_rules_are_skipped)
CHILD_TEST(notify_gives_a_listener)
CHILD_TEST(flags_without_listener)

static int get(const struct spec_seccomp *s, const char *from,
	       struct seccomp_program *p)
{
	return seccomp_program_get(s, from, NULL, p, &err);
}

/* Only what is named waits for somebody; below another filter, too. */
static int listen_beside_another(void)
{
	const int nrs[] = { SYS_getppid, SYS_umask };
	const struct seccomp_numbers v[2] = { { seccomp_arch_native(), nrs,
						ARRAY_LEN(nrs) } };
	struct spec_seccomp_rule rule = deny_getppid(77);
	struct spec_seccomp s = deny_one(&rule);
	struct seccomp_program p = { .insns = NULL };
	struct pollfd waiting = { .events = POLLIN };
	pid_t pid;

	CHECK(seccomp_program_listen(v, &p, &err) == 0);
	CHECK(p.has_notify);
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	waiting.fd = seccomp_program_load(&p, &err);
	CHECK(waiting.fd >= 0);
	seccomp_program_done(&p);
	/* What the other one refuses is refused, and nobody is told. */
	CHECK(load(&s, NULL) == 0);
	errno = 0;
	CHECK(syscall(SYS_getppid) < 0 && errno == 77);
	CHECK(syscall(SYS_getpid) == getpid());
	CHECK(poll(&waiting, 1, 0) == 0);
	pid = fork();
	if (pid == 0) {
		(void)syscall(SYS_umask, 0);
		_exit(0);
	}
	CHECK(pid > 0 && poll(&waiting, 1, 30000) == 1);
	(void)kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
	return 0;
}

static void test_a_listener_beside_another_filter(void **state)
{
	in_child(listen_beside_another);
}

static void test_bad_profiles_are_refused(void **state)
{
	struct spec_seccomp_arg arg = { .index = 0,
					.value = 5,
					.op = SCMP_CMP_EQ };
	struct spec_seccomp_rule rules[] = { deny_getppid(77),
					     deny_getppid(78) };
	struct spec_seccomp_rule notify_write = {
		.names = STRINGS(S("write")), .action = SECCOMP_RET_USER_NOTIF
	};
	struct spec_seccomp s = deny_one(rules);
	struct seccomp_program p = { .insns = NULL };

	rules[0].args = rules[1].args = &arg;
	rules[0].n_args = rules[1].n_args = 1;
	s.n_rules = 2;
	assert_int_equal(get(&s, NULL, &p), -EEXIST);
	assert_non_null(strstr(err.msg, "contradict"));

	s.n_rules = 1;
	s.flags = (struct spec_strings)STRINGS(S("SECCOMP_FILTER_FLAG_X"));
	assert_int_equal(get(&s, NULL, &p), -EINVAL);
	assert_non_null(strstr(err.msg, "'SECCOMP_FILTER_FLAG_X'"));

	s = deny_one(rules);
	s.default_action = SECCOMP_RET_USER_NOTIF;
	assert_int_equal(get(&s, NULL, &p), -EINVAL);
	s = deny_one(&notify_write);
	assert_int_equal(get(&s, NULL, &p), -EINVAL);
	assert_null(p.insns);
}

static const char *entry_name(void)
{
	static char name[400];
	DIR *d = opendir(cache);
	struct dirent *e;

	assert_non_null(d);
	name[0] = '\0';
	while ((e = readdir(d))) {
		if (e->d_name[0] != '.')
			(void)snprintf(name, sizeof(name), "%s/%s", cache,
				       e->d_name);
	}
	(void)closedir(d);
	return name;
}

/* Every program is a hit or is built anew, and both give the same. */
static bool was_hit;

static void check_same(const struct spec_seccomp *s)
{
	struct seccomp_program fresh = { .insns = NULL }, p = { .insns = NULL };
	auto_(buf) struct buf key = BUF_INIT;
	auto_free void *cached = NULL;
	size_t n;

	seccomp_cache_key(s, &key);
	was_hit = seccomp_cache_get(cache, &key, NULL, &cached, &n);
	assert_int_equal(get(s, NULL, &fresh), 0);
	assert_int_equal(get(s, cache, &p), 0);
	assert_int_equal(p.n_insns, fresh.n_insns);
	assert_memory_equal(p.insns, fresh.insns, p.n_insns * 8);
	seccomp_program_done(&p);
	seccomp_program_done(&fresh);
}

static void test_second_time_is_a_hit(void **state)
{
	struct spec_seccomp_rule rule = deny_getppid(77);
	struct spec_seccomp s = deny_one(&rule);
	struct stat st;

	check_same(&s);
	assert_false(was_hit);
	check_same(&s);
	assert_true(was_hit);
	assert_int_equal(lstat(cache, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(lstat(entry_name(), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void add_key(const struct spec_seccomp *s, struct buf *keys)
{
	auto_(buf) struct buf key = BUF_INIT;

	seccomp_cache_key(s, &key);
	/* Not the bytes of any key before. */
	for (size_t off = 0; off < keys->len;) {
		uint32_t len;

		memcpy(&len, keys->data + off, sizeof(len));
		if (len == key.len)
			assert_memory_not_equal(keys->data + off + sizeof(len),
						key.data, len);
		off += sizeof(len) + len;
	}
	buf_add(keys, &(uint32_t){ (uint32_t)key.len }, sizeof(uint32_t));
	buf_add(keys, key.data, key.len);
}

static void test_every_field_is_in_the_key(void **state)
{
	struct spec_seccomp_arg arg = {
		.index = 1, .value = 2, .value_two = 3, .op = SCMP_CMP_EQ
	};
	struct spec_seccomp_rule rule = deny_getppid(77);
	struct spec_seccomp s = deny_one(&rule);
	auto_(buf) struct buf keys = BUF_INIT;

	add_key(&s, &keys);
	s.default_action = SECCOMP_RET_LOG;
	add_key(&s, &keys);
	s.has_default_errno = true;
	add_key(&s, &keys);
	s.default_errno = 5;
	add_key(&s, &keys);
	s.architectures = (struct spec_strings)STRINGS(S("SCMP_ARCH_X86"));
	add_key(&s, &keys);
	s.flags = (struct spec_strings)STRINGS(S("SCMP_ARCH_X86"));
	s.architectures = (struct spec_strings){ NULL, 0 };
	add_key(&s, &keys);
	rule.errno_ret = 78;
	add_key(&s, &keys);
	rule.has_errno = false;
	add_key(&s, &keys);
	rule.action = SECCOMP_RET_TRAP;
	add_key(&s, &keys);
	rule.names = (struct spec_strings)STRINGS(S("getpp"), S("id"));
	add_key(&s, &keys);
	rule.args = &arg;
	rule.n_args = 1;
	add_key(&s, &keys);
	arg.index = 2;
	add_key(&s, &keys);
	arg.value = 9;
	add_key(&s, &keys);
	arg.value_two = 9;
	add_key(&s, &keys);
	arg.op = SCMP_CMP_NE;
	add_key(&s, &keys);
}

static void flip_byte(const char *path, off_t at)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	unsigned char c;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &c, 1, at), 1);
	c ^= 0x40;
	assert_int_equal(pwrite(fd, &c, 1, at), 1);
	(void)close(fd);
}

static void test_damaged_entry_is_rebuilt(void **state)
{
	struct spec_seccomp_rule rule = deny_getppid(77);
	struct spec_seccomp s = deny_one(&rule);
	const char *name;
	struct stat st;

	check_same(&s);
	name = entry_name();
	assert_int_equal(stat(name, &st), 0);
	for (off_t at = 0; at < st.st_size; at++) {
		/* Unused words and padding are not looked at. */
		flip_byte(name, at);
		check_same(&s);
		if (!was_hit)
			check_same(&s);
		assert_true(was_hit);
	}
	flip_byte(name, st.st_size - 1);
	check_same(&s);
	assert_false(was_hit);
	for (off_t len = 0; len < st.st_size; len += 7) {
		assert_int_equal(truncate(name, len), 0);
		check_same(&s);
		assert_false(was_hit);
	}
}

/* An attacker's file under the right name for the wrong profile. */
static void test_foreign_entry_is_not_taken(void **state)
{
	struct spec_seccomp_rule rule = deny_getppid(77);
	struct spec_seccomp s = deny_one(&rule);
	char other[420], name[420];

	check_same(&s);
	(void)strcpy(other, entry_name());
	rule.errno_ret = 78;
	(void)snprintf(name, sizeof(name), "%.400s.old", other);
	assert_int_equal(rename(other, name), 0);
	check_same(&s);
	(void)unlink(name);
	(void)strcpy(name, entry_name());
	/* The first profile's entry under the second one's name. */
	empty_dir(cache);
	rule.errno_ret = 77;
	check_same(&s);
	assert_int_equal(rename(entry_name(), name), 0);
	rule.errno_ret = 78;
	check_same(&s);
	assert_false(was_hit);
}

static void test_odd_files_are_not_taken(void **state)
{
	struct spec_seccomp_rule rule = deny_getppid(77);
	struct spec_seccomp s = deny_one(&rule);
	char name[420], moved[320];

	check_same(&s);
	(void)strcpy(name, entry_name());
	(void)snprintf(moved, sizeof(moved), "%s/moved", dir);
	assert_int_equal(rename(name, moved), 0);
	assert_int_equal(symlink(moved, name), 0);
	check_same(&s);
	assert_false(was_hit);
	assert_int_equal(unlink(moved), 0);

	assert_int_equal(unlink(name), 0);
	assert_int_equal(mkfifo(name, 0600), 0);
	check_same(&s);
	assert_false(was_hit);

	check_same(&s);
	assert_true(was_hit);
	assert_int_equal(chmod(name, 0620), 0);
	check_same(&s);
	assert_false(was_hit);

	if (geteuid() == 0) {
		assert_int_equal(chown(name, 12345, 12345), 0);
		check_same(&s);
		assert_false(was_hit);
	}
}

static void test_odd_directories_are_not_used(void **state)
{
	struct spec_seccomp_rule rule = deny_getppid(77);
	struct spec_seccomp s = deny_one(&rule);
	char real[320];
	int fd;

	(void)snprintf(real, sizeof(real), "%s/real", dir);
	assert_int_equal(mkdir(real, 0700), 0);
	assert_int_equal(symlink(real, cache), 0);
	check_same(&s);
	check_same(&s);
	assert_false(was_hit);
	assert_int_equal(rmdir(real), 0);
	assert_int_equal(unlink(cache), 0);

	assert_int_equal(mkdir(cache, 0755), 0);
	check_same(&s);
	check_same(&s);
	assert_false(was_hit);
	assert_string_equal(entry_name(), "");
	assert_int_equal(rmdir(cache), 0);

	fd = open(cache, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	(void)close(fd);
	check_same(&s);
	check_same(&s);
	assert_false(was_hit);
	assert_int_equal(unlink(cache), 0);

	if (geteuid() == 0) {
		assert_int_equal(mkdir(cache, 0700), 0);
		assert_int_equal(chown(cache, 12345, 12345), 0);
		check_same(&s);
		check_same(&s);
		assert_false(was_hit);
	}
}

static void test_cache_does_not_grow_for_ever(void **state)
{
	struct spec_seccomp_rule rule = deny_getppid(0);
	struct spec_seccomp s = deny_one(&rule);
	struct dirent *e;
	size_t n = 0;
	DIR *d;

	for (uint32_t i = 1; i <= 300; i++) {
		struct seccomp_program p = { .insns = NULL };

		rule.errno_ret = i;
		assert_int_equal(get(&s, cache, &p), 0);
		seccomp_program_done(&p);
	}
	d = opendir(cache);
	while ((e = readdir(d)))
		n++;
	(void)closedir(d);
	assert_true(n <= 130);
	check_same(&s);
	assert_true(was_hit);
}

static void test_place_of_the_cache(void **state)
{
	char *path = NULL;

	assert_int_equal(setenv("SANDLOCK_CACHE", "/x/y", 1), 0);
	assert_int_equal(seccomp_cache_dir(&path), 0);
	assert_string_equal(path, "/x/y/seccomp");
	free(path);
	assert_int_equal(setenv("SANDLOCK_CACHE", "none", 1), 0);
	assert_int_equal(seccomp_cache_dir(&path), 0);
	assert_null(path);
	assert_int_equal(unsetenv("SANDLOCK_CACHE"), 0);
	assert_int_equal(setenv("XDG_CACHE_HOME", "/xdg", 1), 0);
	assert_int_equal(seccomp_cache_dir(&path), 0);
	assert_string_equal(path, geteuid() == 0 ? "/var/cache/sandlock/seccomp"
						 : "/xdg/sandlock/seccomp");
	free(path);
}

static double ms_since(const struct timespec *start)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - start->tv_sec) * 1e3 +
	       (double)(now.tv_nsec - start->tv_nsec) / 1e6;
}

static void test_big_profile_is_quick_the_second_time(void **state)
{
	static char *names[400];
	struct spec_seccomp_rule rule = { .action = SECCOMP_RET_ALLOW };
	struct spec_seccomp s = { .default_action = SECCOMP_RET_ERRNO,
				  .architectures =
					  STRINGS(S("SCMP_ARCH_X86_64"),
						  S("SCMP_ARCH_X86"),
						  S("SCMP_ARCH_X32")),
				  .rules = &rule,
				  .n_rules = 1 };
	struct timespec start;
	double first = 0, best = 1e9;

	for (int nr = 0; nr < 450 && rule.names.n < 380; nr++) {
		char *name =
			seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);

		if (name)
			names[rule.names.n++] = name;
	}
	rule.names.v = names;
	for (int i = 0; i < 20; i++) {
		struct seccomp_program p = { .insns = NULL };
		double ms;

		(void)clock_gettime(CLOCK_MONOTONIC, &start);
		assert_int_equal(get(&s, cache, &p), 0);
		ms = ms_since(&start);
		if (i == 0)
			first = ms;
		else if (ms < best)
			best = ms;
		seccomp_program_done(&p);
	}
	print_message("first %.3f ms, cached %.3f ms\n", first, best);
	assert_true(best < first / 10);
	for (size_t i = 0; i < rule.names.n; i++)
		free(names[i]);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup(fn, setup)
	const struct CMUnitTest tests[] = {
		T(test_errno_is_returned),
		T(test_newer_calls_are_unknown),
		T(test_errno_defaults_to_eperm),
		T(test_arguments_are_joined_by_and),
		T(test_repeated_argument_means_or),
		T(test_odd_rules_are_skipped),
		T(test_notify_gives_a_listener),
		T(test_flags_without_listener),
		T(test_a_listener_beside_another_filter),
		T(test_bad_profiles_are_refused),
		T(test_second_time_is_a_hit),
		T(test_every_field_is_in_the_key),
		T(test_damaged_entry_is_rebuilt),
		T(test_foreign_entry_is_not_taken),
		T(test_odd_files_are_not_taken),
		T(test_odd_directories_are_not_used),
		T(test_cache_does_not_grow_for_ever),
		T(test_place_of_the_cache),
		T(test_big_profile_is_quick_the_second_time),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
