#include "supervise/interpreter.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
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

static int take_line(char *line, char ret[PATH_MAX])
{
	char *path = line + 2 + strspn(line + 2, " \t");

	path[strcspn(path, " \t\n")] = '\0';
	path_copy(ret, path);
	return *path ? INTERPRETER_OF_SCRIPT : INTERPRETER_NONE;
}

static int take_elf(int fd, const Elf64_Ehdr *h, char ret[PATH_MAX])
{
	Elf64_Phdr p;
	ssize_t n;

	if (h->e_phentsize != sizeof(p) ||
	    h->e_phnum > HEADERS_BYTES / sizeof(p))
		return 0;
	for (unsigned int i = 0; i < h->e_phnum; i++) {
		n = pread(fd, &p, sizeof(p),
			  (off_t)(h->e_phoff + i * sizeof(p)));
		if (n != (ssize_t)sizeof(p))
			return n < 0 ? -errno : 0;
		if (p.p_type != PT_INTERP)
			continue;
		if (p.p_filesz < 2 || p.p_filesz > PATH_MAX)
			return 0;
		n = pread(fd, ret, p.p_filesz, (off_t)p.p_offset);
		if (n != (ssize_t)p.p_filesz || ret[n - 1])
			return n < 0 ? -errno : 0;
		return INTERPRETER_OF_ELF;
	}
	return INTERPRETER_NONE;
}

int interpreter_read(int fd, char ret[PATH_MAX])
{
	union {
		char line[LINE_BYTES + 1];
		Elf64_Ehdr elf;
	} u;
	ssize_t n = pread(fd, &u, LINE_BYTES, 0);

	if (n < 0)
		return -errno;
	u.line[n] = '\0';
	if (n > 2 && memcmp(u.line, "#!", 2) == 0)
		return take_line(u.line, ret);
	if (n >= (ssize_t)sizeof(u.elf) && memcmp(u.line, ELFMAG, SELFMAG) == 0)
		return take_elf(fd, &u.elf, ret);
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

size_t interpreters_scripts(const struct interpreters *i)
{
	return i->n - (i->has_loader ? 1 : 0);
}

const char *interpreters_shown(const struct interpreters *i)
{
	size_t n = interpreters_scripts(i);
	const struct object *o = n ? &i->v[n - 1] : NULL;

	return o ? (o->real ? o->real : o->path) : NULL;
}
