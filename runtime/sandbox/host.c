#include "sandbox/host.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/utf8.h"
#include "kernel/landlock.h"
#include "kernel/userns.h"
#include "sandbox/mediate.h"

static void context_done(struct host_context *h)
{
	free(h->cwd);
	free(h->chroot);
	spec_strings_done(&h->workdirs);
	spec_strings_done(&h->env);
	spec_strings_done(&h->mount_bytes);
	spec_strings_done(&h->mask_bytes);
	idmap_done(&h->idmap);
	net_rules_done(&h->net);
	free(h->hosts);
}

static int real_dir(const char *flag, const char *path, char **ret,
		    struct error *err)
{
	struct stat st;
	char *real = realpath(path, NULL);

	if (!real)
		return error_set(err, ERR_USAGE, errno, "%s '%s'", flag, path);
	if (stat(real, &st) < 0 || !S_ISDIR(st.st_mode)) {
		free(real);
		return error_say(err, ERR_USAGE, ENOTDIR,
				 "%s '%s' is no directory", flag, path);
	}
	*ret = real;
	return 0;
}

bool host_names_root(const struct spec_strings *list)
{
	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->v[i], "/") == 0)
			return true;
	return false;
}

bool host_root_is_chroot(const struct host_context *h)
{
	return h->chroot && !h->workdirs.n;
}

bool host_root_is_read_only(const struct host_context *h)
{
	const struct request *r = h->request;

	if (!host_root_is_chroot(h))
		return true;
	return !host_names_root(&r->write) &&
	       ((host_names_root(&r->read) && !r->workdirs.n) || r->no_branch);
}

bool host_has_branch(const struct host_context *h)
{
	const struct request *r = h->request;

	return !r->no_branch &&
	       !(host_root_is_chroot(h) && host_names_root(&r->write));
}

int host_check_quota(const struct host_context *h, struct error *err)
{
	if (!h->request->quota_bytes || host_has_branch(h))
		return 0;
	return error_say(err, ERR_USAGE, EINVAL,
			 "%s: there is no branch that it is of",
			 request_where(h->request, "limits.disk"));
}

/* By another name: what two branches say of one place contradicts. */
static int check_other(const struct host_context *h, const char *flag,
		       const char *path, struct error *err)
{
	struct stat st, other;

	if (stat(path, &st) < 0)
		return error_set(err, ERR_USAGE, errno, "%s '%s'", flag, path);
	for (size_t i = 0; i < h->workdirs.n; i++)
		if (stat(h->workdirs.v[i], &other) == 0 &&
		    st.st_ino == other.st_ino && st.st_dev == other.st_dev)
			return error_say(err, ERR_USAGE, EINVAL,
					 "%s '%s' is the same directory as "
					 "'%s': name one of them",
					 flag, path, h->workdirs.v[i]);
	return 0;
}

/* The real path, on the host, of a directory to work in. */
static int find_dir(const struct host_context *h, const char *flag,
		    const char *path, char **ret, struct error *err)
{
	char real[PATH_MAX];
	int n;

	if (!h->chroot)
		return real_dir(flag, path, ret, err);
	n = host_find_inside(h, flag, path, real, err);
	return n < 0 ? n : real_dir(flag, real, ret, err);
}

/* Once, whatever its name. */
static int add_workdir(struct host_context *h, const char *flag,
		       const char *path, struct error *err)
{
	const char *top = h->chroot ? h->chroot : "/";
	auto_free char *real = NULL;
	int n = find_dir(h, flag, path, &real, err);

	if (n < 0)
		return n;
	if (strcmp(real, "/") == 0 && !h->request->workdirs.n) {
		(void)error_say(err, ERR_USAGE, EINVAL,
				"the current directory is '/'");
		return error_hint(err, "go to a directory, or name one with "
				       "--workdir; --workdir / takes all");
	}
	if (!h->cwd) {
		h->cwd = strdup(h->request->cwd ? h->request->cwd
						: path_below(real, top));
		if (!h->cwd)
			return error_set(err, ERR_SYSTEM, ENOMEM, "--cwd");
	}
	if (strcmp(real, "/") == 0)
		return host_add_root(h, err);
	for (size_t i = 0; i < h->workdirs.n; i++)
		if (strcmp(h->workdirs.v[i], real) == 0)
			return 0;
	n = check_other(h, flag, real, err);
	if (n < 0)
		return n;
	return spec_strings_add(&h->workdirs, real) < 0
		       ? error_set(err, ERR_SYSTEM, ENOMEM, "%s", flag)
		       : 0;
}

