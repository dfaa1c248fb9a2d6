/*
 * For tests of the store and of the life of a branch: a store and a lower in a
 * directory of their own. branch_fixture.h runs whole sandboxes.
 */
#ifndef SANDLOCK_TESTS_BRANCH_WORLD_H
#define SANDLOCK_TESTS_BRANCH_WORLD_H

#include "unit.h"

#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>

#include "branch/branch.h"
#include "branch/internal.h"

static struct error err;

/* A store and a lower with one file "a" in a new directory. */
struct world {
	char dir[256];
	int dir_fd;
	struct store *st;
	struct branch *b;
	int mount_fd;
};

static inline void put(int dir_fd, const char *path, const char *text)
{
	int fd = openat(dir_fd, path, O_CREAT | O_WRONLY | O_APPEND, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

static inline bool exists(int dir_fd, const char *path)
{
	struct stat st;

	return fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline void open_world_store(struct world *w)
{
	char path[300];

	(void)snprintf(path, sizeof(path), "%s/store", w->dir);
	assert_int_equal(store_open(path, NULL, &w->st, &err), 0);
}

static inline void setup(struct world *w)
{
	err = (struct error)ERROR_INIT;
	*w = (struct world){ .mount_fd = -1 };
	(void)setenv("TMPDIR", "/var/tmp", 1);
	w->dir_fd = unit_tmpdir(w->dir);
	assert_int_equal(mkdirat(w->dir_fd, "lower", 0755), 0);
	put(w->dir_fd, "lower/a", "lower\n");
	open_world_store(w);
}

static inline void teardown(struct world *w)
{
	char cmd[300];

	if (w->mount_fd >= 0)
		(void)close(w->mount_fd);
	branch_close(w->b);
	store_close(w->st);
	(void)close(w->dir_fd);
	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s' 2>/dev/null", w->dir);
	/* A remover may be at work in it. */
	for (int i = 0; i < 100 && exists(AT_FDCWD, w->dir); i++) {
		if (system(cmd) != 0)
			(void)usleep(20 * 1000);
	}
	assert_false(exists(AT_FDCWD, w->dir));
}

static inline int create(struct world *w, const char *name, struct branch **ret)
{
	char lower[300];
	struct branch_options o = {
		.name = name,
		.lower = lower,
		.on_exit = DISPOSE_DEFER,
		.on_error = DISPOSE_KEEP,
	};

	(void)snprintf(lower, sizeof(lower), "%s/lower", w->dir);
	return branch_create(w->st, &o, ret, &err);
}

static inline void create_web(struct world *w)
{
	assert_int_equal(create(w, "web", &w->b), 0);
}

static inline void mount_web(struct world *w)
{
	assert_int_equal(branch_overlay(w->b, &w->mount_fd, &err), 0);
}

static inline void unmount(struct world *w)
{
	assert_int_equal(close(w->mount_fd), 0);
	w->mount_fd = -1;
}

/* A process id that is certainly nobody's: ours with another start. */
static const struct proc_id dead
	__attribute__((unused)) = { .pid = 1, .start_time = UINT64_MAX };

static inline void run(struct world *w, const char *const *made, size_t n)
{
	assert_int_equal(branch_set_running(w->b, made, n, &dead, &err), 0);
}

static inline enum branch_state state_of(struct branch *b)
{
	enum branch_state s = BRANCH_OPEN;

	assert_int_equal(branch_get_state(b, &s, &err), 0);
	return s;
}

static inline struct branch_settled settle(struct world *w)
{
	const struct exit_status zero = { .kind = EXIT_CODE };
	struct branch_settled s = { .gone = false };
	int r = branch_settle(w->b, &zero, true, &s, &err);

	if (r < 0)
		print_error("%s\n", err.msg);
	assert_int_equal(r, 0);
	return s;
}

static inline void need_root(void)
{
	if (geteuid() != 0) {
		print_message("needs root\n");
		skip();
	}
}

static inline void wait_gone(int dir_fd, const char *path)
{
	const struct timespec nap = { .tv_nsec = 10 * 1000 * 1000 };

	for (int i = 0; i < 1000 && exists(dir_fd, path); i++)
		(void)nanosleep(&nap, NULL);
	assert_false(exists(dir_fd, path));
}

static inline void make_deep(int dir_fd, int depth)
{
	int fd = dup(dir_fd);

	for (int i = 0; i < depth; i++) {
		int next;

		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		put(fd, "f", "x");
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY);
		assert_int_equal(fchmod(fd, 0), 0);
		(void)close(fd);
		fd = next;
	}
	(void)close(fd);
}

static inline bool is_empty_dir(int dir_fd, const char *path)
{
	int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY);
	auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t n = 0;

	while (dir && readdir(dir))
		n++;
	return n <= 2;
}

#endif
