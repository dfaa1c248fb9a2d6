#include "branch/layers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/uapi.h"
#include "branch/internal.h"
#include "branch/modes.h"
#include "branch/movable.h"
#include "branch/publish.h"
#include "branch/walk.h"

enum {
	LAYERS_MAX = 200, /* an overlay has 500 */
	DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
};
static const char fresh[] = "new";

/* A mode that the caller may not read: as root of the user namespace. */
static int open_dir(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, DIR_FLAGS);

	if (fd < 0 && errno == EACCES)
		fd = openat(dir_fd, name, DIR_FLAGS | O_PATH);
	return fd < 0 ? -errno : fd;
}

static uint64_t inode_of(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0
								   : st.st_ino;
}

/* --------------------------------------------------------------- reading -- */

static int add_layer(struct branch *b, const struct saved_layer *l)
{
	struct saved_layer *v =
		realloc(b->layers, (b->n_layers + 1) * sizeof(*v));
	size_t i = b->n_layers;

	if (!v)
		return -ENOMEM;
	b->layers = v;
	for (; i > 0 && v[i - 1].number > l->number; i--)
		v[i] = v[i - 1];
	v[i] = *l;
	b->n_layers++;
	return 0;
}

static int read_layer(struct branch *b, const char *name)
{
	struct saved_layer l = { .fd = -1 };
	uint64_t ino;
	int end = 0, r;

	if (strlen(name) >= sizeof(l.name) ||
	    sscanf(name, "%zu.%" SCNu64 "%n", &l.number, &ino, &end) != 2 ||
	    name[end] || inode_of(b->layers_fd, name) != ino)
		return 0;
	memcpy(l.name, name, strlen(name) + 1);
	l.fd = open_dir(b->layers_fd, name);
	r = l.fd < 0 ? l.fd : add_layer(b, &l);
	if (r < 0)
		cleanup_close(&l.fd);
	return r;
}

int layers_open(struct branch *b)
{
	auto_close int fd = -1;
	auto_dir DIR *dir = NULL;
	int r = 0;

	layers_close(b);
	b->layers_fd = openat(b->dir_fd, "layers", DIR_FLAGS);
	if (b->layers_fd < 0)
		return errno == ENOENT ? 0 : -errno;
	fd = openat(b->layers_fd, ".", DIR_FLAGS);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return -errno;
	(void)take_fd(&fd);
	for (struct dirent *d = readdir(dir); d && r == 0; d = readdir(dir))
		r = read_layer(b, d->d_name);
	return r;
}

void layers_close(struct branch *b)
{
	for (size_t i = 0; i < b->n_layers; i++)
		(void)close(b->layers[i].fd);
	free(take_ptr(&b->layers));
	b->n_layers = 0;
	cleanup_close(&b->layers_fd);
	b->layers_fd = -1;
}

char *layers_path(const struct branch *b, size_t i)
{
	auto_free char *dir = path_join(b->dir, "layers");

	return dir ? path_join(dir, b->layers[i].name) : NULL;
}

int layers_walk(struct walk *w, const struct branch *b, struct error *err)
{
	int r = walk_init(w, b->upper_fd, b->lower_fd, branch_xattr_prefix(b),
			  err);

	w->noted = &b->meta;
	for (size_t i = b->n_layers; r == 0 && i > 0; i--)
		if (walk_add_upper(w, b->layers[i - 1].fd) < 0)
			r = error_set(err, ERR_SYSTEM, ENOMEM, "cannot walk");
	return r;
}

