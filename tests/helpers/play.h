/*
 * What the operations of play.c draw from: numbers, names, values, and the
 * descriptors that stay open. Included once.
 */
#ifndef PLAY_H
#define PLAY_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#ifndef RENAME_WHITEOUT
#define RENAME_WHITEOUT (1 << 2)
#endif

enum { N_SLOTS = 6, MAX_SKIPPED = 4096, MAX_OLD_DIRS = 4096 };

static uint64_t state, seed;
static bool making_tree, with_links, is_foreign, is_tier_c, without_special,
	is_user;
static FILE *hints_out, *hints_in;
static int slots[N_SLOTS];
static ino_t old_dirs[MAX_OLD_DIRS];
static size_t n_old_dirs;
static long skipped[MAX_SKIPPED];
static size_t n_skipped;
static time_t began;
static long current;

static uint64_t next_random(void)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static unsigned int below(unsigned int n)
{
	return (unsigned int)(next_random() % n);
}

static bool once_in(unsigned int n)
{
	return below(n) == 0;
}

static void begin_op(long number)
{
	current = number;
	state = seed * 1000003 + (uint64_t)number;
	(void)next_random();
}

static void print_quoted(const char *s)
{
	size_t run = 0;

	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		/* Long names in short. */
		run = c == 'n' ? run + 1 : 0;
		if (run > 3)
			continue;
		if (c <= ' ' || c >= 127 || c == '\\')
			printf("\\%03o", c);
		else
			putchar(c);
	}
}

static const char *errno_name(int e)
{
	return e ? strerrorname_np(e) : "ok";
}

/* Ends the line of an operation: @ret as system calls return it. */
static long done(long ret)
{
	int e = ret < 0 ? errno : 0;

	printf(" = %s", errno_name(e));
	if (ret > 0)
		printf(" %ld", ret);
	putchar('\n');
	errno = e;
	return ret;
}

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
	va_list ap;

	printf("%ld ", current);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
}

static void say_path(const char *path)
{
	putchar(' ');
	print_quoted(path);
}

/* Names and paths. */

static const char *long_name(void)
{
	static char name[256];

	memset(name, 'n', 255);
	return name;
}

static const char *random_name(void)
{
	static const char *const common[] = { "a", "b", "c", "d", "e", "f" };
	static const char *const odd[] = {
		"-x",
		".wh.a",
		".wh..wh..opq",
		"new\nline",
		"\xff\xfe",
		"sp ace",
		"\xc3\xa9\"'$()",
		"#1",
		"work",
		"esc\033[31m\r",
		"..c",
	};

	if (!once_in(6))
		return common[below(6)];
	if (once_in(12))
		return long_name();
	return odd[below(sizeof(odd) / sizeof(*odd))];
}

static void random_path(char path[PATH_MAX])
{
	unsigned int depth = 1 + below(4);

	if (depth > 3 && once_in(2))
		depth = 2;
	strcpy(path, random_name());
	while (--depth) {
		strcat(path, "/");
		strcat(path, random_name());
	}
}

enum want { ANY, THERE, DIRECTORY, REGULAR, MISSING };

/* One that suits, most of the time. */
static const char *pick_into(char *path, enum want want)
{
	for (int i = 0; i < 24; i++) {
		struct stat st;
		bool is_there;

		random_path(path);
		is_there = lstat(path, &st) == 0;
		if (want == ANY || (want == THERE && is_there) ||
		    (want == DIRECTORY && is_there && S_ISDIR(st.st_mode)) ||
		    (want == REGULAR && is_there && S_ISREG(st.st_mode)) ||
		    (want == MISSING && !is_there && errno == ENOENT))
			return path;
	}
	return path;
}

static const char *pick(enum want want)
{
	static char path[PATH_MAX];

	return pick_into(path, want);
}

static const char *pick_other(enum want want)
{
	static char path[PATH_MAX];

	return pick_into(path, want);
}

/* Values. */

static mode_t random_mode(bool of_dir)
{
	static const mode_t modes[] = { 0644, 0600, 0755, 0444, 0666,
					0,    0640, 0711, 0777, 0200 };
	mode_t m = modes[below(10)];

	if (of_dir && !once_in(8))
		m |= 0700;
	if (is_user)
		m |= 0700;
	if (once_in(6))
		m |= 01000u << below(3);
	return m;
}

static size_t random_data(char *buf, size_t max)
{
	size_t n = once_in(8) ? 1 + below((unsigned int)max) : 1 + below(300);

	if (n > max)
		n = max;
	for (size_t i = 0; i < n; i += 8) {
		uint64_t r = once_in(4) ? 0 : next_random();

		memcpy(buf + i, &r, n - i < 8 ? n - i : 8);
	}
	return n;
}

static off_t random_offset(void)
{
	switch (below(8)) {
	case 0:
		return (off_t)below(64) * 65536;
	case 1:
		return (off_t)below(4096) * 4096;
	case 2:
		return below(100000);
	default:
		return below(500);
	}
}

static const char *random_xattr(void)
{
	static const char *const names[] = {
		"user.a",
		"user.b",
		"user.overlay.origin",
		"user.overlay.opaque",
		"user.overlay.x",
		"user.overlayx",
		"trusted.t",
		"security.capability",
		"trusted.overlay.opaque",
	};

	/* An ordinary user's overlay hides these in the lower. */
	if (is_user && making_tree)
		return names[below(2)];
	if (once_in(3))
		return names[below(is_user ? 6
					   : sizeof(names) / sizeof(*names))];
	return names[below(2)];
}

