/*
 * Directories of a branch: which one we are in, and what is in one.
 *
 * The position in a merged listing is the offset of the caller's own open file
 * description, which its copies share and lseek changes: the hash of the name
 * that comes next, in a range that file systems do not use. So nothing is kept
 * here, and names that come or go meanwhile disturb nobody.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/cow_internal.h"

#define OFFSET_MARK (INT64_C(1) << 42)
enum { BYTES_MAX = 64 * 1024, DOTS = 2 };

/* ------------------------------------------------------- where we are -- */

struct outcome cow_chdir(struct cow *w, struct call *c)
{
	auto_(cow_reach) struct cow_reach to = COW_REACH_INIT;
	struct cow_place p;
	int r = cow_find(w, c, AT_FDCWD, call_arg(c, 0), COW_FOLLOW, &p);

	if (r == 0)
		r = cow_may(&p, X_OK);
	if (r < 0)
		return OUTCOME_FAIL(-r);
	if (!p.root || p.is_as_it_is || p.is_home_dir)
		return OUTCOME_GO;
	if (!p.at.exists)
		return OUTCOME_FAIL(ENOENT);
	if (!S_ISDIR(p.at.mode))
		return OUTCOME_FAIL(ENOTDIR);
	r = cow_reach(&p, &to);
	/* It came back: the kernel would not find it. */
	if (r == 0 && redirect_is_made(c))
		r = -EIO;
	return r < 0 ? OUTCOME_FAIL(-r)
		     : redirect_call(c, &(struct redirect){
						.path = to.path,
						.is_lent = to.is_lent,
						.lent_fd = to.fd,
					});
}

/* Then it has no path, whatever it had. */
static bool has_lost_cwd(struct call *c)
{
	auto_close int fd = call_open_cwd(c);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_nlink == 0;
}

struct outcome cow_getcwd(struct cow *w, struct call *c)
{
	char real[PATH_MAX], shown[PATH_MAX];
	size_t n;
	int r = cow_base(c, AT_FDCWD, real);

	if (r < 0 || !cow_shown_path(w, real, shown) || has_lost_cwd(c))
		return OUTCOME_GO;
	n = strlen(shown) + 1;
	if (n > call_arg(c, 1))
		return OUTCOME_FAIL(ERANGE);
	r = call_write(c, call_arg(c, 0), shown, n);
	return cow_outcome(r < 0 ? r : (int)n);
}

/* ------------------------------------------------------- what is in it -- */

struct entry {
	int64_t at; /* its place, from 0 */
	const char *name;
	uint64_t ino;
	unsigned char type;
};

/* FNV-1a, cut to what is left of the range. */
static int64_t place_of(const char *name)
{
	uint64_t h = UINT64_C(14695981039346656037);

	for (const char *p = name; *p; p++)
		h = (h ^ (unsigned char)*p) * UINT64_C(1099511628211);
	return DOTS + (int64_t)((h ^ h >> 42) % (OFFSET_MARK - 2 * DOTS));
}

static int compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return strcmp(x->name, y->name);
}

static struct entry *arrange(const struct merged_list *l, uint64_t ino)
{
	struct entry *v = calloc(l->n + DOTS, sizeof(*v));

	if (!v)
		return NULL;
	v[0] = (struct entry){ 0, ".", ino, DT_DIR };
	v[1] = (struct entry){ 1, "..", ino, DT_DIR };
	for (size_t i = 0; i < l->n; i++)
		v[DOTS + i] =
			(struct entry){ place_of(l->v[i].name), l->v[i].name,
					l->v[i].ino, l->v[i].type };
	qsort(v, l->n + DOTS, sizeof(*v), compare);
	return v;
}

/* As getdents64(2) has it. */
struct record {
	uint64_t ino;
	int64_t next;
	uint16_t size;
	unsigned char type;
	char name[];
};

static size_t record_size(const struct entry *e)
{
	size_t n = offsetof(struct record, name) + strlen(e->name) + 1;

	return (n + 7) & ~(size_t)7;
}

