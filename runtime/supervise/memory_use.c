#include "supervise/memory_use.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "kernel/tree.h"

enum { FILE_MAX = 64 * 1024 };

/* Of one process; -1 where it has gone or is a thread of the kernel. */
typedef int use_fn(int dir_fd, struct memory_use *ret);

static int read_text(int dir_fd, const char *name, char *text, size_t size)
{
	auto_close int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = fd_read_full(fd, text, size - 1);
	if (n < 0)
		return (int)n;
	text[n] = '\0';
	return 0;
}

/* "Name:   <kB> kB"; 0 if there is none. */
static uint64_t find_kb(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

static int use_by_status(int dir_fd, struct memory_use *ret)
{
	char text[16 * 1024];

	if (read_text(dir_fd, "status", text, sizeof(text)) < 0)
		return -1;
	ret->used = find_kb(text, "\nRssAnon:") + find_kb(text, "\nVmSwap:");
	ret->shared = find_kb(text, "\nRssShmem:");
	return 0;
}

static int use_by_rollup(int dir_fd, struct memory_use *ret)
{
	char text[4096];

	if (read_text(dir_fd, "smaps_rollup", text, sizeof(text)) < 0)
		return use_by_status(dir_fd, ret);
	ret->used = find_kb(text, "\nPss_Anon:") + find_kb(text, "\nSwapPss:");
	ret->shared = find_kb(text, "\nPss_Shmem:");
	return 0;
}

/* A leader that has ended has no memory, but its other threads have. */
static int use_by_thread(int dir_fd, use_fn *fn, struct memory_use *ret)
{
	int tasks_fd =
		openat(dir_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = tasks_fd < 0 ? NULL : fdopendir(tasks_fd);
	struct dirent *e;

	if (!d)
		cleanup_close(&tasks_fd);
	while (d && (e = readdir(d))) {
		auto_close int fd = -1;

		if (e->d_name[0] == '.')
			continue;
		fd = openat(dirfd(d), e->d_name,
			    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && fn(fd, ret) == 0 && (ret->used || ret->shared))
			return 0;
	}
	return 0;
}

static int use_of(int dir_fd, use_fn *fn, struct memory_use *ret)
{
	int r = fn(dir_fd, ret);

	if (r < 0 || ret->used || ret->shared)
		return r;
	return use_by_thread(dir_fd, fn, ret);
}

static int add_process(int proc_fd, const char *name, use_fn *fn,
		       uint64_t *ret_max, struct memory_use *ret)
{
	auto_close int fd =
		openat(proc_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct memory_use one = { 0 };

	if (fd < 0)
		return errno == ENOENT || errno == ESRCH ? 0 : -errno;
	if (use_of(fd, fn, &one) < 0)
		return 0;
	ret->used += one.used;
	ret->shared += one.shared;
	if (one.used + one.shared <= *ret_max)
		return 0;
	*ret_max = one.used + one.shared;
	cleanup_close(&ret->largest_fd);
	ret->largest_fd = take_fd(&fd);
	return 0;
}

static int add_namespace(int proc_fd, use_fn *fn, struct memory_use *ret)
{
	/* An open directory of its own: others may be reading, too. */
	int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	uint64_t max = 0;
	struct dirent *e;
	int r = 0;

	if (!d) {
		r = -errno;
		cleanup_close(&fd);
		return r;
	}
	while (r == 0 && (e = readdir(d)))
		if (strtol(e->d_name, NULL, 10) > 1)
			r = add_process(proc_fd, e->d_name, fn, &max, ret);
	return r;
}

static int add_tree(int proc_fd, pid_t below, use_fn *fn,
		    struct memory_use *ret)
{
	auto_free pid_t *pids = NULL;
	uint64_t max = 0;
	size_t n;
	int r = tree_list(below, &pids, &n);

	for (size_t i = 0; r == 0 && i < n; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "%d", (int)pids[i]);
		r = add_process(proc_fd, name, fn, &max, ret);
	}
	return r;
}

static int add_all(int proc_fd, pid_t below, use_fn *fn, struct memory_use *ret)
{
	int r;

	*ret = (struct memory_use){ .largest_fd = -1 };
	r = below ? add_tree(proc_fd, below, fn, ret)
		  : add_namespace(proc_fd, fn, ret);
	if (r < 0) {
		cleanup_close(&ret->largest_fd);
		ret->largest_fd = -1;
	}
	return r;
}

int memory_use_guess(int proc_fd, pid_t below, struct memory_use *ret)
{
	int r = add_all(proc_fd, below, use_by_status, ret);

	if (r == 0) {
		cleanup_close(&ret->largest_fd);
		ret->largest_fd = -1;
	}
	return r;
}

int memory_use_count(int proc_fd, pid_t below, struct memory_use *ret)
{
	return add_all(proc_fd, below, use_by_rollup, ret);
}

uint64_t memory_use_of_files(int fd)
{
	struct statfs st;

	/* Something else may be mounted there. */
	if (fstatfs(fd, &st) < 0 || st.f_type != TMPFS_MAGIC ||
	    st.f_blocks < st.f_bfree)
		return 0;
	return (uint64_t)(st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize;
}
