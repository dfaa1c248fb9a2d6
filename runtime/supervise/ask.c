#include "supervise/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "supervise/act.h"
#include "supervise/denials.h"
#include "supervise/denied_paths.h"
#include "supervise/internal.h"
#include "supervise/object.h"

/* More than a record holds: it shows that it is cut. */
enum { WHY_MAX = DENIAL_TEXT_MAX + APPROVAL_TEXT_MAX };

static void wake(void *data)
{
	call_resume(data);
}

static void record(const struct asker *a, struct call *c, const struct event *e,
		   const char *code, const char *rule, int error, bool is_told)
{
	auto_(buf) struct buf object = BUF_INIT;
	const struct denial d = {
		.code = code,
		.call = e->syscall,
		.error = error,
		.object = (event_describe(e, DENIAL_OBJECT_MAX, &object, NULL),
			   buf_str(&object)),
		.rule = rule,
		.event = e,
		.is_told = is_told,
	};

	act_settle();
	denials_add_call(a->denials, c, &d);
}

static uint64_t timeout_of(const struct asker *a, const struct event *e)
{
	return e->category == EVENT_NETWORK ? a->network_timeout_ms
					    : a->timeout_ms;
}

/* Who denied was the deadline: nobody has answered. */
static void record_expired(const struct asker *a, struct call *c,
			   const struct event *e, const char *rule)
{
	uint64_t ms = timeout_of(a, e);
	char why[DENIAL_TEXT_MAX];

	(void)snprintf(why, sizeof(why),
		       "%.160s: nobody answered before the deadline "
		       "(%llu.%03llu s)",
		       rule ? rule : "callback", (unsigned long long)ms / 1000,
		       (unsigned long long)ms % 1000);
	record(a, c, e, "ask.expired", why, EPERM, false);
}

static enum ask_answer deny(const struct asker *a, struct call *c,
			    const struct event *e, const char *rule, int error,
			    bool is_told, struct outcome *ret)
{
	record(a, c, e, "ask.denied", rule, error, is_told);
	*ret = OUTCOME_FAIL(error);
	return ASK_DENIED;
}

/* And what whoever has denied it said. */
static const char *with_reason(const struct ask *k, const char *rule,
			       char why[WHY_MAX])
{
	const char *reason = approval_reason(&k->wait);

	if (!reason)
		return rule;
	(void)snprintf(why, WHY_MAX, "%.128s: %s", rule ? rule : "callback",
		       reason);
	return why;
}

static int begin(const struct asker *a, struct ask *k, struct call *c,
		 const struct event *e, const char *rule)
{
	uint64_t ms = timeout_of(a, e);
	uint64_t deadline_ns;
	int r;

	k->asker = a;
	k->is_over = false;
	k->wait.wake = wake;
	k->wait.data = c;
	deadline_ns = clock_now_ns() + ms * UINT64_C(1000000);
	r = a->join ? a->join(a->join_data, e, rule, deadline_ns, &k->wait)
		    : approval_join(a->book, e, rule, deadline_ns, &k->wait);
	if (r < 0)
		return r;
	k->is_asked = true;
	call_set_deadline(c, approval_deadline_ns(&k->wait), EPERM);
	return 0;
}

enum ask_answer ask_about(const struct asker *a, struct ask *k, struct call *c,
			  const struct event *e, const char *rule,
			  struct outcome *ret)
{
	char why[WHY_MAX];
	enum approval_state state;
	int error = EPERM;

	if (!a->book)
		return deny(a, c, e, rule, EPERM, false, ret);
	if (!k->is_asked && begin(a, k, c, e, rule) < 0)
		return deny(a, c, e, rule, ENOMEM, false, ret);
	state = approval_look(&k->wait, &error);
	k->is_over = state != APPROVAL_WAITING;
	switch (state) {
	case APPROVAL_WAITING:
		*ret = OUTCOME_WAIT;
		return ASK_WAITS;
	case APPROVAL_ANSWERED:
		if (error == 0)
			return ASK_ALLOWED;
		rule = with_reason(k, rule, why);
		break;
	case APPROVAL_EXPIRED:
		record_expired(a, c, e, rule);
		*ret = OUTCOME_FAIL(error);
		return ASK_DENIED;
	case APPROVAL_CANCELLED:
		break;
	}
	return deny(a, c, e, rule, error,
		    state == APPROVAL_ANSWERED && a->asks_all, ret);
}

