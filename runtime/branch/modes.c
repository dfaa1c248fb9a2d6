#include "branch/modes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "branch/internal.h"
#include "branch/layers.h"
#include "branch/links.h"
#include "branch/publish.h"
#include "branch/walk.h"

enum { NOTES_MAX = 500 * 1000 }; /* what meta.json can hold */

/* To read, to list, and to move what is in a directory. */
static mode_t wanted(mode_t mode)
{
	return S_ISDIR(mode) ? S_IRWXU : S_ISREG(mode) ? S_IRUSR : 0;
}

bool modes_keep_out(const struct stat *st)
{
	mode_t want = wanted(st->st_mode);

	return (st->st_mode & want) != want && geteuid() != 0 &&
	       st->st_uid == geteuid();
}

const struct branch_record *modes_find(const struct branch_meta *m,
				       const char *path, uint64_t ino)
{
	const struct branch_record *r =
		m->n_modes ? record_find(m->modes, m->n_modes, path) : NULL;

	return r && r->ino == ino ? r : NULL;
}

void modes_tell(const struct branch_meta *m, const char *path, struct stat *st)
{
	const struct branch_record *r = modes_find(m, path, st->st_ino);

	if (r)
		st->st_mode = r->mode;
}

/* ------------------------------------------------------------- changing -- */

int modes_let_in(int fd)
{
	char path[FD_PATH_MAX];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!modes_keep_out(&st))
		return 0;
	branch_step("open mode");
	return chmod(fd_proc_path(fd, path),
		     (st.st_mode & 07777) | wanted(st.st_mode)) < 0
		       ? -errno
		       : 0;
}

/* @ino 0: whatever it is. Nothing needs to be allowed but to get there. */
static int set_mode(int dirfd, const char *name, uint64_t ino, bool open,
		    mode_t mode)
{
	char path[FD_PATH_MAX];
	auto_close int fd = -1;
	struct stat st;

	if (name[0]) {
		fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return errno == ENOENT ? 0 : -errno;
		dirfd = fd;
	}
	if (fstat(dirfd, &st) < 0)
		return -errno;
	if ((ino && st.st_ino != ino) ||
	    (st.st_mode & S_IFMT) != (mode & S_IFMT))
		return 0;
	if (open)
		mode |= wanted(mode) | S_IWUSR;
	branch_step(open ? "open mode" : "mode");
	return chmod(fd_proc_path(dirfd, path), mode & 07777) < 0 ? -errno : 0;
}

/* @rest of a noted path, below @root_fd. */
static int change(int root_fd, const char *rest, const struct branch_record *r,
		  bool open, bool copy)
{
	auto_close int dirfd = -1;
	const char *name;
	int n;

	if (!rest[0])
		return set_mode(root_fd, "", copy ? 0 : r->ino, open, r->mode);
	n = walk_lookup(root_fd, rest, &dirfd, &name);
	/* What is closed was left last, so what is in it is closed, too. */
	if (n == -ENOENT || n == -ENOTDIR || n == -ELOOP || n == -EACCES)
		return 0;
	return n < 0 ? n
		     : set_mode(dirfd, name, copy ? 0 : r->ino, open, r->mode);
}

/* Of a path that is @top, or below it: what comes after it. */
static const char *below(const char *top, const char *path)
{
	size_t n = strlen(top);

	if (n == 0)
		return path;
	if (strncmp(top, path, n) != 0 || (path[n] && path[n] != '/'))
		return NULL;
	return path[n] ? path + n + 1 : path + n;
}

/* Opened from the top down, closed from the bottom up. */
static int change_all(const struct branch *b, const char *top, int root_fd,
		      bool open, bool copy)
{
	const struct branch_meta *m = &b->meta;
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->n_modes; i++) {
		const struct branch_record *at =
			&m->modes[open ? i : m->n_modes - 1 - i];
		const char *rest = below(top, at->path);

		if (rest)
			r = change(root_fd, rest, at, open, copy);
	}
	return r;
}

int modes_close(const struct branch *b, int root_fd)
{
	return change_all(b, "", root_fd, false, false);
}

int modes_reopen(const struct branch *b, int root_fd)
{
	return change_all(b, "", root_fd, true, false);
}

static int change_copy(const struct branch *b, const char *path, int dirfd,
		       const char *name, bool open)
{
	auto_close int fd = -1;

	if (b->meta.n_modes == 0)
		return 0;
	fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : change_all(b, path, fd, open, true);
}

