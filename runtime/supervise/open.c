#include "supervise/open.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "policy/ask.h"
#include "supervise/act.h"
#include "supervise/internal.h"
#include "supervise/object.h"
#include "supervise/who.h"

/* Flags of open(2) that openat2(2) takes, too. */
enum {
	OPEN_FLAGS_KNOWN = O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC |
			   O_APPEND | O_NONBLOCK | O_SYNC | O_DIRECT |
			   O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC,
};

/* What was read of a call, once. */
struct snapshot {
	char path[PATH_MAX];
	int dirfd;
	struct open_how how;
	struct object object;
};

struct opening {
	struct snapshot s;
	struct caller *caller; /* unless it waits, or cannot be known */
	int root_fd;	       /* its root, if that is not known of it; or -1 */
	int found_fd;	       /* O_PATH: what is only to be opened; or -1 */
	struct who who;
	bool has_who;	 /* it is known */
	bool is_missing; /* for the caller, too */
	struct ask ask;
	const char *rule;
};

/* One that waits for long holds no descriptor. */
static void drop_fds(struct opening *x)
{
	caller_put(x->caller);
	cleanup_close(&x->root_fd);
	cleanup_close(&x->found_fd);
	x->caller = NULL;
	x->root_fd = x->found_fd = -1;
}

static void opening_free(void *data)
{
	struct opening *x = data;

	ask_done(&x->ask);
	object_done(&x->s.object);
	drop_fds(x);
	free(x);
}

/* openat2 has its flags in memory; it may have more of them than we know. */
static int read_how(struct call *c, struct open_how *ret)
{
	if (call_arg(c, 3) != sizeof(*ret))
		return call_arg(c, 3) < sizeof(*ret) ? -EINVAL : -E2BIG;
	return call_read(c, call_arg(c, 2), ret, sizeof(*ret));
}

/* clang-format off */
static const struct {
	int nr;
	const char *name;
} family[] = {
	{ SYS_openat,  "openat" },
	{ SYS_openat2, "openat2" },
#ifdef SYS_open
	{ SYS_open,    "open" },
	{ SYS_creat,   "creat" },
#endif
};
/* clang-format on */

static_assert(ARRAY_LEN(family) <= OPEN_ROWS, "no room for a row");

size_t open_family_rows(const struct handler *like,
			struct handler ret[OPEN_ROWS])
{
	for (size_t i = 0; i < ARRAY_LEN(family); i++) {
		ret[i] = *like;
		ret[i].name = family[i].name;
		ret[i].nr = family[i].nr;
	}
	return ARRAY_LEN(family);
}

const char *open_call_name(const struct call *c)
{
	for (size_t i = 0; i < ARRAY_LEN(family); i++)
		if (family[i].nr == call_nr(c))
			return family[i].name;
	return "open";
}

/* What is not made has none, and the argument need not have been given. */
static uint64_t mode_of(struct call *c, uint64_t flags, unsigned int i)
{
	return flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? call_arg(c, i)
							      : 0;
}

/* Where the path is, and how it is opened. */
int open_call_read(struct call *c, int *ret_dirfd, struct open_how *ret_how,
		   unsigned int *ret_path)
{
	*ret_dirfd = AT_FDCWD;
	*ret_path = 0;
	switch (call_nr(c)) {
#ifdef SYS_open
	case SYS_open:
		ret_how->flags = call_arg(c, 1);
		ret_how->mode = mode_of(c, ret_how->flags, 2);
		return 0;
#endif
#ifdef SYS_creat
	case SYS_creat:
		ret_how->flags = O_CREAT | O_WRONLY | O_TRUNC;
		ret_how->mode = mode_of(c, ret_how->flags, 1);
		return 0;
#endif
	case SYS_openat:
		ret_how->flags = call_arg(c, 2);
		ret_how->mode = mode_of(c, ret_how->flags, 3);
		break;
	case SYS_openat2:
		*ret_path = 1;
		*ret_dirfd = (int)call_arg(c, 0);
		return read_how(c, ret_how);
	default:
		return -ENOSYS;
	}
	*ret_path = 1;
	*ret_dirfd = (int)call_arg(c, 0);
	return 0;
}

static bool follows(const struct open_how *how)
{
	return !(how->flags & O_NOFOLLOW) &&
	       (how->flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL);
}

/*
 * The path, and what it leads to; @i is the number of its argument. It counts
 * if the call is valid afterwards.
 */
static int read_path(struct call *c, unsigned int i, struct snapshot *s)
{
	int r = call_peek_string(c, call_arg(c, i), s->path, sizeof(s->path));

	if (r == -EPERM) {
		act_settle();
		r = call_peek_string(c, call_arg(c, i), s->path,
				     sizeof(s->path));
	}
	if (r == 0 && !*s->path)
		return -ENOENT;
	/* Below another root the path is another one. */
	if (r == 0 && s->how.resolve & RESOLVE_IN_ROOT && *s->path == '/')
		return -EPERM;
	return r;
}

