#include "branch/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "branch/internal.h"
#include "branch/layers.h"
#include "branch/links.h"
#include "branch/merged.h"
#include "branch/walk.h"

enum {
	/* struct ovl_fb of the kernel: what precedes the handle's bytes. */
	FB_TYPE = 4,
	FB_HEADER = 21,
	HASHES_MAX = 256 << 20, /* bytes */
};

struct origins {
	struct link_table *handles, *looks; /* hashes; no paths */
	bool is_collected;
	bool has_numbers;	  /* the lower's inodes keep theirs */
	struct buf notes, copied; /* hashes, sorted */
};

/* FNV-1a; never 0, to begin with 0. */
uint64_t origin_hash(uint64_t hash, const void *data, size_t len)
{
	const unsigned char *p = data;

	if (!hash)
		hash = UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
	return hash ? hash : 1;
}

uint64_t origin_hash_xattrs(uint64_t hash, const struct xattrs *x)
{
	for (size_t i = 0; i < x->n; i++) {
		hash = origin_hash(hash, x->v[i].key, strlen(x->v[i].key) + 1);
		hash = origin_hash(hash, x->v[i].value, x->v[i].len);
	}
	return hash;
}

void origins_free(struct origins *o)
{
	if (!o)
		return;
	links_free(o->handles);
	links_free(o->looks);
	buf_done(&o->notes);
	buf_done(&o->copied);
	free(o);
}

static uint64_t hash_looks(const struct object *o)
{
	const uint64_t looks[] = { o->mode & S_IFMT,
				   S_ISREG(o->mode) ? o->size : 0,
				   (uint64_t)o->mtime.tv_sec,
				   (uint64_t)o->mtime.tv_nsec };

	return origin_hash(0, looks, sizeof(looks));
}

/* 0: the file system has none. */
static uint64_t hash_handle(int dirfd, const char *name)
{
	union {
		struct file_handle handle;
		char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} u = { .handle.handle_bytes = MAX_HANDLE_SZ };
	unsigned char type;
	int mount;

	if (name_to_handle_at(dirfd, name, &u.handle, &mount, 0) < 0)
		return 0;
	type = (unsigned char)u.handle.handle_type;
	return origin_hash(origin_hash(0, &type, 1), u.handle.f_handle,
			   u.handle.handle_bytes);
}

static const struct xattr *find_mark(const struct xattrs *private,
				     const char *prefix)
{
	size_t n = strlen(prefix);

	for (size_t i = 0; i < private->n; i++)
		if (strcmp(private->v[i].key + n, "origin") == 0)
			return &private->v[i];
	return NULL;
}

const struct xattr *origin_find(const struct branch *b,
				const struct walk_entry *e)
{
	return find_mark(&e->private, branch_xattr_prefix(b));
}

/* As hash_handle; 0: it is not told. */
static uint64_t hash_origin(const struct xattr *origin)
{
	if (!origin || origin->len <= FB_HEADER)
		return 0;
	return origin_hash(origin_hash(0, origin->value + FB_TYPE, 1),
			   origin->value + FB_HEADER, origin->len - FB_HEADER);
}

static int add(struct link_table *t, uint64_t hash)
{
	if (!hash || links_find(t, hash))
		return 0;
	return links_add(t, hash, 0, "") ? 0 : -ENOMEM;
}

static int add_source(struct origins *o, const struct branch *b,
		      const struct walk_entry *e)
{
	int r = add(o->looks, hash_looks(&e->lower));

	if (r == 0 && !b->meta.userxattr)
		r = add(o->handles, hash_handle(e->lower_dirfd, e->name));
	return r;
}

/* How to look at what is below an entry; -1: there is nothing to be seen. */
static int region_below(const struct walk_entry *e)
{
	if (!S_ISDIR(e->lower.mode) || e->lower.is_mount)
		return -1;
	if (!S_ISDIR(e->upper.mode))
		return WALK_DELETED;
	return e->opaque || e->region != WALK_MERGED ? WALK_REPLACED
						     : WALK_MERGED;
}

static int collect(struct origins *o, const struct branch *b, struct error *err)
{
	auto_(walk) struct walk w = { .depth = 0 };
	struct walk_entry *e;
	int r = layers_walk(&w, b, err);

	while (r == 0 && (r = walk_next(&w, &e, err)) == 1) {
		int region = e->leaving ? -1 : region_below(e);

		r = 0;
		if (region >= 0)
			r = walk_enter(&w, (enum walk_region)region,
				       WALK_NO_TAG, err);
		else if (!e->leaving && e->lower.mode &&
			 !S_ISDIR(e->lower.mode) && add_source(o, b, e) < 0)
			r = error_set(err, ERR_SYSTEM, ENOMEM,
				      "cannot compare");
	}
	return r;
}

