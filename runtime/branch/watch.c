#include "branch/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "branch/internal.h"
#include "branch/judge.h"
#include "branch/origin.h"
#include "branch/walk.h"
#include "branch/xattr.h"

enum {
	DIRS_MAX = 16 * 1024, /* that are watched */
	WDS_MAX = 512 * 1024, /* the kernel gives none of them twice */
	NOTES_MAX = 32 << 20, /* bytes, of one root */
	RECENT = 1024,	      /* notes that are not written again */
	EVENTS_BYTES = 32 * 1024,
	COMPARED_MAX = 64 << 20, /* bytes of what was copied up, together */
	SLICE_MS = 10,
	WANTED = IN_CREATE | IN_MOVED_TO | IN_ONLYDIR,
};

struct watched_root {
	int dir_fd, upper_fd, lower_fd;
	int notes_fd; /* -1: there are none yet */
	const char *prefix;
	struct timespec base_time;
	struct buf notes; /* not written yet */
	struct buf known; /* while all is looked at: made before, sorted */
	size_t written;
};

/* A directory of upper that the lower has, too. */
struct watched {
	struct watched_root *root;
	char *path;
};

struct branch_watch {
	int fd;
	struct watched_root *roots;
	size_t n_roots;
	struct watched *dirs; /* by their watch descriptors */
	size_t cap, n_dirs;
	struct watched *todo; /* to be looked into */
	size_t n_todo, cap_todo;
	bool is_scanning;
	struct watched looked; /* what is being looked into, if there is @dir */
	DIR *dir;
	int low_fd;
	_Alignas(struct inotify_event) char events[EVENTS_BYTES];
	size_t at, len; /* in them */
	uint64_t recent[RECENT];
	uint64_t n_compared;
	char *chunk;
};

static bool open_root(struct watched_root *r, const struct branch *b)
{
	*r = (struct watched_root){
		.dir_fd = fcntl(b->dir_fd, F_DUPFD_CLOEXEC, 3),
		.upper_fd = fcntl(b->upper_fd, F_DUPFD_CLOEXEC, 3),
		.lower_fd = fcntl(b->lower_fd, F_DUPFD_CLOEXEC, 3),
		.notes_fd = -1,
		.prefix = branch_xattr_prefix(b),
		.base_time = b->meta.base_time,
		.notes = BUF_INIT,
		.known = BUF_INIT,
	};
	return r->dir_fd >= 0 && r->upper_fd >= 0 && r->lower_fd >= 0;
}

static void close_root(struct watched_root *r)
{
	cleanup_close(&r->dir_fd);
	cleanup_close(&r->upper_fd);
	cleanup_close(&r->lower_fd);
	cleanup_close(&r->notes_fd);
	buf_done(&r->notes);
	buf_done(&r->known);
}

static void end_look(struct branch_watch *w)
{
	if (w->dir)
		(void)closedir(w->dir);
	w->dir = NULL;
	cleanup_close(&w->low_fd);
	w->low_fd = -1;
	free(w->looked.path);
	w->looked.path = NULL;
}

struct branch_watch *branch_watch_open(struct branch *b)
{
	auto_ptr(branch_watch_free) struct branch_watch *w =
		calloc(1, sizeof(*w));
	size_t n = branch_n_roots(b);

	if (!w)
		return NULL;
	w->low_fd = -1;
	w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	w->chunk = malloc(2 * (size_t)CONTENT_CHUNK);
	w->roots = calloc(n, sizeof(*w->roots));
	if (w->fd < 0 || !w->chunk || !w->roots)
		return NULL;
	while (w->n_roots < n) {
		size_t i = w->n_roots++;

		if (!open_root(&w->roots[i], branch_root(b, i)))
			return NULL;
	}
	return take_ptr(&w);
}

void branch_watch_free(struct branch_watch *w)
{
	if (!w)
		return;
	end_look(w);
	for (size_t i = 0; i < w->n_roots; i++)
		close_root(&w->roots[i]);
	for (size_t i = 0; i < w->cap; i++)
		free(w->dirs[i].path);
	while (w->n_todo > 0)
		free(w->todo[--w->n_todo].path);
	free(w->roots);
	free(w->dirs);
	free(w->todo);
	free(w->chunk);
	if (w->fd >= 0)
		fd_let_go(w->fd);
	free(w);
}

int branch_watch_fd(const struct branch_watch *w)
{
	return w->fd;
}

/* Grows *@v to hold index @i; what is new is empty. */
static bool reserve(struct watched **v, size_t *cap, size_t i)
{
	size_t wanted = i < 64 ? 64 : 2 * i;
	struct watched *grown;

	if (i < *cap)
		return true;
	grown = reallocarray(*v, wanted, sizeof(*grown));
	if (!grown)
		return false;
	memset(grown + *cap, 0, (wanted - *cap) * sizeof(*grown));
	*v = grown;
	*cap = wanted;
	return true;
}

static void forget(struct branch_watch *w, size_t wd)
{
	if (wd >= w->cap || !w->dirs[wd].path)
		return;
	free(w->dirs[wd].path);
	w->dirs[wd].path = NULL;
	w->n_dirs--;
}

