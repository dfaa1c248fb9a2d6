#include "supervise/interpreter.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "supervise/ask.h"
#include "supervise/internal.h"
#include "supervise/who.h"

enum {
	LINE_BYTES = 256, /* BINPRM_BUF_SIZE */
	HEADERS_BYTES = 65536,
};

union head {
	char line[LINE_BYTES + 1];
	Elf32_Ehdr elf32;
	Elf64_Ehdr elf64;
};

static int take_line(char *line, char ret[PATH_MAX])
{
	char *path = line + 2 + strspn(line + 2, " \t");

	path[strcspn(path, " \t\n")] = '\0';
	path_copy(ret, path);
	return *path ? INTERPRETER_OF_SCRIPT : INTERPRETER_NONE;
}

/* Of either class, the numbers that matter. */
struct elf {
	uint64_t phoff;
	unsigned int phentsize, phnum;
	bool is_32;
};

struct segment {
	uint32_t type;
	uint64_t offset, size;
};

static bool has_table(const struct elf *e, size_t size)
{
	return e->phentsize == size && e->phnum &&
	       e->phnum <= HEADERS_BYTES / size;
}

/*
 * The kernel goes by the machine, and tries both classes where it has programs
 * of both, but not by what the file says of its class. Nor do we: 1, 0 if there
 * is no table, or -EINVAL where it could be read as either.
 */
static int read_header(const union head *h, struct elf *ret)
{
	const struct elf of_32 = { h->elf32.e_phoff, h->elf32.e_phentsize,
				   h->elf32.e_phnum, true };
	const struct elf of_64 = { h->elf64.e_phoff, h->elf64.e_phentsize,
				   h->elf64.e_phnum, false };
	bool is_32 = has_table(&of_32, sizeof(Elf32_Phdr));
	bool is_64 = has_table(&of_64, sizeof(Elf64_Phdr));

	if (is_32 && is_64)
		return -EINVAL;
	*ret = is_32 ? of_32 : of_64;
	return is_32 || is_64;
}

/* 1, 0 where the file ends before it, or a negative errno. */
static int read_segment(int fd, const struct elf *e, unsigned int i,
			struct segment *ret)
{
	union {
		Elf32_Phdr p32;
		Elf64_Phdr p64;
	} u;
	ssize_t n = pread(fd, &u, e->phentsize,
			  (off_t)(e->phoff + i * e->phentsize));

	if (n != (ssize_t)e->phentsize)
		return n < 0 ? -errno : 0;
	if (e->is_32)
		*ret = (struct segment){ u.p32.p_type, u.p32.p_offset,
					 u.p32.p_filesz };
	else
		*ret = (struct segment){ u.p64.p_type, u.p64.p_offset,
					 u.p64.p_filesz };
	return 1;
}

static int take_elf(int fd, const union head *h, char ret[PATH_MAX])
{
	struct segment s;
	struct elf e;
	ssize_t n;
	int r;

	r = read_header(h, &e);
	if (r <= 0)
		return r;
	for (unsigned int i = 0; i < e.phnum; i++) {
		r = read_segment(fd, &e, i, &s);
		if (r <= 0)
			return r;
		if (s.type != PT_INTERP)
			continue;
		if (s.size < 2 || s.size > PATH_MAX)
			return INTERPRETER_NONE;
		n = pread(fd, ret, s.size, (off_t)s.offset);
		if (n != (ssize_t)s.size || ret[n - 1])
			return n < 0 ? -errno : INTERPRETER_NONE;
		return INTERPRETER_OF_ELF;
	}
	return INTERPRETER_NONE;
}

int interpreter_read(int fd, char ret[PATH_MAX])
{
	union head u;
	ssize_t n = pread(fd, &u, LINE_BYTES, 0);

	if (n < 0)
		return -errno;
	u.line[n] = '\0';
	if (n > 2 && memcmp(u.line, "#!", 2) == 0)
		return take_line(u.line, ret);
	/* However short it is: what is missing of the header is 0. */
	if (n >= SELFMAG && memcmp(u.line, ELFMAG, SELFMAG) == 0) {
		memset(u.line + n, 0, sizeof(u.line) - (size_t)n);
		return take_elf(fd, &u, ret);
	}
	return INTERPRETER_NONE;
}