/* struct posix_acl_xattr: user::, user:ID:, group::, mask::, other::. */
static size_t random_acl(char *buf)
{
	static const uint16_t tags[] = { 1, 2, 4, 0x10, 0x20 };
	size_t n = 4;

	memcpy(buf, &(uint32_t){ 2 }, 4);
	for (int i = 0; i < 5; i++) {
		uint16_t perm =
			(uint16_t)(below(8) | (is_user && i == 0 ? 7 : 0));
		uint32_t id = tags[i] == 2 ? getuid() : UINT32_MAX;

		memcpy(buf + n, &tags[i], 2);
		memcpy(buf + n + 2, &perm, 2);
		memcpy(buf + n + 4, &id, 4);
		n += 8;
	}
	return n;
}

static uint64_t hash_bytes(uint64_t h, const void *data, size_t n)
{
	const unsigned char *p = data;

	while (n--)
		h = (h ^ *p++) * 0x100000001b3;
	return h;
}

static void say_hash_of(int fd)
{
	uint64_t h = 0xcbf29ce484222325;
	static char buf[65536];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
		h = hash_bytes(h, buf, (size_t)n);
		at += n;
	}
	printf(" %016llx", (unsigned long long)h);
	done(n < 0 ? n : at);
}

/* Descriptors that stay open. */

static int slot_of(int *ret_i)
{
	*ret_i = (int)below(N_SLOTS);
	return slots[*ret_i];
}

/* In tier C a descriptor to read from stays with the file as it was then. */
static bool is_stale_later(int fd)
{
	struct stat st;

	return is_tier_c && fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode) &&
	       (fcntl(fd, F_GETFL) & (O_ACCMODE | O_PATH)) == O_RDONLY;
}

static void keep(int fd)
{
	int i = (int)below(N_SLOTS);

	if (fd < 0)
		return;
	if (is_stale_later(fd)) {
		close(fd);
		return;
	}
	if (slots[i] >= 0)
		close(slots[i]);
	slots[i] = fd;
}

static int note_dir(const char *path, const struct stat *st, int type,
		    struct FTW *ftw)
{
	(void)path;
	(void)ftw;
	if ((type == FTW_D || type == FTW_DNR) && n_old_dirs < MAX_OLD_DIRS)
		old_dirs[n_old_dirs++] = st->st_ino;
	return 0;
}

/* What the plain run said about this operation, or -1. */
static int next_hint(void)
{
	static long at = -1;
	static int slot;

	while (hints_in) {
		if (at < 0 && fscanf(hints_in, "%ld %d", &at, &slot) != 2)
			return -1;
		if (at > current)
			return -1;
		if (at == current) {
			at = -1;
			return slot;
		}
		at = -1;
	}
	return -1;
}

static bool is_old_dir(ino_t ino)
{
	for (size_t i = 0; i < n_old_dirs; i++)
		if (old_dirs[i] == ino)
			return true;
	return false;
}

/* Whether what the slot has open is at or below @top, now. */
static bool is_below(int fd, ino_t top)
{
	char link[64], at[PATH_MAX], *slash;
	struct stat st;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, at, sizeof(at) - 1);
	if (n < 0)
		return true;
	at[n] = '\0';
	while ((slash = strrchr(at, '/')) && slash > at) {
		if (stat(at, &st) == 0 && st.st_ino == top)
			return true;
		*slash = '\0';
	}
	return false;
}

/* Renamed directories that were there before: see the top. */
static void leave_behind(ino_t top)
{
	for (int i = 0; i < N_SLOTS; i++) {
		struct stat st;

		if (slots[i] < 0 || fstat(slots[i], &st) < 0 ||
		    !S_ISDIR(st.st_mode) || !is_below(slots[i], top))
			continue;
		fprintf(hints_out, "%ld %d\n", current, i);
		close(slots[i]);
		slots[i] = -1;
	}
}

static void after_rename(const struct stat *one, const struct stat *other)
{
	int slot;

	if (hints_out) {
		if (S_ISDIR(one->st_mode) && is_old_dir(one->st_ino))
			leave_behind(one->st_ino);
		if (S_ISDIR(other->st_mode) && is_old_dir(other->st_ino))
			leave_behind(other->st_ino);
	}
	while ((slot = next_hint()) >= 0) {
		close(slots[slot]);
		slots[slot] = -1;
	}
}

/*
 * A file of the lower that has no name any more cannot be copied up: what
 * would change it through a descriptor fails (EEXIST, or ENOENT in tier C).
 */
static bool is_out_of_reach(int fd, int i)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (hints_in)
		return next_hint() == i;
	if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY ||
	    fstat(fd, &st) < 0 || st.st_nlink > 0)
		return false;
	fprintf(hints_out, "%ld %d\n", current, i);
	return true;
}

static int rename_at(int from_fd, const char *from, int to_fd, const char *to,
		     unsigned int flags)
{
	struct stat one = { 0 }, other = { 0 };
	int r;

	if (flags & RENAME_WHITEOUT) {
		errno = EINVAL;
		return -1;
	}
	(void)fstatat(from_fd, from, &one, AT_SYMLINK_NOFOLLOW);
	if (flags & RENAME_EXCHANGE)
		(void)fstatat(to_fd, to, &other, AT_SYMLINK_NOFOLLOW);
	r = renameat2(from_fd, from, to_fd, to, flags);
	if (r == 0)
		after_rename(&one, &other);
	return r;
}

static unsigned int random_rename_flags(void)
{
	static const unsigned int flags[] = { 0,
					      0,
					      0,
					      RENAME_NOREPLACE,
					      RENAME_EXCHANGE,
					      RENAME_EXCHANGE,
					      RENAME_WHITEOUT,
					      RENAME_NOREPLACE |
						      RENAME_EXCHANGE };

	return flags[below(once_in(4) ? 8 : 6)];
}

#endif