/* All of it is on a branch, unless workdirs in it are named. */
static int find_in_chroot(struct host_context *h, struct error *err)
{
	const struct request *r = h->request;
	int n = real_dir("--chroot", r->chroot, &h->chroot, err);

	if (n == 0 && r->workdirs.n && strcmp(h->chroot, "/") == 0)
		return error_say(err, ERR_USAGE, EINVAL,
				 "--chroot: '/' is the root of the host");
	for (size_t i = 0; n == 0 && i < r->workdirs.n; i++) {
		n = add_workdir(h, "--workdir", r->workdirs.v[i], err);
		if (n < 0 ||
		    strcmp(h->workdirs.v[h->workdirs.n - 1], h->chroot) != 0)
			continue;
		spec_strings_done(&h->workdirs);
		break;
	}
	if (n == 0 && !h->cwd) {
		h->cwd = strdup(r->cwd ? r->cwd : "/");
		if (!h->cwd)
			n = error_set(err, ERR_SYSTEM, ENOMEM, "--cwd");
	}
	return n;
}

/*
 * Without a flag the directory that the caller is in is worked in, on a
 * branch. --cwd starts elsewhere; it does not make that a branch.
 */
static int find_workdir(struct host_context *h, struct error *err)
{
	const struct request *r = h->request;
	int n = 0;

	if (r->chroot)
		return find_in_chroot(h, err);
	if (r->no_branch) {
		h->cwd = r->cwd ? strdup(r->cwd) : getcwd(NULL, 0);
		return h->cwd ? 0 : error_set(err, ERR_SYSTEM, errno, "--cwd");
	}
	if (!r->workdirs.n)
		n = add_workdir(h, "the current directory", ".", err);
	for (size_t i = 0; n == 0 && i < r->workdirs.n; i++)
		n = add_workdir(h, "--workdir", r->workdirs.v[i], err);
	return n;
}

/*
 * Where @at is when the links on the way have been followed, as a path of the
 * host; what is not there yet, at the end, follows as it is. NULL: nobody can
 * tell.
 */