static int open_link(const char *link)
{
	int fd = open(link, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* What is meant by a number of the caller's, which its path does not tell. */
static int open_by_number(struct call *c, int root_fd, const char *path)
{
	static const char self[] = "/proc/self/";
	const char *rest = path + sizeof(self) - 1;
	auto_close int proc_fd = -1;
	char link[64];
	struct statfs fs;

	proc_fd = fd_open_in_root(root_fd, "/proc", O_PATH | O_DIRECTORY, 0);
	if (strncmp(path, self, sizeof(self) - 1) != 0 || proc_fd < 0 ||
	    fstatfs(proc_fd, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC ||
	    (strcmp(rest, "exe") != 0 && strncmp(rest, "fd/", 3) != 0) ||
	    strchr(rest + 3, '/'))
		return -EACCES;
	(void)snprintf(link, sizeof(link), "/proc/%d/%.40s", (int)call_tid(c),
		       rest);
	return open_link(link);
}

static int open_object(const struct asker *a, struct call *c, int root_fd,
		       const struct object *o)
{
	const struct object_finder *f = a->finder;

	if (o->walk)
		return fd_open_in_root(root_fd, o->walk, O_RDONLY | O_NONBLOCK,
				       0);
	return f ? f->open(f->data, c, o) : -EACCES;
}

static int open_program(const struct asker *a, struct call *c, int root_fd,
			const char *path, const struct object *o)
{
	int fd = -EACCES;
	char link[64];

	if (call_nr(c) == SYS_execveat && !*path) {
		(void)snprintf(link, sizeof(link), "/proc/%d/fd/%d",
			       (int)call_tid(c), (int)call_arg(c, 0));
		return open_link(link);
	}
	if (o->exists)
		fd = open_object(a, c, root_fd, o);
	return fd >= 0 ? fd : open_by_number(c, root_fd, path);
}

/* True while there may be one more: *@fd is what is looked into. */
static int next(const struct asker *a, struct call *c, int root_fd, int *fd,
		struct interpreters *ret)
{
	struct object *o = &ret->v[ret->n];
	char path[PATH_MAX];
	int kind = interpreter_read(*fd, path), r;

	if (kind <= 0)
		return kind;
	if (ret->n == INTERPRETERS_MAX)
		return 0;
	r = ask_find_object(a, c, AT_FDCWD, 0, path, true, o);
	if (r < 0) {
		object_done(o);
		return r;
	}
	ret->n++;
	ret->has_loader = kind == INTERPRETER_OF_ELF;
	/* If it is missing the kernel says so. */
	if (ret->has_loader || o->is_missing || (!o->exists && o->real))
		return 0;
	cleanup_close(fd);
	*fd = o->exists ? open_object(a, c, root_fd, o) : -EACCES;
	return *fd < 0 ? *fd : 1;
}

/* Is the caller who we are, in the same user namespace? */
static bool is_one_of_us(struct call *c)
{
	auto_free struct who *w = malloc(sizeof(*w));
	struct stat ours, its;
	char link[64];

	(void)snprintf(link, sizeof(link), "/proc/%d/ns/user",
		       (int)call_tid(c));
	return w && who_read(call_tid(c), w) == 0 && w->uid == geteuid() &&
	       stat("/proc/self/ns/user", &ours) == 0 &&
	       stat(link, &its) == 0 && ours.st_dev == its.st_dev &&
	       ours.st_ino == its.st_ino;
}

/*
 * Below a directory that we may not search, and so the caller may not, nor
 * change that, for it is somebody else's: a search of $PATH goes on after the
 * kernel's EACCES.
 */
static bool is_kept_from_both(struct call *c, int root_fd,
			      const struct object *o)
{
	auto_close int dir_fd = -1;
	struct stat st;
	size_t len;
	int why;

	if (o->exists || o->real || o->is_veiled || !o->path)
		return false;
	dir_fd = fd_open_deepest(root_fd, o->path, &len, &why);
	return dir_fd >= 0 && why == -EACCES && fstat(dir_fd, &st) == 0 &&
	       st.st_uid != geteuid() && is_one_of_us(c);
}

int interpreters_find(const struct asker *a, struct call *c, const char *path,
		      const struct object *o, struct interpreters *ret)
{
	auto_close int root_fd = call_open_root(c);
	auto_close int fd = -1;
	int r = 1;

	*ret = (struct interpreters){ .n = 0 };
	if (root_fd < 0)
		return root_fd == -ENOMEM ? -ENOMEM : -ESRCH;
	/* What the kernel will say. */
	if (o->exists ? *path && !S_ISREG(o->st.st_mode)
		      : *path && (o->real || o->is_missing ||
				  is_kept_from_both(c, root_fd, o)))
		return 0;
	fd = open_program(a, c, root_fd, path, o);
	if (fd < 0)
		r = fd;
	while (r > 0)
		r = next(a, c, root_fd, &fd, ret);
	if (r == -ENOMEM || r == -ESRCH)
		return r;
	ret->is_unknown = r < 0;
	return call_is_valid(c) ? 0 : -ESRCH;
}

void interpreters_done(struct interpreters *i)
{
	while (i->n > 0)
		object_done(&i->v[--i->n]);
}

bool interpreters_are_unchanged(const struct interpreters *a,
				const struct interpreters *b)
{
	if (a->n != b->n || a->is_unknown != b->is_unknown ||
	    a->has_loader != b->has_loader)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!object_is_unchanged(&a->v[i], &b->v[i]))
			return false;
	return true;
}

/* ld-linux-x86-64.so.2, ld.so.1, ld64.so.2, and what musl's is a link to. */
static bool is_loader_by_name(const struct object *o)
{
	static const char *const patterns[] = { "ld-*.so*", "ld.so*",
						"ld64.so*", "libc.so" };
	const char *path = o->real ? o->real : o->path;
	const char *slash = path ? strrchr(path, '/') : NULL;
	const char *name = slash ? slash + 1 : path;

	for (size_t i = 0; name && i < ARRAY_LEN(patterns); i++)
		if (fnmatch(patterns[i], name, 0) == 0)
			return true;
	return false;
}

size_t interpreters_asked(const struct interpreters *i)
{
	bool is_usual = i->has_loader && is_loader_by_name(&i->v[i->n - 1]);

	return i->n - (is_usual ? 1 : 0);
}

const char *interpreters_shown(const struct interpreters *i)
{
	size_t n = interpreters_asked(i);
	const struct object *o = n ? &i->v[n - 1] : NULL;

	return o ? (o->real ? o->real : o->path) : NULL;
}