static int compare_hashes(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void sort_hashes(struct buf *b)
{
	qsort(b->data, b->len / sizeof(uint64_t), sizeof(uint64_t),
	      compare_hashes);
}

static bool has_hash(const struct buf *b, uint64_t hash)
{
	return b->len > 0 && bsearch(&hash, b->data, b->len / sizeof(hash),
				     sizeof(hash), compare_hashes);
}

/* The last one may be torn. */
static void read_hashes(int dir_fd, const char *name, struct buf *ret)
{
	if (fd_read_file(dir_fd, name, HASHES_MAX, ret) < 0)
		buf_clear(ret);
	if (ret->len > 0)
		sort_hashes(ret);
}

static uint64_t hash_both(const char *path, size_t len, uint64_t ino)
{
	return origin_hash(origin_hash(0, path, len), &ino, sizeof(ino));
}

/* A number is given again to what is made next; 0: nothing is there. */
static uint64_t identity(const struct object *o)
{
	const uint64_t parts[] = { o->ino, (uint64_t)o->btime.tv_sec,
				   (uint64_t)o->btime.tv_nsec };

	return o->mode ? origin_hash(0, parts, sizeof(parts)) : 0;
}

static uint64_t hash_equal(const char *path, size_t len, const struct object *o,
			   const struct xattrs *x)
{
	bool is_dir = S_ISDIR(o->mode);
	const uint64_t parts[] = {
		hash_both(path, len, o->ino),
		is_dir ? o->mode : (uint64_t)o->ctime.tv_sec,
		is_dir ? (uint64_t)o->uid << 32 | o->gid
		       : (uint64_t)o->ctime.tv_nsec,
	};
	const uint64_t times[] = {
		(uint64_t)o->mtime.tv_sec,
		(uint64_t)o->mtime.tv_nsec,
	};
	uint64_t hash = origin_hash(0, parts, sizeof(parts));

	/* Two changes may have one ctime. */
	if (!is_dir)
		hash = origin_hash(hash, times, sizeof(times));
	return is_dir ? origin_hash_xattrs(hash, x) : hash;
}

void origin_add_lower(struct buf *notes, const char *path, size_t len,
		      const struct object *lower)
{
	const uint64_t both[] = { origin_hash(0, path, len),
				  hash_both(path, len, identity(lower)) };

	/* Of what is not there, the second alone. */
	buf_add(notes, lower->mode ? both : both + 1,
		(lower->mode ? 2 : 1) * sizeof(*both));
}

void origin_add_doubtful(struct buf *notes, const char *path, size_t len)
{
	uint64_t hash = origin_hash(0, path, len);

	buf_add(notes, &hash, sizeof(hash));
}

void origin_add_equal(struct buf *notes, const char *path, size_t len,
		      const struct object *upper, const struct xattrs *x)
{
	uint64_t hash = hash_equal(path, len, upper, x);

	buf_add(notes, &hash, sizeof(hash));
}

void origin_read_notes(int dir_fd, struct buf *ret)
{
	read_hashes(dir_fd, NOTES_FILE, ret);
}

bool origin_is_noted(const struct buf *notes, const char *path, size_t len)
{
	return has_hash(notes, origin_hash(0, path, len)) ||
	       has_hash(notes, hash_both(path, len, 0));
}

void origin_write_notes(const struct branch *b, const struct buf *notes,
			struct buf *more)
{
	if (buf_failed(more) || more->len == 0)
		return;
	buf_add(more, notes->data, notes->len);
	if (!buf_failed(more))
		(void)fd_write_atomic(b->dir_fd, NOTES_FILE, more->data,
				      more->len, 0600, false);
}

void origin_note_copies(const struct branch *b, struct merged *m)
{
	struct buf known = BUF_INIT;

	read_hashes(b->dir_fd, COPIED_FILE, &known);
	merged_note_copies(
		m,
		openat(b->dir_fd, COPIED_FILE,
		       O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
		       0600),
		known);
}

bool origin_is_known(const struct buf *known, const char *path, size_t len,
		     uint64_t ino)
{
	return has_hash(known, hash_both(path, len, ino));
}

void origin_note_copy(int fd, const char *path, size_t len, uint64_t ino,
		      const struct object *of)
{
	const uint64_t both[] = { hash_both(path, len, ino),
				  of ? hash_both(path, len, identity(of)) : 0 };

	(void)fd_write_full(fd, both, (of ? 2 : 1) * sizeof(*both));
}

static struct origins *origins_new(const struct branch *b)
{
	struct origins *o = calloc(1, sizeof(*o));
	struct statfs fs;

	if (!o)
		return NULL;
	o->handles = links_new();
	o->looks = links_new();
	if (!o->handles || !o->looks) {
		origins_free(o);
		return NULL;
	}
	o->has_numbers = b->lower_fd >= 0 && fstatfs(b->lower_fd, &fs) == 0 &&
			 fs.f_type != FUSE_SUPER_MAGIC &&
			 fs.f_type != OVERLAYFS_SUPER_MAGIC;
	read_hashes(b->dir_fd, NOTES_FILE, &o->notes);
	if (b->meta.notify)
		read_hashes(b->dir_fd, COPIED_FILE, &o->copied);
	return o;
}

static int open_origins(struct origins **origins, const struct branch *b,
			struct error *err)
{
	if (!*origins)
		*origins = origins_new(b);
	return *origins ? 0
			: error_set(err, ERR_SYSTEM, ENOMEM, "cannot compare");
}

int origin_had_lower(struct origins **origins, const struct branch *b,
		     const char *path, size_t len, struct error *err)
{
	int r = open_origins(origins, b, err);

	return r < 0 ? r
		     : has_hash(&(*origins)->notes, origin_hash(0, path, len));
}

bool origin_was_seen(struct origins **origins, const struct branch *b,
		     const char *path, size_t len, const struct object *now)
{
	return open_origins(origins, b, NULL) == 0 &&
	       has_hash(&(*origins)->copied,
			hash_both(path, len, identity(now)));
}

bool origin_is_another(struct origins **origins, const struct branch *b,
		       const char *path, size_t len, const struct object *now)
{
	int r = origin_had_lower(origins, b, path, len, NULL);

	if (r == 0)
		return has_hash(&(*origins)->notes, hash_both(path, len, 0));
	return r == 1 && (*origins)->has_numbers &&
	       !has_hash(&(*origins)->notes,
			 hash_both(path, len, identity(now))) &&
	       !origin_was_seen(origins, b, path, len, now);
}

bool origin_is_equal(struct origins **origins, const struct branch *b,
		     const char *path, size_t len, const struct object *upper,
		     const struct xattrs *x)
{
	return open_origins(origins, b, NULL) == 0 &&
	       has_hash(&(*origins)->notes, hash_equal(path, len, upper, x));
}

bool origin_is_known_place(struct origins **origins, const struct branch *b,
			   const char *path, size_t len)
{
	return open_origins(origins, b, NULL) == 0 &&
	       origin_is_noted(&(*origins)->notes, path, len);
}

int origin_was_copied(struct origins **origins, const struct branch *b,
		      const struct walk_entry *e, struct error *err)
{
	int r = open_origins(origins, b, err);

	return r < 0 ? r
		     : has_hash(&(*origins)->copied,
				hash_both(e->path, e->path_len, e->upper.ino));
}

static bool has_handle_of(const struct origin_place *p)
{
	auto_(xattrs) struct xattrs private = XATTRS_INIT;
	uint64_t handle;

	if (!S_ISDIR(p->up->mode) ||
	    xattrs_read_private(p->up_dirfd, p->name, p->prefix, &private) < 0)
		return false;
	handle = hash_origin(find_mark(&private, p->prefix));
	return handle && handle == hash_handle(p->low_dirfd, p->name);
}

/* Whiteouts share an inode, and are as old as the first of them. */
bool origin_is_doubtful(const struct origin_place *p)
{
	const struct timespec *since = &p->up->btime;
	struct object above;

	if (!S_ISDIR(p->low->mode) ||
	    time_compare(&p->low->ctime, p->base_time) <= 0)
		return false;
	if (object_is_whiteout(p->up) || time_compare(since, p->base_time) < 0)
		since = p->base_time;
	if (!p->above && object_stat(p->low_dirfd, "", &above) < 0)
		return true;
	return time_compare(&p->low->ctime, since) >= 0 &&
	       time_compare(p->above ? &p->above->ctime : &above.ctime,
			    since) >= 0 &&
	       !has_handle_of(p);
}

bool origin_is_of_dir(struct origins **origins, const struct branch *b,
		      const struct walk_entry *e)
{
	auto_(xattrs) struct xattrs private = XATTRS_INIT;
	struct walk_entry dir = { .path = e->path };
	const struct xattr *origin;
	uint64_t handle, now;

	if (open_origins(origins, b, NULL) < 0 ||
	    xattrs_read_private(e->upper_dirfd, ".", branch_xattr_prefix(b),
				&private) < 0)
		return true;
	dir.private = private;
	origin = origin_find(b, &dir);
	handle = hash_origin(origin);
	/* Between stages it is that of an earlier one's. */
	if (!handle || !(*origins)->has_numbers || b->n_layers > 0)
		return origin;
	now = hash_handle(e->lower_dirfd, ".");
	return !now || now == handle;
}

/* Copying up leaves the times of a directory alone, moving something does not.
 */
static bool nothing_moved_in(const struct branch *b, const struct walk_entry *e)
{
	struct object dir;

	return object_stat(e->upper_dirfd, "", &dir) == 0 &&
	       time_compare(&dir.mtime, &b->meta.base_time) <= 0;
}

int origin_is_lost(struct origins **origins, const struct branch *b,
		   const struct walk_entry *e, struct error *err)
{
	uint64_t handle = hash_origin(origin_find(b, e));
	int r;

	if (!handle && nothing_moved_in(b, e))
		return 1;
	r = open_origins(origins, b, err);
	if (r == 0 && !(*origins)->is_collected)
		r = collect(*origins, b, err);
	if (r < 0)
		return r;
	(*origins)->is_collected = true;
	return handle ? !links_find((*origins)->handles, handle)
		      : !links_find((*origins)->looks, hash_looks(&e->upper));
}