/* Names of one place stay together: there is no offset between them. */
static size_t fill(const struct entry *v, size_t n, int64_t from, char *out,
		   size_t room, int64_t *ret_next)
{
	size_t used = 0, whole = 0;

	*ret_next = from;
	for (size_t i = 0; i < n; i++) {
		struct record *r = (struct record *)(void *)(out + used);
		size_t size = record_size(&v[i]);

		if (v[i].at < from)
			continue;
		if (size > room - used)
			break;
		memset(r, 0, size);
		r->ino = v[i].ino;
		r->next = OFFSET_MARK + v[i].at + 1;
		r->size = (uint16_t)size;
		r->type = v[i].type;
		memcpy(r->name, v[i].name, strlen(v[i].name) + 1);
		used += size;
		if (i + 1 < n && v[i + 1].at == v[i].at)
			continue;
		whole = used;
		*ret_next = v[i].at + 1;
	}
	return whole;
}

static bool is_left(const struct entry *v, size_t n, int64_t from)
{
	return n && v[n - 1].at >= from;
}

/* The directory as the caller has it open. */
struct opened {
	int number, fd;
	off_t at;
	/* The fd is no copy of the caller's (a filter refuses pidfd_getfd, as
	 * Docker's does), but comes to take its place, with its offset. */
	bool is_new, cloexec;
};

static void opened_done(struct opened *d)
{
	cleanup_close(&d->fd);
}

int cow_read_fd_info(struct call *c, int number, struct cow_fd_info *ret)
{
	char path[64], text[256];
	auto_close int fd = -1;
	long long at;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d",
		       (int)call_tid(c), number);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0 || !call_is_valid(c))
		return -ESRCH;
	text[n] = '\0';
	if (sscanf(text, "pos: %lld flags: %o", &at, &ret->flags) != 2)
		return -EIO;
	ret->at = at;
	return 0;
}

static int open_again(struct call *c, const struct cow_place *p,
		      struct opened *d)
{
	struct cow_fd_info i = { .at = 0 };
	int r = cow_read_fd_info(c, d->number, &i);

	d->at = i.at;
	d->cloexec = i.flags & O_CLOEXEC;
	d->is_new = true;
	return r < 0 ? r
		     : merged_open(p->root->merged, p->at.path,
				   O_RDONLY | O_DIRECTORY, 0, &d->fd);
}

static int take(struct call *c, const struct cow_place *p, struct opened *d)
{
	d->fd = call_get_fd(c, d->number);
	if (d->fd == -EPERM || d->fd == -ENOSYS)
		return open_again(c, p, d);
	if (d->fd < 0)
		return d->fd;
	d->at = lseek(d->fd, 0, SEEK_CUR);
	return d->at < 0 ? -errno : 0;
}

static int leave_at(struct call *c, const struct opened *d, int64_t place)
{
	if (lseek(d->fd, OFFSET_MARK + place, SEEK_SET) < 0)
		return -errno;
	return d->is_new ? call_replace_fd(c, d->number, d->fd, d->cloexec) : 0;
}

/*
 * What a directory holds, in the order of places. One that takes many calls to
 * be read is kept for the next: what comes and goes meanwhile may be told or
 * not, and who begins anew looks anew.
 */
struct cow_listing {
	const struct cow_root *root;
	char *path;
	ino_t ino; /* of the directory that the caller has open */
	dev_t dev;
	struct merged_list names;
	struct entry *v;
	size_t n;
};

enum { KEEP_FROM = 1000 };

void cow_listing_free(struct cow_listing *l)
{
	if (!l)
		return;
	merged_list_done(&l->names);
	free(l->path);
	free(l->v);
	free(l);
}
CLEANUP_PTR(struct cow_listing, cow_listing_free);

