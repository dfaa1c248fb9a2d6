#include "sandbox/why.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "control/client.h"
#include "policy/syscalls.h"
#include "sandbox/lookup.h"
#include "spec/request.h"
#include "spec/spec.h"

CLEANUP_PTR(struct json, json_free);

struct question {
	const char *word;
	struct found found;
	struct spec *spec;
	struct request *request; /* of a host command, else NULL */
	why_fn *fn;
	void *data;
};

static int say(struct question *q, const char *what, enum why_verdict verdict,
	       const char *because, const char *remedy)
{
	const struct why_answer a = { what, verdict, because, remedy };

	return q->fn(q->data, &a);
}

static const char *mask_of(const struct question *q)
{
	const struct spec_strings *masks = &q->spec->masked_paths;

	for (size_t i = 0; i < masks->n; i++)
		if (path_is_under(q->word, masks->v[i]))
			return masks->v[i];
	return NULL;
}

/* Hidden by the caller's own words, or by ours. */
static int say_masked(struct question *q, const char *mask)
{
	const char *where =
		q->request ? request_origin(q->request, "filesystem.deny", mask)
			   : NULL;
	char because[512];
	int r;

	if (where)
		(void)snprintf(because, sizeof(because),
			       "filesystem.deny hides '%s'", mask);
	else if (q->request)
		(void)snprintf(because, sizeof(because),
			       "builtin:secrets hides '%s' from every sandbox",
			       mask);
	else
		(void)snprintf(because, sizeof(because),
			       "linux.maskedPaths hides '%s'", mask);
	r = say(q, "read", WHY_DENIED, because, NULL);
	return r == 0 ? say(q, "write", WHY_DENIED, because, NULL) : r;
}

static int say_absent(struct question *q)
{
	char remedy[2 * PATH_MAX];
	struct stat st;
	int r;

	if (lstat(q->word, &st) < 0) {
		char because[128];

		(void)snprintf(because, sizeof(because),
			       "not sandlock: on the host, too: %s",
			       strerrordesc_np(errno));
		return say(q, "read", WHY_UNKNOWN, because, NULL);
	}
	/* --fs-read takes the place of what is seen without one. */
	if (q->request && q->request->read.n)
		(void)snprintf(remedy, sizeof(remedy), "--fs-read %s", q->word);
	else
		(void)snprintf(remedy, sizeof(remedy), "--fs-mount %s:%s:ro",
			       q->word, q->word);
	r = say(q, "read", WHY_DENIED, "it is not among what the sandbox sees",
		q->request && access(q->word, R_OK) == 0 ? remedy : NULL);
	return r == 0 ? say(q, "write", WHY_DENIED,
			    "it is not among what the sandbox sees", NULL)
		      : r;
}

/* What the host says of who we are, which is who the payload is. */
static bool may_access(int fd, int mode)
{
	char path[FD_PATH_MAX];

	return faccessat(AT_FDCWD, fd_proc_path(fd, path), mode, AT_EACCESS) ==
	       0;
}

static int say_modes(struct question *q, const char *what, const struct stat *s)
{
	char because[128];

	(void)snprintf(because, sizeof(because),
		       "not sandlock: mode %04o of owner %u, group %u",
		       s->st_mode & 07777, (unsigned int)s->st_uid,
		       (unsigned int)s->st_gid);
	return say(q, what, WHY_DENIED, because, NULL);
}

static int say_write(struct question *q, int fd, const struct stat *st)
{
	struct statvfs v;
	struct statfs f;
	char remedy[PATH_MAX + 16];
	bool helps = q->request && access(q->word, W_OK) == 0;

	if (fstatvfs(fd, &v) < 0 || fstatfs(fd, &f) < 0)
		return say(q, "write", WHY_UNKNOWN, strerrordesc_np(errno),
			   NULL);
	(void)snprintf(remedy, sizeof(remedy), "--fs-write %s", q->word);
	if (v.f_flag & ST_RDONLY)
		return say(q, "write", WHY_DENIED, "it is mounted read-only",
			   helps ? remedy : NULL);
	if (!may_access(fd, W_OK))
		return say_modes(q, "write", st);
	if (f.f_type == OVERLAYFS_SUPER_MAGIC)
		return say(q, "write", WHY_ALLOWED, "it goes to the branch",
			   NULL);
	if (f.f_type == TMPFS_MAGIC && q->request)
		return say(q, "write", WHY_ALLOWED,
			   "the place is the sandbox's own, and ends with it",
			   NULL);
	return say(q, "write", WHY_ALLOWED, "it is written through", NULL);
}

static int judge_path(struct question *q, struct error *err)
{
	const char *mask = mask_of(q);
	auto_close int root = -1;
	auto_close int fd = -1;
	char path[64];
	struct stat st;
	int r;

	if (mask)
		return say_masked(q, mask);
	(void)snprintf(path, sizeof(path), "/proc/%d/root",
		       (int)q->found.state->init.pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return error_set(err, ERR_STATE, errno, "cannot look into '%s'",
				 q->found.state->name);
	fd = fd_open_in_root(root, q->word, O_PATH, 0);
	if (fd == -ENOENT || fd == -ENOTDIR)
		return say_absent(q);
	if (fd < 0 || fstat(fd, &st) < 0)
		return say(q, "read", WHY_UNKNOWN,
			   strerrordesc_np(fd < 0 ? -fd : errno), NULL);
	r = may_access(fd, R_OK)
		    ? say(q, "read", WHY_ALLOWED, "the sandbox sees it", NULL)
		    : say_modes(q, "read", &st);
	return r == 0 ? say_write(q, fd, &st) : r;
}

static int judge_call(struct question *q, struct error *err)
{
	bool shared = q->spec->ns[SPEC_NS_NETWORK].want == SPEC_NS_INHERIT;
	char because[256], remedy[64];
	const struct syscall_group_row *g;
	struct syscall_refusal why;

	if (!q->request)
		return say(q, "call", WHY_UNKNOWN,
			   "the filter of a bundle is its own: linux.seccomp",
			   NULL);
	if (!policy_refusal(q->request, shared, q->word, NULL, &why))
		return say(q, "call", WHY_ALLOWED, "no rule refuses it", NULL);
	if (!why.row)
		return say(q, "call", WHY_DENIED, "syscalls.extra_deny", NULL);
	g = &syscall_groups[why.row->group];
	(void)snprintf(because, sizeof(because), "builtin:%s (%s)%s%s", g->name,
		       g->why, why.row->what ? "; only " : "",
		       why.row->what ? why.row->what : "");
	(void)snprintf(remedy, sizeof(remedy), "--extra-allow-syscall %s",
		       g->name);
	return say(q, "call", WHY_DENIED, because, g->optional ? remedy : NULL);
}

/* What it was asked for, as its supervisor says. */
static int ask_request(struct question *q, struct error *err)
{
	auto_ptr(json_free) struct json *answer = NULL;
	auto_ptr(request_free) struct request *r = NULL;
	const char *text;
	int n;

	if (!q->found.state->host)
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