static char *follow_links(const struct host_context *h, const char *at)
{
	auto_close int top_fd = open(h->chroot ? h->chroot : "/",
				     O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_(buf) struct buf whole = BUF_INIT;
	char link[FD_PATH_MAX], real[PATH_MAX];
	auto_close int fd = -1;
	size_t n;

	if (top_fd >= 0)
		fd = fd_open_deepest(top_fd, at, &n, NULL);
	if (fd < 0 || fd_read_link(AT_FDCWD, fd_proc_path(fd, link), real) < 0)
		return NULL;
	buf_add_str(&whole, real);
	buf_add_str(&whole, at + n);
	return whole.len ? path_normalize(buf_str(&whole)) : NULL;
}

static bool is_in_one(const char *at, const struct spec_strings *dirs)
{
	for (size_t i = 0; i < dirs->n; i++) {
		auto_free char *dir = path_normalize(dirs->v[i]);

		if (dir && *dir == '/' && path_is_under(at, dir))
			return true;
	}
	return false;
}

/* The command sees the links of the host there, and so does the mount. */
static bool shows_links(const struct host_context *h, const char *at)
{
	const struct request *r = h->request;

	return h->chroot || is_in_one(at, &r->read) || is_in_one(at, &r->write);
}

/* The branch is mounted last, and would cover it. */
static int check_mount(const struct host_context *h, const char *inside,
		       struct error *err)
{
	auto_free char *at = *inside == '/' ? path_normalize(inside) : NULL;
	const char *top = h->chroot ? h->chroot : "/";
	auto_free char *real =
		at && shows_links(h, at) ? follow_links(h, at) : NULL;

	for (size_t i = 0; at && i < h->workdirs.n; i++) {
		const char *dir = path_below(h->workdirs.v[i], top);

		if (!path_is_under(at, dir) &&
		    !(real && path_is_under(real, h->workdirs.v[i])))
			continue;
		(void)error_say(err, ERR_UNSUPPORTED, ENOTSUP,
				"--fs-mount '%s' lies in the workdir '%s', "
				"whose branch would cover it",
				inside, dir);
		return error_hint(err, "choose a place outside of it");
	}
	return 0;
}

/* As a path of the host, where @ret_mount, if any, shows it. */
static char *find_denied(const struct host_context *h, const char *at,
			 const struct request_mount **ret_mount)
{
	const struct request *r = h->request;

	for (size_t i = r->n_mounts; i > 0; i--) {
		const struct request_mount *m = &r->mounts[i - 1];
		auto_free char *inside = path_normalize(m->inside);

		if (!inside || !path_is_under(at, inside))
			continue;
		*ret_mount = m;
		return path_join(m->host, path_below(at, inside) + 1);
	}
	return follow_links(h, at);
}

static bool is_written(const struct host_context *h, const char *real)
{
	const struct spec_strings *l = &h->request->write;

	for (size_t i = 0; i < h->workdirs.n; i++)
		if (path_is_under(real, h->workdirs.v[i]))
			return true;
	for (size_t i = 0; i < l->n; i++) {
		auto_free char *dir = path_normalize(l->v[i]);
		auto_free char *to = dir ? follow_links(h, dir) : NULL;

		if (to && path_is_under(real, to))
			return true;
	}
	return false;
}

/*
 * Nothing can be mounted on what is not there, and no rule left out for it: the
 * command could make it, and a commit would publish it.
 */
static int check_denied(const struct host_context *h, const char *denied,
			struct error *err)
{
	const struct request_mount *m = NULL;
	auto_free char *here = *denied == '/' ? strdup("/") : getcwd(NULL, 0);
	auto_free char *named = here ? path_join(here, denied) : NULL;
	auto_free char *at = named ? path_normalize(named) : NULL;
	auto_free char *real = at ? find_denied(h, at, &m) : NULL;
	struct stat st;

	if (!at)
		return error_set(err, ERR_SYSTEM, ENOMEM, "paths");
	if (!real || stat(real, &st) == 0 ||
	    (errno != ENOENT && errno != ENOTDIR) ||
	    (m ? m->read_only : !is_written(h, real)))
		return 0;
	(void)error_say(err, ERR_USAGE, ENOENT,
			"%s '%s': it does not exist, and where it would be the "
			"command may make it",
			request_origin(h->request, "filesystem.deny", denied),
			denied);
	return error_hint(err,
			  "make it first, or deny the directory around it");
}

static int check_places(const struct host_context *h, struct error *err)
{
	const struct request *r = h->request;
	int n = 0;

	for (size_t i = 0; n == 0 && i < r->n_mounts; i++)
		n = check_mount(h, r->mounts[i].inside, err);
	for (size_t i = 0; n == 0 && i < r->deny.n; i++)
		n = check_denied(h, r->deny.v[i], err);
	return n;
}

/* $HOME, unless everything else would be hidden with it. */
static const char *find_home(void)
{
	const char *home = getenv("HOME");

	return home && home[0] == '/' && home[1] ? home : NULL;
}

static int check_request(const struct request *r, struct error *err)
{
	if (!r->args.n && !r->exec) {
		(void)error_say(err, ERR_USAGE, EINVAL,
				"there is no command to run");
		return error_hint(err, "sandlock run -- COMMAND");
	}
	if (r->name && name_check(r->name, err) < 0)
		return error_code(err);
	return host_check(r, err);
}

/*
 * JSON is UTF-8, but arguments, variables and paths are bytes: they arrive as
 * they were given.
 */
static int keep_bytes(struct spec_strings *to, size_t at,
		      const struct spec_strings *from)
{
	for (size_t i = 0; i < from->n; i++) {
		char *copy = strdup(from->v[i]);

		if (!copy)
			return -ENOMEM;
		free(to->v[at + i]);
		to->v[at + i] = copy;
	}
	return 0;
}

static int keep_process(struct spec_process *p, struct host_context *h)
{
	const struct request *r = h->request;
	int n = keep_bytes(&p->args, r->exec ? 1 : 0, &r->args);

	if (n == 0)
		n = keep_bytes(&p->env, 0, &h->env);
	if (n == 0) {
		free(p->cwd);
		p->cwd = take_ptr(&h->cwd);
	}
	return n;
}

static bool is_utf8(const char *s)
{
	return utf8_is_valid(s, strlen(s));
}

static int keep_path(char **to, const char *from)
{
	char *copy = is_utf8(from) ? NULL : strdup(from);

	if (is_utf8(from))
		return 0;
	free(*to);
	*to = copy;
	return copy ? 0 : -ENOMEM;
}

/* What is in the order in which it was written. */
static int keep_paths(struct spec *s, struct host_context *h)
{
	const struct spec_strings *mounts = &h->mount_bytes;
	const struct spec_strings *masks = &h->mask_bytes;
	int r = 0;

	if (mounts->n != 2 * s->n_mounts || masks->n != s->masked_paths.n)
		return -EPROTO;
	for (size_t i = 0; r == 0 && i < s->n_mounts; i++) {
		r = keep_path(&s->mounts[i].destination, mounts->v[2 * i]);
		if (r == 0)
			r = keep_path(&s->mounts[i].source,
				      mounts->v[2 * i + 1]);
	}
	for (size_t i = 0; r == 0 && i < masks->n; i++)
		r = keep_path(&s->masked_paths.v[i], masks->v[i]);
	if (r == 0 && host_root_is_chroot(h))
		r = keep_path(&s->root_path, h->chroot);
	return r;
}

static int take_workdirs(struct plan *p, struct host_context *h)
{
	const char *top = h->chroot ? h->chroot : "/";
	int r = 0;

	for (size_t i = 0; r == 0 && i < h->workdirs.n; i++)
		r = spec_strings_add(&p->workdirs,
				     path_below(h->workdirs.v[i], top));
	p->lowers = h->workdirs;
	h->workdirs = (struct spec_strings){ 0 };
	p->chroot = p->workdirs.n ? take_ptr(&h->chroot) : NULL;
	return r;
}

/*
 * The plan takes as long as the namespace does. One that belongs to a user
 * namespace of the sandbox's own can only be made there. Its descriptor must
 * not get the number of a standard stream that is closed.
 */
static void begin_netns(struct plan *p, const struct host_context *h)
{
	if (!h->notify && !net_is_shared(h->request) &&
	    idmap_is_empty(&h->idmap) && fd_ensure_std() == 0)
		netns_begin(&p->netns);
}

static int fill_plan(struct plan *p, struct host_context *h,
		     const struct sandbox_env *env, struct error *err)
{
	const struct request *r = h->request;
	int n;

	begin_netns(p, h);
	n = host_environment(h, err);

	if (n == 0)
		n = host_network(h, err);
	if (n == 0 && h->notify)
		n = host_paths(h, env, p, err);
	if (n == 0)
		n = mediate_decide(h, &p->mediated, &h->traps, err);
	p->traps = h->traps;
	if (n == 0)
		n = host_config(h, &p->config, err);
	if (n == 0)
		n = spec_parse(p->config.data, p->config.len,
			       h->workdirs.n ? h->workdirs.v[0] : "/", env->log,
			       &p->spec, err);
	if (n == 0)
		n = host_config_filter(h, &p->spec->seccomp, err);
	if (n < 0)
		return n;
	n = keep_process(&p->spec->process, h);
	if (n == 0)
		n = keep_paths(p->spec, h);
	if (n == 0)
		n = host_real_cwd(p, &p->spec->process.cwd);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n, "arguments");
	p->net = h->net;
	h->net = (struct net_rules){ .connect.n = 0 };
	p->hosts = take_ptr(&h->hosts);
	p->host = true;
	p->hidden = r->no_control_socket;
	p->n_refusing = h->n_refusing;
	p->branch = host_has_branch(h);
	n = host_check_quota(h, err);
	if (n < 0)
		return n;
	p->skeleton = !host_root_is_chroot(h);
	p->cwd_is_wish = r->no_branch && !r->cwd;
	n = take_workdirs(p, h);
	if (n < 0)
		return error_set(err, ERR_SYSTEM, -n, "workdirs");
	p->storage = r->storage;
	p->quota_bytes = r->quota_bytes;
	p->timeout_ms = r->timeout_ms;
	p->on_exit = r->on_exit == DISPOSE_UNSAID ? DISPOSE_DEFER : r->on_exit;
	p->on_error =
		r->on_error == DISPOSE_UNSAID ? DISPOSE_DEFER : r->on_error;
	if (r->dry_run)
		p->on_exit = p->on_error = DISPOSE_ABORT;
	if (idmap_copy(&h->idmap, &p->branch_idmap) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "id maps");
	return plan_namespaces(p, err);
}

int host_plan(const struct sandbox_env *env, const struct request *r,
	      bool terminal, struct plan **ret, struct error *err)
{
	auto_ptr(plan_free) struct plan *p = plan_new();
	struct host_context h = {
		.request = r,
		.terminal = terminal,
		.home = find_home(),
	};
	int n;

	if (!p)
		return error_set(err, ERR_SYSTEM, ENOMEM, "plan");
	h.privileged = p->privileged;
	h.initial = p->initial;
	n = check_request(r, err);
	if (n == 0)
		n = host_find_tier(&h, err);
	p->notify = h.notify;
	if (r->name)
		(void)snprintf(p->name, sizeof(p->name), "%s", r->name);
	else
		plan_make_name(p->name, 0);
	h.name = p->name;
	if (n == 0)
		n = find_workdir(&h, err);
	if (n == 0)
		n = check_places(&h, err);
	if (n == 0)
		n = host_find_ids(&h, err);
	if (n == 0)
		n = fill_plan(p, &h, env, err);
	context_done(&h);
	if (n < 0)
		return n;
	*ret = take_ptr(&p);
	return 0;
}
