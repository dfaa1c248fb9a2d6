#include <stdlib.h>
#include <string.h>

#include "base/capset.h"
#include "base/cleanup.h"
#include "sandbox/exec.h"
#include "spec/spec.h"

CLEANUP_PTR(struct spec_process, spec_process_free);

static int replace_string(char **where, const char *with)
{
	char *copy;

	if (!with)
		return 0;
	copy = strdup(with);
	if (!copy)
		return -ENOMEM;
	free(*where);
	*where = copy;
	return 0;
}

static int add_strings(struct spec_strings *s, const char *const *more)
{
	int r = 0;

	for (; r == 0 && more && *more; more++)
		r = spec_strings_add(s, *more);
	return r;
}

static int add_caps(struct spec_process *p, const char *const *names,
		    struct error *err)
{
	for (; names && *names; names++) {
		int number = capset_number(*names);
		uint64_t bit;

		if (number < 0)
			return error_say(err, ERR_USAGE, EINVAL,
					 "unknown capability '%s'", *names);
		/* Never inheritable by default (CVE-2022-29162). */
		bit = UINT64_C(1) << number;
		p->caps.bounding |= bit;
		p->caps.permitted |= bit;
		p->caps.effective |= bit;
		p->caps.ambient |= bit & p->caps.inheritable;
		p->has_capabilities = true;
	}
	return 0;
}

static int add_gids(struct spec_process *p, const struct sandbox_exec *x)
{
	size_t n = p->n_additional_gids + x->n_additional_gids;
	gid_t *gids;

	if (!x->n_additional_gids)
		return 0;
	gids = realloc(p->additional_gids, n * sizeof(*gids));
	if (!gids)
		return -ENOMEM;
	memcpy(gids + p->n_additional_gids, x->additional_gids,
	       x->n_additional_gids * sizeof(*gids));
	p->additional_gids = gids;
	p->n_additional_gids = n;
	return 0;
}

static int apply_request(const struct sandbox_exec *x, struct spec_process *p,
			 struct error *err)
{
	int r = 0;

	if (x->args && x->args[0]) {
		spec_strings_done(&p->args);
		r = add_strings(&p->args, x->args);
	}
	if (r == 0)
		r = add_strings(&p->env, x->env);
	if (r == 0)
		r = replace_string(&p->cwd, x->cwd);
	if (r == 0)
		r = replace_string(&p->apparmor_profile, x->apparmor);
	if (r == 0)
		r = replace_string(&p->selinux_label, x->process_label);
	if (r == 0)
		r = add_gids(p, x);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "exec");
	if (x->user) {
		bool has_gid = false;

		/* Without a gid the group stays what it was. */
		r = spec_user_parse(x->user, &p->uid, &has_gid, &p->gid, err);
		if (r < 0)
			return r;
	}
	if (x->terminal >= 0)
		p->terminal = x->terminal;
	if (x->no_new_privs >= 0)
		p->no_new_privileges = x->no_new_privs;
	return add_caps(p, x->caps, err);
}

static int check_process(const struct spec_process *p, struct error *err)
{
	if (!p->args.n)
		return error_say(err, ERR_USAGE, EINVAL,
				 "exec: there is no program to execute");
	if (!p->cwd || p->cwd[0] != '/')
		return error_say(err, ERR_USAGE, EINVAL,
				 "exec: the working directory '%s' is not "
				 "absolute",
				 p->cwd ? p->cwd : "");
	for (size_t i = 0; i < p->env.n; i++)
		if (!strchr(p->env.v[i], '=') || p->env.v[i][0] == '=')
			return error_say(err, ERR_USAGE, EINVAL,
					 "exec: '%s' is no environment entry: "
					 "it is NAME=VALUE",
					 p->env.v[i]);
	return 0;
}

/*
 * In the sandbox of a host command nothing is less confined than the command
 * itself, whoever asks: its limits hold, and capabilities are not added.
 */
static int confine_alike(struct spec_process *p, const struct spec_process *own,
			 struct error *err)
{
	struct spec_rlimit *limits =
		calloc(own->n_rlimits + 1, sizeof(*limits));

	if (!limits)
		return error_set(err, ERR_SYSTEM, ENOMEM, "exec");
	if (own->n_rlimits)
		memcpy(limits, own->rlimits, own->n_rlimits * sizeof(*limits));
	free(p->rlimits);
	p->rlimits = limits;
	p->n_rlimits = own->n_rlimits;
	p->no_new_privileges = true;
	if (p->has_capabilities &&
	    ((p->caps.bounding & ~own->caps.bounding) ||
	     (p->caps.permitted & ~own->caps.permitted) ||
	     (p->caps.effective & ~own->caps.effective) ||
	     p->caps.inheritable || p->caps.ambient))
		return error_say(err, ERR_USAGE, EPERM,
				 "exec: the sandbox of a host command gives no "
				 "further capabilities");
	return 0;
}

int exec_process_spec(const struct sandbox_exec *x, const struct spec *spec,
		      bool host, struct spec_process **ret, struct error *err)
{
	auto_ptr(spec_process_free) struct spec_process *p = NULL;
	int r;

	if (x->process_file) {
		r = spec_process_load(x->process_file, NULL, &p, err);
	} else if (!spec->has_process) {
		r = error_say(err, ERR_STATE, EINVAL,
			      "exec: config.json has no process: give a "
			      "process.json");
	} else {
		r = spec_process_copy(&spec->process, &p);
		if (r < 0)
			return error_set(err, ERR_SYSTEM, -r, "exec");
		/* It describes the container's own program, not this one. */
		p->terminal = false;
	}
	if (r == 0)
		r = apply_request(x, p, err);
	if (r == 0)
		r = check_process(p, err);
	if (r == 0 && host)
		r = confine_alike(p, &spec->process, err);
	if (r < 0)
		return r;
	*ret = take_ptr(&p);
	return 0;
}

void exec_done(struct exec *e)
{
	spec_free(e->spec);
	spec_process_free(e->process);
	seccomp_program_done(&e->filter);
	seccomp_program_done(&e->traps);
	control_drop(&e->listen);
	cleanup_close(&e->init_pidfd);
	cleanup_close(&e->sync_fd);
	cleanup_close(&e->child_sync_fd);
	cleanup_close(&e->status_fd);
	cleanup_close(&e->traps_fd);
	cleanup_close(&e->pidfd);
	cleanup_close(&e->console_sock);
	cleanup_close(&e->console_master);
	cleanup_close(&e->launcher_fd);
	cleanup_close(&e->filter_fd);
	cleanup_close(&e->judge_fd);
}