int modes_close_copy(const struct branch *b, const char *path, int dirfd,
		     const char *name)
{
	return change_copy(b, path, dirfd, name, false);
}

int modes_reopen_copy(const struct branch *b, const char *path, int dirfd,
		      const char *name)
{
	return change_copy(b, path, dirfd, name, true);
}

/* -------------------------------------------------------------- opening -- */

/*
 * In rounds: what a round meets is noted, put on disk, and opened; the next one
 * goes into the directories among it.
 */
struct round {
	struct branch *branch;
	int root_fd;   /* of the upper that is looked into */
	bool is_older; /* an earlier stage's */
	/* What was noted: a file is open by its other names, too. */
	struct link_table *links;
	struct paths {
		char **v;
		size_t n;
	} tops, met;
	struct buf path;
};

static void paths_done(struct paths *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->v[i]);
	free(p->v);
	*p = (struct paths){ .n = 0 };
}

static void round_done(struct round *r)
{
	paths_done(&r->tops);
	paths_done(&r->met);
	buf_done(&r->path);
	links_free(r->links);
}

static int add_path(struct paths *p, const char *path)
{
	char **grown = p->v;

	/* In powers of two. */
	if ((p->n & (p->n - 1)) == 0)
		grown = reallocarray(p->v, p->n ? 2 * p->n : 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	p->v = grown;
	grown[p->n] = strdup(path);
	return grown[p->n] ? (int)(p->n++, 0) : -ENOMEM;
}

static int remember(struct round *r, const struct stat *st, const char *path)
{
	if (S_ISDIR(st->st_mode) || links_find(r->links, st->st_ino))
		return 0;
	return links_add(r->links, st->st_ino, 0, path) ? 0 : -ENOMEM;
}

/* Another name of what was opened by now. */
static bool was_open(const struct round *r, struct stat *st)
{
	const struct branch_meta *m = &r->branch->meta;
	const struct link *l = S_ISDIR(st->st_mode) || st->st_nlink < 2
				       ? NULL
				       : links_find(r->links, st->st_ino);

	if (l)
		modes_tell(m, l->path, st);
	return l;
}

static int let_in_at(int dirfd, const char *name)
{
	auto_close int fd =
		openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : modes_let_in(fd);
}

static int note(struct round *r, const struct walk_entry *e,
		const struct stat *st, const char *path)
{
	struct branch_meta *m = &r->branch->meta;
	int n;

	/* A newer one is there instead, and this one goes with its layer. */
	if (r->is_older && record_find(m->modes, m->n_modes, path)) {
		n = let_in_at(e->upper_dirfd, e->name);
		return n < 0 ? n : add_path(&r->met, path);
	}
	if (m->n_modes >= NOTES_MAX)
		return -E2BIG;
	n = record_put(&m->modes, &m->n_modes, path, st);
	if (n == 0)
		n = remember(r, st, path);
	return n < 0 ? n : add_path(&r->met, path);
}

/* 1 if it keeps us out, and is noted. */
static int meet(struct round *r, const char *top, const struct walk_entry *e)
{
	int flags = AT_SYMLINK_NOFOLLOW | (e->name[0] ? 0 : AT_EMPTY_PATH);
	struct stat st;
	bool shut;
	int n;

	if (fstatat(e->upper_dirfd, e->name, &st, flags) < 0)
		return -errno;
	shut = modes_keep_out(&st);
	if (!shut && !was_open(r, &st))
		return 0;
	buf_clear(&r->path);
	buf_printf(&r->path, "%s%s%s", top, *top && e->path_len ? "/" : "",
		   e->path);
	if (buf_failed(&r->path))
		return -ENOMEM;
	if (!shut && modes_find(&r->branch->meta, buf_str(&r->path), st.st_ino))
		return 0;
	n = note(r, e, &st, buf_str(&r->path));
	return n < 0 ? n : 1;
}

static int open_top(int root_fd, const char *top, int *ret_fd)
{
	auto_close int dirfd = -1;
	const char *name;
	int r;

	if (!*top) {
		*ret_fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 3);
		return *ret_fd < 0 ? -errno : 0;
	}
	r = walk_lookup(root_fd, top, &dirfd, &name);
	if (r < 0)
		return r;
	*ret_fd = openat(dirfd, name,
			 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* A file. */
	return *ret_fd < 0 && errno != ENOTDIR ? -errno : 0;
}

static int walk_top(struct round *r, const char *top, struct error *err)
{
	auto_(walk) struct walk w = { .depth = 0 };
	auto_close int fd = -1;
	struct walk_entry *e;
	int n = open_top(r->root_fd, top, &fd);

	if (n < 0 || fd < 0)
		return n;
	/* No attribute is asked for: that takes the right to read. */
	n = walk_init(&w, fd, -1, "-", err);
	while (n == 0 && (n = walk_next(&w, &e, err)) == 1) {
		n = e->leaving ? 1 : meet(r, top, e);
		if (n == 0 && S_ISDIR(e->upper.mode))
			n = walk_enter(&w, WALK_NEW, WALK_NO_TAG, err);
		if (n < 0)
			return n;
		n = 0;
	}
	return n;
}

static int open_met(struct round *r)
{
	const struct branch_meta *m = &r->branch->meta;

	for (size_t i = 0; i < r->met.n; i++) {
		const struct branch_record *at =
			record_find(m->modes, m->n_modes, r->met.v[i]);
		int n = change(r->root_fd, at->path, at, true, false);

		if (n < 0)
			return n;
	}
	return 0;
}

/* 1 if there may be more. */
static int run_round(struct round *r, struct error *err)
{
	int n = 0;

	for (size_t i = 0; n == 0 && i < r->tops.n; i++)
		n = walk_top(r, r->tops.v[i], err);
	if (n < 0 || r->met.n == 0)
		return n;
	n = branch_save(r->branch, true, err);
	if (n == 0)
		n = open_met(r);
	paths_done(&r->tops);
	r->tops = r->met;
	r->met = (struct paths){ .n = 0 };
	return n < 0 ? n : 1;
}

/* Of the root only an O_PATH fd could be had. */
static int open_root(struct branch *b, struct error *err)
{
	struct branch_meta *m = &b->meta;
	struct stat st;
	int r;

	if (fstat(b->upper_fd, &st) < 0)
		return -errno;
	if (!modes_keep_out(&st))
		return 0;
	r = record_put(&m->modes, &m->n_modes, "", &st);
	if (r == 0)
		r = branch_save(b, true, err);
	if (r == 0)
		r = modes_let_in(b->upper_fd);
	if (r < 0)
		return r;
	cleanup_close(&b->upper_fd);
	b->upper_fd = openat(b->dir_fd, "upper",
			     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return b->upper_fd < 0 ? -errno : 0;
}

/* What was noted before we were killed. */
static int recall(struct round *r)
{
	const struct branch_meta *m = &r->branch->meta;

	r->links = links_new();
	if (!r->links)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_modes; i++) {
		const struct stat st = { .st_ino = m->modes[i].ino,
					 .st_mode = m->modes[i].mode };

		if (remember(r, &st, m->modes[i].path) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int open_in(struct round *r, int root_fd, struct error *err)
{
	int n;

	r->root_fd = root_fd;
	paths_done(&r->tops);
	n = add_path(&r->tops, "");
	if (n == 0)
		do
			n = run_round(r, err);
		while (n == 1);
	return n;
}

/* Their roots are not to stay, whatever their modes are. */
static int open_layers(struct round *r, struct error *err)
{
	struct branch *b = r->branch;
	int n = 0;

	for (size_t i = 0; n == 0 && i < b->n_layers; i++)
		n = modes_let_in(b->layers[i].fd);
	if (n == 0 && b->n_layers > 0)
		n = layers_open(b);
	r->is_older = true;
	for (size_t i = b->n_layers; n == 0 && i > 0; i--)
		n = open_in(r, b->layers[i - 1].fd, err);
	return n;
}

int modes_open(struct branch *b, struct error *err)
{
	auto_(round) struct round r = { .branch = b, .path = BUF_INIT };
	int n;

	if (b->upper_fd < 0 || geteuid() == 0)
		return 0;
	n = recall(&r);
	if (n == 0)
		n = open_root(b, err);
	if (n == 0)
		n = open_in(&r, b->upper_fd, err);
	if (n == 0)
		n = open_layers(&r, err);
	if (n < 0 && err && err->kind == ERR_NONE)
		return error_set(err, ERR_SYSTEM, -n,
				 "cannot open what the modes in '%s' keep "
				 "closed",
				 b->upper);
	return n;
}