void ask_done(struct ask *k)
{
	const struct event *e =
		k->is_asked && !k->is_over ? approval_expired(&k->wait) : NULL;

	/* The ticker has answered, and the row was not run again. */
	if (e)
		record_expired(k->asker, k->wait.data, e,
			       approval_rule(&k->wait));
	approval_leave(&k->wait);
	k->is_asked = false;
}

int ask_find_object(const struct asker *a, struct call *c, int dirfd,
		    uint64_t addr, const char *path, bool follow,
		    struct object *ret)
{
	const struct object_finder *f = a->finder;

	return f ? f->find(f->data, c, dirfd, addr, path, follow, ret)
		 : object_find(c, dirfd, path, follow, ret);
}

void ask_hold_objects(const struct asker *a, bool held)
{
	if (a->finder)
		a->finder->hold(a->finder->data, held);
}

static bool is_denied(const struct asker *a, struct call *c,
		      const struct event *call, const struct object *o)
{
	struct event e = *call;
	const struct denial d = {
		.code = "fs.denied",
		.call = e.syscall,
		.error = EACCES,
		.object = o->path,
		.rule = o->is_veiled ? "a path through a link of /proc"
				     : "denied at run time",
		.event = &e,
	};

	e.path = o->path;

	if (!o->is_veiled &&
	    !denied_paths_has(a->denied_paths, o->path, o->real))
		return false;
	act_settle();
	denials_add_call(a->denials, c, &d);
	return true;
}

bool ask_is_denied(const struct asker *a, struct call *c, const char *name,
		   const struct object *o)
{
	const struct event e = { .syscall = name,
				 .category = strncmp(name, "exec", 4) == 0
						     ? EVENT_PROCESS
						     : EVENT_FILE };

	return is_denied(a, c, &e, o);
}

void ask_fill_caller(struct event *e, struct call *c)
{
	char link[32], path[PATH_MAX];

	if (!e->program || !c->tgid || !c->ppid)
		act_settle();
	e->pid = call_tgid(c);
	e->parent_pid = call_ppid(c);
	if (e->program)
		return;
	(void)snprintf(link, sizeof(link), "/proc/%d/exe", (int)e->pid);
	if (fd_read_link(AT_FDCWD, link, path) == 0)
		e->program = strdup(path);
}

/* A program of a branch, by its path there. */
static void show_program(const struct asker *a, struct event *e)
{
	const struct object_finder *f = a->finder;
	char *shown = f && e->program ? f->show(f->data, e->program) : NULL;

	if (!shown)
		return;
	free(e->program);
	e->program = shown;
}

static void free_program(struct event *e)
{
	free(e->program);
	e->program = NULL;
}

static struct outcome ask_if_asked(const struct asker *a, struct ask *k,
				   struct call *c, struct event *e,
				   const struct object *o, const char *rule)
{
	struct outcome ret = OUTCOME_GO;

	if (is_denied(a, c, e, o))
		return OUTCOME_FAIL(EACCES);
	if (!ask_is_asked(a, rule))
		return OUTCOME_GO;
	e->path = o->real ? o->real : o->path;
	ask_fill_caller(e, c);
	show_program(a, e);
	if (e->is_launcher)
		free_program(e);
	(void)ask_about(a, k, c, e, rule, &ret);
	return ret;
}

bool ask_is_asked(const struct asker *a, const char *rule)
{
	return rule || a->asks_all;
}

struct outcome ask_about_object(const struct asker *a, struct ask *k,
				struct call *c, struct event *e,
				const struct object *o, const char *rule)
{
	struct outcome ret = ask_if_asked(a, k, c, e, o, rule);

	free_program(e);
	return ret;
}