static int make_listing(const struct cow_place *p, const struct stat *st,
			struct cow_listing **ret)
{
	auto_ptr(cow_listing_free) struct cow_listing *l =
		calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	l->root = p->root;
	l->ino = st->st_ino;
	l->dev = st->st_dev;
	l->path = strdup(p->at.path);
	r = l->path ? merged_readdir(p->root->merged, p->at.path, &l->names)
		    : -ENOMEM;
	if (r < 0)
		return r;
	l->v = arrange(&l->names, st->st_ino);
	if (!l->v)
		return -ENOMEM;
	l->n = l->names.n + DOTS;
	*ret = take_ptr(&l);
	return 0;
}

static int find_listing(struct cow *w, const struct cow_place *p,
			const struct opened *d, int64_t from,
			struct cow_listing **ret)
{
	auto_ptr(cow_listing_free) struct cow_listing *l =
		atomic_exchange(&w->listing, NULL);
	struct stat st;

	if (fstat(d->fd, &st) < 0)
		return -errno;
	if (!l || !from || l->root != p->root || l->ino != st.st_ino ||
	    l->dev != st.st_dev || strcmp(l->path, p->at.path) != 0)
		return make_listing(p, &st, ret);
	*ret = take_ptr(&l);
	return 0;
}

static int list(struct cow *w, struct call *c, const struct cow_place *p,
		const struct opened *d, int64_t from)
{
	size_t room =
		call_arg(c, 2) < BYTES_MAX ? (size_t)call_arg(c, 2) : BYTES_MAX;
	auto_ptr(cow_listing_free) struct cow_listing *l = NULL;
	auto_free char *out = malloc(room ? room : 1);
	int64_t next;
	size_t used = 0;
	int r = out ? find_listing(w, p, d, from, &l) : -ENOMEM;

	if (r == 0) {
		used = fill(l->v, l->n, from, out, room, &next);
		if (!used && is_left(l->v, l->n, from))
			r = -EINVAL;
	}
	if (r == 0 && used)
		r = call_write(c, call_arg(c, 1), out, used);
	if (r == 0)
		r = leave_at(c, d, next);
	if (r == 0 && used && l->n >= KEEP_FROM)
		cow_listing_free(atomic_exchange(&w->listing, take_ptr(&l)));
	return r < 0 ? r : (int)used;
}

/* What is at its path is another one, or nothing. */
static bool is_removed(struct cow *w, struct call *c, int number,
		       const struct cow_place *p)
{
	auto_close int fd = -1;
	char base[PATH_MAX];
	struct stat st;

	if (p->at.exists && S_ISDIR(p->at.mode) &&
	    p->at.home == merged_lower(p->root->merged))
		return false;
	fd = call_open_dirfd(c, number);
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) &&
	       fd_path(fd, base) == 0 && !cow_is_uppers(w, base);
}

struct outcome cow_getdents(struct cow *w, struct call *c)
{
	auto_(opened) struct opened d = { .number = (int)call_arg(c, 0),
					  .fd = -1 };
	struct cow_place p;
	int mixed, r = cow_find_fd(w, c, d.number, &p);

	if (r == 0 && p.root && is_removed(w, c, d.number, &p))
		return OUTCOME_FAIL(ENOENT);
	/* Removed, or none of ours: the kernel knows. */
	if (r < 0 || !p.root || !p.at.exists || !S_ISDIR(p.at.mode))
		return OUTCOME_GO;
	mixed = merged_is_mixed(p.root->merged, p.at.path);
	if (mixed < 0)
		return OUTCOME_GO;
	r = take(c, &p, &d);
	if (r < 0)
		return OUTCOME_FAIL(-r);
	/* It was begun by the kernel, and is ended by it. */
	if (d.at > 0 && (d.at < OFFSET_MARK || d.at >= 2 * OFFSET_MARK))
		return OUTCOME_GO;
	if (d.at == 0 && !mixed)
		return OUTCOME_GO;
	/* The old call has records of another shape. */
	if (call_nr(c) != SYS_getdents64)
		return OUTCOME_FAIL(EOPNOTSUPP);
	return cow_outcome(list(w, c, &p, &d, d.at ? d.at - OFFSET_MARK : 0));
}
