#include "sandbox/why.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "control/client.h"
#include "policy/syscalls.h"
#include "sandbox/lookup.h"
#include "sandbox/reach.h"
#include "spec/request.h"
#include "spec/spec.h"

CLEANUP_PTR(struct json, json_free);

_Static_assert((int)WHY_UNKNOWN == (int)REACH_UNKNOWN, "verdicts differ");

struct question {
	const char *word;
	struct found found;
	struct spec *spec;
	struct request *request; /* of what is judged, else NULL */
	why_fn *fn;
	void *data;
};

static int say(struct question *q, const char *what, enum why_verdict verdict,
	       const char *because, const char *remedy)
{
	const struct why_answer a = { what, verdict, because, remedy };

	return q->fn(q->data, &a);
}

static int say_reach(struct question *q, const char *what,
		     const struct reach_answer *a)
{
	return say(q, what, (enum why_verdict)a->verdict, a->because,
		   a->remedy[0] ? a->remedy : NULL);
}

static int judge_path(struct question *q, struct error *err)
{
	struct reach r = { q->spec, q->found.state->host ? q->request : NULL,
			   -1, NULL };
	auto_close int root = -1;
	struct reach_answer a;
	char path[64];
	int n;

	if (q->found.state->notify)
		return say(q, "read or write", WHY_UNKNOWN,
			   "Landlock rules decide: `sandlock inspect` has them",
			   NULL);
	(void)snprintf(path, sizeof(path), "/proc/%d/root",
		       (int)q->found.state->init.pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return error_set(err, ERR_STATE, errno, "cannot look into '%s'",
				 q->found.state->name);
	r.root_fd = root;
	reach_read(&r, q->word, &a);
	n = say_reach(q, "read", &a);
	if (n != 0)
		return n;
	reach_write(&r, q->word, &a);
	return say_reach(q, "write", &a);
}

/*
 * Where a bundle's own filter refuses, the kernel tells nobody, so that is on
 * no record; what it says is known all the same.
 */
static int judge_bundle_call(struct question *q)
{
	const struct spec_seccomp *s = q->spec->seccomp;
	enum why_verdict v = WHY_DENIED;
	struct spec_seccomp_said said;
	char because[256], what[64] = "";

	if (!s)
		return say(q, "call", WHY_ALLOWED,
			   "the bundle has no filter: capabilities and mounts "
			   "decide",
			   NULL);
	spec_seccomp_look_up(s, q->word, &said);
	if (said.ret == SECCOMP_RET_ERRNO)
		(void)snprintf(what, sizeof(what), " (%s)",
			       strerrorname_np((int)said.errno_ret)
				       ? strerrorname_np((int)said.errno_ret)
				       : "an errno");
	if (said.ret == SECCOMP_RET_ALLOW || said.ret == SECCOMP_RET_LOG)
		v = WHY_ALLOWED;
	/* An agent, or a tracer, has the word. */
	if (said.looks_at_args || said.ret == SECCOMP_RET_USER_NOTIF ||
	    said.ret == SECCOMP_RET_TRACE)
		v = WHY_UNKNOWN;
	(void)snprintf(
		because, sizeof(because), "linux.seccomp%s: %s%s%s%s",
		said.is_default ? ".defaultAction" : "", said.action, what,
		said.looks_at_args ? ", for some arguments another one" : "",
		v == WHY_ALLOWED ? "; capabilities and mounts decide" : "");
	return say(q, "call", v, because, NULL);
}

static int judge_call(struct question *q, struct error *err)
{
	unsigned int shared =
		(q->spec->ns[SPEC_NS_NETWORK].want == SPEC_NS_INHERIT
			 ? SYSCALL_SHARED_NETWORK
			 : 0) |
		(q->found.state->notify ? SYSCALL_SHARED_ALL : 0) |
		(q->found.state->judged & TRAP_NETWORK ? SYSCALL_JUDGED_NETWORK
						       : 0);
	char because[256], remedy[64];
	const struct syscall_group_row *g;
	struct syscall_refusal why;

	if (!q->request)
		return judge_bundle_call(q);
	if (!policy_refusal(q->request, shared, q->word, NULL, &why))
		return q->request->bundle ? judge_bundle_call(q)
					  : say(q, "call", WHY_ALLOWED,
						"no rule refuses it", NULL);
	if (!why.row)
		return say(q, "call", WHY_DENIED, "syscalls.extra_deny", NULL);
	g = &syscall_groups[why.row->group];
	(void)snprintf(because, sizeof(because), "builtin:%s (%s)%s%s", g->name,
		       g->why, why.row->what ? "; only " : "",
		       why.row->what ? why.row->what : "");
	(void)snprintf(remedy, sizeof(remedy), "--extra-allow-syscall %s",
		       g->name);
	return say(q, "call", WHY_DENIED, because,
		   g->optional && !q->found.state->notify ? remedy : NULL);
}

/* What it was asked for, as its supervisor says. */
static int ask_request(struct question *q, struct error *err)
{
	auto_ptr(json_free) struct json *answer = NULL;
	auto_ptr(request_free) struct request *r = NULL;
	const char *text;
	int n;

	if (!q->found.state->host && !q->found.state->judged)
		return 0;
	n = control_ask(q->found.rundir, q->found.state->name, "config",
			"{\"format\":\"toml\"}", &answer, err);
	if (n < 0)
		return n;
	text = json_str_or(answer, "toml", "");
	r = request_new();
	if (!r)
		return error_set(err, ERR_SYSTEM, ENOMEM, "request");
	n = profile_parse(r, text, strlen(text), "inspect", err);
	if (n == 0)
		q->request = take_ptr(&r);
	return n;
}

int sandbox_why(const struct sandbox_env *env, const char *name,
		const char *word, why_fn *fn, void *data, struct error *err)
{
	struct question q = { .word = word, .fn = fn, .data = data };
	bool is_path = word[0] == '/';
	int r = 0;

	if (!is_path && seccomp_syscall_resolve_name(word) == __NR_SCMP_ERROR)
		return error_say(err, ERR_USAGE, EINVAL,
				 "'%s' is neither a path nor a system call",
				 word);
	r = found_open(env, name, false, &q.found, err);
	if (r == 0 && q.found.status == STATUS_STOPPED)
		r = error_say(err, ERR_STATE, ESRCH, "'%s' does not run", name);
	if (r == 0)
		r = state_load_spec(q.found.slot, q.found.state, env->log,
				    &q.spec, err);
	if (r == 0)
		r = ask_request(&q, err);
	if (r == 0)
		r = is_path ? judge_path(&q, err) : judge_call(&q, err);
	request_free(q.request);
	spec_free(q.spec);
	found_done(&q.found);
	return r;
}
