/*
 * snap: prints every object below a directory, one line each, so that two
 * trees can be compared with cmp(1).
 *
 *	snap [-t] [-i] [-x PATH]... DIR
 *
 * type mode uid gid size digest rdev mtime hardlink-group path -> target
 * {xattrs}. Attributes of the overlay are left out. -t adds trusted.*
 * attributes, -i inode numbers, -x leaves out a path (relative to DIR) and what
 * is below. Static, and free of /proc, so that it runs inside a sandbox too.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <sha256.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

struct link_group {
	dev_t dev;
	ino_t ino;
	char *first;
};

static bool want_trusted, want_ino;
static const char *excluded[64];
static size_t n_excluded;
static struct link_group *groups;
static size_t n_groups;

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_excluded(const char *path)
{
	for (size_t i = 0; i < n_excluded; i++)
		if (!strcmp(path, excluded[i]))
			return true;
	return false;
}

static void print_quoted(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c <= ' ' || c >= 127 || c == '\\')
			printf("\\%03o", c);
		else
			putchar(c);
	}
}

static void print_digest(const char *name, off_t size)
{
	char buf[1 << 16], hex[SHA256_DIGEST_STRING_LENGTH];
	int fd = open(name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOATIME);
	SHA2_CTX ctx;
	ssize_t n;

	(void)size;
	if (fd < 0)
		fd = open(name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		printf(" unreadable");
		return;
	}
	SHA256Init(&ctx);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		SHA256Update(&ctx, (uint8_t *)buf, (size_t)n);
	close(fd);
	printf(" %.32s", n < 0 ? "error" : SHA256End(&ctx, hex));
}

static bool is_wanted_xattr(const char *name)
{
	if (!strncmp(name, "trusted.overlay.", 16) ||
	    !strncmp(name, "user.overlay.", 13))
		return false;
	return want_trusted || strncmp(name, "trusted.", 8) != 0;
}

static void print_xattrs(const char *name)
{
	static char list[1 << 16], value[1 << 16];
	ssize_t len = llistxattr(name, list, sizeof(list));
	char *names[1024];
	size_t n = 0;

	for (ssize_t i = 0; i < len && n < 1024;
	     i += (ssize_t)strlen(list + i) + 1)
		if (is_wanted_xattr(list + i))
			names[n++] = list + i;
	if (!n)
		return;
	qsort(names, n, sizeof(*names), by_name);
	printf(" {");
	for (size_t i = 0; i < n; i++) {
		ssize_t vlen = lgetxattr(name, names[i], value, sizeof(value));

		printf("%s%s=", i ? " " : "", names[i]);
		if (vlen >= 0)
			print_quoted(value, (size_t)vlen);
	}
	printf("}");
}

/* The first name (in the order of the walk) of a file with several. */
static const char *link_group(const struct stat *st, const char *path)
{
	if (S_ISDIR(st->st_mode) || st->st_nlink < 2)
		return "-";
	for (size_t i = 0; i < n_groups; i++)
		if (groups[i].dev == st->st_dev && groups[i].ino == st->st_ino)
			return groups[i].first;
	groups = realloc(groups, (n_groups + 1) * sizeof(*groups));
	if (!groups)
		err(1, "realloc");
	groups[n_groups++] =
		(struct link_group){ st->st_dev, st->st_ino, strdup(path) };
	return "-";
}

static void print_object(const char *name, const char *path,
			 const struct stat *st)
{
	static const char types[] = "?pc?d?b?-?l?s???";
	const char *group;
	char target[4096];
	ssize_t n;

	printf("%c %04o %u %u", types[(st->st_mode >> 12) & 15],
	       st->st_mode & 07777, st->st_uid, st->st_gid);
	if (S_ISREG(st->st_mode)) {
		printf(" %lld", (long long)st->st_size);
		print_digest(name, st->st_size);
	} else if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode)) {
		printf(" %u:%u -", major(st->st_rdev), minor(st->st_rdev));
	} else {
		printf(" - -");
	}
	printf(" %lld.%09ld", (long long)st->st_mtim.tv_sec,
	       st->st_mtim.tv_nsec);
	if (want_ino)
		printf(" #%llu", (unsigned long long)st->st_ino);
	group = link_group(st, path);
	printf(" =");
	print_quoted(group, strlen(group));
	putchar(' ');
	print_quoted(path, strlen(path));
	if (S_ISLNK(st->st_mode)) {
		n = readlink(name, target, sizeof(target));
		printf(" -> ");
		print_quoted(target, n < 0 ? 0 : (size_t)n);
	}
	print_xattrs(name);
	putchar('\n');
}

static char **read_names(int fd, size_t *ret_n)
{
	int dup_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = dup_fd < 0 ? NULL : fdopendir(dup_fd);
	char **names = NULL;
	struct dirent *d;
	size_t n = 0;

	while (dir && (d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		if (!(n & (n + 1)) || !names)
			names = realloc(names, (2 * n + 2) * sizeof(*names));
		if (!names || !(names[n++] = strdup(d->d_name)))
			err(1, "out of memory");
	}
	if (dir)
		closedir(dir);
	if (n)
		qsort(names, n, sizeof(*names), by_name);
	*ret_n = n;
	return names;
}

/* The working directory is the directory itself, at entry and at exit. */
static void walk(int fd, const char *path)
{
	size_t n;
	char **names = read_names(fd, &n);

	for (size_t i = 0; i < n; i++) {
		struct stat st;
		char *sub;
		int sub_fd;

		if (asprintf(&sub, "%s%s%s", path, *path ? "/" : "", names[i]) <
		    0)
			err(1, "out of memory");
		if (is_excluded(sub))
			goto next;
		if (lstat(names[i], &st) < 0) {
			printf("! %s ", strerror(errno));
			print_quoted(sub, strlen(sub));
			putchar('\n');
			goto next;
		}
		print_object(names[i], sub, &st);
		if (!S_ISDIR(st.st_mode))
			goto next;
		sub_fd = open(names[i],
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (sub_fd < 0 || fchdir(sub_fd) < 0) {
			printf("! unreadable %s\n", sub);
		} else {
			walk(sub_fd, sub);
			if (fchdir(fd) < 0)
				err(1, "fchdir");
		}
		if (sub_fd >= 0)
			close(sub_fd);
	next:
		free(sub);
		free(names[i]);
	}
	free(names);
}

int main(int argc, char **argv)
{
	struct rlimit lim;
	struct stat st;
	int c, fd;

	while ((c = getopt(argc, argv, "tix:")) != -1) {
		if (c == 't')
			want_trusted = true;
		else if (c == 'i')
			want_ino = true;
		else if (c == 'x' && n_excluded < 64)
			excluded[n_excluded++] = optarg;
		else
			return 2;
	}
	if (optind != argc - 1)
		errx(2, "usage: snap [-t] [-i] [-x PATH]... DIR");
	if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
		lim.rlim_cur = lim.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &lim);
	}
	fd = open(argv[optind], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fchdir(fd) < 0 || fstat(fd, &st) < 0)
		err(1, "%s", argv[optind]);
	if (!is_excluded(""))
		print_object(".", ".", &st);
	walk(fd, "");
	return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