/* Also where it is now, if it was moved. */
static void watch_dir(struct branch_watch *w, const struct watched *d, int fd)
{
	char link[FD_PATH_MAX];
	char *path = NULL;
	int wd = w->n_dirs < DIRS_MAX
			 ? inotify_add_watch(w->fd, fd_proc_path(fd, link),
					     WANTED)
			 : -1;

	if (wd < 0)
		return;
	if (wd < WDS_MAX && reserve(&w->dirs, &w->cap, (size_t)wd))
		path = strdup(d->path);
	if (!path) {
		(void)inotify_rm_watch(w->fd, wd);
		return;
	}
	forget(w, (size_t)wd);
	w->dirs[wd] = (struct watched){ d->root, path };
	w->n_dirs++;
}

static void look_into_later(struct branch_watch *w, struct watched_root *root,
			    const char *path)
{
	char *copy = strdup(path);

	if (copy && reserve(&w->todo, &w->cap_todo, w->n_todo))
		w->todo[w->n_todo++] = (struct watched){ root, copy };
	else
		free(copy);
}

static int open_dir(int root_fd, const char *path, int flags)
{
	if (!*path)
		return openat(root_fd, ".", flags | O_DIRECTORY | O_CLOEXEC);
	return fd_open_beneath(root_fd, path, flags | O_DIRECTORY | O_NOFOLLOW,
			       0);
}

/* Nothing has touched it since we looked. */
static bool is_untouched(int dirfd, const char *name, const struct object *was)
{
	struct object o;

	return object_stat(dirfd, name, &o) == 0 && o.ino == was->ino &&
	       time_compare(&o.ctime, &was->ctime) == 0 &&
	       time_compare(&o.mtime, &was->mtime) == 0;
}

/* A name in upper, and what there is. */
struct pair {
	const char *name;
	int up_fd, low_fd;
	struct object up, low;
};

/*
 * The mtime that copying up has given a file says for most that it is worth a
 * comparison.
 */
static bool has_same_content(struct branch_watch *w,
			     const struct watched_root *r, const struct pair *p)
{
	if (p->up.nlink != 1 || p->up.size != p->low.size ||
	    time_compare(&p->up.mtime, &p->low.mtime) != 0 ||
	    time_compare(&p->low.ctime, &r->base_time) > 0 ||
	    w->n_compared + p->up.size > COMPARED_MAX)
		return false;
	w->n_compared += p->up.size;
	return content_compare(p->up_fd, p->name, &p->up, p->low_fd, p->name,
			       &p->low, w->chunk) == 1;
}

/* It was only opened for writing so far, or copied up for what is in it. */
static void note_equal(struct branch_watch *w, struct watched_root *r,
		       const struct pair *p, const struct buf *path)
{
	auto_(xattrs) struct xattrs up = XATTRS_INIT;
	auto_(xattrs) struct xattrs low = XATTRS_INIT;
	bool is_dir = S_ISDIR(p->up.mode);

	if ((!is_dir && !S_ISREG(p->up.mode)) || p->up.mode != p->low.mode ||
	    p->up.uid != p->low.uid || p->up.gid != p->low.gid ||
	    (!is_dir && !has_same_content(w, r, p)) ||
	    xattrs_read_visible(p->up_fd, p->name, r->prefix, &up) < 0 ||
	    xattrs_read_visible(p->low_fd, p->name, r->prefix, &low) < 0 ||
	    !xattrs_equal(&up, &low))
		return;
	if (is_dir || (is_untouched(p->up_fd, p->name, &p->up) &&
		       is_untouched(p->low_fd, p->name, &p->low)))
		origin_add_equal(&r->notes, path->data, path->len, &p->up, &up);
}

/* Those that were made just now are not made again. */
static void drop_known(struct branch_watch *w, struct buf *notes, size_t from)
{
	size_t kept = from;
	uint64_t hash;

	if (buf_failed(notes))
		return;
	for (size_t at = from; at < notes->len; at += sizeof(hash)) {
		memcpy(&hash, notes->data + at, sizeof(hash));
		if (w->recent[hash % RECENT] == hash)
			continue;
		w->recent[hash % RECENT] = hash;
		memcpy(notes->data + kept, &hash, sizeof(hash));
		kept += sizeof(hash);
	}
	notes->len = kept;
}

/* As is a directory that the host works in, and not one that it has moved. */
static bool was_written_in(const struct object *dir,
			   const struct timespec *base_time)
{
	return time_compare(&dir->ctime, &dir->mtime) == 0 &&
	       time_compare(&dir->btime, base_time) <= 0;
}

/*
 * An event comes within moments, also of a whiteout, which does not tell since
 * when it is there.
 */
static bool may_be_late(const struct branch_watch *w,
			const struct watched_root *r, const struct pair *p)
{
	const struct origin_place place = {
		.up_dirfd = p->up_fd,
		.low_dirfd = p->low_fd,
		.name = p->name,
		.up = &p->up,
		.low = &p->low,
		.base_time = &r->base_time,
		.prefix = r->prefix,
	};

	if (!w->is_scanning && (object_is_whiteout(&p->up) ||
				was_written_in(&p->low, &r->base_time)))
		return false;
	return origin_is_doubtful(&place);
}

