/*
 * Becoming an ordinary user, with or without subordinate ids, in a mount
 * namespace of our own whose /etc knows it.
 */
#ifndef SANDLOCK_TESTS_UNIT_USER_H
#define SANDLOCK_TESTS_UNIT_USER_H

#include "unit.h"

#include <grp.h>
#include <sched.h>
#include <sys/mount.h>

enum { USER = 54322, SUB_FIRST = 5530000, SUB_COUNT = 65536 };

#define CHECK(cond)                                                         \
	do {                                                                \
		if (!(cond)) {                                              \
			(void)fprintf(stderr, "%s:%d: %s (errno %d: %s)\n", \
				      __FILE__, __LINE__, #cond, errno,     \
				      err.msg);                             \
			return 1;                                           \
		}                                                           \
	} while (0)

static struct error err;
/* Puts a line more into a file of /etc, in a mount namespace of our own. */
static inline int cover(const char *path, const char *line)
{
	char tmp[] = "/tmp/sandlock-branch-XXXXXX", buf[65536];
	int fd = mkstemp(tmp), in = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	CHECK(fd >= 0);
	n = in >= 0 ? read(in, buf, sizeof(buf)) : 0;
	CHECK(write(fd, buf, (size_t)n) == n);
	CHECK(write(fd, line, strlen(line)) == (ssize_t)strlen(line));
	CHECK(fchmod(fd, 0644) == 0);
	CHECK(mount(tmp, path, NULL, MS_BIND, NULL) == 0);
	CHECK(unlink(tmp) == 0);
	(void)close(fd);
	if (in >= 0)
		(void)close(in);
	return 0;
}

static inline int become_user(bool subids)
{
	char line[128];

	if (geteuid() != 0)
		return 0;
	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	(void)snprintf(line, sizeof(line), "slbranch:x:%d:%d::/:/bin/sh\n",
		       USER, USER);
	CHECK(cover("/etc/passwd", line) == 0);
	if (subids) {
		(void)snprintf(line, sizeof(line), "slbranch:%d:%d\n",
			       SUB_FIRST, SUB_COUNT);
		CHECK(cover("/etc/subuid", line) == 0);
		CHECK(cover("/etc/subgid", line) == 0);
	}
	CHECK(setgroups(0, NULL) == 0);
	CHECK(setresgid(USER, USER, USER) == 0);
	CHECK(setresuid(USER, USER, USER) == 0);
	return 0;
}

#endif
