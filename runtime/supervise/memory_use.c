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

/* size resident shared text lib data dt; data is with the stack. */
static int use_by_statm(int dir_fd, struct memory_use *ret)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned long resident, shared, data;
	char text[128];

	if (read_text(dir_fd, "statm", text, sizeof(text)) < 0 ||
	    sscanf(text, "%*u %lu %lu %*u %*u %lu", &resident, &shared,
		   &data) != 3)
		return -1;
	resident = resident > shared ? resident - shared : 0;
	ret->used = resident * page;
	ret->unused = data > resident ? (data - resident) * page : 0;
	return 0;
}

/* "Name:   <kB> kB"; 0 if there is none. */
static uint64_t find_kb(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

static int use_by_rollup(int dir_fd, struct memory_use *ret)
{
	char text[4096];

	if (read_text(dir_fd, "smaps_rollup", text, sizeof(text)) < 0)
		return use_by_statm(dir_fd, ret);
	ret->used = find_kb(text, "\nPss_Anon:") + find_kb(text, "\nSwapPss:");
	ret->unused = 0;
	return 0;
}

static int add_process(int proc_fd, const char *name, use_fn *fn,
		       uint64_t *ret_max, struct memory_use *ret)
{
	auto_close int fd =
		openat(proc_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct memory_use one = { 0 };

	if (fd < 0)
		return errno == ENOENT || errno == ESRCH ? 0 : -errno;
	if (fn(fd, &one) < 0)
		return 0;
	ret->used += one.used;
	ret->unused += one.unused;
	if (one.used <= *ret_max)
		return 0;
	*ret_max = one.used;
	cleanup_close(&ret->largest_fd);
	ret->largest_fd = take_fd(&fd);
	ret->largest = (pid_t)strtol(name, NULL, 10);
	return 0;
}

static int add_all(int proc_fd, use_fn *fn, struct memory_use *ret)
{
	/* An open directory of its own: others may be reading, too. */
	int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	uint64_t max = 0;
	struct dirent *e;
	int r = 0;

	*ret = (struct memory_use){ .largest_fd = -1 };
	if (!d) {
		r = -errno;
		cleanup_close(&fd);
		return r;
	}
	while (r == 0 && (e = readdir(d)))
		if (strtol(e->d_name, NULL, 10) > 1)
			r = add_process(proc_fd, e->d_name, fn, &max, ret);
	if (r < 0) {
		cleanup_close(&ret->largest_fd);
		ret->largest_fd = -1;
	}
	return r;
}

int memory_use_guess(int proc_fd, struct memory_use *ret)
{
	int r = add_all(proc_fd, use_by_statm, ret);

	if (r == 0) {
		cleanup_close(&ret->largest_fd);
		ret->largest_fd = -1;
	}
	return r;
}

int memory_use_count(int proc_fd, struct memory_use *ret)
{
	return add_all(proc_fd, use_by_rollup, ret);
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

/* Field 47 of /proc/TID/stat: where the heap begins. */
static uint64_t heap_start(pid_t tid)
{
	char path[32], text[2048];
	const char *at;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)tid);
	if (read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		return 0;
	/* After the name, which may hold anything, comes field 3. */
	at = strrchr(text, ')');
	for (int i = 2; at && i < 47; i++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return at ? strtoull(at, NULL, 10) : 0;
}

/* The line of the heap: no name of a file is without a slash. */
static const char *find_heap(const char *text)
{
	static const char name[] = " [heap]";

	for (const char *line = text; *line;) {
		size_t n = strcspn(line, "\n");

		if (n >= sizeof(name) && !memchr(line, '/', n) &&
		    memcmp(line + n - strlen(name), name, strlen(name)) == 0)
			return line;
		line += n + (line[n] != '\0');
	}
	return NULL;
}

uint64_t memory_heap_end(pid_t tid)
{
	auto_(buf) struct buf b = BUF_INIT;
	const char *at;
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)tid);
	/* What is longer is cut: the heap comes before what is mapped. */
	(void)fd_read_file(AT_FDCWD, path, FILE_MAX, &b);
	at = find_heap(buf_str(&b));
	if (at)
		at = strchr(at, '-');
	return at ? strtoull(at + 1, NULL, 16) : heap_start(tid);
}