static int find_again(const struct open_asker *a, struct call *c, int root_fd,
		      struct snapshot *s)
{
	return a->asker->finder
		       ? ask_find_object(a->asker, c, s->dirfd, 0, s->path,
					 follows(&s->how), &s->object)
		       : object_find_from(c, root_fd, s->dirfd, s->path,
					  follows(&s->how), NULL, &s->object);
}

bool open_is_write(const struct open_how *how)
{
	return (how->flags & O_ACCMODE) != O_RDONLY ||
	       how->flags & (O_CREAT | O_TRUNC);
}

static int root_of(const struct opening *x)
{
	return x->caller ? x->caller->root_fd : x->root_fd;
}

/* One look at it, for all that want something of it. */
static void find_caller(const struct open_asker *a, struct call *c,
			struct opening *x)
{
	x->has_who =
		callers_find(&a->opener->callers, c, x->s.how.flags & O_CREAT,
			     &x->who, &x->caller) == 0;
	if (!x->has_who) {
		act_settle();
		x->root_fd = call_open_root(c);
		return;
	}
	c->tgid = x->who.tgid;
	c->ppid = x->who.ppid;
}

/* Of openat2 the kernel checks more than of the others. */
static bool is_checked(struct call *c, const struct open_how *how)
{
	return call_nr(c) == SYS_openat2 &&
	       (how->flags & ~(uint64_t)OPEN_FLAGS_KNOWN ||
		(how->mode && !(how->flags & O_CREAT)));
}

/* As the caller where that can be. */
static int find_first(const struct open_asker *a, struct call *c,
		      struct opening *x)
{
	struct object_found found = { .fd = -EAGAIN };
	const struct open_how *how = &x->s.how;
	struct snapshot *s = &x->s;
	char real[PATH_MAX];
	bool may_open = false;
	int r;

	if (x->has_who && *s->path == '/' && !is_checked(c, how))
		may_open =
			opener_find(a->opener, c, &x->who, root_of(x), s->path,
				    how, follows(how), &found, real);
	if (found.fd < 0 || *s->path != '/')
		act_settle();
	r = object_find_from(c, root_of(x), s->dirfd, s->path, follows(how),
			     x->has_who ? &found : NULL, &s->object);
	if (may_open && r == 0)
		x->found_fd = take_fd(&found.fd);
	/* What it may not search is not told of. */
	if (r == 0 && !s->object.exists && s->object.real)
		x->is_missing = found.fd == -ENOENT ||
				(x->has_who &&
				 opener_misses(&x->who, root_of(x),
					       s->object.walk, follows(how)));
	cleanup_close(&found.fd);
	return r;
}

static int capture(const struct open_asker *a, struct call *c,
		   struct opening *x)
{
	struct snapshot *s = &x->s;
	unsigned int i = 0;
	int r;

	if (a->asker->finder || call_nr(c) == SYS_openat2)
		act_settle();
	r = open_call_read(c, &s->dirfd, &s->how, &i);
	if (r == 0)
		r = read_path(c, i, s);
	if (r < 0)
		return r;
	find_caller(a, c, x);
	if (root_of(x) < 0)
		return root_of(x);
	if (!a->asker->finder)
		return find_first(a, c, x);
	r = ask_find_object(a->asker, c, s->dirfd, call_arg(c, i), s->path,
			    follows(&s->how), &s->object);
	x->is_missing = r == 0 && !s->object.exists && s->object.real;
	return r;
}

/* Without a byte for the places that are filled when it is looked at. */
static struct opening *opening_new(void)
{
	struct opening *x = malloc(sizeof(*x));

	if (!x)
		return NULL;
	x->s.how = (struct open_how){ .flags = 0 };
	x->s.object = (struct object){ .exists = false };
	x->caller = NULL;
	x->root_fd = x->found_fd = -1;
	x->has_who = x->is_missing = false;
	x->ask = (struct ask){ .is_asked = false };
	x->rule = NULL;
	return x;
}

static struct outcome before_open(struct call *c, void *data)
{
	const struct open_asker *a = data;
	struct event e = { .syscall = open_call_name(c),
			   .category = EVENT_FILE };
	struct opening *x = call_kept_by(c, opening_free);
	struct outcome o;
	int r;