/* In one upper: 1, 0 if it has nothing there, -ENOENT if it hides the rest. */
static int look_in(const struct branch *b, int upper_fd, const char *path,
		   int *ret_dirfd, const char **ret_name)
{
	auto_close int fd =
		openat(upper_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	bool opaque = false;

	if (fd < 0)
		return -errno;
	for (;;) {
		size_t n = strcspn(path, "/");
		auto_free char *name = strndup(path, n);
		struct object o;
		int r = name ? object_stat(fd, name, &o) : -ENOMEM;

		if (r < 0)
			return r;
		if (!o.mode)
			return opaque ? -ENOENT : 0;
		if (object_is_whiteout(&o) || (path[n] && !S_ISDIR(o.mode)))
			return -ENOENT;
		if (!path[n]) {
			*ret_dirfd = take_fd(&fd);
			*ret_name = path;
			return 1;
		}
		opaque = opaque ||
			 xattr_is_opaque(fd, name, branch_xattr_prefix(b));
		r = object_descend(&fd, name);
		if (r < 0)
			return r;
		path += n + 1;
	}
}

int layers_lookup(const struct branch *b, const char *path, int *ret_dirfd,
		  const char **ret_name)
{
	int r = look_in(b, b->upper_fd, path, ret_dirfd, ret_name);

	for (size_t i = b->n_layers; r == 0 && i > 0; i--)
		r = look_in(b, b->layers[i - 1].fd, path, ret_dirfd, ret_name);
	/* It moved up while we looked down (collapse.c). */
	if (r == 0 && b->n_layers > 0)
		r = look_in(b, b->upper_fd, path, ret_dirfd, ret_name);
	return r == 1 ? 0 : r == 0 ? -ENOENT : r;
}

/* --------------------------------------------------------------- writing -- */

struct swap {
	struct branch *b;
	const char *name; /* in layers/ */
};

static int swap_upper(void *data, int out_fd, struct error *err)
{
	const struct swap *s = data;
	struct stat upper, layer;

	if (fstatat(s->b->dir_fd, "upper", &upper, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fstatat(s->b->layers_fd, s->name, &layer, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (renameat2(s->b->dir_fd, "upper", s->b->layers_fd, s->name,
		      RENAME_EXCHANGE) < 0)
		return -errno;
	/* To XFS the new ".." is a change of a directory. */
	(void)object_set_mtime(s->b->layers_fd, s->name, upper.st_mtim);
	(void)object_set_mtime(s->b->dir_fd, "upper", layer.st_mtim);
	return 0;
}

/* A directory that its owner may not write to cannot be moved to another. */
static int swap_shut(struct swap *s)
{
	auto_close int layer = openat(s->b->layers_fd, s->name,
				      O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int fds[] = { s->b->upper_fd, layer };
	char path[FD_PATH_MAX];
	struct stat st[ARRAY_LEN(fds)];
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (fstat(fds[i], &st[i]) < 0)
			return -errno;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(fds); i++)
		r = modes_let_in(fds[i]);
	if (r == 0)
		r = swap_upper(s, -1, NULL);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (modes_keep_out(&st[i]) &&
		    chmod(fd_proc_path(fds[i], path), st[i].st_mode & 07777) <
			    0 &&
		    r == 0)
			r = -errno;
	return r;
}

/*
 * Where the root of upper is a subordinate id's, moving it to another directory
 * takes root of the user namespace.
 */
static int exchange(struct branch *b, const char *name)
{
	struct swap s = { b, name };
	int r = swap_upper(&s, -1, NULL);

	if ((r == -EACCES || r == -EPERM) && branch_needs_userns(&b->meta))
		r = branch_enter(b, swap_upper, NULL, &s, NULL);
	else if (r == -EACCES)
		r = swap_shut(&s);
	if (r < 0)
		return r;
	cleanup_close(&b->upper_fd);
	b->upper_fd = open_dir(b->dir_fd, "upper");
	return b->upper_fd < 0 ? b->upper_fd : 0;
}

static int open_layers_dir(struct branch *b)
{
	if (b->layers_fd >= 0)
		return 0;
	if (mkdirat(b->dir_fd, "layers", 0700) < 0 && errno != EEXIST)
		return -errno;
	return layers_open(b);
}

static int drop(struct branch *b, const char *name, struct error *err)
{
	struct stat st;

	if (fstatat(b->layers_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	/* To be moved away. */
	if (modes_keep_out(&st))
		(void)!fchmodat(b->layers_fd, name, 0700, 0);
	return store_discard(b, b->layers_fd, name, err);
}

/* An upper in which there is nothing, over @root_fd. */
static int make_fresh(struct branch *b, int root_fd, struct error *err)
{
	auto_close int fd = -1;
	struct stat st;
	int r = drop(b, fresh, err);

	if (r < 0)
		return r;
	if (mkdirat(b->layers_fd, fresh, 0700) < 0)
		return -errno;
	fd = openat(b->layers_fd, fresh, DIR_FLAGS);
	if (fd < 0 || fstat(root_fd, &st) < 0)
		return -errno;
	return branch_copy_root(b, root_fd, &st, fd, err);
}

static int push(struct branch *b, struct error *err)
{
	char name[LAYER_NAME_MAX];
	int r = open_layers_dir(b);

	if (r == 0 && b->n_layers == LAYERS_MAX)
		r = -E2BIG;
	if (r == 0)
		r = make_fresh(b, b->upper_fd, err);
	if (r < 0)
		return r;
	(void)snprintf(name, sizeof(name), "%zu.%" PRIu64, b->n_layers + 1,
		       inode_of(b->dir_fd, "upper"));
	r = drop(b, name, err);
	if (r < 0)
		return r;
	if (renameat(b->layers_fd, fresh, b->layers_fd, name) < 0)
		return -errno;
	branch_step("push");
	r = exchange(b, name);
	return r < 0 ? r : layers_open(b);
}

static int pop(struct branch *b, struct error *err)
{
	const char *name = b->layers[b->n_layers - 1].name;
	int r;

	branch_step("pop");
	r = exchange(b, name);
	if (r == 0)
		r = drop(b, name, err);
	return r < 0 ? r : layers_open(b);
}

static int replace(struct branch *b, struct error *err)
{
	int r = open_layers_dir(b);

	if (r == 0)
		r = make_fresh(b, b->lower_fd, err);
	if (r == 0)
		r = exchange(b, fresh);
	return r < 0 ? r : drop(b, fresh, err);
}

static int say(const struct branch *b, int r, const char *what,
	       struct error *err)
{
	if (r < 0 && err && err->kind == ERR_NONE)
		return error_set(err, ERR_SYSTEM, -r, "cannot %s branch '%s'",
				 what, b->meta.name);
	return r;
}

int root_push(struct branch *b, struct error *err)
{
	struct error local = ERROR_INIT;
	struct error *e = err ? err : &local;
	int r = branch_undo_moves(b, e);

	if (r == 0)
		r = push(b, e);
	if (r == 0)
		r = branch_save(b, false, e);
	return say(b, r, "make a savepoint in", e);
}

int root_roll_back(struct branch *b, size_t n, struct error *err)
{
	struct error local = ERROR_INIT;
	struct error *e = err ? err : &local;
	int r = branch_undo_moves(b, e);

	while (r == 0 && b->n_layers > 0 && b->n_layers >= n)
		r = pop(b, e);
	if (r == 0 && n == 0)
		r = replace(b, e);
	if (r == 0)
		r = branch_save(b, false, e);
	return say(b, r, "roll back", e);
}
