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
/* Puts a line more into a file of /etc, which is ours by now. */
static inline int append(const char *path, const char *line)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK(write(fd, line, strlen(line)) == (ssize_t)strlen(line));
	(void)close(fd);
	return 0;
}

/*
 * An overlay over all of /etc, in a mount namespace of our own. A file that
 * was mounted over one of it would go when a useradd replaces that.
 */
static inline int own_etc(void)
{
	char dir[] = "/tmp/sandlock-etc-XXXXXX", options[256];

	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(mkdtemp(dir) != NULL);
	CHECK(mount("tmpfs", dir, "tmpfs", 0, "mode=755") == 0);
	(void)snprintf(options, sizeof(options), "%s/upper", dir);
	CHECK(mkdir(options, 0755) == 0);
	(void)snprintf(options, sizeof(options), "%s/work", dir);
	CHECK(mkdir(options, 0755) == 0);
	(void)snprintf(options, sizeof(options),
		       "lowerdir=/etc,upperdir=%s/upper,workdir=%s/work", dir,
		       dir);
	CHECK(mount("overlay", "/etc", "overlay", 0, options) == 0);
	CHECK(umount2(dir, MNT_DETACH) == 0);
	CHECK(rmdir(dir) == 0);
	return 0;
}

static inline int become_user(bool subids)
{
	char line[128];

	if (geteuid() != 0)
		return 0;
	CHECK(own_etc() == 0);
	(void)snprintf(line, sizeof(line), "slbranch:x:%d:%d::/:/bin/sh\n",
		       USER, USER);
	CHECK(append("/etc/passwd", line) == 0);
	if (subids) {
		(void)snprintf(line, sizeof(line), "slbranch:%d:%d\n",
			       SUB_FIRST, SUB_COUNT);
		CHECK(append("/etc/subuid", line) == 0);
		CHECK(append("/etc/subgid", line) == 0);
	}
	CHECK(setgroups(0, NULL) == 0);
	CHECK(setresgid(USER, USER, USER) == 0);
	CHECK(setresuid(USER, USER, USER) == 0);
	return 0;
}

#endif
