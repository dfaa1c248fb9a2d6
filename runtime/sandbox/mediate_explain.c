/*
 * --explain: files that a command wanted and that are out of its reach go on
 * record. The kernel refuses by itself, in the mounts that the sandbox has:
 * nothing is decided here. What was read of the caller counts for the record
 * only.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "policy/syscalls.h"
#include "sandbox/create.h"
#include "sandbox/host.h"
#include "sandbox/mediate.h"
#include "sandbox/reach.h"
#include "spec/request.h"
#include "supervise/denials.h"
#include "supervise/object.h"
#include "supervise/open.h"

struct explain {
	struct reach reach;
	struct denials *denials;
};

static void free_explain(void *p)
{
	struct explain *e = p;

	cleanup_close(&e->reach.root_fd);
	free(e);
}

static void judge(const struct explain *e, struct call *c,
		  const struct object *o, bool writes)
{
	const char *path = o->real ? o->real : o->path;
	struct reach_answer a;
	struct denial x = {
		.code = writes ? "fs.write_file" : "fs.read_file",
		.call = open_call_name(c),
		.object = path,
	};

	if (!path || path[0] != '/')
		return;
	/* What is denied there is told by who denies it. */
	if (e->reach.plan && reach_in_branch(e->reach.plan, path))
		return;
	if (writes)
		reach_write(&e->reach, path, &a);
	else
		reach_read(&e->reach, path, &a);
	if (a.verdict != REACH_DENIED || !a.ours || !call_is_valid(c))
		return;
	x.error = a.error;
	x.rule = a.because;
	x.where = a.where;
	x.remedy = a.remedy[0] ? a.remedy : NULL;
	denials_add_call(e->denials, c, &x);
}

static struct outcome look(struct call *c, void *data)
{
	auto_free char *path = malloc(PATH_MAX);
	struct open_how how = { .flags = 0 };
	struct object o = { .path = NULL };
	unsigned int at;
	int dirfd;

	if (!path || open_call_read(c, &dirfd, &how, &at) < 0 ||
	    call_read_string(c, call_arg(c, at), path, PATH_MAX) < 0)
		return OUTCOME_GO;
	if (object_find(c, dirfd, path, !(how.flags & O_NOFOLLOW), &o) == 0)
		judge(data, c, &o, open_is_write(&how));
	object_done(&o);
	return OUTCOME_GO;
}

static unsigned int traps(const struct host_context *h)
{
	return h->request->explain ? TRAP_OPEN : 0;
}

static int add_rows(struct mediation *m, struct explain *e, struct error *err)
{
	const struct handler row = { .lane = LANE_LOCAL,
				     .fn = look,
				     .data = e };
	struct handler rows[OPEN_ROWS];
	size_t n = open_family_rows(&row, rows);

	return mediation_add_rows(m, rows, n, err);
}

static int begin(struct mediation *m, struct error *err)
{
	const struct create *c = mediation_create(m);
	struct explain *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return error_set(err, ERR_SYSTEM, ENOMEM, "handlers");
	*e = (struct explain){
		.reach = { c->plan->spec, c->command->request, -1,
			   c->plan->notify ? c->plan : NULL },
		.denials = c->denials,
	};
	mediation_set_state(m, e);
	r = mediation_own(m, e, free_explain, err);
	return r == 0 ? add_rows(m, e, err) : r;
}

static int started(struct mediation *m, void *state, pid_t pid,
		   struct error *err)
{
	struct explain *e = state;
	char root[40];

	(void)snprintf(root, sizeof(root), "/proc/%d/root", (int)pid);
	e->reach.root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (e->reach.root_fd < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot open '%s'",
				 root);
	return 0;
}

const struct mediate_feature mediate_explain = {
	.flag = "--explain",
	.is_asked_for = true,
	.traps = traps,
	.begin = begin,
	.started = started,
};