	if (!x) {
		x = opening_new();
		if (!x)
			return OUTCOME_FAIL(ENOMEM);
		call_keep(c, x, opening_free);
		r = capture(a, c, x);
		if (r < 0)
			return OUTCOME_FAIL(-r);
		/* There is nothing to ask about, nor to open. */
		if (x->is_missing && !(x->s.how.flags & O_CREAT))
			return OUTCOME_FAIL(ENOENT);
		x->rule = ask_match_open(a->rules, x->s.object.path,
					 x->s.object.real);
	}
	e.writes = open_is_write(&x->s.how);
	if (x->caller && ask_is_asked(a->asker, x->rule))
		e.program = callers_program(&a->opener->callers, x->caller, c);
	o = ask_about_object(a->asker, &x->ask, c, &e, &x->s.object, x->rule);
	if (o.kind == OUTCOME_HELD)
		drop_fds(x);
	return o;
}

static struct outcome open_instead(struct call *c, void *data, bool may_wait)
{
	const struct open_asker *a = data;
	struct opening *x = call_kept_by(c, opening_free);
	const struct open_how *how = x ? &x->s.how : NULL;
	int fd;

	if (!x)
		return OUTCOME_GO;
	/* As it is now, after an answer that may have changed it. */
	if (ask_is_denied(a->asker, c, open_call_name(c), &x->s.object))
		return OUTCOME_FAIL(EACCES);
	if (!x->has_who || is_checked(c, how))
		return OUTCOME_GO;
	if (x->found_fd >= 0 && x->s.object.real) {
		fd = opener_open_found(a->opener, c, &x->who, x->found_fd, how);
		return fd < 0 ? OUTCOME_GO
			      : OUTCOME_OPEN(fd, how->flags & O_CLOEXEC);
	}
	act_settle();
	if (root_of(x) < 0)
		x->root_fd = call_open_root(c);
	fd = opener_open(a->opener, c, &x->who, &x->s.object, root_of(x),
			 x->s.dirfd, how, follows(how), may_wait);
	if (fd == -EINPROGRESS) {
		drop_fds(x);
		return OUTCOME_WAIT;
	}
	return fd < 0 ? OUTCOME_GO : OUTCOME_OPEN(fd, how->flags & O_CLOEXEC);
}

/* ------------------------------------------------------------- freeze -- */

/* What may wait in open(2): a caller that is interrupted begins anew. */
static bool may_wait(const struct object *o)
{
	return o->exists && !S_ISREG(o->st.st_mode) && !S_ISDIR(o->st.st_mode);
}

static int check_again(const struct open_asker *a, struct call *c,
		       const struct opening *x)
{
	struct snapshot *now = calloc(1, sizeof(*now));
	auto_close int root_fd = call_open_root(c);
	unsigned int i = 0;
	int r = now ? open_call_read(c, &now->dirfd, &now->how, &i) : -ENOMEM;

	if (r == 0)
		r = root_fd < 0 ? root_fd : read_path(c, i, now);
	if (r == 0)
		r = find_again(a, c, root_fd, now);
	if (r == 0 &&
	    (strcmp(x->s.path, now->path) != 0 ||
	     memcmp(&x->s.how, &now->how, sizeof(now->how)) != 0 ||
	     !object_is_same(&x->s.object, &now->object) ||
	     ask_is_denied(a->asker, c, open_call_name(c), &now->object)))
		r = -EPERM;
	if (now)
		object_done(&now->object);
	free(now);
	return r;
}

static int settle(struct call *c, void *data)
{
	const struct open_asker *a = data;
	const struct opening *x = call_kept_by(c, opening_free);
	int e;

	if (!x)
		return EPERM;
	ask_hold_objects(a->asker, true);
	e = freezer_begin(a->freezer, c,
			  may_wait(&x->s.object) ? FREEZE_WATCH : FREEZE_SEIZE);
	/* Whose memory is another one's, too, is stopped: it would begin anew,
	 * and be asked about, for ever. */
	if (e == 0 && (check_again(a, c, x) < 0 ||
		       (opener_waits(&x->s.object, &x->s.how) &&
			freezer_has_sharer(a->freezer)))) {
		freezer_cancel(a->freezer, c);
		e = EPERM;
	}
	if (e)
		ask_hold_objects(a->asker, false);
	return e;
}

static void sent(struct call *c, void *data)
{
	const struct open_asker *a = data;

	freezer_end(a->freezer, c);
	ask_hold_objects(a->asker, false);
}

static void undo(struct call *c, void *data)
{
	const struct open_asker *a = data;

	freezer_cancel(a->freezer, c);
	ask_hold_objects(a->asker, false);
}

const struct object *open_shown(const struct call *c, struct open_how *ret_how)
{
	const struct opening *x = call_kept_by(c, opening_free);

	if (!x)
		return NULL;
	*ret_how = x->s.how;
	return &x->s.object;
}

static const struct account account = { settle, sent, undo, open_instead };

size_t open_rows(struct open_asker *a, struct handler ret[OPEN_ROWS])
{
	const struct handler row = { .lane = LANE_LOCAL,
				     .fn = before_open,
				     .data = a,
				     .account = &account,
				     .is_bare = true };

	return open_family_rows(&row, ret);
}