/* What the lower has where upper's directory @d has @name. */
static void note(struct branch_watch *w, const struct watched *d, int up_fd,
		 int low_fd, const char *name)
{
	auto_(buf) struct buf path = BUF_INIT;
	struct watched_root *r = d->root;
	size_t from = r->notes.len;
	struct pair p = { .name = name, .up_fd = up_fd, .low_fd = low_fd };

	buf_printf(&path, "%s%s%s", d->path, *d->path ? "/" : "", name);
	if (buf_failed(&path) || object_stat(up_fd, name, &p.up) < 0 ||
	    !p.up.mode || object_stat(low_fd, name, &p.low) < 0)
		return;
	/* The host may have put another one there since. */
	if (!w->is_scanning ||
	    !origin_is_noted(&r->known, path.data, path.len)) {
		if (may_be_late(w, r, &p))
			origin_add_doubtful(&r->notes, path.data, path.len);
		else
			origin_add_lower(&r->notes, path.data, path.len,
					 &p.low);
		note_equal(w, r, &p, &path);
		drop_known(w, &r->notes, from);
	}
	if (S_ISDIR(p.up.mode) && S_ISDIR(p.low.mode) && !p.low.is_mount)
		look_into_later(w, r, path.data);
}

/* Takes over the path. */
static void begin_look(struct branch_watch *w, struct watched d)
{
	int up_fd;

	w->looked = d;
	w->low_fd = open_dir(d.root->lower_fd, d.path, O_PATH);
	up_fd = w->low_fd < 0 ? -1
			      : open_dir(d.root->upper_fd, d.path, O_RDONLY);
	if (up_fd >= 0) {
		watch_dir(w, &d, up_fd);
		w->dir = fdopendir(up_fd);
	}
	if (!w->dir) {
		cleanup_close(&up_fd);
		end_look(w);
	}
}

static void look_on(struct branch_watch *w)
{
	const struct dirent *e = readdir(w->dir);

	if (!e)
		end_look(w);
	else if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
		note(w, &w->looked, dirfd(w->dir), w->low_fd, e->d_name);
}

static void write_notes(struct watched_root *r)
{
	const int flags =
		O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC;

	if (!buf_failed(&r->notes) && r->notes.len > 0 &&
	    r->written < NOTES_MAX) {
		if (r->notes_fd < 0)
			r->notes_fd =
				openat(r->dir_fd, NOTES_FILE, flags, 0600);
		if (r->notes_fd >= 0)
			(void)fd_write_full(r->notes_fd, r->notes.data,
					    r->notes.len);
		r->written += r->notes.len;
	}
	buf_clear(&r->notes);
}

void branch_watch_scan(struct branch_watch *w)
{
	w->is_scanning = true;
	for (size_t i = 0; i < w->n_roots; i++) {
		struct watched_root *r = &w->roots[i];

		write_notes(r);
		buf_clear(&r->known);
		origin_read_notes(r->dir_fd, &r->known);
		look_into_later(w, r, "");
	}
}

static void end_scan(struct branch_watch *w)
{
	w->is_scanning = false;
	for (size_t i = 0; i < w->n_roots; i++)
		buf_done(&w->roots[i].known);
}

static void take_event(struct branch_watch *w, const struct inotify_event *e)
{
	auto_close int up_fd = -1, low_fd = -1;
	const struct watched *d;

	if (e->mask & IN_Q_OVERFLOW)
		branch_watch_scan(w);
	if (e->wd < 0 || (size_t)e->wd >= w->cap)
		return;
	d = &w->dirs[e->wd];
	if (e->mask & IN_IGNORED)
		forget(w, (size_t)e->wd);
	if (!e->len || !d->path)
		return;
	up_fd = open_dir(d->root->upper_fd, d->path, O_PATH);
	low_fd = open_dir(d->root->lower_fd, d->path, O_PATH);
	if (up_fd >= 0 && low_fd >= 0)
		note(w, d, up_fd, low_fd, e->name);
}

/* Whether there was something to do. */
static bool do_one_thing(struct branch_watch *w)
{
	const struct inotify_event *e;
	ssize_t n;

	if (w->dir) {
		look_on(w);
		return true;
	}
	if (w->n_todo > 0) {
		begin_look(w, w->todo[--w->n_todo]);
		return true;
	}
	if (w->is_scanning)
		end_scan(w);
	if (w->at == w->len) {
		n = read(w->fd, w->events, sizeof(w->events));
		w->at = 0;
		w->len = n > 0 ? (size_t)n : 0;
		return n > 0;
	}
	e = (const void *)(w->events + w->at);
	w->at += sizeof(*e) + e->len;
	take_event(w, e);
	return true;
}

bool branch_watch_read(struct branch_watch *w)
{
	int64_t end_ms = clock_now_ms() + SLICE_MS;
	bool is_more;

	do
		is_more = do_one_thing(w);
	while (is_more && clock_now_ms() < end_ms);
	for (size_t i = 0; i < w->n_roots; i++)
		write_notes(&w->roots[i]);
	return is_more;
}
